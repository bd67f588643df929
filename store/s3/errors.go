package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// answer is what the server answered when a request failed.
type answer = amazon.Answer

// hear reads the answer in an error of the SDK.
func hear(err error) answer { return amazon.ReadAnswer(err) }

// refusal makes an SDK error of an answer: without a body the status is its code; the code of
// a body that cannot be read is unknown. A 200 may be a refusal too, with Error in its body:
// then the request failed late.
func refusal(resp *http.Response) error {
	done := resp.StatusCode >= 200 && resp.StatusCode < 300
	if done && resp.ContentLength == 0 {
		return nil
	}
	var said struct {
		XMLName       xml.Name
		Code, Message string
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		if err = xml.Unmarshal(body, &said); err == io.EOF { // there is no element
			err = nil
		}
	}
	late := done && strings.EqualFold(said.XMLName.Local, "Error")
	if done && !late && err == nil {
		return nil
	}
	if late {
		resp.StatusCode = http.StatusInternalServerError
	}
	if said.Code == "" && said.Message == "" {
		said.Message = http.StatusText(resp.StatusCode)
		said.Code = strings.ReplaceAll(said.Message, " ", "")
	}
	if err == nil {
		err = &smithy.GenericAPIError{Code: cmp.Or(said.Code, "UnknownError"), Message: cmp.Or(said.Message, "UnknownError")}
	}
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err}
}

// damaged: the body arrived with other bytes than were sent, and was thrown away.
func damaged(a answer) bool {
	switch a.Code {
	case "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody", "RequestTimeout":
		return true
	}
	return false
}

// isHastyDenial: MinIO denies one write in some thousands, while it removes the folder that the
// last object of a prefix has left. A denial of Amazon's is final.
func (c *connection) isHastyDenial(a answer) bool {
	return a.Code == "AccessDenied" && c.wrote.Load() && !c.isAmazons()
}

// nameless: a refusal without an error code of S3's. Its body was cut off, or it comes from
// something that is no S3 server and will answer the same every time.
func nameless(a answer) bool {
	return a.Status >= 400 && a.Status < 500 && (a.Code == "" || a.Code == "UnknownError")
}

// final: a refusal of 5xx that will be the same the next time.
func final(a answer) bool {
	return a.Status == http.StatusNotImplemented || a.Code == "NotImplemented" || full(a)
}

// full: the server has no room.
func full(a answer) bool {
	return a.Status == http.StatusInsufficientStorage || a.Code == "QuotaExceeded" || a.Code == "XMinioStorageFull"
}

// wrapRefusal translates an answer into an error that store.Bucket promises. After a write,
// "not written" is only for answers that cannot follow a write that was done.
func (c *connection) wrapRefusal(ctx context.Context, doing string, a answer, write bool) error {
	unclear := store.ErrBusy // to read again does no harm
	if write {
		unclear = store.ErrUnclear
	}
	var creds *amazon.NoCredentials
	stop := context.Cause(ctx)
	switch {
	case stop != nil && write:
		// The answer came after ctx was done.
		return fmt.Errorf("%s: %w: %w", doing, stop, unclear)
	case stop != nil:
		return stop
	case errors.As(a.Err, &creds) && creds.Away():
		return fmt.Errorf("%s: find credentials: %w: %w", doing, creds, store.ErrBusy) // nothing was sent
	case errors.As(a.Err, &creds):
		return c.wrapDenied(doing, a)
	case a.Status == 0:
		return c.unreached(doing, a, unclear)
	case a.Throttled(), c.credentialEnded(a):
		return fmt.Errorf("%s: %w: %w", doing, a, store.ErrBusy)
	case write && a.Status == http.StatusPreconditionFailed:
		return fmt.Errorf("%s: %w", doing, store.ErrExists)
	case a.Code == "NoSuchBucket":
		return fault.Wrap(a, fault.Missing, "Check the name with `aws s3 ls`, or make it: `aws s3 mb s3://"+c.bucket+"`.", "%s", doing)
	case !write && a.Status == http.StatusNotFound && (a.Code == "NoSuchKey" || a.Code == "NoSuchVersion"):
		return fmt.Errorf("%s: %w", doing, store.ErrNotExist)
	case damaged(a):
		return c.wrapSpoilt(doing, a, unclear)
	case nameless(a) && c.damaged.Add(1) <= 10:
		return fmt.Errorf("%s: %w: %w", doing, a, unclear)
	case a.Code == "ConditionalRequestConflict", a.Code == "OperationAborted", a.Code == "NoSuchUpload",
		a.Status >= 500 && !final(a), a.Status < 300:
		return fmt.Errorf("%s: %w: %w", doing, a, unclear)
	}
	return c.wrapDenied(doing, a)
}

// wrapSpoilt: other bytes arrived than were sent. A network does that very rarely; if it
// happens every time, something between this machine and the server does it.
func (c *connection) wrapSpoilt(doing string, err, again error) error {
	if c.damaged.Add(1) > 10 {
		return fault.Wrap(err, fault.Lost, "Something between here and the server changes what is sent: try without HTTPS_PROXY and HTTP_PROXY.", "%s", doing)
	}
	return fmt.Errorf("%s: %w: %w", doing, err, again)
}

