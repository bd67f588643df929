package transfer

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-run/drover/store"
)

// part is a large object of which some pieces are here: a folder with data, a file of
// the object's size, and note, which says what object it is and then, in a line each,
// the pieces that are whole. A line is written after the bytes, so it is never ahead
// of them while the machine runs; after a power cut it may be, so a run that resumes a
// part believes the bytes alone, by their sum in the note.
type part struct {
	identity
	dir        string // in the run's folder
	data, note *os.File

	mu   sync.Mutex
	sums [][]byte // of the pieces that are here
	said [][]byte // of those that the note of an earlier run tells
}

// identity is what an object is known by, and how it is divided.
type identity struct {
	From  string    `json:"from"` // the bucket
	Key   string    `json:"key"`
	Tag   string    `json:"tag"`
	Size  int64     `json:"size"`
	Sum   store.Sum `json:"sum"`
	Piece int64     `json:"piece"`
}

// pieceCount is how many there are.
func (id identity) pieceCount() int64 { return (id.Size + id.Piece - 1) / id.Piece }

// pieceSpan is where one is.
func (id identity) pieceSpan(i int64) (off, n int64) {
	off = i * id.Piece
	return off, min(id.Piece, id.Size-off)
}

// maxNote is longer than any note: a line for each of some ten thousand pieces.
const maxNote = 4 << 20

// openPart goes on with what is left of an object, or begins it.
func (o *own) openPart(id identity) (*part, error) {
	if name, ok := o.adoptPart(id); ok {
		if p, err := o.reopenPart(id, name); err == nil {
			return p, nil
		}
		_ = o.in.RemoveAll(name) // it cannot be gone on with: the object comes anew
	}
	p := &part{identity: id, dir: o.nextName(), sums: make([][]byte, id.pieceCount()), said: make([][]byte, id.pieceCount())}
	err := o.in.Mkdir(p.dir, 0o700)
	if err == nil {
		p.data, err = o.in.OpenFile(p.dir+"/data", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err == nil {
		err = p.data.Truncate(id.Size)
	}
	if err == nil {
		p.note, err = o.in.OpenFile(p.dir+"/note", os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	}
	var line []byte
	if err == nil {
		line, err = json.Marshal(id)
	}
	if err == nil {
		_, err = p.note.Write(append(line, '\n'))
	}
	if err != nil {
		p.closeFiles()
		_ = o.in.RemoveAll(p.dir)
		return nil, err
	}
	return p, nil
}

// reopenPart reads what is there of a part.
func (o *own) reopenPart(id identity, dir string) (_ *part, err error) {
	p := &part{identity: id, dir: dir, sums: make([][]byte, id.pieceCount())}
	defer func() {
		if err != nil {
			p.closeFiles()
		}
	}()
	if p.data, err = o.in.OpenFile(dir+"/data", os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if info, err := p.data.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != id.Size {
		return nil, errors.Join(err, errors.ErrUnsupported)
	}
	if p.note, err = o.in.OpenFile(dir+"/note", os.O_RDWR|os.O_APPEND, 0); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(p.note, maxNote))
	if err != nil {
		return nil, err
	}
	var whole int
	if p.said, whole = parseNote(text, id); whole < len(text) {
		err = p.note.Truncate(int64(whole)) // a line that was not finished
	}
	return p, err
}

// parseNote reads what a note says of the pieces of id, and how much of it can be read.
func parseNote(text []byte, id identity) (said [][]byte, whole int) {
	said = make([][]byte, id.pieceCount())
	size := id.Sum.New().Size()
	first := true
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break
		}
		if !first {
			number, sum, _ := strings.Cut(string(line[:len(line)-1]), " ")
			i, err := strconv.ParseInt(number, 10, 64)
			b, err2 := hex.DecodeString(sum)
			if err != nil || err2 != nil || i < 0 || i >= int64(len(said)) || len(b) != size {
				break
			}
			said[i] = b
		}
		first = false
		whole += len(line)
	}
	return said, whole
}

// identify reads which object a folder is a part of, if it is one.
func identify(root *os.Root, dir string) (id identity, ok bool) {
	f, err := root.Open(dir + "/note")
	if err != nil {
		return id, false
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 64<<10)).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &id) != nil {
		return id, false
	}
	return id, id.Piece > 0 && id.Size >= 0 && id.Size/id.Piece <= maxPieces
}

// recordedSum is the sum that an earlier run has noted of a piece; nil: none.
func (p *part) recordedSum(i int64) []byte { return p.said[i] }

// markWhole says that a piece is whole.
func (p *part) markWhole(i int64, sum []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sums[i] = sum
}

// recordPiece notes a piece once its bytes are written.
func (p *part) recordPiece(i int64, sum []byte) error {
	p.markWhole(i, sum)
	_, err := p.note.WriteString(strconv.FormatInt(i, 10) + " " + hex.EncodeToString(sum) + "\n")
	return err
}

func (p *part) closeFiles() {
	for _, f := range []*os.File{p.data, p.note} {
		if f != nil {
			f.Close()
		}
	}
}
