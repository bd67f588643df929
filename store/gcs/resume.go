package gcs

import (
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/drover-run/drover/store"
)

var _ store.Resumer = (*Bucket)(nil)

// PutOn implements store.Resumer: at names a session, and the size and checksum of the body
// that it was begun for. The session goes on only with that body; with at, that body can be
// sent and nothing else.
func (b *Bucket) PutOn(ctx context.Context, key string, body io.ReadSeeker, at string, begun func(at string) error) (there int64, err error) {
	return b.writeOrResume(ctx, "put", key, body, url.Values{}, at, begun)
}

// Drop implements store.Resumer.
func (b *Bucket) Drop(ctx context.Context, key, at string) error {
	if err := b.checkKey(key); err != nil {
		return err
	}
	u := &upload{conn: b.conn, doing: b.describeRequest("drop what was sent of", key)}
	if u.session = u.markedSession(at); u.session != "" {
		u.abandonSession(ctx)
	}
	return nil
}

// sessionMark is the text with which another process goes on.
func (u *upload) sessionMark(uri string) string { return u.want.Size + " " + u.want.CRC32C + " " + uri }

// markedSession is the session's address in at; "" if at is not from this bucket.
func (u *upload) markedSession(at string) string {
	fields := strings.SplitN(at, " ", 3)
	if len(fields) != 3 || !strings.HasPrefix(u.conn.endpoint+fields[2], strings.TrimSuffix(u.conn.uploadURL(nil), "?")+"?") {
		return ""
	}
	return u.conn.endpoint + fields[2]
}

// adoptSession goes on with an earlier session, or abandons it if it is for another body.
func (u *upload) adoptSession(ctx context.Context, at string) {
	session := u.markedSession(at)
	if session == "" {
		return
	}
	u.session = session
	if !strings.HasPrefix(at, u.sessionMark("")) {
		u.abandonSession(ctx)
		u.session = ""
		return
	}
	u.adopted, u.ask, u.late = true, true, tries
}