// unreached: no answer came. Over a connection that was never made nothing was sent.
func (c *connection) unreached(doing string, a answer, unclear error) error {
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	hint := c.reachHint()
	switch {
	case errors.Is(a.Err, http.ErrSchemeMismatch):
		unclear, hint = store.ErrBusy, "Write http:// in place of https:// in `--store-endpoint`, or where it is from: AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, or endpoint_url in ~/.aws/config."
	case errors.As(a.Err, &cert):
		unclear, hint = store.ErrBusy, "If the server is yours, name the authority that signed its certificate: SSL_CERT_FILE=ca.pem. Else see that `--store-endpoint` is right."
	case errors.As(a.Err, &dns), errors.As(a.Err, &op) && op.Op == "dial":
		unclear = store.ErrBusy
	}
	var api smithy.APIError
	var op2 *smithy.OperationError
	if errors.As(a.Err, &op2) && !errors.As(a.Err, &op) && !errors.As(a.Err, &dns) && !errors.As(a.Err, &api) && !amazon.Sent(a.Err) {
		// Refused before it was sent: a parameter, an endpoint that cannot be.
		return fault.Wrap(op2.Err, fault.Invalid, hint, "%s", doing)
	}
	// A write that may have arrived is not given up: it stays unclear.
	if unclear == store.ErrBusy && !c.met.Load() && c.lostPatience() {
		return fault.Wrap(a, fault.Lost, hint, "%s", doing)
	}
	return fmt.Errorf("%s: %w: %w", doing, a, unclear)
}

// lostPatience says whether a server that has never answered was tried long enough.
func (c *connection) lostPatience() bool {
	now := int64(c.clock.Boot())
	if c.tried.CompareAndSwap(0, now) {
		return false
	}
	return now-c.tried.Load() >= int64(c.patience)
}

func (c *connection) reachHint() string {
	if e := c.client.Load().Options().BaseEndpoint; e != nil {
		return "Try curl -i " + *e + ", and see that --store-endpoint is right."
	}
	return "See whether this machine reaches Amazon: curl -I https://s3.amazonaws.com, or name a server of yours with --store-endpoint."
}

// wrapDenied reports what the user has to correct.
func (c *connection) wrapDenied(doing string, a answer) error {
	kind, hint := fault.Denied, ""
	var creds *amazon.NoCredentials
	switch {
	case errors.As(a.Err, &creds):
		return fault.Wrap(creds, fault.Denied, c.signInHint(), "%s: find credentials", doing)
	case a.Expired(), a.Code == "InvalidToken":
		hint = c.signInHint()
	case a.Code == "InvalidAccessKeyId", a.Code == "XAdminUserNotFound": // versitygw says the second
		hint = "See which key is used with aws configure list, and whether it is still there."
	case a.Code == "SignatureDoesNotMatch":
		hint = "The secret key is not that of the access key: aws configure list shows where both come from."
	case a.Code == "RequestTimeTooSkewed", a.Code == "RequestExpired":
		hint = "This machine's clock is wrong: compare `date -u` with `curl -sI https://s3.amazonaws.com | grep -i ^date`, and set it."
	case a.Code == "AccessDenied" && c.given.Owner != "":
		hint = "See that account " + c.given.Owner + " owns it, and that you may use it: `aws s3api get-bucket-location --bucket " + c.bucket + " --expected-bucket-owner " + c.given.Owner + "`."
	case a.Code == "AccessDenied" && c.unsigned.Load():
		hint = c.signInHint()
	case a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized:
		hint = "Allow s3:GetObject, s3:PutObject and s3:ListBucket on " + c.bucket + " for the user that aws sts get-caller-identity names."
	case a.Status == http.StatusNotImplemented || a.Code == "NotImplemented":
		kind, hint = fault.Invalid, "Name a server that has conditional writes and multipart uploads with `--store-endpoint`."
	case a.Status == http.StatusMovedPermanently || a.Code == "AuthorizationHeaderMalformed" || a.Status == http.StatusTemporaryRedirect:
		kind, hint = fault.Invalid, "Say where it is: `--store 's3://"+c.bucket+"?region=eu-central-1'`; `aws s3api get-bucket-location --bucket "+c.bucket+"` knows."
	case full(a):
		kind, hint = fault.Full, "Free space in "+c.bucket+", or name another bucket with `--store`."
	case a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed:
		kind, hint = fault.Invalid, "Is it an S3 server? "+c.reachHint()
	case a.Code == "InvalidBucketName":
		kind, hint = fault.Invalid, "A bucket's name is of 3 to 63 lower-case letters, digits, dots and dashes: see yours with aws s3 ls."
	default:
		kind = fault.Invalid
	}
	return fault.Wrap(a, kind, hint, "%s", doing)
}

func (c *connection) signInHint() string {
	if c.passFile != "" {
		return renewHint // a holder of one has signed in nowhere
	}
	if p := c.given.Profile; p != "" {
		return "Sign in again: aws sso login --profile " + p + "."
	}
	return "Sign in with aws sso login or aws configure, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket add ?anonymous=true."
}
