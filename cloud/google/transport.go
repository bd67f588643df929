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

// Transport opens many connections, each with one request at a time: many requests on one
// connection share its window, and large objects are slow.
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

// Refusal is the server's own reason for a refused request.
type Refusal struct {
	Reason  string // a word for programs; empty where the body was no JSON
	Message string // one line for people
}

// ReadRefusal reads the body of a refusal. The result is for people: any of it may be missing.
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

// Line makes one short printable line of what an unknown server sent.
func Line(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return strings.TrimSuffix(strings.ToValidUTF8(s, "?"), ".")
}

// Bare leaves the address out of an error: the caller's text has it in a better form, and the
// address of an upload is a credential.
func Bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// witness remembers how the server of tokens last answered: the errors of oauth2 do not tell a
// network that fails from an account that is closed.
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

// refused says what an error of oauth2 means: a server that is busy, or something to repair.
func (w *witness) refused(doing string, err error, hint string) error {
	status := w.status.Load()
	var below net.Error // of a metadata server, which is asked past us
	away := w.asked.Load() && status == 0 || errors.As(err, &below)
	if away || status == http.StatusTooManyRequests || status >= 500 {
		return &cloud.Away{Doing: doing, Err: Bare(err)}
	}
	return fault.Wrap(errors.New(Line(err.Error())), fault.Denied, hint, "%s", doing)
}
