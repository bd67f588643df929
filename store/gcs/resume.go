package gcs

import (
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/drover-run/drover/store"
)

var _ store.Resumer = (*Bucket)(nil)

// PutOn implements store.Resumer: at names a session, and the size and checksum of the
// body that it was begun for. It is gone on with for that body alone, and lets whoever
// has it send that body and nothing else.
func (b *Bucket) PutOn(ctx context.Context, key string, body io.ReadSeeker, at string, begun func(at string) error) (there int64, err error) {
	return b.writeOn(ctx, "put", key, body, url.Values{}, at, begun)
}

// Drop implements store.Resumer.
func (b *Bucket) Drop(ctx context.Context, key, at string) error {
	if err := b.check(key); err != nil {
		return err
	}
	u := &upload{b: b, doing: b.doing("drop what was sent of", key)}
	if u.session = u.marked(at); u.session != "" {
		u.abandon(ctx)
	}
	return nil
}

// mark is what another process goes on with.
func (u *upload) mark(uri string) string { return u.want.Size + " " + u.want.CRC32C + " " + uri }

// marked is the address in what mark gave; "" if it is none of this bucket's.
func (u *upload) marked(at string) string {
	fields := strings.SplitN(at, " ", 3)
	if len(fields) != 3 || !strings.HasPrefix(u.b.endpoint+fields[2], strings.TrimSuffix(u.b.uploads(nil), "?")+"?") {
		return ""
	}
	return u.b.endpoint + fields[2]
}

// adopt goes on with an earlier session, or throws it away if it is of another body.
func (u *upload) adopt(ctx context.Context, at string) {
	session := u.marked(at)
	if session == "" {
		return
	}
	u.session = session
	if !strings.HasPrefix(at, u.mark("")) {
		u.abandon(ctx)
		u.session = ""
		return
	}
	u.adopted, u.ask, u.late = true, true, tries
}
