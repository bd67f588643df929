package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithy "github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// stall is how long a connection may move no byte, in either direction. S3 ends
// one itself after 20 s without a byte from us, and keeps sending blanks while
// it puts parts together; other servers are silent for as long as that takes.
const stall = 60 * time.Second

// idle is how long an unused connection is kept.
const idle = 30 * time.Second

// early is how long before their end credentials are renewed. A role's are given
// out new 5 minutes before; less than that would meet the old ones again.
const early = 4 * time.Minute

// connect makes the client from the place's words and this machine's
// configuration: files and environment are read, nothing is sent.
func (b *Bucket) connect(ctx context.Context) (*s3.Client, error) {
	if b.passFile != "" {
		return b.connectPassed()
	}
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(transport()),
		config.WithLogger(logging.Nop{}), // what matters is in the errors
		// Package store retries: an answer must be known as it was given.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithCredentialsCacheOptions(renewEarly),
	}
	if b.given.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(b.given.Profile))
	}
	if b.given.Region != "" {
		load = append(load, config.WithRegion(b.given.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		var none config.SharedConfigProfileNotExistError
		if errors.As(err, &none) {
			return nil, fault.New(fault.Invalid, "Try aws configure list-profiles.", "open store s3://%s: there is no profile %q", b.bucket, none.Profile)
		}
		return nil, fault.Wrap(err, fault.Invalid, "Look at ~/.aws/config and the AWS_ variables: env | grep ^AWS_.", "open store s3://%s: read the configuration", b.bucket)
	}
	if cfg.Region == "" {
		cfg.Region = anyRegion
	}
	b.config = cfg
	b.creds = &renewing{from: cfg.Credentials, clock: b.clock}
	cfg.Credentials, b.config.Credentials = b.creds, b.creds
	if b.given.Anonymous {
		cfg.Credentials = aws.AnonymousCredentials{}
	}
	client := s3.NewFromConfig(cfg, b.settle)
	// It is part of the store's name, which agents have as an argument and records hold.
	at := aws.ToString(client.Options().BaseEndpoint)
	if why := (Options{Endpoint: at}).wrong(); why != "" {
		at, _, _ = strings.Cut(store.Shown(at), "?")
		return nil, fault.New(fault.Invalid, "Write it as http://host:9000 or https://host: AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, or endpoint_url in ~/.aws/config.",
			"open store s3://%s: %q is not the address of a server: %s", b.bucket, at, why)
	}
	return client, nil
}

// connectPassed makes the client from a pass. Of this machine's configuration it
// takes the certificates alone: a profile here may be another one of the same name.
func (b *Bucket) connectPassed() (*s3.Client, error) {
	pass := passed{b.passFile}
	f, err := pass.read()
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, renewHint, "open store s3://%s: read the credential", b.bucket)
	}
	client := transport()
	if file := os.Getenv("AWS_CA_BUNDLE"); file != "" {
		roots, err := certificates(file)
		if err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "Look at AWS_CA_BUNDLE.", "open store s3://%s", b.bucket)
		}
		client = client.WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} })
	}
	b.creds = &renewing{from: aws.NewCredentialsCache(pass, renewEarly), clock: b.clock}
	return s3.NewFromConfig(aws.Config{Region: cmp.Or(b.given.Region, f.Region, anyRegion), HTTPClient: client, Logger: logging.Nop{},
		Retryer: func() aws.Retryer { return aws.NopRetryer{} }, Credentials: b.creds}, b.settle), nil
}

func certificates(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read %s: it holds no certificates", file)
	}
	return roots, nil
}

// renewEarly has credentials looked for before they end.
func renewEarly(o *aws.CredentialsCacheOptions) {
	o.ExpiryWindow, o.ExpiryWindowJitterFrac = early, 0.5
}

// anyRegion will do where none is said: the answer names the right one.
const anyRegion = "us-east-1"

// settle is how we differ from the SDK's defaults.
func (b *Bucket) settle(o *s3.Options) {
	if b.given.Endpoint != "" {
		o.BaseEndpoint = aws.String(strings.TrimRight(b.given.Endpoint, "/"))
	}
	// A server behind one name has no names for its buckets, and a certificate
	// for *.s3.amazonaws.com is good for none with a dot in its name.
	o.UsePathStyle = b.given.PathStyle || o.BaseEndpoint != nil || strings.Contains(b.bucket, ".")
	// We send a checksum with every body, as a header: other servers refuse the
	// trailers that the SDK would add by itself.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
	o.DisableLogOutputChecksumValidationSkipped = true
	o.DisableS3ExpressSessionAuth = aws.Bool(true)
}

// transport is one for each Bucket: HTTP/1.1, which is what S3 speaks, with a
// connection for each request under way. It takes AWS_CA_BUNDLE and proxies from
// the environment.
func transport() *awshttp.BuildableClient {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &moving{Conn: c}, nil
		}
		t.ForceAttemptHTTP2 = false
		t.TLSHandshakeTimeout = 10 * time.Second
		t.MaxIdleConns = 0 // of all hosts: there is one
		t.MaxIdleConnsPerHost = 64
		t.IdleConnTimeout = idle
		t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
		t.DisableCompression = true // an object is what it is
	})
}

