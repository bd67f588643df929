package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/drover-run/drover/store"
)

var _ store.Pieces = (*Bucket)(nil)

// Look implements store.Pieces.
func (b *Bucket) Look(ctx context.Context, key string) (store.Whole, error) {
	if err := b.checkKey(key); err != nil {
		return store.Whole{}, err
	}
	doing := b.describeRequest("look at", key)
	resp, err := b.conn.sendRequest(ctx, &call{doing: doing, names: true, method: http.MethodGet, url: b.objectURL(key) + "?fields=crc32c,generation,size,updated"})
	if err != nil {
		return store.Whole{}, err
	}
	defer resp.Body.Close()
	var o struct {
		CRC32C     string    `json:"crc32c"`
		Generation string    `json:"generation"`
		Size       int64     `json:"size,string"`
		Updated    time.Time `json:"updated"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&o); err != nil {
		return store.Whole{}, fmt.Errorf("%s: read the answer: %w: %w", doing, err, store.ErrBusy)
	}
	if o.Generation == "" {
		return store.Whole{}, fmt.Errorf("%s: it has no generation: %w", doing, errors.ErrUnsupported)
	}
	w := store.Whole{Object: store.Object{Key: key, Size: o.Size, Time: o.Updated, Tag: o.Generation}}
	if o.CRC32C != "" {
		w.Sum = store.Sum{Of: store.CRC32C, Text: o.CRC32C}
	}
	return w, nil
}

// GetOf implements store.Pieces.
func (b *Bucket) GetOf(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	r, err := b.getGeneration(ctx, o.Key, off, n, o.Tag)
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", err, store.ErrReplaced)
	}
	return r, err
}
