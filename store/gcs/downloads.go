package gcs

import (
	"context"
	_ "embed"
	"strings"

	"github.com/drover-run/drover/store"
)

// metadataToken is a word for sh: the header with the token that a machine of Google's has.
//
//go:embed metadata.txt
var metadataToken string

// Downloads implements store.Downloader. A command holds no credential: the machine's own account
// reads the object, by its metadata server or by the configuration of Google's tools. An endpoint
// that is not Google's is asked without credentials, as it always is.
func (b *Bucket) Downloads(_ context.Context, key string) ([]store.Download, error) {
	if err := b.checkKey(key); err != nil {
		return nil, err
	}
	address := b.objectURL(key) + "?alt=media"
	if p := b.given.Project; p != "" {
		address += "&userProject=" + p
	}
	if !strings.HasPrefix(b.endpoint, "https:") || b.given.Anonymous {
		return store.Fetches(address), nil
	}
	object := store.Quote(scheme + b.name + "/" + b.prefix + key)
	return append(store.Fetches(address, strings.TrimSpace(metadataToken)), store.Download{Tool: "gcloud", Command: "gcloud storage cat " + object},
		store.Download{Tool: "gsutil", Command: "gsutil -q cat " + object}), nil
}
