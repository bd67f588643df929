package batch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/fault"
)

// patience is how long a request is sent again while AWS does not answer, or says that there are too
// many.
const patience = 30 * time.Second

// sender sends requests again as their answers say.
type sender struct {
	account *amazon.Account
	wait    time.Duration
}

// openClient makes the client of a region. It sends nothing.
func openClient(ctx context.Context, region string) (*client, error) {
	account, err := amazon.Open(ctx, amazon.Options{Region: region})
	if err != nil {
		return nil, err
	}
	if account.Config.Region == "" {
		return nil, fault.New(fault.Invalid, "Say where: `--on batch/QUEUE@REGION`, or export AWS_REGION=REGION.", "ask AWS Batch: there is no region")
	}
	return &client{batch.NewFromConfig(account.Config), secretsmanager.NewFromConfig(account.Config), account.Config.Region, sender{account, patience}}, nil
}

// read sends a request that changes nothing, or changes nothing more the second time, until its
// answer is clear.
func (s sender) read(ctx context.Context, doing string, send func(context.Context) error) error {
	err := cloud.Retry(ctx, cloud.System, s.wait, func(err error) bool {
		a := amazon.ReadAnswer(err)
		return a.Unclear() || a.Throttled() || a.Expired() && s.account.Credentials.Renew()
	}, send)
	return s.explained(ctx, doing, err)
}

// once sends a request that must not happen twice: only what certainly was not done is sent again.
func (s sender) once(ctx context.Context, doing string, send func(context.Context) error) error {
	err := cloud.Retry(ctx, cloud.System, s.wait, func(err error) bool {
		a := amazon.ReadAnswer(err)
		return a.Throttled() || a.Expired() && s.account.Credentials.Renew() || a.Status == 0 && !amazon.Sent(err)
	}, send)
	return s.explained(ctx, doing, err)
}

// explained gives an error the kind by which package remote tells what certainly was not done: Full,
// Denied and Invalid.
func (s sender) explained(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a := amazon.ReadAnswer(err)
	var none *amazon.NoCredentials
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
