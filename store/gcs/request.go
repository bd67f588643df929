package gcs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// A request is sent up to tries times before its error is returned to store.Store, which tries
// for ever: here the server's Retry-After is known, and here a session or a download goes on
// where it broke off. Full jitter between the tries.
const (
	tries     = 4
	firstStep = 100 * time.Millisecond
	lastStep  = 2 * time.Second
	// maxAsked bounds how long a server may ask us to wait: below the 15 s of a heartbeat.
	maxAsked = 10 * time.Second
	// giveUp is how long a large object may make no progress. It is longer than the two
	// minutes for which a network often fails, as all that has arrived is lost when the
	// request is given up.
	giveUp = 3 * time.Minute
)

// patience is how long no byte may move in either direction. For a small body it ends well
// before the lease of an agent without new heartbeats (60 s): a dead connection must not look
// like a dead agent.
func patience(size int64) time.Duration {
	if size <= 64<<10 {
		return 15 * time.Second
	}
	return time.Minute
}

var errStalled = errors.New("nothing moves")

func newClient(t http.RoundTripper) *http.Client {
	// 308 is an answer that is handled here; Google sends no other redirect.
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// call is a request that can be sent again.
type call struct {
	doing  string // "create a/b in gs://..."
	method string
	url    string
	header http.Header
	open   func() (io.Reader, error) // the body, from its beginning; nil: none
	size   int64                     // of the body
	names  bool                      // its address is that of an object
	landed func() bool               // whether it may have been done, once its answer is lost; nil: it changes nothing
	absent bool                      // 404 is a success
	free   bool                      // the address is its own credential
}

func always() bool { return true }

// sendRequest sends c until the answer is clear, a few times. The answer's status is a
// success; the caller closes its body.
func (conn *connection) sendRequest(ctx context.Context, c *call) (*http.Response, error) {
	unclear, renewed := false, false
	for try := 0; ; try++ {
		resp, asked, err := conn.sendOnce(ctx, c)
		if err == nil {
			return resp, nil
		}
		if errors.Is(err, errStale) && !renewed {
			renewed = true
			continue
		}
		unclear = unclear || errors.Is(err, store.ErrUnclear)
		if again(err) && try < tries-1 {
			stop := conn.pauseBeforeTry(ctx, try, asked)
			if stop == nil {
				continue
			}
			err = fmt.Errorf("%s: %w (last answer: %w)", c.doing, stop, err)
		}
		return nil, muddied(unclear, err)
	}
}

func again(err error) bool { return errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrUnclear) }

// muddied adds that an earlier try may still take effect, unless that is settled: once the
// key holds an object, no try takes effect any more.
func muddied(unclear bool, err error) error {
	if unclear && !errors.Is(err, store.ErrUnclear) && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("%w (an earlier request for it: %w)", err, store.ErrUnclear)
	}
	return err
}

// pauseBeforeTry waits before the next try, at least as long as the server asked.
func (conn *connection) pauseBeforeTry(ctx context.Context, try int, asked time.Duration) error {
	step := min(firstStep<<min(try, 10), lastStep)
	return conn.clock.Sleep(ctx, asked+rand.N(step))
}

