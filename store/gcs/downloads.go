package gcs

import (
	"context"
	"strings"

	"github.com/drover-run/drover/store"
)

// metadataToken is a word for sh: the header with the token that a machine of Google's has.
const metadataToken = `"Authorization: Bearer $(` +
	`{ curl -fsS -H 'Metadata-Flavor: Google' ` + tokenAddress + ` || wget -q -O - --header='Metadata-Flavor: Google' ` + tokenAddress + ` || ` +
	`python3 -c 'import urllib.request as u; print(u.urlopen(u.Request("` + tokenAddress + `", headers={"Metadata-Flavor": "Google"})).read().decode())'; } 2>/dev/null | ` +
	`sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p')"`

const tokenAddress = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"

// Downloads implements store.Downloader. A command holds no credential: the machine's own account
// reads the object, by its metadata server or by the configuration of Google's tools. An endpoint
// that is not Google's is asked without credentials, as it always is.
func (b *Bucket) Downloads(_ context.Context, key string) ([]string, error) {
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
	return append(store.Fetches(address, metadataToken), "gcloud storage cat "+object, "gsutil -q cat "+object), nil
}
