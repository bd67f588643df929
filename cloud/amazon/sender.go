package amazon

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/fault"
)

// Patience is how long a request is sent again while AWS does not answer, or says that there are too
// many.
const Patience = 30 * time.Second

// Sender sends requests of one account's services again, as their answers say. Its errors have the kinds that
// say that a request certainly was not done: Full, Denied and Invalid. After any other error
// the request may have been done.
type Sender struct {
	Account *Account
	Wait    time.Duration // such as Patience
}

// Read sends a request that changes nothing, or changes nothing more the second time, until its
// answer is clear. doing names it in errors.
func (s Sender) Read(ctx context.Context, doing string, send func(context.Context) error) error {
	var said error // the newest answer
	err := cloud.Retry(ctx, cloud.System, s.Wait, func(err error) bool {
		a := ReadAnswer(err)
		if a.Status != 0 {
			said = err
		}
		return a.Unclear() || a.Throttled() || a.Expired() && s.Account.Credentials.Renew()
	}, send)
	if said != nil && err != nil && ReadAnswer(err).Status == 0 { // the time was over while a request was under way
		err = said
	}
	return explain(ctx, doing, err)
}

// Once sends a request that must not happen twice: only what certainly was not done is sent again.
func (s Sender) Once(ctx context.Context, doing string, send func(context.Context) error) error {
	err := cloud.Retry(ctx, cloud.System, s.Wait, func(err error) bool {
		a := ReadAnswer(err)
		return a.Throttled() || a.Expired() && s.Account.Credentials.Renew() || a.Status == 0 && !Sent(err)
	}, send)
	return explain(ctx, doing, err)
}

// explain gives an error its kind.
func explain(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a := ReadAnswer(err)
	var none *NoCredentials
	switch {
	case errors.As(err, &none):
		return fault.Wrap(none, fault.Denied, "Sign in with `aws sso login` or `aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.", "%s", doing)
	case a.Status == http.StatusForbidden || a.Code == "AccessDeniedException":
		return fault.Wrap(a, fault.Denied, "Have an administrator allow it.", "%s", doing)
	case a.Throttled():
		return fault.Wrap(a, fault.Full, "Try again in a minute.", "%s", doing)
	case a.Status >= 400 && a.Status < 500:
		return fault.Wrap(a, fault.Invalid, "", "%s", doing)
	}
	return &cloud.Away{Doing: doing, Err: a}
}