// moving is a connection that ends when it stands still: a peer that vanished
// behind a router says nothing, and a request would wait for ever.
type moving struct {
	net.Conn
	until atomic.Int64 // the deadline that is set, in unix nanoseconds
}

// push moves the deadline on, once in a while: it is a timer in the runtime.
func (m *moving) push() {
	now := time.Now()
	if m.until.Load()-now.UnixNano() < int64(stall*3/4) {
		until := now.Add(stall)
		m.until.Store(until.UnixNano())
		_ = m.SetDeadline(until) // on a closed connection, which the next call says
	}
}

func (m *moving) Read(p []byte) (int, error) {
	m.push()
	n, err := m.Conn.Read(p)
	if n > 0 {
		m.push()
	}
	return n, err
}

func (m *moving) Write(p []byte) (int, error) {
	m.push()
	return m.Conn.Write(p)
}

// renewing are credentials whose failure can be told from the server's, and
// which can be told to look again. They are renewed early, so where nobody gives
// out new ones just then, the old ones are used to their end.
type renewing struct {
	from  aws.CredentialsProvider
	clock store.Clock

	mu  sync.Mutex
	had aws.Credentials // the newest
}

// noCredentials says that none were found, or that they could not be renewed.
type noCredentials struct {
	err error
	had bool // there were some: who gives them out is away, and will be back
}

// Error leaves the vendor's words out where there is nothing to mend but that a person
// signs in.
func (n *noCredentials) Error() string {
	if !n.nowhere() {
		return n.err.Error()
	}
	_, why, _ := strings.Cut(n.err.Error(), "operation error ec2imds: ")
	return "the environment and profiles hold none, and this machine has no role (EC2 IMDS: " + cmp.Or(why, "none found") + ")"
}
func (n *noCredentials) Unwrap() error { return n.err }

// nowhere says that all places were looked at, down to the machine's own role: who
// has credentials that cannot be used is told of those.
func (n *noCredentials) nowhere() bool { return !n.had && strings.Contains(n.err.Error(), "EC2 IMDS") }

// away says that nothing is wrong but the way to whoever gives them out. Before the
// first ones that looks as on a machine that has none.
func (n *noCredentials) away() bool {
	var below net.Error
	var said smithy.APIError
	a := hear(n.err)
	theirs := errors.As(n.err, &said) && said.ErrorFault() == smithy.FaultServer
	return n.had && (theirs || a.throttled() || a.status >= 500 || a.status == 0 && errors.As(n.err, &below))
}

func (r *renewing) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := r.from.Retrieve(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.had = c
	case r.had.CanExpire && r.clock.Now().Before(r.had.Expires.Add(early/2)): // the least that was taken off
		return r.had, nil
	default:
		err = &noCredentials{err, r.had.HasKeys()}
	}
	return c, err
}

// renew drops what is known, and says whether it could.
func (r *renewing) renew() bool {
	r.mu.Lock()
	r.had.CanExpire = false // the server has refused them
	r.mu.Unlock()
	cache, ok := r.from.(*aws.CredentialsCache)
	if ok {
		cache.Invalidate()
	}
	return ok
}

// turn mends what an answer says about where or as whom we ask, and says whether
// to ask again.
func (b *Bucket) turn(ctx context.Context, asked *client, a answer) bool {
	var none *noCredentials
	switch {
	case errors.As(a.err, &none):
		return b.unsign(asked, none)
	case a.code == "ExpiredToken" || a.code == "ExpiredTokenException" || a.code == "TokenRefreshRequired":
		return b.creds.renew()
	case a.code == "RequestTimeTooSkewed":
		return true // the server's time was taken from the answer, and is signed by
	case a.status == http.StatusMovedPermanently, a.status == http.StatusTemporaryRedirect,
		a.code == "AuthorizationHeaderMalformed", a.code == "IllegalLocationConstraintException":
		return b.find(ctx, asked, a)
	}
	return false
}

// unsign goes on without credentials, where that is allowed.
func (b *Bucket) unsign(asked *client, none *noCredentials) bool {
	if b.given.Unsigned == nil || !none.nowhere() {
		return false
	}
	b.turning.Lock()
	defer b.turning.Unlock()
	if b.client.Load() == asked {
		o := asked.Options()
		o.Credentials = aws.AnonymousCredentials{}
		b.client.Store(b.clientOf(another(o)))
		b.unsigned.Store(true)
		b.given.Unsigned()
	}
	return true
}

// find goes to the region where the bucket is.
func (b *Bucket) find(ctx context.Context, asked *client, a answer) bool {
	b.turning.Lock()
	defer b.turning.Unlock()
	now := b.client.Load()
	if now != asked {
		return true // somebody else has found it
	}
	region := a.region
	if region == "" {
		// The header comes with a refusal too, and needs no right to the bucket.
		out, err := now.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.bucket})
		if err != nil {
			region = hear(err).region
		} else {
			region = aws.ToString(out.BucketRegion)
		}
	}
	o := now.Options()
	if region == "" || region == o.Region {
		return false
	}
	o.Region = region
	b.client.Store(b.clientOf(another(o)))
	return true
}
