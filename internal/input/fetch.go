package input

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const (
	// maxRedirects is what browsers allow half of, and no honest server needs.
	maxRedirects = 10
	// maxTries is how often in a row a server may say nothing new; the pauses
	// between double from firstPause, 15 s in all.
	maxTries   = 5
	firstPause = time.Second
	// maxSilence ends a request that gives no byte: longer than a proxy takes to
	// look through a large file before it passes on the first of it.
	maxSilence = 2 * time.Minute
)

// Fetch brings the file at a web address into the folder cache, and says where
// it is there: in a folder of its own, under the last name of the address.
//
// A file that is there is asked after by its ETag or its date, and not brought
// again while the server calls it unchanged; one with neither is. A download
// that stopped goes on where it did, if the server still has the same file, and
// a new one takes the old one's place only when it is whole. Any number of
// commands may fetch one address at once. told gets a line for people, now and
// then; it may be nil.
//
// client nil is one that honours HTTPS_PROXY and its like. At most ten redirects
// are followed, none from https to http. There is no limit of size or time, but
// for two minutes without a byte. Faults: Missing, Denied, Invalid as the server
// says; Full when the disk is; Lost when the network stays away.
func Fetch(ctx context.Context, client *http.Client, uri, cache string, told func(string)) (file string, err error) {
	f := &fetcher{client: http.Client{}, told: told, pause: store.System.Sleep, silence: time.AfterFunc}
	if client != nil {
		f.client = *client
	}
	return f.fetchFile(ctx, uri, cache)
}

type fetcher struct {
	client http.Client
	told   func(string)
	// The seams of tests: to wait, and to do something after a silence.
	pause   func(context.Context, time.Duration) error
	silence func(time.Duration, func()) *time.Timer
	bring   bool                               // into the folder itself, for the caller alone
	room    func(context.Context, int64) error // asked before so many bytes are written; nil: not asked
	url     *url.URL
	shelf   *shelf
}

func (f *fetcher) fetchFile(ctx context.Context, uri, cache string) (string, error) {
	var err error
	if f.url, err = address(uri); err != nil {
		return "", err
	}
	if f.told == nil {
		f.told = func(string) {}
	}
	f.client.CheckRedirect = checkRedirect
	// Timeout would bound the whole of a download.
	f.client.Timeout = 0
	if f.bring {
		f.shelf, err = openBare(cache, fileName(f.url))
	} else {
		sum := sha256.Sum256([]byte(f.url.String()))
		f.shelf, err = openShelf(filepath.Join(cache, hex.EncodeToString(sum[:16])), fileName(f.url))
	}
	if err != nil {
		return "", f.fetchError(err)
	}
	defer f.shelf.closeShelf()
	return f.fetchAll(ctx)
}

// fetchAll asks until the file is there.
func (f *fetcher) fetchAll(ctx context.Context) (string, error) {
	wait, changes := firstPause, 0
	for try := 1; ; try++ {
		before := f.shelf.size
		done, err := f.requestOnce(ctx)
		switch {
		case done:
			file, err := f.shelf.keepFile()
			return file, f.fetchError(err)
		case ctx.Err() != nil:
			return "", fmt.Errorf("fetch %s: %w", shown(f.url.String()), context.Cause(ctx))
		case err == nil:
			if changes++; changes > maxTries {
				return "", f.fetchError(errors.New("it changes while it is fetched"))
			}
			continue
		case !mayRetry(err):
			return "", f.fetchError(err)
		case f.shelf.size > before:
			try, wait = 0, firstPause
		case try >= maxTries:
			return "", f.fetchError(err)
		}
		f.told(fmt.Sprintf("%s: %v; trying again", shown(f.url.String()), plain(err)))
		if err := f.pause(ctx, wait); err != nil {
			return "", fmt.Errorf("fetch %s: %w", shown(f.url.String()), err)
		}
		wait *= 2
	}
}

// requestOnce is one request. done: the shelf has the whole file. Neither done nor an
// error: what there was of it is of no use, and it is to be asked for anew.
func (f *fetcher) requestOnce(outer context.Context) (done bool, err error) {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	timer := f.silence(maxSilence, func() { cancel(errSilent) })
	defer timer.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url.String(), nil)
	if err != nil {
		return false, err
	}
	// As it is stored: a range of a compressed body would be another file's.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "drover")
	f.shelf.setRequestHeaders(req.Header)
	res, err := f.client.Do(req)
	if err != nil {
		return false, silent(ctx, err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		err = f.shelf.restartPart(res.Header, res.ContentLength)
	case http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		if f.shelf.asked != theRest {
			return false, refused(res)
		}
		if res.StatusCode != http.StatusPartialContent || !f.shelf.continuesPart(res.Header) {
			return false, f.shelf.discardPart()
		}
	case http.StatusNotModified:
		if f.shelf.asked != theNewer {
			return false, refused(res)
		}
		f.shelf.same = true
		f.told(fmt.Sprintf("%s: unchanged since it was fetched", shown(f.url.String())))
		return true, nil
	default:
		return false, refused(res)
	}
	if err != nil {
		return false, err
	}
	f.told(f.shelf.fetchMessage(shown(f.url.String())))
	body, err := f.rationBody(outer, res.Body, timer)
	if err == nil {
		err = f.shelf.appendBody(body, func() { timer.Reset(maxSilence) })
	}
	return err == nil, silent(ctx, err)
}

