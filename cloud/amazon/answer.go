package amazon

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Answer is what a service answered when a request failed.
type Answer struct {
	Status       int    // HTTP's; 0: no answer came
	Code, Reason string // of the body; a proxy sends neither
	Region       string // where a bucket is, if it says so
	ID           string // of the request, for the owner of the server
	Err          error  // as the SDK returned it
}

// ReadAnswer reads the answer in an error of the SDK. For nil it is the zero value.
func ReadAnswer(err error) Answer {
	a := Answer{Err: err}
	var r *smithyhttp.ResponseError
	if errors.As(err, &r) && r.Response != nil {
		a.Status = r.Response.StatusCode
		a.Region = r.Response.Header.Get("X-Amz-Bucket-Region")
		a.ID = r.Response.Header.Get("X-Amz-Request-Id")
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		a.Code, a.Reason = api.ErrorCode(), api.ErrorMessage()
	}
	return a
}

// Error is one line: the server's own words, or the network's.
func (a Answer) Error() string {
	if a.Status == 0 {
		return unanswered(a.Err)
	}
	if a.cutOff() {
		return "the server's answer cannot be read: " + unread(a.Err)
	}
	text := fmt.Sprintf("the server says %d", a.Status)
	if a.Code != "" && a.Code != "UnknownError" {
		text += " " + a.Code
	}
	if a.Reason != "" && a.Reason != "UnknownError" {
		text += ": " + strings.TrimSuffix(strings.Join(strings.Fields(a.Reason), " "), ".")
	}
	if a.ID != "" && a.Status >= 400 {
		text += " (request " + a.ID + ")"
	}
	return text
}

// unanswered is why no answer came.
func unanswered(err error) string {
	var op *net.OpError
	var creds *NoCredentials
	var cert *tls.CertificateVerificationError
	var sending *url.Error
	switch {
	case errors.As(err, &creds):
		return creds.Error()
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server speaks http, not https"
	case errors.As(err, &cert):
		return cert.Err.Error()
	case errors.As(err, &op):
		return op.Error()
	case errors.As(err, &sending) && errors.Is(sending.Err, io.EOF):
		return "the server closed the connection without an answer"
	case errors.As(err, &sending):
		return sending.Err.Error()
	}
	return err.Error()
}

// cutOff says whether the answer was that all is well, and could not be read to its end.
func (a Answer) cutOff() bool { return a.Status >= 200 && a.Status < 300 }

// unread is why an answer could not be read.
func unread(err error) string {
	var d *smithy.DeserializationError
	if errors.As(err, &d) && d.Err != nil {
		return d.Err.Error()
	}
	return err.Error()
}

// Short is the answer without what only the owner of the server needs.
func (a Answer) Short() string {
	a.ID = ""
	return a.Error()
}

// Unwrap returns the SDK's error.
func (a Answer) Unwrap() error { return a.Err }

// Throttled says that the server got too many requests. It has looked at nothing else.
func (a Answer) Throttled() bool {
	switch a.Code {
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests", "TooManyRequestsException",
		"Throttling", "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded":
		return true
	}
	return a.Status == http.StatusTooManyRequests
}

// Expired says that the credentials have ended.
func (a Answer) Expired() bool {
	return a.Code == "ExpiredToken" || a.Code == "ExpiredTokenException" || a.Code == "TokenRefreshRequired"
}

// Unclear says that the same request may get another answer in a moment.
func (a Answer) Unclear() bool {
	lasting := a.Status == http.StatusNotImplemented || a.Status == http.StatusInsufficientStorage || a.Code == "NotImplemented"
	return a.Throttled() || a.Status >= 500 && !lasting || a.Status == 0 && Sent(a.Err) || a.cutOff()
}

// Sent says whether a request left this machine.
func Sent(err error) bool {
	var r *smithyhttp.RequestSendError
	var w *smithyhttp.ResponseError
	return errors.As(err, &r) || errors.As(err, &w)
}
