package gcs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/store"
)

// pageSize is as many objects as Google lists in one answer.
const pageSize = 1000

// List implements store.Bucket. It leaves out names that are no keys (a console's "folder/").
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if err := b.checkPrefix(prefix); err != nil {
		return nil, false, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, false, err
	}
	if after > prefix && !strings.HasPrefix(after, prefix) {
		return nil, false, nil // all that begins with prefix is below after
	}
	q := url.Values{"fields": {"items(name,size,updated,generation),nextPageToken"}, "prefix": {b.prefix + prefix},
		"maxResults": {strconv.Itoa(min(limit, pageSize-1) + 1)}} // one more says whether there is more
	if after > prefix {
		q.Set("startOffset", b.prefix+b.startAfter(after)) // that name itself comes too
	}
	var found []store.Object
	for {
		page, token, err := b.listPage(ctx, prefix, q)
		if err != nil && len(found) > 0 && context.Cause(ctx) == nil {
			return found, true, nil // the next call meets it again
		}
		if err != nil {
			return nil, false, err
		}
		for _, o := range page {
			if o.Key > after && strings.HasPrefix(o.Key, prefix) && b.checkKey(o.Key) == nil {
				found = append(found, o)
			}
		}
		if len(found) > limit {
			return found[:limit], true, nil
		}
		if token == "" {
			return found, false, nil
		}
		q.Set("pageToken", token)
	}
}

func (b *Bucket) startAfter(s string) string {
	if b.given.Foreign {
		return s
	}
	return ascii(s)
}

// ascii ends s before its first byte that no key can hold, so that it is text:
// above every key below s, and below every key above it.
func ascii(s string) string {
	for i := range len(s) {
		if s[i] >= 0x7f {
			return s[:i] + "\x7f"
		}
	}
	return s
}

// listing is one answer.
type listing struct {
	Items []struct {
		Name       string    `json:"name"`
		Size       int64     `json:"size,string"`
		Updated    time.Time `json:"updated"`
		Generation string    `json:"generation"`
	} `json:"items"`
	Next string `json:"nextPageToken"`
}

// listPage is one answer, as keys.
func (b *Bucket) listPage(ctx context.Context, prefix string, q url.Values) ([]store.Object, string, error) {
	doing := "list " + prefix + " in " + b.String()
	var answer listing
	for try := 0; ; try++ {
		answer = listing{}
		resp, err := b.conn.sendRequest(ctx, &call{doing: doing, method: http.MethodGet, url: b.endpoint + "/storage/v1/b/" + b.name + "/o?" + q.Encode()})
		if err != nil {
			return nil, "", err
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err == nil {
			break
		}
		if why := context.Cause(ctx); why != nil {
			return nil, "", fmt.Errorf("%s: %w", doing, why)
		}
		if try >= tries {
			return nil, "", fmt.Errorf("%s: read the answer: %w: %w", doing, err, store.ErrBusy)
		}
		if stop := b.conn.pauseBeforeTry(ctx, try, 0); stop != nil {
			return nil, "", fmt.Errorf("%s: %w", doing, stop)
		}
	}
	page := make([]store.Object, 0, len(answer.Items))
	for _, o := range answer.Items {
		if key, ours := strings.CutPrefix(o.Name, b.prefix); ours {
			page = append(page, store.Object{Key: key, Size: o.Size, Time: o.Updated, Tag: o.Generation})
		}
	}
	return page, answer.Next, nil
}
