package flaky

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/drover-run/drover/store"
)

var _ store.Pieces = (*Bucket)(nil)

// Look implements store.Pieces, if the bucket below does.
func (b *Bucket) Look(ctx context.Context, key string) (w store.Whole, err error) {
	below, err := b.piecesBelow(ctx, "look at "+key+" in ")
	if err == nil {
		w, err = below.Look(ctx, key)
	}
	if stop := b.delayOnce(ctx); stop != nil {
		return store.Whole{}, stop
	}
	return w, err
}

// GetOf implements store.Pieces.
func (b *Bucket) GetOf(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	below, err := b.piecesBelow(ctx, "get "+o.Key+" from ")
	if err != nil {
		return nil, err
	}
	r, err := below.GetOf(ctx, o, off, n)
	if stop := b.delayOnce(ctx); stop != nil {
		if err == nil {
			r.Close()
		}
		return nil, stop
	}
	if err != nil {
		return nil, err
	}
	return b.corruptByte(r)
}

// piecesBelow is the bucket below, or an error when the request to it is lost.
func (b *Bucket) piecesBelow(ctx context.Context, doing string) (store.Pieces, error) {
	below, ok := b.bucket.(store.Pieces)
	if !ok {
		return nil, fmt.Errorf("%s%s: %w", doing, b, errors.ErrUnsupported)
	}
	if err := b.delayRequest(ctx); err != nil {
		return nil, err
	}
	return below, b.readLoss(doing)
}
