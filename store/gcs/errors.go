package gcs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

var (
	// errStale marks a refusal of credentials that may be accepted once they are renewed.
	errStale = errors.New("the credentials were not accepted")
	// errNoSession: the server knows nothing of an upload that was begun.
	errNoSession = errors.New("the upload is no longer known")
	// errPastEnd: the object exists, and ends before the requested range.
	errPastEnd = errors.New("past the end")
	// errDamaged: the server computed another checksum, and kept nothing.
	errDamaged = errors.New("what was sent arrived damaged")
)

// forbidden is the server's reason for refusing a caller that it knows.
type forbidden string

func (f forbidden) Error() string { return string(f) }

// statusIncomplete answers a part of an upload: more is wanted.
const statusIncomplete = http.StatusPermanentRedirect

// said is the server's own reason.
type said = google.Refusal

func noBucket(s said) bool { return strings.Contains(s.Message, "bucket does not exist") }

// damaged: other bytes arrived than were sent, and were not kept.
func damaged(s said) bool { return strings.Contains(strings.ToLower(s.Message), "crc32c") }

func throttled(s said) bool {
	return s.Reason == "rateLimitExceeded" || s.Reason == "userRateLimitExceeded" || s.Reason == "quotaExceeded"
}

func wantsPayer(s said) bool {
	return s.Reason == "userProjectMissing" || strings.Contains(s.Message, "requester pays")
}

// wrapRefusal says what an answer means for the object, and what to do next.
func (conn *connection) wrapRefusal(c *call, status int, s said, signed bool) error {
	lost := store.ErrBusy
	if c.landed != nil && c.landed() {
		lost = store.ErrUnclear
	}
	bucket := scheme + conn.name
	switch {
	case status == http.StatusPreconditionFailed: // nothing of ours but Create has a condition
		return fmt.Errorf("%s: %w", c.doing, store.ErrExists)
	case status == http.StatusNotFound && c.free, status == http.StatusGone:
		return fmt.Errorf("%s: %w", c.doing, errNoSession)
	case status == http.StatusNotFound && (noBucket(s) || !c.names):
		return fault.New(fault.Missing, "Make it with `gcloud storage buckets create "+bucket+"`, or name another with `--store`.",
			"%s: there is no bucket %s", c.doing, conn.name)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", c.doing, store.ErrNotExist)
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && throttled(s):
		return fmt.Errorf("%s: %d %s: %w", c.doing, status, s.Message, store.ErrBusy)
	case status == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%s: %w", c.doing, errPastEnd)
	case status == http.StatusBadRequest && damaged(s):
		return fmt.Errorf("%s: %w: %w", c.doing, errDamaged, store.ErrBusy)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500:
		return fmt.Errorf("%s: %d %s: %w", c.doing, status, s.Message, lost)
	case wantsPayer(s):
		return fault.New(fault.Invalid, "Name the project that pays: `export GOOGLE_CLOUD_QUOTA_PROJECT=PROJECT`.", "%s: %s", c.doing, s.Message)
	case status == http.StatusUnauthorized && signed && conn.given.PassFile != "":
		// The maker of the credential may renew it.
		return fmt.Errorf("%s: %w: %s: %w", c.doing, errStale, s.Message, store.ErrBusy)
	case status == http.StatusUnauthorized && signed:
		return fault.Wrap(errStale, fault.Denied, google.SignInHint, "%s: %s", c.doing, s.Message)
	case status == http.StatusUnauthorized:
		return fault.New(fault.Denied, google.SignInHint, "%s: %s", c.doing, s.Message)
	case status == http.StatusForbidden:
		return fault.Wrap(forbidden(s.Message), fault.Denied, "Let an owner run `gcloud storage buckets add-iam-policy-binding "+bucket+
			" --member=user:YOU --role=roles/storage.objectUser`, or name another store with `--store`.", "%s", c.doing)
	}
	return fault.New(fault.Invalid, "", "%s: %d %s", c.doing, status, s.Message)
}

// distrusted is the error for an answer from another server than the one we want; nil for any
// other error.
func distrusted(err error, endpoint string) error {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if !errors.As(err, &cert) && !errors.As(err, &record) {
		return nil
	}
	return fault.Wrap(google.Bare(err), fault.Denied, "Look at it with `curl -v "+endpoint+"/`, and at HTTPS_PROXY and this machine's clock.",
		"trust %s", endpoint)
}

// storeBusy makes package store try again where an account's service is away.
func storeBusy(err error) error {
	var away *cloud.Away
	if errors.As(err, &away) {
		return fmt.Errorf("%w: %w", err, store.ErrBusy)
	}
	return err
}
