package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/drover-run/drover/store"
)

// PutTree stores a tree's list as a blob; its digest then names the tree.
// Its files' blobs were stored by Save. A tree that LoadTree would refuse is
// refused here, as ErrLimit where it is beyond a limit, and nothing is stored.
func PutTree(ctx context.Context, b Blobs, t Tree) (store.Digest, error) {
	if err := t.Check(); err != nil {
		return "", fmt.Errorf("store list of files: %w", err)
	}
	body := newListBody(t)
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err == nil && size > maxList {
		err = beyond("Use shorter names, or put the files into archives: tar -cf FOLDER.tar FOLDER.", "the names of its files are %s, above %s", SizeText(size), SizeText(maxList))
	}
	if err != nil {
		return "", fmt.Errorf("store list of files: %w", err)
	}
	d, _, err := b.PutBlob(ctx, body)
	return d, err
}

// EmptyTree is the digest of the list of a folder without anything in it.
func EmptyTree() store.Digest {
	body, _ := Tree{}.MarshalJSON() // of nothing it is always made
	sum := sha256.Sum256(body)
	return store.Digest(hex.EncodeToString(sum[:]))
}

// LoadTree reads and checks the list that d names. store.ErrNotExist when it is
// not there.
func LoadTree(ctx context.Context, b Blobs, d store.Digest) (Tree, error) {
	r, err := b.OpenBlob(ctx, d)
	if err != nil {
		return Tree{}, fmt.Errorf("read list of files: %w", err)
	}
	defer r.Close()
	bounded := &io.LimitedReader{R: r, N: maxList + 1}
	t, err := decodeList(bounded)
	// To io.EOF, where the digest is checked: of a list that is damaged it is not the
	// first thing that makes no sense that is to be told.
	if _, rest := io.Copy(io.Discard, bounded); rest != nil {
		err = rest
	}
	if bounded.N <= 0 {
		err = fmt.Errorf("longer than %d bytes", maxList)
	}
	if err != nil {
		return Tree{}, fmt.Errorf("read list of files: %w", err)
	}
	return t, t.Check()
}

// listBody is the stored form of a tree, written while it is read, in memory for
// one entry. It can be read again from any place.
type listBody struct {
	t    Tree
	next int          // the piece that comes next
	buf  bytes.Buffer // of pieces that were made, what is not read yet
	json *json.Encoder
	pos  int64 // of the next byte in buf
	want int64 // where Read is to go on; pieces before it are passed over
}

func newListBody(t Tree) *listBody {
	l := &listBody{t: t}
	l.json = json.NewEncoder(&l.buf)
	return l
}

// Read implements io.Reader.
func (l *listBody) Read(p []byte) (int, error) {
	if l.want < l.pos {
		l.next, l.pos = 0, 0
		l.buf.Reset()
	}
	for {
		if skip := min(int64(l.buf.Len()), l.want-l.pos); skip > 0 {
			l.buf.Next(int(skip))
			l.pos += skip
		}
		if l.buf.Len() >= len(p) || l.buf.Len() >= 32<<10 {
			break
		}
		more, err := l.writeNextPiece()
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
	}
	n, err := l.buf.Read(p)
	l.pos += int64(n)
	l.want = l.pos
	return n, err
}

// Seek implements io.Seeker.
func (l *listBody) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += l.want
	case io.SeekEnd:
		size, err := io.Copy(io.Discard, struct{ io.Reader }{newListBody(l.t)})
		if err != nil {
			return 0, err
		}
		offset += size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start of a list")
	}
	l.want = offset
	return offset, nil
}

// writeNextPiece makes the next piece: an entry, with what stands before it, or the end.
func (l *listBody) writeNextPiece() (more bool, err error) {
	i := l.next
	l.next++
	files, dirs, links := len(l.t.Files), len(l.t.Dirs), len(l.t.Links)
	switch {
	case i < files:
		f := l.t.Files[i]
		return true, l.writeEntry("files", i, files, wireFile{wireName(f.Path), f.Size, f.Mode, f.SHA256, f.Time})
	case i < files+dirs:
		return true, l.writeEntry("dirs", i-files, dirs, wireName(l.t.Dirs[i-files]))
	case i < files+dirs+links:
		link := l.t.Links[i-files-dirs]
		return true, l.writeEntry("links", i-files-dirs, links, wireLink{wireName(link.Path), wireName(link.Target)})
	case i > files+dirs+links:
		return false, nil
	}
	if l.t.Away != nil {
		l.writeKey("away")
		if err := l.writeValue(l.t.Away); err != nil {
			return false, err
		}
	} else if files+dirs+links == 0 {
		l.buf.WriteByte('{')
	}
	l.buf.WriteByte('}')
	return true, nil
}

// writeEntry writes entry i of n that a list has.
func (l *listBody) writeEntry(list string, i, n int, v any) error {
	if i > 0 {
		l.buf.WriteByte(',')
	} else {
		l.writeKey(list)
		l.buf.WriteByte('[')
	}
	err := l.writeValue(v)
	if i == n-1 {
		l.buf.WriteByte(']')
	}
	return err
}

// writeKey writes a field's name and what separates it from the field before.
func (l *listBody) writeKey(name string) {
	before := byte(',')
	if l.pos+int64(l.buf.Len()) == 0 {
		before = '{'
	}
	l.buf.WriteByte(before)
	fmt.Fprintf(&l.buf, "%q:", name)
}

func (l *listBody) writeValue(v any) error {
	err := l.json.Encode(v)
	if err == nil {
		l.buf.Truncate(l.buf.Len() - 1) // Encode ends a line
	}
	return err
}

// decodeList reads the stored form of a tree, an entry at a time.
func decodeList(r io.Reader) (t Tree, err error) {
	dec := json.NewDecoder(r)
	if err := expect(dec, '{'); err != nil {
		return t, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return t, err
		}
		switch key {
		case "files":
			err = eachEntry(dec, &t, func(f wireFile) {
				t.Files = append(t.Files, File{string(f.Path), f.Size, f.Mode, f.SHA256, f.Time})
			})
		case "dirs":
			err = eachEntry(dec, &t, func(d wireName) { t.Dirs = append(t.Dirs, string(d)) })
		case "links":
			err = eachEntry(dec, &t, func(l wireLink) { t.Links = append(t.Links, Link{string(l.Path), string(l.Target)}) })
		case "away":
			err = dec.Decode(&t.Away)
		default: // a later drover's
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return t, err
		}
	}
	if err := expect(dec, '}'); err != nil {
		return t, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("something follows the list")
		}
		return t, err
	}
	return t, nil
}

// eachEntry reads one of a tree's lists, which may be null, up to the limit on
// entries: a hostile one is not held in memory.
func eachEntry[T any](dec *json.Decoder, t *Tree, add func(T)) error {
	open, err := dec.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') {
		return fmt.Errorf("a list begins with %v", open)
	}
	for dec.More() {
		if err := checkCount(len(t.Files)+len(t.Dirs)+len(t.Links)+1, MaxEntries); err != nil {
			return err
		}
		var one T
		if err := dec.Decode(&one); err != nil {
			return err
		}
		add(one)
	}
	return expect(dec, ']')
}

// expect reads one delimiter.
func expect(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && got != want {
		err = fmt.Errorf("%v where %v should be", got, want)
	}
	return err
}
