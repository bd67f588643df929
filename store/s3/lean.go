package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/encoding/httpbinding"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Most requests put one body or get one object, and the SDK takes some sixty steps for each,
// which cost more than all the rest of a small copy. So these two kinds are filled in and sent
// here. The SDK still decides what they look like: for each kind it makes one request, which
// is caught and kept as a pattern. Hosts, paths, headers and the region that is signed for all
// come from the pattern. TestLeanRequestsAreTheSDKs compares the two.

// client is the SDK's client, and sends those two kinds itself.
type client struct {
	*s3.Client
	o        s3.Options
	skew     atomic.Int64 // how far the server's clock is ahead of ours, by its newest answer
	put, get func() (*pattern, error)
}

// newClient makes a client that sends as theirs does, to the bucket.
func (c *connection) newClient(theirs *s3.Client) *client {
	n := &client{Client: theirs, o: theirs.Options()}
	n.put = sync.OnceValues(func() (*pattern, error) {
		return n.learnPattern(func(ctx context.Context, theirs *s3.Client) error {
			_, err := theirs.PutObject(ctx, &s3.PutObjectInput{Bucket: &c.bucket, Key: aws.String(nobodys), ExpectedBucketOwner: c.expectedOwner(),
				Body: strings.NewReader(nobodys), ContentLength: aws.Int64(1), ChecksumCRC32C: aws.String(nobodys)})
			return err
		})
	})
	n.get = sync.OnceValues(func() (*pattern, error) {
		return n.learnPattern(func(ctx context.Context, theirs *s3.Client) error {
			_, err := theirs.GetObject(ctx, &s3.GetObjectInput{Bucket: &c.bucket, Key: aws.String(nobodys), ExpectedBucketOwner: c.expectedOwner()})
			return err
		})
	})
	return n
}

// nobodys is the value for a key, a body, its checksum, and credentials while a pattern is made.
const nobodys = "0"

// pattern is one kind of request without the parts that differ from request to request: the
// key, headers of the body, conditions, time and signature.
type pattern struct {
	method          string
	url             url.URL
	path, raw       string // the path before the key: as it is, and as it is sent
	header          http.Header
	service, region string                    // signed for; "": not signed
	how             []func(*v4.SignerOptions) // signed
}

// pencil replaces the SDK's signer and HTTP client, and records what it is given.
type pencil struct {
	request *http.Request
	pattern
}

var errCaught = errors.New("caught")

func (p *pencil) SignHTTP(_ context.Context, _ aws.Credentials, _ *http.Request, _, service, region string, _ time.Time, how ...func(*v4.SignerOptions)) error {
	p.service, p.region, p.how = service, region, how
	return nil
}

func (p *pencil) Do(r *http.Request) (*http.Response, error) {
	p.request = r
	return nil, errCaught
}

// learnPattern makes the SDK build a request. Nothing is sent.
func (c *client) learnPattern(ask func(context.Context, *s3.Client) error) (*pattern, error) {
	var p pencil
	o := c.o
	o.HTTPClient, o.HTTPSignerV4, o.AuthSchemes = &p, &p, nil // the schemes hold a signer
	if o.Credentials != nil {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: nobodys, SecretAccessKey: nobodys}, nil
		})
	}
	err := ask(context.Background(), another(o))
	if p.request == nil {
		return nil, err // an invalid endpoint
	}
	p.method, p.url, p.header = p.request.Method, *p.request.URL, p.request.Header
	p.path, p.raw = strings.TrimSuffix(p.url.Path, nobodys), strings.TrimSuffix(p.url.EscapedPath(), nobodys)
	// The SDK's headers about its own tries; here each request has one.
	p.header.Del("Amz-Sdk-Invocation-Id")
	p.header.Del("Amz-Sdk-Request")
	p.header.Del("Content-Length") // net/http's to say
	return &p.pattern, nil
}

// another makes a client with options that were taken from a client: New writes into what
// they point to, while the first client is in use.
func another(o s3.Options) *s3.Client {
	o.ExpressCredentials = nil
	return s3.New(o)
}

const digest = "X-Amz-Content-Sha256"

// big bodies are sent only after the server has answered that it wants them: the SDK's figure.
const big = 2 << 20

// sendPattern fills a pattern in, with headers in pairs of which an empty value is none,
// and sends it. An answer that is none of 2xx is an error, as the SDK gives it.
func (c *client) sendPattern(ctx context.Context, p *pattern, key string, body []byte, more ...string) (*http.Response, error) {
	u := p.url
	u.Path, u.RawPath = p.path+key, p.raw+httpbinding.EscapePath(key, false)
	r := (&http.Request{Method: p.method, URL: &u, Host: u.Host, Header: p.header.Clone(), ContentLength: int64(len(body)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	for i := 0; i < len(more); i += 2 {
		if more[i+1] != "" {
			r.Header[more[i]] = more[i+1 : i+2]
		}
	}
	if len(body) > 0 {
		// Without GetBody: a redirected request is to be sent again by the caller.
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if len(body) >= big {
		r.Header.Set("Expect", "100-continue")
	}
	if r.Header.Get(digest) != "UNSIGNED-PAYLOAD" { // over TLS the SDK does not sign the body
		sum := sha256.Sum256(body)
		r.Header[digest] = []string{hex.EncodeToString(sum[:])}
	}
	if p.region != "" {
		if err := c.signRequest(r, p); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	resp, err := c.o.HTTPClient.Do(r)
	if err != nil {
		return nil, &smithyhttp.RequestSendError{Err: err}
	}
	c.noteServerTime(resp.Header, begun)
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp, nil
}

func (c *client) signRequest(r *http.Request, p *pattern) error {
	creds, err := c.o.Credentials.Retrieve(r.Context())
	if err != nil {
		return err
	}
	now := time.Now().Add(time.Duration(c.skew.Load()))
	return c.o.HTTPSignerV4.SignHTTP(r.Context(), creds, r, r.Header.Get(digest), p.service, p.region, now, p.how...)
}

// noteServerTime notes the server's clock, with which the next request is signed.
func (c *client) noteServerTime(h http.Header, asked time.Time) {
	took := time.Since(asked)
	if took > 15*time.Minute || c.o.DisableClockSkewCorrection || h.Get("Age") != "" {
		return // the time is not that of now
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		c.skew.Store(int64(theirs.Sub(asked.Add(took / 2))))
	}
}
