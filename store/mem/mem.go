// Package mem keeps objects in memory: for tests, and for the simulation of the ledger. It
// refuses everything that the folder bucket refuses, so that code which works on it works
// there. storetest proves it.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Bucket is one space of objects. All users of the value share the space.
type Bucket struct {
	clock store.Clock

	mu      sync.Mutex
	keys    []string // in byte order
	objects map[string]object
	serial  int64
	sent    map[string][]byte // of large writes that were interrupted, by their at
}

type object struct {
	body   []byte // never changed once it is here: readers share it
	meta   store.Object
	serial int64 // unique to this object
}

var _ store.Bucket = (*Bucket)(nil)

// New makes an empty space.
func New() *Bucket { return At(store.System) }

// At makes an empty space that dates its objects by clock.
func At(clock store.Clock) *Bucket {
	return &Bucket{clock: clock, objects: make(map[string]object), sent: make(map[string][]byte)}
}

// String is "mem:".
func (b *Bucket) String() string { return "mem:" }

// Create implements store.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	content, err := read(ctx, "create", key, body)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, held := b.objects[key]; held {
		return fmt.Errorf("create %s in %s: %w", key, b, store.ErrExists)
	}
	return b.putObject("create", key, content)
}

// Put implements store.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	content, err := read(ctx, "put", key, body)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.putObject("put", key, content)
}

// read reads the whole body, outside the lock: it may be slow.
func read(ctx context.Context, doing, key string, body io.ReadSeeker) ([]byte, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	var content []byte
	if err == nil {
		content, err = io.ReadAll(body)
	}
	if err == nil && int64(len(content)) < size { // a server gets the size first
		err = fmt.Errorf("the body is %d bytes shorter than it was", size-int64(len(content)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s in mem:: %w", doing, key, err)
	}
	return content, nil
}

func (b *Bucket) putObject(doing, key string, content []byte) error {
	at, held := slices.BinarySearch(b.keys, key)
	if !held {
		if other := b.conflictingKey(key); other != "" {
			return fault.New(fault.Invalid, "", "%s %s in %s: beside %s it would be an object and a folder", doing, key, b, other)
		}
		b.keys = slices.Insert(b.keys, at, key)
	}
	b.serial++
	b.objects[key] = object{body: content, meta: store.Object{Key: key, Size: int64(len(content)), Time: b.clock.Now()}, serial: b.serial}
	return nil
}

// conflictingKey finds an object that is a folder of key, or below it.
func (b *Bucket) conflictingKey(key string) string {
	for i := range len(key) {
		if key[i] == '/' {
			if _, held := b.objects[key[:i]]; held {
				return key[:i]
			}
		}
	}
	at, _ := slices.BinarySearch(b.keys, key+"/")
	if at < len(b.keys) && strings.HasPrefix(b.keys[at], key+"/") {
		return b.keys[at]
	}
	return ""
}

// Get implements store.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	o, err := b.heldObject(ctx, key)
	if err != nil {
		return nil, err
	}
	return o.readRange(off, n), nil
}

func (b *Bucket) heldObject(ctx context.Context, key string) (object, error) {
	if err := store.CheckKey(key); err != nil {
		return object{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return object{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o, held := b.objects[key]
	if !held {
		return object{}, fmt.Errorf("get %s from %s: %w", key, b, store.ErrNotExist)
	}
	return o, nil
}

// readRange gives n bytes from off.
func (o object) readRange(off, n int64) io.ReadCloser {
	body := o.body[min(off, int64(len(o.body))):]
	if n >= 0 && n < int64(len(body)) {
		body = body[:n]
	}
	return io.NopCloser(bytes.NewReader(body))
}

// List implements store.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, false, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at, held := slices.BinarySearch(b.keys, max(prefix, after))
	if held && after >= prefix {
		at++
	}
	var page []store.Object
	for _, key := range b.keys[at:] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if len(page) >= limit {
			return page, true, nil
		}
		page = append(page, b.objects[key].meta)
	}
	return page, false, nil
}

// Delete implements store.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, held := slices.BinarySearch(b.keys, key); held {
		b.keys = slices.Delete(b.keys, at, at+1)
		delete(b.objects, key)
	}
	return nil
}
