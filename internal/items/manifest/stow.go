package manifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/drover-run/drover/store"
)

// Small files that items name lie together in packs: at a store far away a request
// takes and costs as much for 4 KiB as for some MiB. A pack is a blob, the contents of
// files one behind the other; where each lies in it, the list of files says.
//
// Where a pack ends is decided by the items alone, not by how full the ones before
// became: after an item that was added, taken out or changed, the same packs come again,
// and are in the store.
const (
	// PackedFile is the largest file that goes into a pack.
	PackedFile = 256 << 10
	// A pack ends between minPack and maxPack bytes, after meanPack more than minPack
	// on average, as far as maxPack allows.
	minPack, meanPack, maxPack = 2 << 20, 4 << 20, 8 << 20
	// itemWeight is what an item counts for beside the bytes of its small files, so
	// that a pack's items are no more than maxPack/itemWeight.
	itemWeight = 512
)

// Cut says after which items packs end: it is told of each item in order. The zero
// Cut begins with the first.
type Cut struct{ weight int64 }

// After takes an item with so many bytes of small files, and says whether a
// pack ends behind it.
func (c *Cut) After(text string, small int64) bool {
	weight := itemWeight + small
	c.weight += weight
	sum := sha256.Sum256([]byte(text))
	chosen := binary.BigEndian.Uint32(sum[:])>>8 < uint32(min(weight, meanPack)*(1<<24)/meanPack)
	if c.weight+PackedFile > maxPack || c.weight >= minPack && chosen {
		c.weight = 0
		return true
	}
	return false
}

// Pack is one that is being made. The zero Pack is empty.
type Pack struct {
	bytes.Buffer
	at map[store.Digest]int64
}

// Add puts a content with digest d into the pack, once, and says where it lies.
func (p *Pack) Add(d store.Digest, content []byte) (off int64) {
	off, had := p.at[d]
	if had {
		return off
	}
	if p.at == nil {
		p.at = map[store.Digest]int64{}
	}
	off = int64(p.Len())
	p.at[d] = off
	p.Write(content)
	return off
}

// Full says that no more belongs into the pack: one item may name many files.
func (p *Pack) Full() bool { return p.Len() > maxPack }

// Digest is the name of the pack as a blob. A pack of one content has that one's name.
func (p *Pack) Digest() store.Digest {
	sum := sha256.Sum256(p.Bytes())
	return store.Digest(hex.EncodeToString(sum[:]))
}

// Stored reads files that were stored. Of a pack it reads windows, and keeps the last
// few: the files of neighbouring items lie in one. It may be used by many goroutines.
type Stored struct {
	store *store.Store

	mu      sync.Mutex
	windows []*window // the one used last is last
}

const (
	windowSize  = 1 << 20
	keptWindows = 8
)

// window is a part of a pack.
type window struct {
	pack store.Digest
	n    int64
	done chan struct{} // closed when it is read
	data []byte
	err  error
	off  bool // the reader was called off: err is its alone
}

// NewStored makes a reader over a store.
func NewStored(s *store.Store) *Stored { return &Stored{store: s} }

// Open reads a file, and checks it as store.OpenBlob does. ErrNotExist if what holds it
// is gone. The caller closes.
func (s *Stored) Open(ctx context.Context, f File) (io.ReadCloser, error) {
	if f.Pack == "" {
		return s.store.OpenBlob(ctx, f.Blob)
	}
	content, err := s.fileContent(ctx, f)
	if errors.Is(err, store.ErrCorrupt) { // of a part of a blob no checksum comes with it
		s.forgetPack(f.Pack)
		content, err = s.fileContent(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// fileContent is a file's part of its pack.
func (s *Stored) fileContent(ctx context.Context, f File) ([]byte, error) {
	content := make([]byte, 0, f.Size)
	for at := f.Off; at < f.Off+f.Size; {
		data, err := s.readWindow(ctx, f.Pack, at/windowSize)
		if err != nil {
			return nil, err
		}
		from := at % windowSize
		to := min(from+f.Off+f.Size-at, int64(len(data)))
		if from >= to {
			break // the pack is shorter than it was
		}
		content = append(content, data[from:to]...)
		at += to - from
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != string(f.Blob) {
		return nil, fmt.Errorf("read %s at %d of blob %s: %w", f.Blob, f.Off, f.Pack, store.ErrCorrupt)
	}
	return content, nil
}

// forgetPack has a pack read anew.
func (s *Stored) forgetPack(pack store.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows = slices.DeleteFunc(s.windows, func(w *window) bool { return w.pack == pack })
}

// readWindow gives a part of a pack; a caller waits for one that is being read.
func (s *Stored) readWindow(ctx context.Context, pack store.Digest, n int64) ([]byte, error) {
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.windows, func(w *window) bool { return w.pack == pack && w.n == n })
		if i < 0 {
			w := &window{pack: pack, n: n, done: make(chan struct{})}
			s.windows = append(s.windows, w)
			s.windows = s.windows[max(0, len(s.windows)-keptWindows):]
			s.mu.Unlock()
			s.fillWindow(ctx, w)
			return w.data, w.err
		}
		w := s.windows[i]
		s.windows = append(slices.Delete(s.windows, i, i+1), w)
		s.mu.Unlock()
		select {
		case <-w.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if w.err == nil || !w.off {
			return w.data, w.err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// fillWindow reads a window; one that cannot be read is not kept.
func (s *Stored) fillWindow(ctx context.Context, w *window) {
	defer close(w.done)
	if w.data, w.err = s.packPart(ctx, w); w.err == nil {
		return
	}
	w.off = ctx.Err() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows = slices.DeleteFunc(s.windows, func(o *window) bool { return o == w })
}

func (s *Stored) packPart(ctx context.Context, w *window) ([]byte, error) {
	r, err := s.store.Open(ctx, "blobs/"+string(w.pack), w.n*windowSize, windowSize)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
