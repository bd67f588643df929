package transfer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ours begins the names of folders in which Get keeps what is not whole yet.
const ours = ".drover-get-"

// file is one of a folder.
type file struct {
	path, name string // name is relative to the folder, with slashes
	size       int64
	time       time.Time
}

// walker goes through a folder in the order of the names its files have in a bucket,
// which is that of their bytes: "a.b" comes before "a/b", and "a0" after it. It holds
// the names of one folder and of those above it.
type walker struct {
	told func() // of what is not sent
}

func (w walker) visitFolder(ctx context.Context, dir, prefix string, found func(file) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type named struct {
		key string
		fs.DirEntry
	}
	sorted := make([]named, 0, len(entries))
	for _, e := range entries {
		key := e.Name()
		if e.IsDir() {
			if strings.HasPrefix(key, ours) {
				continue
			}
			key += "/"
		}
		sorted = append(sorted, named{key, e})
	}
	slices.SortFunc(sorted, func(a, b named) int { return cmp.Compare(a.key, b.key) })
	for _, e := range sorted {
		path := dir + string(filepath.Separator) + e.Name()
		if e.IsDir() {
			err = w.visitFolder(ctx, path, prefix+e.key, found)
		} else {
			err = w.visitFile(path, prefix+e.key, e, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w walker) visitFile(path, name string, e fs.DirEntry, found func(file) error) error {
	info, err := e.Info()
	if err == nil && e.Type()&fs.ModeSymlink != 0 {
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // taken away since, or a link to nothing
		w.told()
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		w.told()
		return nil
	}
	return found(file{path: path, name: name, size: info.Size(), time: info.ModTime()})
}
