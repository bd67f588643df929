package maprunner

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
)

// Files that items name were stored when the job was submitted, where its agents do
// not see them. The cache brings them as it does what is fetched, and the program is
// told of the item as if the submitting machine had them there: only results, logs and
// the names of outputs have the item's own text. With --fetch it is told of them as of
// all that was fetched.

// What the cache calls a file begins with one of these. In that of an address stands
// what opens its bucket, up to placeEnd, before the address itself.
const (
	addressMark = "@"
	storedMark  = "#"
	placeEnd    = "\n"
)

// storedName is what the cache calls a stored file when its item says that it is called
// text.
func storedName(f manifest.File, text string) string {
	exec := ""
	if f.Exec {
		exec = "x"
	}
	return fmt.Sprintf("%s%s:%d:%s:%s:%d:%s", storedMark, f.Blob, f.Size, exec, f.Pack, f.Off, filepath.Base(input.PathOf(text)))
}

// restoreStored writes a stored file into a folder, under the last name of the one it was.
func (c *mapRunner) restoreStored(ctx context.Context, name, into string, room func(context.Context, int64) error) (file string, err error) {
	parts := strings.SplitN(strings.TrimPrefix(name, storedMark), ":", 6)
	if len(parts) != 6 {
		return "", fault.New(fault.Bug, "", "fetch file: %q is not the name of one", name)
	}
	size, err := strconv.ParseInt(parts[1], 10, 64)
	off, wrong := strconv.ParseInt(parts[4], 10, 64)
	base := parts[5]
	if err != nil || wrong != nil || base == "." || base == ".." || base == "/" {
		return "", fault.New(fault.Invalid, "", "fetch file: %q is not the name of one", base)
	}
	if err := room(ctx, size); err != nil {
		return "", err
	}
	mode := os.FileMode(0o644)
	if parts[2] != "" {
		mode = 0o755
	}
	file = filepath.Join(into, base)
	err = c.copyStored(ctx, manifest.File{Blob: store.Digest(parts[0]), Size: size, Pack: store.Digest(parts[3]), Off: off}, file, mode)
	switch {
	case errors.Is(err, store.ErrNotExist):
		return "", fault.Wrap(err, fault.Missing, "Run the map again with --force: it stores its files again.", "fetch %s: its stored content is gone", base)
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return "", fault.Wrap(err, fault.Full, "Free some space, or set XDG_STATE_HOME to a folder with room.", "bring %s", base)
	case err != nil:
		return "", fmt.Errorf("bring %s: %w", base, err)
	}
	return file, nil
}

// copyStored may be called again after an error: the file is made anew.
func (c *mapRunner) copyStored(ctx context.Context, stored manifest.File, name string, mode os.FileMode) error {
	r, err := c.files.Open(ctx, stored)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, stored.Size+1))
	if err == nil && n != stored.Size {
		err = fault.New(fault.Lost, "", "it has %d bytes and not %d", n, stored.Size)
	}
	return errors.Join(err, f.Close())
}

// itemWithStored is an item with what was stored in the place of what names it: in its
// fields, and in its text as its format has it.
func (s *itemSource) itemWithStored(it manifest.Item, all []provision) (manifest.Item, error) {
	if len(all) == 0 {
		return it, nil
	}
	text := it.Text
	it = s.itemWithFiles(it, all)
	var err error
	switch {
	case it.Text != text: // a plain line
	case s.format == manifest.CSV:
		it.Text, err = row(it.Fields)
	case s.format == manifest.JSONL:
		it.Text, err = s.replaceValues(text, all)
	}
	if err != nil {
		return it, fault.Wrap(err, fault.Invalid, "", "put files into item %d", it.N)
	}
	return it, nil
}

// row is a line of CSV.
func row(fields []string) (string, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.Write(fields)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n"), errors.Join(err, w.Error())
}

// replaceValues is a line of JSON with other values for some of its keys; all else is as
// written, in the order of the keys.
func (s *itemSource) replaceValues(text string, files []provision) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return "", err
	}
	for _, p := range files {
		value, err := appendJSON(nil, p.file)
		if err != nil {
			return "", err
		}
		object[s.fields[p.field]] = value
	}
	b, err := appendJSON(nil, object)
	return string(b), err
}
