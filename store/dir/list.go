package dir

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-run/drover/store"
)

// batch is how many names are read from a folder at a time, and keep how many of
// the smallest are kept in memory while it is read: about 6 MB. More than a page of
// store.List, so that only deep folders are read twice for one.
const (
	batch = 1024
	keep  = 1 << 14
)

// List implements store.Bucket. It reads the folders that hold the answer and no
// others, each as it is at that moment.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, false, err
	}
	w := walk{b: b, prefix: prefix, after: after, limit: limit}
	top := prefix[:strings.LastIndexByte(prefix, '/')+1]
	if err := w.addFolder(ctx, top); err != nil && !errors.Is(err, errFull) {
		return nil, false, err
	}
	return w.objects, w.more, nil
}

var errFull = errors.New("page full")

// walk gathers one page.
type walk struct {
	b             *Bucket
	prefix, after string
	limit         int
	objects       []store.Object
	more          bool
}

// entry is a file or folder, by what stands in the keys: "name" or "name/". So
// "a.b" comes before "a/b" and "a0" after it, as in the keys.
type entry struct {
	key  string
	info func() (os.FileInfo, error)
}

// addFolder adds the objects below dir, which is "" or ends in a slash.
func (w *walk) addFolder(ctx context.Context, dir string) error {
	from := ""
	if rest, below := strings.CutPrefix(w.after, dir); below {
		from = rest
	} else if w.after > dir {
		return nil // all of it was in an earlier page
	}
	for first := true; ; first = false {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		entries, err := w.readSmallest(dir, from, first)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := w.addEntry(ctx, dir+e.key, e); err != nil {
				return err
			}
		}
		if len(entries) < keep {
			return nil
		}
		from = entries[len(entries)-1].key
	}
}

func (w *walk) addEntry(ctx context.Context, key string, e entry) error {
	if strings.HasSuffix(key, "/") {
		return w.addFolder(ctx, key)
	}
	info, err := e.info()
	if err != nil {
		return nil // deleted since
	}
	if len(w.objects) >= w.limit {
		w.more = true
		return errFull
	}
	w.objects = append(w.objects, store.Object{Key: key, Size: info.Size(), Time: info.ModTime()})
	return nil
}

// readSmallest reads the up to keep smallest entries of dir that are greater than
// from, and, for the first time, the folder that from is in.
func (w *walk) readSmallest(dir, from string, first bool) ([]entry, error) {
	f, err := w.b.fs.Open(w.b.objectPath(strings.TrimSuffix(dir, "/")), openFolder)
	if absent(err) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return nil, nil
	}
	if err != nil {
		return nil, w.b.wrapFileError("list "+dir+" in "+w.b.root, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Dir {
		return nil, nil
	}
	byKey := func(a, b entry) int { return cmp.Compare(a.key, b.key) }
	var found []entry
	for {
		names, err := f.ReadDir(batch)
		for _, e := range names {
			key := e.Name()
			if store.CheckKey(key) != nil {
				continue // our own temporary files, and what others left here
			}
			if e.IsDir() {
				key += "/"
			} else if !e.Type().IsRegular() {
				continue
			}
			full := dir + key
			wanted := strings.HasPrefix(full, w.prefix) && (key > from || first && e.IsDir() && strings.HasPrefix(from, key))
			if wanted {
				found = append(found, entry{key: key, info: e.Info})
			}
		}
		if len(found) >= 2*keep {
			slices.SortFunc(found, byKey)
			found = slices.Delete(found, keep, len(found))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, w.b.wrapFileError("list "+dir+" in "+w.b.root, err)
		}
	}
	slices.SortFunc(found, byKey)
	if len(found) > keep {
		found = slices.Delete(found, keep, len(found))
	}
	return found, nil
}

// objectPath is where key lies; "" is the root.
func (b *Bucket) objectPath(key string) string { return filepath.Join(b.root, filepath.FromSlash(key)) }
