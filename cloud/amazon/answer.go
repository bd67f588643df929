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

// Answer is what came back from a service when something went wrong.
type Answer struct {
	Status       int    // HTTP's; 0: no answer came
	Code, Reason string // of the body; a proxy sends none
	Region       string // where a bucket is, if it says so
	ID           string // of the request, for the server's owner
	Err          error  // as the SDK gives it
}

// ReadAnswer takes an answer out of the SDK's words. Of nil it is the zero value.
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

// Short is the answer without what only its server's owner wants to know.
func (a Answer) Short() string {
	a.ID = ""
	return a.Error()
}

// Unwrap returns the SDK's error.
func (a Answer) Unwrap() error { return a.Err }

// Throttled: asked too often. The server has looked at nothing but the rate.
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

// Unclear says that another answer may come in a moment.
func (a Answer) Unclear() bool {
	lasting := a.Status == http.StatusNotImplemented || a.Status == http.StatusInsufficientStorage || a.Code == "NotImplemented"
	return a.Throttled() || a.Status >= 500 && !lasting || a.Status == 0 && Sent(a.Err)
}

// Sent says whether a request left this machine.
func Sent(err error) bool {
	var r *smithyhttp.RequestSendError
	var w *smithyhttp.ResponseError
	return errors.As(err, &r) || errors.As(err, &w)
}
