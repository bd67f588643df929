package google

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/fault"
)

// Transport has many connections, each with one request: one connection with
// many requests shares one window, and large objects crawl.
func Transport() *http.Transport {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // an object is what was stored
		Protocols:           p,
	}
}

// Refusal is a server's own reason.
type Refusal struct {
	Reason  string // a word for programs; empty where the body was no JSON
	Message string // one line for people
}

// ReadRefusal reads the body of a refusal. What is read is for people: any of it may be missing.
func ReadRefusal(resp *http.Response) Refusal {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var whole struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	r := Refusal{Message: string(body)}
	if json.Unmarshal(body, &whole) == nil {
		r.Message = whole.Error.Message
		if len(whole.Error.Errors) > 0 {
			r.Reason = whole.Error.Errors[0].Reason
		}
	}
	r.Message = Line(r.Message)
	if r.Message == "" {
		r.Message = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	return r
}

// Line makes one short printable line of what a stranger sent.
func Line(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return strings.TrimSuffix(strings.ToValidUTF8(s, "?"), ".")
}

// Bare leaves an address out of an error: the text has it in a better form, and it is
// a credential where it is that of an upload.
func Bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// witness remembers how the server of tokens last answered: the errors of oauth2
// do not tell a network that is away from an account that is closed.
type witness struct {
	http.RoundTripper
	asked  atomic.Bool
	status atomic.Int64 // 0: no answer
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	w.asked.Store(true)
	w.status.Store(0)
	resp, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		w.status.Store(int64(resp.StatusCode))
	}
	return resp, err
}

// refused says what an error of oauth2 means: busy, or a person's to mend.
func (w *witness) refused(doing string, err error, hint string) error {
	status := w.status.Load()
	var below net.Error // of a metadata server, which is asked past us
	away := w.asked.Load() && status == 0 || errors.As(err, &below)
	if away || status == http.StatusTooManyRequests || status >= 500 {
		return &cloud.Away{Doing: doing, Err: Bare(err)}
	}
	return fault.Wrap(errors.New(Line(err.Error())), fault.Denied, hint, "%s", doing)
}
