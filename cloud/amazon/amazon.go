// Package amazon opens AWS from this machine: it finds the credential, the region and the
// connections to use. Credentials come from where the vendor's tools have them, in their
// order: environment, profile, SSO, a role that a profile or a web identity names, a
// container's, an instance's; or from a file that was handed over (File). They are renewed
// before they end, and narrowed to what a policy allows (Sessions).
//
// A store and a driver open an Account each and make the clients of their services from its
// Config. Nothing is sent before a client sends something.
//
// It refuses to know what is asked of a service. Its tests prove it, and those of store/s3.
package amazon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/fault"
)

// Options choose the account. The zero value takes it from the environment and the default profile.
type Options struct {
	Profile string // in ~/.aws; "": AWS_PROFILE, or default
	Region  string // "": AWS_REGION, or the profile's
	// File is the path of a file that File.Bytes made. It comes before a profile and before
	// all credentials in the environment. It is read again before its credentials end, and
	// when they are refused. "": none.
	File  string
	Clock cloud.Clock // nil: cloud.System
}

// Account is what the clients of AWS's services need.
type Account struct {
	// Config is for the clients of services. They send each request once, so that its answer
	// is known as it was given; cloud.Retry, or package store, sends it again. Region may be "".
	Config      aws.Config
	Credentials *Credentials // those of Config
	clock       cloud.Clock
}

// early is how long before their end credentials are renewed. AWS makes new ones for a role
// only 5 minutes before the old ones end; an earlier request would get the old ones again.
const early = 4 * time.Minute

// Open reads the files and the environment of this machine. It sends nothing, except that it
// looks up the host name in AWS_CONTAINER_CREDENTIALS_FULL_URI, if there is one. Its errors
// say what to repair, and not what was being done.
func Open(ctx context.Context, o Options) (*Account, error) {
	a := &Account{clock: o.Clock}
	if a.clock == nil {
		a.clock = cloud.System
	}
	if o.File != "" {
		return a, a.openFile(o)
	}
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(newClient()),
		config.WithLogger(logging.Nop{}), // all that matters is in the errors
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithCredentialsCacheOptions(renewEarly),
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		var none config.SharedConfigProfileNotExistError
		if errors.As(err, &none) {
			return nil, fault.New(fault.Invalid, listHint, "there is no profile %q", none.Profile)
		}
		return nil, fault.Wrap(err, fault.Invalid, configHint, "read the configuration")
	}
	a.use(c, c.Credentials)
	return a, nil
}

// openFile makes the account of a file. From this machine's configuration it takes only the
// certificates: a profile here may be another one of the same name.
func (a *Account) openFile(o Options) error {
	from := fileProvider{o.File}
	f, err := from.read()
	if err != nil {
		return fmt.Errorf("read the credential: %w", err)
	}
	client := newClient()
	if file := os.Getenv("AWS_CA_BUNDLE"); file != "" {
		roots, err := certificates(file)
		if err != nil {
			return fault.Wrap(err, fault.Invalid, "Look at AWS_CA_BUNDLE.", "trust its certificates")
		}
		client = client.WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} })
	}
	a.use(aws.Config{Region: cmp.Or(o.Region, f.Region), HTTPClient: client, Logger: logging.Nop{},
		Retryer: func() aws.Retryer { return aws.NopRetryer{} }}, aws.NewCredentialsCache(from, renewEarly))
	return nil
}

func (a *Account) use(c aws.Config, from aws.CredentialsProvider) {
	a.Credentials = &Credentials{from: from, clock: a.clock}
	c.Credentials = a.Credentials
	a.Config = c
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

// renewEarly makes the cache renew credentials before they end.
func renewEarly(o *aws.CredentialsCacheOptions) {
	o.ExpiryWindow, o.ExpiryWindowJitterFrac = early, 0.5
}
