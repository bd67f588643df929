package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/store"
)

// atOnce: Get reads an object up to this size before it returns, and asks for it again if it
// breaks off, was replaced meanwhile, or does not match its checksum.
const atOnce = 1 << 20

// Get implements store.Bucket. An object that is read from beginning to end is checked: if it
// does not match, the last Read gives store.ErrCorrupt.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return b.getGeneration(ctx, key, off, n, "")
}

// getGeneration is Get; with a generation it reads only that one.
func (b *Bucket) getGeneration(ctx context.Context, key string, off, n int64, generation string) (io.ReadCloser, error) {
	if err := b.checkKey(key); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		r, err := b.openRange(ctx, key, off, n, generation)
		if err != nil {
			return nil, err
		}
		if r.end < 0 || min(r.end, r.cut)-r.pos > atOnce {
			return r, nil
		}
		body, err := io.ReadAll(r)
		r.Close()
		if err == nil {
			return io.NopCloser(bytes.NewReader(body)), nil
		}
		if !again(err) && !errors.Is(err, store.ErrCorrupt) || try >= tries {
			return nil, err
		}
		if stop := b.conn.pauseBeforeTry(ctx, try, 0); stop != nil {
			return nil, fmt.Errorf("%s: %w (last answer: %w)", r.doing, stop, err)
		}
	}
}

// openRange asks for a range of key and returns what the server sends.
func (b *Bucket) openRange(ctx context.Context, key string, off, n int64, generation string) (*reader, error) {
	doing := "get " + key + " from " + b.String()
	asked := n
	if n == 0 {
		asked = 1 // no range is empty; whether the object is there is asked all the same
	}
	from := func(pos, n int64, generation string) (*http.Response, error) {
		q := url.Values{"alt": {"media"}}
		if generation != "" {
			q.Set("generation", generation)
		}
		c := &call{doing: doing, names: true, method: http.MethodGet, url: b.objectURL(key) + "?" + q.Encode(),
			header: http.Header{"Accept-Encoding": {"gzip"}}} // as stored: nothing is unpacked on the way
		if span := span(pos, n); span != "" {
			c.header.Set("Range", span)
		}
		return b.conn.sendRequest(ctx, c)
	}
	resp, err := from(off, asked, generation)
	var no forbidden
	if errors.As(err, &no) && b.listsAbsent(ctx, key) {
		// A caller that may list only a part of the bucket gets "forbidden" for what is absent.
		return nil, fmt.Errorf("%s: %w", doing, store.ErrNotExist)
	}
	if errors.Is(err, errPastEnd) {
		return &reader{conn: b.conn, doing: doing, body: http.NoBody}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &reader{conn: b.conn, doing: doing, body: resp.Body, generation: resp.Header.Get("X-Goog-Generation"), moved: b.conn.clock.Boot()}
	if err := r.checkRange(resp, off, n); err != nil {
		resp.Body.Close()
		return nil, err
	}
	r.more = func(pos, n int64) (*http.Response, error) { return from(pos, n, r.generation) }
	r.pause = func(try int) error { return b.conn.pauseBeforeTry(ctx, try, 0) }
	r.stopped = func() error { return context.Cause(ctx) }
	return r, nil
}

// listsAbsent says that a listing, which must be allowed, does not have key.
func (b *Bucket) listsAbsent(ctx context.Context, key string) bool {
	found, _, err := b.List(ctx, key, "", 1)
	return err == nil && (len(found) == 0 || found[0].Key != key)
}

// span is n bytes from off as a header says it; n < 0 is all the rest.
func span(off, n int64) string {
	switch {
	case n < 0 && off == 0:
		return ""
	case n < 0 || n > math.MaxInt64-off:
		return fmt.Sprintf("bytes=%d-", off)
	}
	return fmt.Sprintf("bytes=%d-%d", off, off+n-1)
}

// reader is an object that is being read. If that breaks off, it goes on with the same
// generation, from the next byte.
type reader struct {
	conn       *connection
	doing      string
	body       io.ReadCloser
	pos        int64 // of the next byte
	cut        int64 // no byte from here on is wanted
	end        int64 // of what comes; -1: not known
	generation string
	sum        hash.Hash32 // nil: not all of it is read, so nothing to compare
	want       string
	try        int
	moved      time.Duration // when the last byte came
	more       func(pos, n int64) (*http.Response, error)
	pause      func(try int) error
	stopped    func() error
}

// checkRange finds out which bytes came, of the n from off that were wanted.
func (r *reader) checkRange(resp *http.Response, off, n int64) error {
	r.pos, r.cut = off, math.MaxInt64
	if n >= 0 && n < math.MaxInt64-off {
		r.cut = off + n
	}
	total := resp.ContentLength // -1: not said
	r.end = total
	if resp.StatusCode == http.StatusPartialContent {
		var first int64
		var err error
		first, r.end, total, err = parseContentRange(resp.Header.Get("Content-Range"))
		if err != nil || first != off {
			return fmt.Errorf("%s: asked for the bytes from %d and got %q: %w", r.doing, off, google.Line(resp.Header.Get("Content-Range")), store.ErrBusy)
		}
	} else if off > 0 { // a server without ranges sends everything
		switch _, err := io.CopyN(io.Discard, resp.Body, off); {
		case err == io.EOF:
			r.cut = off
		case err != nil:
			return fmt.Errorf("%s: %w: %w", r.doing, err, store.ErrBusy)
		}
	}
	if off == 0 && r.end == total && r.cut >= total {
		if r.want = crc(resp.Header.Values("X-Goog-Hash")); r.want != "" {
			r.sum = crc32.New(castagnoli())
		}
	}
	return nil
}

// parseContentRange reads "bytes 3-6/10": from 3 to 7 of 10.
func parseContentRange(s string) (first, end, total int64, err error) {
	at, whole, _ := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	from, to, _ := strings.Cut(at, "-")
	first, err1 := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	total, err3 := strconv.ParseInt(whole, 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, 0, 0, err
	}
	if first < 0 || last < first || total <= last {
		return 0, 0, 0, errors.New("not a range")
	}
	return first, last + 1, total, nil
}

// crc finds the CRC32C among an object's checksums.
func crc(headers []string) string {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			if sum, ok := strings.CutPrefix(strings.TrimSpace(one), "crc32c="); ok {
				return sum
			}
		}
	}
	return ""
}

