package manifest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// List is a source that was read: its items in order, kept in a file until Close.
type List struct {
	format string
	fields []string
	notes  []string
	count  int
	ats    bool
	digest string
	span   *Range // of a range, which has no file
	index  index
	folder string // its own
	file   *os.File
}

// Count is the number of items.
func (l *List) Count() int { return l.count }

// Digest stands for all items in order: 64 hex digits. Lists of the same items in
// the same format have the same, whatever they were read from; ranges of the same
// numbers have one of their own.
func (l *List) Digest() string { return l.digest }

// Format is Lines, CSV or JSONL.
func (l *List) Format() string { return l.format }

// Fields are the names of the items' fields: CSV's header, or the keys of all
// JSON objects in order of first sight, 1,000 of them at most.
func (l *List) Fields() []string { return slices.Clone(l.fields) }

// Notes are sentences for the person: what was left out, skipped or kept.
func (l *List) Notes() []string { return slices.Clone(l.notes) }

// AddNote adds a line to the notes.
func (l *List) AddNote(text string) { l.notes = append(l.notes, text) }

// MayHoldAt reports whether some item may hold an @. No item of a list for which it is
// false holds an address with a password, and the list need not be read to find one.
func (l *List) MayHoldAt() bool { return l.ats }

// Close removes the list's files. The list and its Readers are of no use then.
func (l *List) Close() error {
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.file.Close(), os.RemoveAll(l.folder))
	l.file = nil
	return err
}

// Build makes a list of what fill adds, in a folder of its own below dir.
func Build(dir, format string, fill func(p *Packer) error) (*List, error) {
	l := &List{format: format}
	if err := l.buildIndex(dir, fill); err != nil {
		l.Close()
		os.RemoveAll(l.folder)
		return nil, err
	}
	return l, nil
}

func (l *List) buildIndex(dir string, fill func(p *Packer) error) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return DiskError(err, dir)
	}
	if l.folder, err = os.MkdirTemp(dir, "items-"); err != nil {
		return DiskError(err, dir)
	}
	if l.file, err = os.Create(filepath.Join(l.folder, "parts")); err != nil {
		return DiskError(err, dir)
	}
	p, err := newPacker(FileWriter{l.file, dir}, l.format)
	if err != nil {
		return err
	}
	if err := fill(p); err != nil {
		return err
	}
	if err := p.sealIndex(); err != nil {
		return err
	}
	l.fields, l.notes, l.count, l.ats, l.digest, l.index = p.Fields, p.Notes, p.Count, p.ats, p.index.Digest, p.index
	return nil
}

// FileWriter says where there was no room.
type FileWriter struct {
	*os.File
	Dir string
}

func (w FileWriter) Write(b []byte) (int, error) {
	n, err := w.File.Write(b)
	if err != nil {
		err = DiskError(err, w.Dir)
	}
	return n, err
}

// Reader reads the list as Open reads a manifest. It is good until Close.
func (l *List) Reader() *Reader {
	r := newReader(l.manifestAt(""), 1)
	r.span = l.span
	if l.span == nil {
		r.fillIndex(&l.index)
		r.fetch = l.fetchPart
		r.names = []string{l.folder}
	}
	return r
}

// fetchPart reads from the list's own file, in which part lies behind part.
func (l *List) fetchPart(ctx context.Context, part int, off int64, to []byte) error {
	for _, p := range l.index.Parts[:part] {
		off += p.totalSize()
	}
	_, err := l.file.ReadAt(to, off)
	return err
}

func (l *List) manifestAt(key string) Manifest {
	m := Manifest{Key: key, Count: l.count, Digest: l.digest, Format: l.format, Fields: slices.Clone(l.fields)}
	if l.span != nil {
		m.From, m.To, m.Step = l.span.From, l.span.To, l.span.Step
	}
	return m
}

// Put stores the list's parts and index below prefix, and reads back what the
// store then holds. It may be called again and by several at once: all is named
// by what is in it. A range needs no objects.
func (l *List) Put(ctx context.Context, s *store.Store, prefix string) (Manifest, error) {
	if l.span != nil {
		return l.manifestAt(""), nil
	}
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	off := int64(0)
	for _, p := range l.index.Parts {
		body := io.NewSectionReader(l.file, off, p.totalSize())
		off += p.totalSize()
		digits, _ := hexName(p.Name, "part-", ".zst")
		if err := storeObject(ctx, s, prefix+p.Name, digits, body); err != nil {
			return Manifest{}, err
		}
	}
	text, err := json.Marshal(&l.index)
	if err != nil {
		return Manifest{}, fmt.Errorf("store items: %w", err)
	}
	sum := sha256.Sum256(text)
	digits := hex.EncodeToString(sum[:])[:nameLen]
	key := prefix + "index-" + digits + ".json"
	if err := storeObject(ctx, s, key, digits, strings.NewReader(string(text))); err != nil {
		return Manifest{}, err
	}
	return l.manifestAt(key), nil
}

// storeObject stores one object and reads it back: an object of that name may have
// been there before, and a later reader has no other copy.
func storeObject(ctx context.Context, s *store.Store, key, digits string, body io.ReadSeeker) error {
	if err := s.CreateFile(ctx, key, body); err != nil {
		return fmt.Errorf("store items: %w", err)
	}
	r, err := s.Open(ctx, key, 0, -1)
	if err != nil {
		return fmt.Errorf("store items: %w", err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, bufio.NewReaderSize(r, 64<<10)); err != nil {
		return fault.Wrap(err, fault.Lost, "Run it again.", "store items: read %s back from %s", key, s)
	}
	if hex.EncodeToString(h.Sum(nil))[:nameLen] != digits {
		return fault.New(fault.Lost, "Remove that object, and run it again.", "store items: %s in %s is damaged", key, s)
	}
	return nil
}