// rationBody asks for the room that a body needs: at once, or bit by bit when the server
// does not say how long it is. While we wait it is not the server that is silent.
func (f *fetcher) rationBody(ctx context.Context, body io.Reader, timer *time.Timer) (io.Reader, error) {
	if f.room == nil {
		return body, nil
	}
	ask := func(n int64) error {
		timer.Stop()
		defer timer.Reset(maxSilence)
		if err := f.room(ctx, n); err != nil {
			return errNoRoom{err}
		}
		return nil
	}
	if size := f.shelf.coming.Size; size >= 0 {
		return body, ask(size)
	}
	return &rationed{body: body, at: f.shelf.size, ask: ask}, nil
}

var errSilent = fmt.Errorf("it sent nothing for %s", maxSilence)

// silent gives the reason of a request that was ended for its silence.
func silent(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// refusedError is an answer that is no file.
type refusedError struct {
	status int
	text   string
}

func (e *refusedError) Error() string { return "the server answers " + e.text }

func refused(res *http.Response) error {
	return &refusedError{res.StatusCode, strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode)))}
}

// mayRetry says whether asking again could help: after all that is neither the
// server's last word nor this machine's.
func mayRetry(err error) bool {
	var answer *refusedError
	var here *os.PathError
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var room errNoRoom
	var barred *barredError
	switch {
	case errors.As(err, &room), errors.As(err, &barred):
		return false
	case errors.As(err, &name):
		return !name.IsNotFound
	case errors.As(err, &cert):
		return false
	case errors.As(err, &answer):
		return answer.status >= 500 || answer.status == http.StatusTooManyRequests || answer.status == http.StatusRequestTimeout
	case errors.As(err, &here), errors.Is(err, errRedirect):
		return false
	}
	return true
}

// fetchError makes a fault of what went wrong in the end.
func (f *fetcher) fetchError(err error) error {
	var room errNoRoom
	if err == nil {
		return nil
	}
	if errors.As(err, &room) {
		return fmt.Errorf("fetch %s: %w", shown(f.url.String()), room.error)
	}
	var answer *refusedError
	var here *os.PathError
	var cert *tls.CertificateVerificationError
	var barred *barredError
	kind, hint := fault.Lost, "Run it again: what is here already is not brought again."
	switch {
	case errors.As(err, &answer):
		switch s := answer.status; {
		case s == http.StatusUnauthorized || s == http.StatusForbidden || s == http.StatusProxyAuthRequired:
			kind, hint = fault.Denied, "Check the address, or download it as yourself and use `-i FILE`."
		case s == http.StatusNotFound || s == http.StatusGone:
			kind, hint = fault.Missing, "Check the address."
		case !mayRetry(err):
			kind, hint = fault.Invalid, "Check the address."
		}
	case errors.As(err, &barred):
		// Without what package net says around it.
		err, kind, hint = barred, fault.Denied, "Leave `--fetch` out, and let the program ask there, if that is what you want."
	case errors.Is(err, errRedirect):
		kind, hint = fault.Invalid, "Use the address that it leads to, if you trust it."
	case isFull(err):
		kind, hint = fault.Full, "Free some space and run it again: what is here already is not brought again."
	case errors.As(err, &cert):
		kind, hint = fault.Denied, "Set SSL_CERT_FILE to the certificates that you trust, or download it and use `-i FILE`."
	case !mayRetry(err) && !errors.As(err, &here):
		kind, hint = fault.Invalid, "Check the address and the network."
	case errors.As(err, &here):
		kind, hint = fault.Denied, "Check the folder's owner and permissions."
	}
	return fault.Wrap(plain(err), kind, hint, "fetch %s", shown(f.url.String()))
}

// plain takes package http's own words away: they hold the address with all that
// may be secret in it.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

var errRedirect = errors.New("the server redirects it")

func checkRedirect(req *http.Request, via []*http.Request) error {
	switch last := via[len(via)-1]; {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w more than %d times", errRedirect, maxRedirects)
	case last.URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w from https to %s", errRedirect, shown(req.URL.String()))
	case req.URL.Scheme != "https" && req.URL.Scheme != "http":
		return fmt.Errorf("%w to %s://, which is no web address", errRedirect, req.URL.Scheme)
	}
	return nil
}

// maxFileName leaves room below the 255 bytes that file systems allow.
const maxFileName = 200

// fileName is what a file from the web is called here: the last name of its
// path, whatever the server says. No name hides, leads elsewhere or holds
// control characters; without one it is "download".
func fileName(u *url.URL) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '_'
		}
		return r
	}, path.Base(u.Path))
	if name == "." || name == "/" {
		return "download"
	}
	if name[0] == '.' {
		name = "_" + name[1:]
	}
	if ext := path.Ext(name); len(name) > maxFileName && len(ext) < maxFileName {
		name = strings.ToValidUTF8(name[:maxFileName-len(ext)]+ext, "")
	}
	return name[:min(len(name), maxFileName)]
}

// counting tells of each read, so that a silence can be told from slowness.
type counting struct {
	r     io.Reader
	heard func()
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		c.heard()
	}
	return n, err
}
