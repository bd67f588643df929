// Package rest sends requests to the JSON interfaces of Google Cloud: signed by a token, sent again while a service is busy or does not
// answer, and refused in the service's words with what to do.
//
// It refuses to know what is asked for. Its tests and those of driver/gcpbatch prove it.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
)

// Caller sends requests as one account.
type Caller struct {
	Tokens *google.Tokens
	Over   http.RoundTripper
	// Wait is how long a request is sent again that a service has not taken; 0: Patience.
	Wait time.Duration
	// At is the address of a service, as batch. Nil: Endpoint.
	At func(service string) string
}

// Address is the address of a service, as batch.
func (c *Caller) Address(service string) string {
	if c.At != nil {
		return c.At(service)
	}
	return Endpoint(service)
}

// Patience is how long a request is sent again that a service has not taken.
const Patience = 30 * time.Second

// New makes a caller as source, over connections of its own. It sends nothing.
func New(source google.Source) *Caller {
	return &Caller{Tokens: google.NewTokens(nil, func(ctx context.Context) (google.Token, error) { return source.Token(ctx, google.Platform) }), Over: google.Transport()}
}

// These are in the errors of requests for what is not there, for what is there already, and for a change of what has changed meanwhile.
var (
	ErrNotFound = errors.New("it is not there")
	ErrExists   = errors.New("it is there already")
	ErrChanged  = errors.New("it has changed")
)

// Endpoint is the address of a service, as batch: the variable of gcloud's that overrides it, or Google's own.
func Endpoint(service string) string {
	if over := os.Getenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_" + strings.ToUpper(service)); over != "" {
		return strings.TrimSuffix(over, "/")
	}
	return "https://" + service + ".googleapis.com"
}

// Call is one request.
type Call struct {
	Doing  string // for errors: "create the job"
	Method string
	URL    string
	In     any // as JSON; nil: nothing
	Out    any // a pointer; nil: the answer is not read
}

// mostAnswer is the most that is read of an answer, in bytes.
const mostAnswer = 64 << 20

// Do sends a request. A service that is busy, or gives no answer, is asked again, so a request has to be one that can be sent twice. The errors
// of refusals are of the kinds fault.Invalid, Denied and Full; another one says that the request may have been done.
func (c *Caller) Do(ctx context.Context, q Call) error {
	var body []byte
	if q.In != nil {
		var err error
		if body, err = json.Marshal(q.In); err != nil {
			return err
		}
	}
	wait := c.Wait
	if wait == 0 {
		wait = Patience
	}
	for began, pause := time.Now(), 500*time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := c.once(ctx, q, body)
		var away *cloud.Away
		if !errors.As(err, &away) || time.Since(began) >= wait {
			return err
		}
		if err := cloud.System.Sleep(ctx, pause/2+rand.N(pause)); err != nil {
			return err
		}
	}
}

// once sends a request once. A *cloud.Away may be sent again.
func (c *Caller) once(ctx context.Context, q Call, body []byte) error {
	token, err := c.Tokens.Get(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if q.In != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	token.Sign(req.Header, "")
	resp, err := c.Over.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &cloud.Away{Doing: q.Doing, Err: google.Bare(err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		if resp.StatusCode == http.StatusUnauthorized {
			c.Tokens.Reject(token.Value)
		}
		return refusal(q.Doing, resp)
	}
	if q.Out == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer)) // what is left unread costs the connection
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return &cloud.Away{Doing: q.Doing, Err: google.Bare(err)}
	}
	if json.Unmarshal(text, q.Out) != nil {
		return fault.New(fault.Lost, "", "%s: the answer is not JSON", q.Doing)
	}
	return nil
}

// disabled is how Google says that an interface is not enabled for a project.
var disabled = regexp.MustCompile(`API has not been used in project|googleapis\.com is disabled`)

// said is what a service says of a request that it refuses.
type said struct {
	code  int
	words string
}

func (s *said) Error() string { return fmt.Sprintf("the server says %d: %s", s.code, s.words) }

// Is has errors.Is find ErrNotFound, ErrExists and ErrChanged.
func (s *said) Is(target error) bool {
	return target == ErrNotFound && s.code == http.StatusNotFound || target == ErrExists && s.code == http.StatusConflict || target == ErrChanged && s.code == http.StatusPreconditionFailed
}

// refusal is the error of an answer that refuses.
func refusal(doing string, resp *http.Response) error {
	r := &said{resp.StatusCode, google.ReadRefusal(resp).Message}
	switch {
	case r.code == http.StatusTooManyRequests, r.code >= 500:
		return &cloud.Away{Doing: doing, Err: r}
	case r.code == http.StatusNotFound:
		return fault.Wrap(r, fault.Missing, "", "%s", doing)
	case r.code == http.StatusUnauthorized:
		return fault.Wrap(r, fault.Denied, google.SignInHint, "%s", doing)
	case r.code == http.StatusForbidden && disabled.MatchString(r.words):
		return fault.Wrap(r, fault.Denied, "Run `gcloud services enable batch.googleapis.com compute.googleapis.com logging.googleapis.com secretmanager.googleapis.com`.", "%s", doing)
	case r.code == http.StatusForbidden:
		return fault.Wrap(r, fault.Denied, "", "%s", doing)
	}
	return fault.Wrap(r, fault.Invalid, "", "%s", doing)
}
