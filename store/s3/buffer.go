package s3

import (
	"context"
	"sync"
)

// maxBuffers bounds the bodies that one Bucket holds in memory: 8 of partSize.
const maxBuffers = 8

// bufferPool bounds the memory of bodies that are being sent.
type bufferPool struct {
	room  chan struct{} // one value for each body that is held in memory
	spare sync.Pool     // of *[]byte of partSize
}

// small bodies need no place of their own in memory: log entries, heartbeats.
const small = 256 << 10

// held is a body in memory.
type held struct {
	pool  *bufferPool
	bytes []byte
	own   *[]byte // of the pool; nil for a small one
}

// holdMemory gets memory for size bytes, at most partSize. It waits while other requests use
// all of it.
func (p *bufferPool) holdMemory(ctx context.Context, size int) (*held, error) {
	if size <= small {
		return &held{pool: p, bytes: make([]byte, size)}, nil
	}
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	own, ok := p.spare.Get().(*[]byte)
	if !ok || len(*own) < size {
		fresh := make([]byte, max(size, partSize))
		own = &fresh
	}
	return &held{pool: p, bytes: (*own)[:size], own: own}, nil
}

// releaseMemory gives the memory back. If not all of it was answered, a request may still be
// reading from it: then it is not used again.
func (h *held) releaseMemory(answered bool) {
	if h.own == nil {
		return
	}
	if answered {
		h.pool.spare.Put(h.own)
	}
	<-h.pool.room
}
