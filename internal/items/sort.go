package items

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/internal/items/manifest"
)

// sortRoom is how many bytes of names are sorted in memory at once. Ten million
// paths of 60 bytes make some 70 runs.
const sortRoom = 8 << 20

// sorter puts names into byte order, in constant memory: runs of them go sorted
// into files, which are merged.
type sorter struct {
	folder string // of the runs; made with the first
	dir    string // below which that is
	room   int
	text   []byte
	ends   []int // in text, of each name
	runs   []*os.File
	count  int
}

func newSorter(dir string) *sorter { return &sorter{dir: dir, room: sortRoom} }

// removeFiles removes the files.
func (s *sorter) removeFiles() {
	for _, f := range s.runs {
		f.Close()
	}
	if s.folder != "" {
		os.RemoveAll(s.folder)
	}
}

func (s *sorter) addName(name string) error {
	if len(s.text) > 0 && len(s.text)+len(name)+8*len(s.ends) > s.room {
		if err := s.spillRun(); err != nil {
			return err
		}
	}
	s.text = append(s.text, name...)
	s.ends = append(s.ends, len(s.text))
	s.count++
	return nil
}

// sortedNames gives the names in memory in order.
func (s *sorter) sortedNames() [][]byte {
	names := make([][]byte, len(s.ends))
	from := 0
	for i, end := range s.ends {
		names[i], from = s.text[from:end], end
	}
	slices.SortFunc(names, bytes.Compare)
	return names
}

// spillRun writes the names in memory as a run.
func (s *sorter) spillRun() error {
	if s.folder == "" {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return manifest.DiskError(err, s.dir)
		}
		folder, err := os.MkdirTemp(s.dir, "sort-")
		if err != nil {
			return manifest.DiskError(err, s.dir)
		}
		s.folder = folder
	}
	f, err := os.Create(filepath.Join(s.folder, fmt.Sprint(len(s.runs))))
	if err != nil {
		return manifest.DiskError(err, s.dir)
	}
	s.runs = append(s.runs, f)
	out := bufio.NewWriterSize(manifest.FileWriter{File: f, Dir: s.dir}, 64<<10)
	var length [binary.MaxVarintLen64]byte
	for _, name := range s.sortedNames() {
		out.Write(length[:binary.PutUvarint(length[:], uint64(len(name)))])
		out.Write(name)
	}
	s.text, s.ends = s.text[:0], s.ends[:0]
	return out.Flush()
}

// eachName gives all names in order, each once.
func (s *sorter) eachName(f func(name []byte) error) error {
	if len(s.runs) > 0 && len(s.ends) > 0 {
		if err := s.spillRun(); err != nil {
			return err
		}
	}
	var last []byte
	once := func(name []byte) error {
		if last != nil && bytes.Equal(name, last) {
			return nil
		}
		last = append(last[:0], name...)
		return f(name)
	}
	if len(s.runs) == 0 {
		for _, name := range s.sortedNames() {
			if err := once(name); err != nil {
				return err
			}
		}
		return nil
	}
	s.text, s.ends = nil, nil
	return s.mergeRuns(once)
}

func (s *sorter) mergeRuns(f func(name []byte) error) error {
	var all runs
	for i, file := range s.runs {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r := &sortedRun{in: bufio.NewReaderSize(file, 32<<10), number: i}
		if err := r.nextName(); err != nil {
			return err
		}
		all = append(all, r)
	}
	heap.Init(&all)
	for len(all) > 0 {
		if err := f(all[0].name); err != nil {
			return err
		}
		switch err := all[0].nextName(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&all)
		case err != nil:
			return err
		default:
			heap.Fix(&all, 0)
		}
	}
	return nil
}

// sortedRun is a run and the name at its front.
type sortedRun struct {
	in     *bufio.Reader
	number int
	name   []byte
}

func (r *sortedRun) nextName() error {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err
	}
	r.name = slices.Grow(r.name[:0], int(n))[:n]
	_, err = io.ReadFull(r.in, r.name)
	return err
}

// runs is a heap.
type runs []*sortedRun

func (r runs) Len() int      { return len(r) }
func (r runs) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)   { *r = append(*r, x.(*sortedRun)) }
func (r runs) Less(i, j int) bool {
	return cmp.Or(bytes.Compare(r[i].name, r[j].name), cmp.Compare(r[i].number, r[j].number)) < 0
}

func (r *runs) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
