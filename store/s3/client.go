package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// connectClient makes the client from the place and this machine's configuration. It reads
// files and the environment, and sends nothing.
func (c *connection) connectClient(ctx context.Context) (*s3.Client, error) {
	account, err := amazon.Open(ctx, amazon.Options{Profile: c.given.Profile, Region: c.given.Region, File: c.passFile, Clock: c.clock})
	switch {
	case err != nil && c.passFile != "" && fault.Hint(err) == "":
		return nil, fault.Wrap(err, fault.Invalid, renewHint, "open store s3://%s", c.bucket)
	case err != nil:
		return nil, fmt.Errorf("open store s3://%s: %w", c.bucket, err)
	}
	c.account = account
	cfg := account.Config
	cfg.Region = cmp.Or(cfg.Region, anyRegion)
	if c.given.Anonymous && c.passFile == "" {
		cfg.Credentials = aws.AnonymousCredentials{}
	}
	client := s3.NewFromConfig(cfg, c.adjustOptions)
	if c.passFile != "" {
		return client, nil
	}
	// It is part of the store's name, which agents have as an argument and records hold.
	at := aws.ToString(client.Options().BaseEndpoint)
	if why := (Options{Endpoint: at}).whatIsWrong(); why != "" {
		at, _, _ = strings.Cut(store.Shown(at), "?")
		return nil, fault.New(fault.Invalid, "Write it as http://host:9000 or https://host: AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, or endpoint_url in ~/.aws/config.",
			"open store s3://%s: %q is not the address of a server: %s", c.bucket, at, why)
	}
	return client, nil
}

// anyRegion is used where none is named: the answer names the right one.
const anyRegion = "us-east-1"

// adjustOptions sets the options that differ from the SDK's defaults.
func (c *connection) adjustOptions(o *s3.Options) {
	if c.given.Endpoint != "" {
		o.BaseEndpoint = aws.String(strings.TrimRight(c.given.Endpoint, "/"))
	}
	// A server behind one name has no names for its buckets, and a certificate
	// for *.s3.amazonaws.com is good for none with a dot in its name.
	o.UsePathStyle = c.given.PathStyle || o.BaseEndpoint != nil || strings.Contains(c.bucket, ".")
	// We send a checksum with every body, as a header: other servers refuse the
	// trailers that the SDK would add by itself.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
	o.DisableLogOutputChecksumValidationSkipped = true
	o.DisableS3ExpressSessionAuth = aws.Bool(true)
}

// mendRequest corrects the region, credentials or clock as an answer says, and says whether
// to send the request again.
func (c *connection) mendRequest(ctx context.Context, asked *client, a answer) bool {
	var none *amazon.NoCredentials
	switch {
	case errors.As(a.Err, &none):
		return c.dropSigning(asked, none)
	case a.Expired():
		return c.account.Credentials.Renew()
	case a.Code == "RequestTimeTooSkewed":
		return true // the server's time is in the answer, and the next request is signed with it
	case a.Status == http.StatusMovedPermanently, a.Status == http.StatusTemporaryRedirect,
		a.Code == "AuthorizationHeaderMalformed", a.Code == "IllegalLocationConstraintException":
		return c.findRegion(ctx, asked, a)
	}
	return false
}

// dropSigning goes on without credentials, where that is allowed.
func (c *connection) dropSigning(asked *client, none *amazon.NoCredentials) bool {
	if c.given.Unsigned == nil || !none.Nowhere() {
		return false
	}
	c.turning.Lock()
	defer c.turning.Unlock()
	if c.client.Load() == asked {
		o := asked.Options()
		o.Credentials = aws.AnonymousCredentials{}
		c.client.Store(c.newClient(another(o)))
		c.unsigned.Store(true)
		c.given.Unsigned()
	}
	return true
}

// findRegion goes to the region where the bucket is.
func (c *connection) findRegion(ctx context.Context, asked *client, a answer) bool {
	c.turning.Lock()
	defer c.turning.Unlock()
	now := c.client.Load()
	if now != asked {
		return true // another request has found it
	}
	region := a.Region
	if region == "" {
		// The header comes with a refusal too, and needs no right to the bucket.
		out, err := now.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &c.bucket})
		if err != nil {
			region = hear(err).Region
		} else {
			region = aws.ToString(out.BucketRegion)
		}
	}
	o := now.Options()
	if region == "" || region == o.Region {
		return false
	}
	o.Region = region
	c.client.Store(c.newClient(another(o)))
	return true
}
