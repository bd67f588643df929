package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
)

// maxBuckets is how many are kept open: items may lie in thousands.
const maxBuckets = 64

// buckets opens those in which items lie, each once as long as they are few.
type buckets struct {
	open func(ctx context.Context, url string) (store.Bucket, error)

	mu     sync.Mutex
	opened map[string]*store.Store
}

// OpenBucket opens the bucket of url by its place, "": by its name.
func (b *buckets) openBucket(ctx context.Context, url, place string) (*store.Store, error) {
	full, query, asks := strings.Cut(url, "?")
	if place != "" {
		full = place
	}
	if asks { // beside what leads to the server
		sep := "?"
		if strings.Contains(full, "?") {
			sep = "&"
		}
		full += sep + query
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.opened[full]; s != nil {
		return s, nil
	}
	opened, err := b.open(ctx, full)
	if err != nil {
		return nil, err
	}
	if len(b.opened) >= maxBuckets {
		clear(b.opened) // a reader of one still has it
	}
	b.opened[full] = store.New(opened, store.Options{})
	return b.opened[full], nil
}

// Fetcher brings the files that items name to this machine.
type Fetcher struct {
	stored  *manifest.Stored
	bringer input.Bringer
	buckets *buckets // nil: items that are objects fail
}

// FetchConfig is what a fetcher works with.
type FetchConfig struct {
	Store    *store.Store
	Dir      string // where relative paths begin
	Parallel int    // fetches at once
	// Pause waits between two requests for a file; nil: by the clock.
	Pause func(context.Context, time.Duration) error
	// OpenBucket opens a bucket of any owner by its URL. Nil: items that are objects fail.
	OpenBucket func(ctx context.Context, url string) (store.Bucket, error)
}

func NewFetcher(c FetchConfig) *Fetcher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = c.Parallel
	f := &Fetcher{stored: manifest.NewStored(c.Store), bringer: input.Bringer{Client: input.Guarded(transport), Dir: c.Dir, Pause: c.Pause}}
	if c.OpenBucket != nil {
		f.buckets = &buckets{opened: map[string]*store.Store{}, open: c.OpenBucket}
	}
	return f
}

// Fetch brings the file with one of an item's FileNames below the folder into, when ours
// is true or it fails; else the file has another owner. It asks room before it writes more.
func (f *Fetcher) Fetch(ctx context.Context, name, into string, room func(context.Context, int64) error) (file string, ours bool, err error) {
	if address, is := strings.CutPrefix(name, addressMark); is {
		place, address, _ := strings.Cut(address, placeEnd)
		b := f.bringer
		if f.buckets != nil {
			b.Open = func(ctx context.Context, url string) (*store.Store, error) {
				return f.buckets.openBucket(ctx, url, place)
			}
		}
		return b.Bring(ctx, address, into, room)
	}
	file, err = f.restoreStored(ctx, name, into, room)
	return file, true, err
}

// restoreStored writes a stored file into a folder, under the last name of the one it was.
func (f *Fetcher) restoreStored(ctx context.Context, name, into string, room func(context.Context, int64) error) (file string, err error) {
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
	err = f.copyStored(ctx, manifest.File{Blob: store.Digest(parts[0]), Size: size, Pack: store.Digest(parts[3]), Off: off}, file, mode)
	switch {
	case errors.Is(err, store.ErrNotExist):
		return "", fault.Wrap(err, fault.Missing, "Run the map again with `--force`: it stores its files again.", "fetch %s: its stored content is gone", base)
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return "", fault.Wrap(err, fault.Full, "Free some space, or set XDG_STATE_HOME to a folder with room.", "bring %s", base)
	case err != nil:
		return "", fmt.Errorf("bring %s: %w", base, err)
	}
	return file, nil
}

// copyStored may be called again after an error: the file is made anew.
func (f *Fetcher) copyStored(ctx context.Context, stored manifest.File, name string, mode os.FileMode) error {
	r, err := f.stored.Open(ctx, stored)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(r, stored.Size+1))
	if err == nil && n != stored.Size {
		err = fault.New(fault.Lost, "", "it has %d bytes and not %d", n, stored.Size)
	}
	return errors.Join(err, out.Close())
}
