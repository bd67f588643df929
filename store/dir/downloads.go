package dir

import (
	"context"
	"path/filepath"

	"github.com/drover-run/drover/store"
)

// Downloads implements store.Downloader, for machines that see the folder under the same name.
func (b *Bucket) Downloads(_ context.Context, key string) ([]store.Download, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	return []store.Download{{Tool: "cat", Command: "cat " + store.Quote(filepath.Join(b.root, filepath.FromSlash(key)))}}, nil
}
