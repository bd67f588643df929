package gcs

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

var (
	// errStale marks a refusal of credentials that fresh ones may not meet.
	errStale = errors.New("the credentials were not accepted")
	// errNoSession: the server knows nothing of an upload that was begun.
	errNoSession = errors.New("the upload is no longer known")
	// errPastEnd: the object is there, and ends before the range that was asked for.
	errPastEnd = errors.New("past the end")
	// errDamaged: the server counted another checksum, and kept nothing.
	errDamaged = errors.New("what was sent arrived damaged")
)

// forbidden is the server's reason for a no to whom it knows.
type forbidden string

func (f forbidden) Error() string { return string(f) }

// statusIncomplete answers a part of an upload: more is wanted.
const statusIncomplete = http.StatusPermanentRedirect

// said is the server's own reason.
type said struct {
	reason  string // a word for programs; empty where the body was no JSON
	message string // one line for people
}

// listen reads the body of a refusal. What is read is for people: any of it may be missing.
func listen(resp *http.Response) said {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var whole struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	s := said{message: string(body)}
	if json.Unmarshal(body, &whole) == nil {
		s.message = whole.Error.Message
		if len(whole.Error.Errors) > 0 {
			s.reason = whole.Error.Errors[0].Reason
		}
	}
	s.message = line(s.message)
	if s.message == "" {
		s.message = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	return s
}

// line makes one short printable line of what a stranger sent.
func line(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return strings.TrimSuffix(strings.ToValidUTF8(s, "?"), ".")
}

func (s said) noBucket() bool { return strings.Contains(s.message, "bucket does not exist") }

// damaged: what arrived is not what was sent, and so it was not kept.
func (s said) damaged() bool { return strings.Contains(strings.ToLower(s.message), "crc32c") }

func (s said) throttled() bool {
	return s.reason == "rateLimitExceeded" || s.reason == "userRateLimitExceeded" || s.reason == "quotaExceeded"
}

func (s said) payer() bool {
	return s.reason == "userProjectMissing" || strings.Contains(s.message, "requester pays")
}

// refused says what an answer means for the object, and what to do next.
func (b *Bucket) refused(c *call, status int, s said, signed bool) error {
	lost := store.ErrBusy
	if c.landed != nil && c.landed() {
		lost = store.ErrUnclear
	}
	bucket := scheme + b.name
	switch {
	case status == http.StatusPreconditionFailed: // nothing of ours but Create has a condition
		return fmt.Errorf("%s: %w", c.doing, store.ErrExists)
	case status == http.StatusNotFound && c.free, status == http.StatusGone:
		return fmt.Errorf("%s: %w", c.doing, errNoSession)
	case status == http.StatusNotFound && (s.noBucket() || !c.names):
		return fault.New(fault.Missing, "Make it with gcloud storage buckets create "+bucket+", or name another with --store.",
			"%s: there is no bucket %s", c.doing, b.name)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", c.doing, store.ErrNotExist)
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && s.throttled():
		return fmt.Errorf("%s: %d %s: %w", c.doing, status, s.message, store.ErrBusy)
	case status == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%s: %w", c.doing, errPastEnd)
	case status == http.StatusBadRequest && s.damaged():
		return fmt.Errorf("%s: %w: %w", c.doing, errDamaged, store.ErrBusy)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500:
		return fmt.Errorf("%s: %d %s: %w", c.doing, status, s.message, lost)
	case s.payer():
		return fault.New(fault.Invalid, "Name the project that pays: export GOOGLE_CLOUD_QUOTA_PROJECT=PROJECT.", "%s: %s", c.doing, s.message)
	case status == http.StatusUnauthorized && signed && b.given.PassFile != "":
		// Whoever made the pass may renew it.
		return fmt.Errorf("%s: %w: %s: %w", c.doing, errStale, s.message, store.ErrBusy)
	case status == http.StatusUnauthorized && signed:
		return fault.Wrap(errStale, fault.Denied, signIn, "%s: %s", c.doing, s.message)
	case status == http.StatusUnauthorized:
		return fault.New(fault.Denied, signIn, "%s: %s", c.doing, s.message)
	case status == http.StatusForbidden:
		return fault.Wrap(forbidden(s.message), fault.Denied, "Let an owner run gcloud storage buckets add-iam-policy-binding "+bucket+
			" --member=user:YOU --role=roles/storage.objectUser, or name another store with --store.", "%s", c.doing)
	}
	return fault.New(fault.Invalid, "", "%s: %d %s", c.doing, status, s.message)
}

const signIn = "Run gcloud auth application-default login, or point GOOGLE_APPLICATION_CREDENTIALS at a file of credentials."

// distrusted is an answer from a server that is not the one we want; nil for any
// other error.
func distrusted(err error, endpoint string) error {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if !errors.As(err, &cert) && !errors.As(err, &record) {
		return nil
	}
	return fault.Wrap(bare(err), fault.Denied, "Look at it with curl -v "+endpoint+"/, and at HTTPS_PROXY and this machine's clock.",
		"trust %s", endpoint)
}

// bare leaves out the address, which the text has in a better form and which is
// a credential where it is that of an upload.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
