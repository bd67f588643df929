package manifest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/fields"
)

// sieveShare is how many items of both sides a part of the sieve holds on
// average: about 8 MB of a map. maxSieves is below the 256 open files that macOS
// allows a program.
const (
	sieveShare = 100_000
	maxSieves  = 128
)

// New gives the items of l that are not in the older manifests, in l's order, and
// how many of theirs are gone from l. An item is its text and which of the items
// with that text it is (rule M14 of docs/protocol.md): of three equal lines where old has two, the
// third is new. The fields of fresh begin with those of old, so a template made
// for the one fills the other. The caller closes fresh, which may be empty.
//
// Fields with other names, or lines in another format, would mean other items by
// the same text: that is fault.Invalid.
//
// It takes a bit of memory for each item of l, and files of 24 bytes an item
// below dir, which are gone when it returns.
func New(ctx context.Context, l *List, old []*Reader, dir string) (fresh *List, gone int, err error) {
	names := l.fields
	for _, o := range old {
		if err := l.checkComparable(o); err != nil {
			return nil, 0, err
		}
	}
	if l.format == JSONL {
		all := fields.NewNames(nil)
		for _, o := range old {
			for _, name := range o.m.Fields {
				all.Add(name)
			}
		}
		for _, name := range l.fields {
			all.Add(name)
		}
		names = all.List
	}
	isNew := newBitmap(l.count)
	if len(old) != 1 || old[0].m.Digest != l.digest {
		if gone, err = sift(ctx, l, old, dir, isNew); err != nil {
			return nil, 0, fmt.Errorf("compare items: %w", err)
		}
	}
	if first, last, n := isNew.chosenBounds(); l.span != nil && n > 0 && n == last-first+1 {
		return NewRange(l.span.cutRange(first, n)), gone, nil
	}
	fresh, err = Build(dir, l.format, func(p *Packer) error {
		p.Fields = names
		return l.copyChosen(ctx, p, isNew)
	})
	return fresh, gone, err
}

// checkComparable refuses to compare what would not mean the same.
func (l *List) checkComparable(o *Reader) error {
	hint := "Keep the form of the items, or begin anew with `--force`."
	switch {
	case l.format != o.m.Format:
		return fault.New(fault.Invalid, hint, "compare items: they were %s and are %s now", o.m.Format, l.format)
	case l.format == CSV && !slices.Equal(l.fields, o.m.Fields):
		return fault.New(fault.Invalid, hint, "compare items: their header was %q and is %q now", o.m.Fields, l.fields)
	}
	return nil
}

// copyChosen adds the items that are chosen.
func (l *List) copyChosen(ctx context.Context, p *Packer, chosen bitmap) error {
	first, last, _ := chosen.chosenBounds()
	n := first
	for text, err := range l.Reader().itemTexts(ctx, first+1, last+1) {
		if err != nil {
			return fmt.Errorf("compare items: %w", err)
		}
		if chosen.isChosen(n) {
			if err := AddItem(p, text); err != nil {
				return err
			}
		}
		n++
	}
	return nil
}

// sieve parts items by a hash of their text into files that each fit into memory.
// Its hashes are drawn anew each time, 128 bits together: no user can choose texts
// that share one.
type sieve struct {
	seeds [2]maphash.Seed
	files []*os.File
	out   []*bufio.Writer
}

type textHash [2]uint64

const sieveEntry = 24 // a text's hash, and its number in l; 0 of old ones

func sift(ctx context.Context, l *List, old []*Reader, dir string, isNew bitmap) (gone int, err error) {
	all := l.count
	for _, o := range old {
		all += o.m.Count
	}
	s, done, err := newSieve(dir, min(all/sieveShare+1, maxSieves))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, done()) }()
	for _, o := range old {
		if err := s.addAllItems(ctx, o, false); err != nil {
			return 0, err
		}
	}
	if err := s.addAllItems(ctx, l.Reader(), true); err != nil {
		return 0, err
	}
	for i := range s.files {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		n, err := s.pickNewItems(i, isNew)
		if err != nil {
			return 0, err
		}
		gone += n
	}
	return gone, nil
}

func newSieve(dir string, n int) (s *sieve, done func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, DiskError(err, dir)
	}
	folder, err := os.MkdirTemp(dir, "sieve-")
	if err != nil {
		return nil, nil, DiskError(err, dir)
	}
	s = &sieve{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	done = func() error {
		for _, f := range s.files {
			f.Close()
		}
		return os.RemoveAll(folder)
	}
	for i := range n {
		f, err := os.Create(filepath.Join(folder, fmt.Sprint(i)))
		if err != nil {
			return nil, nil, errors.Join(DiskError(err, dir), done())
		}
		s.files = append(s.files, f)
		s.out = append(s.out, bufio.NewWriterSize(FileWriter{f, dir}, 16<<10))
	}
	return s, done, nil
}

func (s *sieve) addAllItems(ctx context.Context, r *Reader, numbered bool) error {
	var b [sieveEntry]byte
	n := uint64(0)
	for text, err := range r.itemTexts(ctx, r.First(), r.Last()) {
		if err != nil {
			return err
		}
		if numbered {
			n++
		}
		h := maphash.String(s.seeds[0], text)
		binary.LittleEndian.PutUint64(b[0:], h)
		binary.LittleEndian.PutUint64(b[8:], maphash.String(s.seeds[1], text))
		binary.LittleEndian.PutUint64(b[16:], n)
		part, _ := bits.Mul64(h, uint64(len(s.out)))
		if _, err := s.out[part].Write(b[:]); err != nil {
			return err
		}
	}
	return nil
}

// pickNewItems finds the new items of one file. The old ones stand first in it, and l's in
// their order, so the first equal lines are the ones that were there.
func (s *sieve) pickNewItems(i int, isNew bitmap) (gone int, err error) {
	if err := s.out[i].Flush(); err != nil {
		return 0, err
	}
	if _, err := s.files[i].Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(s.files[i], 64<<10)
	there := map[textHash]int{}
	var b [sieveEntry]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err == io.EOF {
			break
		} else if err != nil {
			return 0, err
		}
		h := textHash{binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:])}
		switch n := binary.LittleEndian.Uint64(b[16:]); {
		case n == 0:
			there[h]++
		case there[h] > 0:
			there[h]--
		default:
			isNew.markChosen(int(n) - 1)
		}
	}
	for _, n := range there {
		gone += n
	}
	return gone, nil
}

// bitmap says of items, by index, whether they are chosen.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) markChosen(i int)    { b[i/64] |= 1 << (i % 64) }
func (b bitmap) isChosen(i int) bool { return b[i/64]>>(i%64)&1 == 1 }

// chosenBounds are the first and the last that are chosen, and how many are; 0 and -1 if
// none is.
func (b bitmap) chosenBounds() (first, last, n int) {
	last = -1
	for i, word := range b {
		if word == 0 {
			continue
		}
		if n == 0 {
			first = i*64 + bits.TrailingZeros64(word)
		}
		last = i*64 + bits.Len64(word) - 1
		n += bits.OnesCount64(word)
	}
	return first, last, n
}
