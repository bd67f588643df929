package agent

import (
	"context"
	"io"
	"sync"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/store"
)

// watched is the store for a writer that is going to name what it stores: it begins to watch gc
// before the first blob is looked for (ledger.Sweeps), and not at all where none is,
// as most programs leave no checkpoint and nothing behind.
type watched struct {
	*store.Store
	w protocol.World

	mu     sync.Mutex // files are looked for several at once
	sweeps *removal.Sweeps
}

var _ tree.Blobs = (*watched)(nil)

// watchRemovals watches gc, if that was not so before.
func (b *watched) watchRemovals(ctx context.Context) (_ *removal.Sweeps, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sweeps == nil {
		b.sweeps, err = removal.ReadSweeps(ctx, b.w)
	}
	return b.sweeps, err
}

// PutBlob implements tree.Blobs.
func (b *watched) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	if _, err := b.watchRemovals(ctx); err != nil {
		return "", 0, err
	}
	return b.Store.PutBlob(ctx, body)
}

// HasBlob implements tree.Blobs.
func (b *watched) HasBlob(ctx context.Context, d store.Digest) (bool, error) {
	if _, err := b.watchRemovals(ctx); err != nil {
		return false, err
	}
	return b.Store.HasBlob(ctx, d)
}
