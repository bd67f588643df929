package manifest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// File is a file that an item names, as it was when the item was submitted: its
// content is a blob, or lies in one with others'.
type File struct {
	Field int // index of the field that is its name; Whole: the text is
	Blob  store.Digest
	Size  int64
	Exec  bool // it may be executed
	// Pack is the blob in which the content begins at Off; "": it has one of its own.
	Pack store.Digest
	Off  int64
}

// Held is the blob that the store has for the file.
func (f File) Held() store.Digest {
	if f.Pack != "" {
		return f.Pack
	}
	return f.Blob
}

// Whole stands for an item's text where fields of others are meant.
const Whole = -1

// A list of files is a list of plain lines, the n-th of which tells of the n-th item:
// "field:digest:size" and ":x" of what may be executed, for each file, with a space
// between two; field is empty for Whole. Of what lies in a pack "::" or ":x:" and
// "pack:offset" follow. An item without files is an empty line.

// StoredFiles makes the list for a Manifest's Files of what all gives for each item,
// in order, kept in a folder of its own below dir. count is how many files are in it.
func StoredFiles(dir string, all iter.Seq2[[]File, error]) (l *List, count int, err error) {
	l, err = Build(dir, Lines, func(p *Packer) error {
		var line []byte
		for files, err := range all {
			if err != nil {
				return err
			}
			line = line[:0]
			for i, f := range files {
				if i > 0 {
					line = append(line, ' ')
				}
				line = f.appendTo(line)
			}
			count += len(files)
			if err := AddItem(p, line); err != nil {
				return err
			}
		}
		return nil
	})
	return l, count, err
}

func (f File) appendTo(b []byte) []byte {
	if f.Field != Whole {
		b = strconv.AppendInt(b, int64(f.Field), 10)
	}
	b = append(append(append(b, ':'), f.Blob...), ':')
	b = strconv.AppendInt(b, f.Size, 10)
	switch {
	case f.Exec:
		b = append(b, ":x"...)
	case f.Pack != "":
		b = append(b, ':')
	}
	if f.Pack != "" {
		b = append(append(append(b, ':'), f.Pack...), ':')
		b = strconv.AppendInt(b, f.Off, 10)
	}
	return b
}

// ParseFiles reads a line of such a list.
func ParseFiles(line string) (files []File, err error) {
	if line == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(line, " ") {
		parts := strings.Split(word, ":")
		f := File{Field: Whole}
		if len(parts) == 6 {
			if f.Pack, err = store.ParseDigest(parts[4]); err != nil {
				return nil, err
			}
			f.Off, err = strconv.ParseInt(parts[5], 10, 64)
			if parts = parts[:4]; parts[3] == "" {
				parts = parts[:3]
			}
		}
		if len(parts) == 4 && parts[3] == "x" {
			f.Exec, parts = true, parts[:3]
		}
		if len(parts) != 3 || err != nil {
			return nil, fmt.Errorf("%.100q names no stored file", word)
		}
		if f.Blob, err = store.ParseDigest(parts[1]); err != nil {
			return nil, err
		}
		if f.Size, err = strconv.ParseInt(parts[2], 10, 64); err == nil && parts[0] != "" {
			f.Field, err = strconv.Atoi(parts[0])
		}
		if f.Pack != "" && (f.Off < 0 || f.Off > 2*maxPack || f.Size > PackedFile) {
			return nil, fmt.Errorf("%.100q names no file in a pack", word)
		}
		if err != nil || f.Size < 0 || f.Field < Whole || parts[0] == "-1" || len(files) > 0 && f.Field <= files[len(files)-1].Field {
			return nil, fmt.Errorf("%.100q names no stored file", word)
		}
		files = append(files, f)
	}
	return files, nil
}

// OpenStored is Open for callers that need the items' files: its items have them.
func OpenStored(ctx context.Context, s *store.Store, m Manifest, first int) (*Reader, error) {
	r, err := Open(ctx, s, m, first)
	if err != nil || m.Files == nil {
		return r, err
	}
	if m.Files.Count != m.Count || m.Files.Files != nil {
		return nil, fault.New(fault.Lost, "", "open items %s: the list of their files belongs to other items", m.Key)
	}
	r.stored, err = Open(ctx, s, *m.Files, first)
	return r, err
}

// Blobs are those that hold what a manifest's items name, as often as they name it. A
// list that is gone is store.ErrNotExist; one that only misses a part is fault.Lost.
func Blobs(ctx context.Context, s *store.Store, m Manifest) iter.Seq2[store.Digest, error] {
	return func(yield func(store.Digest, error) bool) {
		if m.Files == nil {
			return
		}
		if _, err := s.Get(ctx, m.Files.Key); err != nil { // Open does not say whether it is gone
			yield("", err)
			return
		}
		r, err := Open(ctx, s, *m.Files, 1)
		if err != nil {
			yield("", err)
			return
		}
		for it, err := range r.Range(ctx, 1, r.Last()) {
			var files []File
			if err == nil {
				files, err = ParseFiles(it.Text)
			}
			if errors.Is(err, store.ErrNotExist) { // of a job that is being removed the index goes first
				if _, gone := s.Get(ctx, m.Files.Key); gone == nil {
					err = fault.New(fault.Lost, "", "%v", err)
				} else {
					err = gone
				}
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, f := range files {
				if !yield(f.Held(), nil) {
					return
				}
			}
		}
	}
}

// filesBetween gives the files of the items from..to, one item's at each call.
func (r *Reader) filesBetween(ctx context.Context, from, to int) (next func() ([]File, error), done func()) {
	if r.stored == nil {
		return func() ([]File, error) { return nil, nil }, func() {}
	}
	line, stop := iter.Pull2(r.stored.itemTexts(ctx, from, to))
	return func() ([]File, error) {
		text, err, more := line()
		if !more {
			err = errors.New("its files are not recorded")
		}
		if err != nil {
			return nil, err
		}
		files, err := ParseFiles(text)
		if err != nil {
			return nil, fault.Wrap(err, fault.Lost, "", "read which files are stored")
		}
		return files, nil
	}, stop
}
