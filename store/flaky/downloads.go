package flaky

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/store"
)

var _ store.Downloader = (*Bucket)(nil)

// Downloads implements store.Downloader, if the bucket below does. It sends no request that could
// be lost.
func (b *Bucket) Downloads(ctx context.Context, key string) ([]store.Download, error) {
	below, ok := b.bucket.(store.Downloader)
	if !ok {
		return nil, fmt.Errorf("say how to download %s from %s: %w", key, b, errors.ErrUnsupported)
	}
	return below.Downloads(ctx, key)
}
