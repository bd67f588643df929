// Package api asks the API server of a Kubernetes cluster: requests as the driver makes them, the
// answers in small structs of its own, and the server's refusals as errors.
//
// It links client-go's rest and clientcmd alone, for the kubeconfig, its certificates and its
// credential plugins; the typed clients would be as large as drover itself. It refuses to know
// what the objects are for. Proved over a fake API server, and over a real one.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Client sends requests to one API server.
type Client struct {
	http   *http.Client
	server string // without a slash at its end
}

// NewClient makes a client of what a kubeconfig says of a cluster and a user. It sends nothing.
func NewClient(c *rest.Config) (*Client, error) {
	c = rest.CopyConfig(c)
	c.UserAgent = "drover"
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	server := strings.TrimRight(c.Host, "/")
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	return &Client{h, server}, nil
}

// The media types of patches.
const (
	MergePatch     = "application/merge-patch+json"
	StrategicPatch = "application/strategic-merge-patch+json"
)

// Request is one request of the API.
type Request struct {
	Method string
	Path   string // such as /api/v1/namespaces/train/pods
	Query  url.Values
	Patch  string // the media type of a PATCH; "": the body is an object
	Body   any    // sent as JSON; nil: none
}

const (
	// requestTime is the longest that one request may take; a watch may take longer.
	requestTime = 30 * time.Second
	// mostTries is how often a request is sent that the server asks to send later.
	mostTries = 8
	// mostAnswer bounds an answer, in bytes: a page of 500 pods is 4 MB.
	mostAnswer = 64 << 20
)

// Do sends a request and decodes the answer into v; nil: it is not read. Where the server asks to
// come later (429, 503 with Retry-After), it does. warnings are the server's own, as of a policy
// that the object violates. A refusal is an *Error.
func (c *Client) Do(ctx context.Context, r Request, v any) (warnings []string, err error) {
	for try := 1; ; try++ {
		once, cancel := context.WithTimeout(ctx, requestTime)
		resp, err := c.send(once, r)
		if err == nil {
			warnings = readWarnings(resp.Header)
			err = decode(resp.Body, v)
			resp.Body.Close()
		}
		cancel()
		var e *Error
		if !errors.As(err, &e) || e.Later == 0 || try == mostTries {
			return warnings, err
		}
		select {
		case <-time.After(e.Later):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// send sends a request once. An answer that is no success is an *Error.
func (c *Client) send(ctx context.Context, r Request) (*http.Response, error) {
	var body io.Reader
	if r.Body != nil {
		text, err := json.Marshal(r.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	address := c.server + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.Patch != "" {
		req.Header.Set("Content-Type", r.Patch)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			return nil, context.Cause(ctx)
		}
		var u *url.Error // its text would repeat method and address
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, &Unreachable{Server: c.server, Err: err}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(r, resp)
}

func decode(body io.Reader, v any) error {
	if v == nil {
		_, err := io.Copy(io.Discard, io.LimitReader(body, mostAnswer))
		return err
	}
	if err := json.NewDecoder(io.LimitReader(body, mostAnswer)).Decode(v); err != nil {
		return fmt.Errorf("read the answer of Kubernetes: %w", err)
	}
	return nil
}

// readWarnings reads the texts of headers such as
//
//	Warning: 299 - "would violate PodSecurity"
func readWarnings(h http.Header) (all []string) {
	for _, line := range h.Values("Warning") {
		if _, quoted, ok := strings.Cut(line, " - "); ok {
			if text, err := strconv.Unquote(quoted); err == nil {
				all = append(all, text)
			}
		}
	}
	return all
}

// Unreachable is a request without an answer.
type Unreachable struct {
	Server string
	Err    error
}

func (u *Unreachable) Error() string { return u.Server + " does not answer: " + u.Err.Error() }
func (u *Unreachable) Unwrap() error { return u.Err }

// Error is a refusal of the API server.
type Error struct {
	Code    int           // of HTTP
	Reason  string        // Kubernetes' word, such as Forbidden
	Message string        // for people
	Verb    string        // of what was refused: "create"
	Kind    string        // likewise: "jobs"
	Later   time.Duration // after which to try again; 0: the server does not say so
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s %s: HTTP status %d", e.Verb, e.Kind, e.Code)
	}
	return e.Message
}

// IsCode says whether err is a refusal with a status of HTTP.
func IsCode(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// refusal reads an answer that is no success.
func refusal(r Request, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what could be read says enough
	var status struct {
		Reason, Message string
		Details         struct{ RetryAfterSeconds int }
	}
	e := &Error{Code: resp.StatusCode, Verb: verb(r), Kind: kind(r.Path)}
	if json.Unmarshal(text, &status) == nil {
		e.Reason, e.Message = status.Reason, status.Message
	}
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		after = status.Details.RetryAfterSeconds
	}
	if after > 0 && (e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable) {
		e.Later = min(time.Duration(after)*time.Second, requestTime)
	}
	return e
}

// verb is Kubernetes' word for what a request does.
func verb(r Request) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	if _, name := split(r.Path); name == "" {
		return "list"
	}
	return "get"
}

// kind is the resource in a path, as a Role names it: "jobs", "pods/log".
func kind(path string) string {
	resource, _ := split(path)
	return resource
}

// split parts a path into its resource and the object's name; "": it is all of a namespace.
func split(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if i := len(parts); i > 3 && parts[0] == "apis" {
		parts = parts[3:]
	} else if i > 2 && parts[0] == "api" {
		parts = parts[2:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	resource = parts[0]
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return resource, name
}
