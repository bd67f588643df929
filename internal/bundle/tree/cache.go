package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-run/drover/store"
)

// Cache remembers what one folder's files held when they were last looked at, so
// that a file with the same size, times and inode is not read again, and what
// was sent of it to one place for blobs. The zero value is ready and lives as
// long as the process; OpenCache's live on disk. Methods may be called at once.
type Cache struct {
	mu    sync.Mutex
	file  string // "": in memory alone
	files map[string]cached
	// The list of all the files that are marked as sent, and where it is: as
	// long as it is there, they were there when it was stored.
	where   string
	list    store.Digest
	changed bool // since it was loaded
}

type cached struct {
	stamp  stamp
	digest store.Digest
	at     int64 // when it was read, nanoseconds since 1970
	sent   bool  // its blob is where this cache's files are sent
}

// racy is the age below which a file is not remembered on disk: where times are
// coarse (FAT: two seconds; a server's clock beside ours), it might be written
// once more without a trace in them. Must be larger than quiet, which is enough
// within one process that looked at the folder twice.
const racy = 2 * time.Second

// OpenCache loads the cache that Keep left in file. None, a damaged one, and one
// of another drover's making are an empty cache: all it can cost is time. An
// error is a file that is there and may not be read.
func OpenCache(file string) (*Cache, error) {
	c := &Cache{file: file}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open cache of files: %w", err)
	}
	if err := c.decodeFile(text); err != nil {
		c.files, c.where, c.list = nil, "", ""
	}
	return c, nil
}

// Keep writes the cache to its file, whole or not at all, if anything changed.
// Of two commands that keep one file the last one wins, and both are right.
func (c *Cache) Keep() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == "" || !c.changed {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return fmt.Errorf("keep cache of files: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(c.file), ".new-*")
	if err != nil {
		return fmt.Errorf("keep cache of files: %w", err)
	}
	// Not synced: a cache that a power cut tore is an empty one.
	_, err = tmp.Write(c.encodeFile())
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), c.file)
	}
	if err != nil {
		return fmt.Errorf("keep cache of files: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	c.changed = false
	return nil
}

// Forget makes the next Save read and send the files with these contents:
// their blobs are gone (see Missing).
func (c *Cache) Forget(digests ...store.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := make(map[store.Digest]bool, len(digests))
	for _, d := range digests {
		gone[d] = true
	}
	maps.DeleteFunc(c.files, func(_ string, f cached) bool { return gone[f.digest] })
	c.list, c.changed = "", true
}

func (c *Cache) findCached(f seenFile) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.files[f.path]
	return old, known && old.stamp == f.stamp
}

func (c *Cache) putCached(name string, f cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = map[string]cached{}
	}
	c.files[name], c.changed = f, true
}

func (c *Cache) markSent(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, known := c.files[name]; known {
		f.sent = true
		c.files[name], c.changed = f, true
	}
}

// dropMissing drops the files that are no longer in the folder.
func (c *Cache) dropMissing(files []seenFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	here := make(map[string]bool, len(files))
	for _, f := range files {
		here[f.path] = true
	}
	before := len(c.files)
	maps.DeleteFunc(c.files, func(name string, _ cached) bool { return !here[name] })
	c.changed = c.changed || len(c.files) != before
}

// Sync is Save and PutTree for a folder that is looked at by many commands: what
// a list that is still there names was sent, and is not asked for again, one
// file at a time. where names the place for blobs, as store.Store.String does.
// As ever, gc may take a blob at any moment: a caller that has named the list in an
// entry checks with Missing, and after Forget calls Sync once more.
func Sync(ctx context.Context, b Blobs, where, dir string, opt SaveOptions) (Tree, store.Digest, error) {
	if opt.Cache == nil {
		opt.Cache = new(Cache)
	}
	c := opt.Cache
	if err := c.recallSent(ctx, b, where); err != nil {
		return Tree{}, "", fmt.Errorf("save %s: %w", dir, err)
	}
	t, err := Save(ctx, b, dir, opt)
	if err != nil {
		return Tree{}, "", err
	}
	d, err := PutTree(ctx, b, t)
	if err != nil {
		return Tree{}, "", fmt.Errorf("save %s: %w", dir, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list != d || c.where != where {
		c.list, c.where, c.changed = d, where, true
	}
	return t, d, nil
}

// recallSent believes in what was sent only where it was sent to, and while the list
// of it is there.
func (c *Cache) recallSent(ctx context.Context, b Blobs, where string) error {
	c.mu.Lock()
	there, list := c.where == where, c.list
	c.mu.Unlock()
	if there && list != "" {
		has, err := b.HasBlob(ctx, list)
		if err != nil {
			return err
		}
		there = has
	}
	if there && list != "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range c.files {
		f.sent = false
		c.files[name] = f
	}
	c.list, c.where = "", where
	return nil
}

// Hash lists dir as Save does and stores nothing.
func Hash(ctx context.Context, dir string, opt SaveOptions) (Tree, error) {
	return Save(ctx, hashOnly{}, dir, opt)
}

// hashOnly is a place for blobs that keeps nothing: what is asked of it is names.
type hashOnly struct{}

func (hashOnly) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	h := sha256.New()
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", 0, err
	}
	n, err := io.Copy(h, while{ctx, body})
	return store.Digest(hex.EncodeToString(h.Sum(nil))), n, err
}

func (hashOnly) OpenBlob(context.Context, store.Digest) (io.ReadCloser, error) {
	return nil, store.ErrNotExist
}

func (hashOnly) HasBlob(context.Context, store.Digest) (bool, error) { return false, nil }

// while is a reader that ends with its context.
type while struct {
	ctx context.Context
	r   io.Reader
}

func (w while) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.r.Read(p)
}
