// Package s3 keeps objects in a bucket of Amazon S3, or of a server that speaks
// its protocol and honours If-None-Match (MinIO, versitygw, Ceph, R2).
//
// Create is one PUT with If-None-Match: *, or the same condition on the end of a multipart
// upload: the server decides, in one place, which request was first. This package only
// translates the server's answers (errors.go); package store tells the caller's own object
// from another writer's, and does retries and back-off. In addition to a request, this package
// finds the bucket's region, renews credentials before they end, sends fewer requests to an
// overloaded bucket (limit.go), sends parts in parallel, and goes on with a long read where a
// connection broke.
//
// It refuses to know what the objects are. storetest proves it over a strict
// server in memory (s3test), over one that loses answers, and over a real one.
package s3

import (
	"cmp"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/store"
)

// patience is how long to try a server that has never answered. It is short for the sake of a
// mistyped name; for a server that has answered before, package store waits as long as its
// caller does.
const patience = 20 * time.Second

// Options say how to reach a bucket. The zero value takes it from the environment and the
// profile, as the vendor's tools do: AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, ~/.aws, a machine's role.
type Options struct {
	Endpoint  string // http(s)://host:port of a server that is not Amazon's
	Region    string // where the bucket is; corrected if it is elsewhere
	Profile   string // in ~/.aws
	PathStyle bool   // the bucket in the path, not in the host's name; always with an endpoint
	Anonymous bool   // unsigned requests, for public buckets
	Owner     string // the account the bucket must belong to, 12 digits; "": any
	// PassFile is the path of a file that Pass made. It is read again before its credential
	// ends and when that is refused; while the credential has ended, requests are busy. It
	// comes before a profile and all credentials of the environment. "": none.
	PassFile string

	// Foreign opens the bucket for names that drover does not make: names that no key may have
	// are listed, read and written too (store.CheckName).
	Foreign bool
	// Unsigned allows requests without credentials where this machine has none, as for public
	// buckets, and is called once when they begin. Nil: such requests fail.
	Unsigned func()

	Clock    store.Clock   // nil: store.System
	Patience time.Duration // for a server that has never answered; 0: 20 s
}

// Bucket is a prefix in a bucket. Its methods may be called from many goroutines.
type Bucket struct {
	place
	text    string
	conn    *connection
	buffers *bufferPool
}

var _ store.Bucket = (*Bucket)(nil)

// Open reads url, s3://bucket/prefix with what Options has as a query, and the configuration
// on this machine. It sends nothing: the first request shows whether the bucket exists and may
// be used. Where url and o differ, url counts.
func Open(ctx context.Context, url string, o Options) (*Bucket, error) {
	p, err := parse(url, o)
	if err != nil {
		return nil, err
	}
	c := &connection{place: p, clock: o.Clock, patience: cmp.Or(o.Patience, patience), passFile: o.PassFile}
	if c.clock == nil {
		c.clock = store.System
	}
	c.limit = newLimiter(c.clock)
	theirs, err := c.connectClient(ctx)
	if err != nil {
		return nil, err
	}
	c.client.Store(c.newClient(theirs))
	text := p.displayURL(aws.ToString(theirs.Options().BaseEndpoint))
	return &Bucket{place: p, text: text, conn: c, buffers: &bufferPool{room: make(chan struct{}, maxBuffers)}}, nil
}

// String is the URL that opens the same bucket from any machine. It holds no secrets.
func (b *Bucket) String() string { return b.text }

// checkKey refuses what is no key here.
func (b *Bucket) checkKey(key string) error {
	if b.given.Foreign {
		return store.CheckName(key)
	}
	return store.CheckKey(key)
}

// As is the URL that opens the same place with a profile of the opener's own machine.
func (b *Bucket) As(profile string) string {
	p := b.place
	p.given.Profile, p.given.Anonymous = profile, false
	return p.displayURL(aws.ToString(b.conn.client.Load().Options().BaseEndpoint))
}

// Profile is the profile that the URL or Options name; "": none.
func (b *Bucket) Profile() string { return b.given.Profile }