// sendOnce sends c one time. asked is how long the server wants us to wait.
func (conn *connection) sendOnce(ctx context.Context, c *call) (resp *http.Response, asked time.Duration, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", c.doing, err)
	}
	held, err := conn.bearerToken(ctx, c)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", c.doing, err)
	}
	var r io.Reader
	if c.open != nil {
		if r, err = c.open(); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", c.doing, err)
		}
	}
	w := newWatch(ctx, conn.patience(c.size))
	var sent atomic.Bool // it had a connection: before that nothing can have been done
	req, err := conn.newRequest(httptrace.WithClientTrace(w.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}), c)
	if err != nil {
		w.endWatch()
		return nil, 0, fmt.Errorf("%s: %w", c.doing, err)
	}
	held.Sign(req.Header, conn.chargedProject())
	var body *sending
	if c.size > 0 {
		body = &sending{r: r, w: w, left: c.size, closed: make(chan struct{})}
		req.Body, req.ContentLength = body, c.size
	}
	resp, err = conn.client.Do(req)
	w.pauseTimer()
	if err != nil {
		w.endWatch()
		body.waitClosed()
		return nil, 0, conn.wrapBroken(ctx, c, body, w, sent.Load(), err)
	}
	resp.Body = &watched{ReadCloser: resp.Body, w: w, body: body}
	if resp.StatusCode < 300 || resp.StatusCode == statusIncomplete {
		return resp, 0, nil
	}
	said := google.ReadRefusal(resp)
	resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && c.absent && !noBucket(said) {
		resp.Body = http.NoBody
		return resp, 0, nil
	}
	if resp.StatusCode == http.StatusUnauthorized && held.Value != "" {
		conn.tokens.Reject(held.Value)
	}
	return nil, wanted(resp.Header), conn.wrapRefusal(c, resp.StatusCode, said, held.Value != "")
}

func (conn *connection) bearerToken(ctx context.Context, c *call) (google.Token, error) {
	if conn.tokens == nil || c.free {
		return google.Token{}, nil
	}
	held, err := conn.tokens.Get(ctx)
	if conn.given.Unsigned != nil && errors.Is(err, google.ErrNone) {
		conn.unsigned.Do(conn.given.Unsigned)
		return google.Token{}, nil
	}
	return held, err
}

func (conn *connection) newRequest(ctx context.Context, c *call) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, c.url, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header)
	req.Header.Set("User-Agent", "drover")
	return req, nil
}

// wrapBroken translates the error of a request without an answer.
func (conn *connection) wrapBroken(ctx context.Context, c *call, body *sending, w *watch, sent bool, err error) error {
	if body != nil && body.err != nil {
		return fmt.Errorf("%s: %w", c.doing, body.err)
	}
	fate := store.ErrBusy
	if sent && c.landed != nil && c.landed() {
		fate = store.ErrUnclear
	}
	if why := context.Cause(ctx); why != nil {
		if fate == store.ErrUnclear {
			return fmt.Errorf("%s: %w: %w", c.doing, why, fate)
		}
		return fmt.Errorf("%s: %w", c.doing, why)
	}
	if why := distrusted(err, conn.endpoint); why != nil {
		return fmt.Errorf("%s: %w", c.doing, why)
	}
	return fmt.Errorf("%s: %w: %w", c.doing, w.stallReason(err), fate)
}

// wanted reads Retry-After, in seconds.
func wanted(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxAsked)
}

// connection sends the requests of a bucket, signed where they must be, and translates errors.
// All parts of the package that use the bucket share it.
type connection struct {
	place
	clock    store.Clock
	client   *http.Client
	tokens   *google.Tokens // nil: anonymous
	source   google.Source  // of tokens; unused with a pass
	patience func(size int64) time.Duration
	unsigned sync.Once // says that it is asked without credentials
}

// objectToken is a token for objects alone.
func (conn *connection) objectToken(ctx context.Context) (google.Token, error) {
	t, err := conn.source.Token(ctx, google.Objects)
	return t, storeBusy(err)
}

// tokenOf is the newest token of a handed-over file. If that has ended, requests wait: an
// attached command may renew it.
func tokenOf(file google.FileSource) func(context.Context) (google.Token, error) {
	return func(ctx context.Context) (google.Token, error) {
		t, err := file.Token(ctx)
		if err = storeBusy(err); err != nil && !errors.Is(err, store.ErrBusy) {
			return t, fault.Wrap(errors.Unwrap(err), fault.Denied, renewHint, "read the credential")
		}
		return t, err
	}
}

// chargedProject is the project that is charged for requests; "": what credentials say.
func (conn *connection) chargedProject() string {
	return cmp.Or(conn.given.Project, os.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT"))
}