func (r *reader) Read(p []byte) (int, error) {
	for {
		if r.pos >= r.cut || r.pos == r.end {
			return 0, r.checkEnd()
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.cut-r.pos)])
		r.pos += int64(n)
		if r.sum != nil {
			r.sum.Write(p[:n])
		}
		if n > 0 {
			r.try, r.moved = 0, r.conn.clock.Boot()
			return n, nil // whatever err is, the next Read meets it again
		}
		if err == io.EOF && r.end < 0 {
			return 0, r.checkEnd()
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			if err := r.resumeRead(err); err != nil {
				return 0, err
			}
		}
	}
}

func (r *reader) checkEnd() error {
	if r.sum != nil && checksum(r.sum.Sum32()) != r.want {
		return fmt.Errorf("%s: its CRC32C is not %s: %w", r.doing, google.Line(r.want), store.ErrCorrupt)
	}
	return io.EOF
}

// resumeRead asks for what is missing, after a Read that gave nothing but err.
func (r *reader) resumeRead(err error) error {
	r.body.Close()
	for ; ; r.try++ {
		if why := r.stopped(); why != nil {
			return fmt.Errorf("%s: %w", r.doing, why)
		}
		if r.generation == "" || r.conn.clock.Boot()-r.moved > giveUp {
			return fmt.Errorf("%s: %w: %w", r.doing, google.Bare(err), store.ErrBusy)
		}
		if stop := r.pause(r.try); stop != nil {
			return fmt.Errorf("%s: %w (last answer: %w)", r.doing, stop, err)
		}
		n := int64(-1)
		if r.cut < math.MaxInt64 {
			n = r.cut - r.pos
		}
		var resp *http.Response
		resp, err = r.more(r.pos, n)
		switch {
		case errors.Is(err, store.ErrNotExist):
			return fmt.Errorf("%s: it was replaced or removed meanwhile: %w", r.doing, store.ErrBusy)
		case err != nil && again(err):
			continue
		case err != nil:
			return err
		}
		r.body = resp.Body
		first, _, _, e := parseContentRange(resp.Header.Get("Content-Range"))
		if resp.StatusCode == http.StatusPartialContent && e == nil && first == r.pos || resp.StatusCode == http.StatusOK && r.pos == 0 {
			r.try++ // not from the beginning: nothing has come yet
			return nil
		}
		r.body.Close()
		return fmt.Errorf("%s: asked for the bytes from %d and got others: %w", r.doing, r.pos, store.ErrBusy)
	}
}

func (r *reader) Close() error { return r.body.Close() }
