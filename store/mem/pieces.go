package mem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/drover-run/drover/store"
)

var _ store.Pieces = (*Bucket)(nil)

// Look implements store.Pieces.
func (b *Bucket) Look(ctx context.Context, key string) (store.Whole, error) {
	o, err := b.heldObject(ctx, key)
	if err != nil {
		return store.Whole{}, err
	}
	w := store.Whole{Object: o.meta}
	w.Tag = strconv.FormatInt(o.serial, 10)
	return w, nil
}

// GetOf implements store.Pieces.
func (b *Bucket) GetOf(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	held, err := b.heldObject(ctx, o.Key)
	if errors.Is(err, store.ErrNotExist) || err == nil && strconv.FormatInt(held.serial, 10) != o.Tag {
		return nil, fmt.Errorf("get %s from %s: %w", o.Key, b, store.ErrReplaced)
	}
	if err != nil {
		return nil, err
	}
	return held.readRange(off, n), nil
}
