// Package s3 keeps objects in a bucket of Amazon S3, or of a server that speaks
// its protocol and honours If-None-Match (MinIO, versitygw, Ceph, R2).
//
// Create is one PUT with If-None-Match: *, or the same condition on the end of a
// multipart upload: the server decides, in one place, which request was first. Its
// answers are only translated here (errors.go); package store tells the caller's own
// object from another writer's, and does retries and back-off. What is here on top
// of a request: the bucket's region is found, credentials are renewed before
// they end, an overloaded bucket is asked less often (limit.go), parts go in
// parallel, and a long read goes on where a connection broke.
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

// patience is how long a server that has never answered is tried for. No user
// waits for a mistyped name; package store waits for one that answered before
// as long as its caller does.
const patience = 20 * time.Second

// Options say how to reach a bucket. The zero value asks the environment and the
// profile, as the vendor's tools do: AWS_REGION, AWS_PROFILE,
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, ~/.aws, a machine's role.
type Options struct {
	Endpoint  string // http(s)://host:port of a server that is not Amazon's
	Region    string // where the bucket is; found out if it is another
	Profile   string // in ~/.aws
	PathStyle bool   // the bucket in the path, not in the host's name; always with an endpoint
	Anonymous bool   // unsigned requests, for public buckets
	Owner     string // the account the bucket must belong to, 12 digits; "": any
	// PassFile holds what Pass made, and is read again before that ends and when it
	// is refused; while it is stale, requests are busy. It comes before a profile and
	// all that the environment says of credentials. "": none.
	PassFile string

	// Foreign takes the bucket as it is: names that no key may have are listed,
	// read and written too (store.CheckName).
	Foreign bool
	// Unsigned allows to ask without credentials where this machine has none, as
	// for public buckets, and is told once when that begins. Nil: such requests fail.
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

// Open reads url, s3://bucket/prefix with what Options has as a query, and the
// configuration on this machine. It sends nothing: whether the bucket is there,
// and may be used, is said by the first request. A url's own words win over o.
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

// String is the URL that leads here from any machine. It holds no secrets.
func (b *Bucket) String() string { return b.text }

// checkKey refuses what is no key here.
func (b *Bucket) checkKey(key string) error {
	if b.given.Foreign {
		return store.CheckName(key)
	}
	return store.CheckKey(key)
}

// As is the URL that opens the same place as a profile of the opener's own machine.
func (b *Bucket) As(profile string) string {
	p := b.place
	p.given.Profile, p.given.Anonymous = profile, false
	return p.displayURL(aws.ToString(b.conn.client.Load().Options().BaseEndpoint))
}

// Profile is the one that its URL or Options name; "": none.
func (b *Bucket) Profile() string { return b.given.Profile }
