package amazon

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drover-run/drover/cloud"
)

const (
	// How long a session is requested for. Agents work with no command attached, and then
	// nothing renews it. A role gives an hour at most if its owner has allowed no more; so
	// does any role to a caller that came with a role (Amazon's limit for chains), and so
	// does AWS to an account's root.
	longLife, shortLife = 12 * time.Hour, time.Hour
	// MaxPolicy is Amazon's limit for a session's policy, in characters.
	MaxPolicy = 2048
	// wait is how long the server of sessions may take to answer.
	wait = 15 * time.Second
)

// Sessions asks the server that gives out short-lived credentials (STS).
type Sessions struct {
	client  *sts.Client
	clock   cloud.Clock
	name    string
	foreign bool
}

// Sessions are those of a region of AWS. If server is the address of a service that is not
// Amazon's, such as one of a bucket, sessions come from that server too: such servers give
// both. If this machine's configuration names a server of sessions (AWS_ENDPOINT_URL_STS),
// that one is used unless only is set.
func (a *Account) Sessions(region string, server *string, only bool) *Sessions {
	return &Sessions{clock: a.clock, foreign: server != nil, name: "drover-agents", client: sts.NewFromConfig(a.Config, func(o *sts.Options) {
		o.Region, o.Retryer = region, aws.NopRetryer{}
		if o.BaseEndpoint == nil || only {
			o.BaseEndpoint = server
		}
	})}
}

// Narrow asks for credentials with the rights that both policy and the account, or role, give,
// for as long as the server allows. role is an ARN; "": the account's own user. A session
// gives no narrower session without a role.
func (s *Sessions) Narrow(ctx context.Context, policy, role string) (aws.Credentials, error) {
	return s.retry(ctx, func(ctx context.Context) (aws.Credentials, error) { return s.narrow(ctx, policy, role) })
}

// Whole asks for credentials that end, with all rights of the account until then.
func (s *Sessions) Whole(ctx context.Context) (aws.Credentials, error) {
	return s.retry(ctx, func(ctx context.Context) (made aws.Credentials, err error) {
		out, err := s.client.GetSessionToken(ctx, &sts.GetSessionTokenInput{DurationSeconds: seconds(longLife)})
		if err != nil {
			return made, err
		}
		return sessionOf(out.Credentials)
	})
}

// Account asks for the number of the account.
func (s *Sessions) Account(ctx context.Context) (string, error) {
	out, err := s.client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.Account), nil
}

func (s *Sessions) retry(ctx context.Context, ask func(context.Context) (aws.Credentials, error)) (c aws.Credentials, err error) {
	err = cloud.Retry(ctx, s.clock, wait, func(err error) bool { return ReadAnswer(err).Unclear() }, func(ctx context.Context) (err error) {
		c, err = ask(ctx)
		return err
	})
	return c, err
}

func (s *Sessions) narrow(ctx context.Context, policy, role string) (made aws.Credentials, err error) {
	if role == "" && s.foreign {
		role = "arn:aws:iam::000000000000:role/self" // the server has no roles: the session is for our own user
	}
	var c *types.Credentials
	for _, life := range []time.Duration{longLife, shortLife} {
		c = nil
		if role == "" {
			out, refused := s.client.GetFederationToken(ctx, &sts.GetFederationTokenInput{Name: &s.name, Policy: &policy, DurationSeconds: seconds(life)})
			if err = refused; err == nil {
				c = out.Credentials
			}
		} else {
			out, refused := s.client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: &s.name, Policy: &policy, DurationSeconds: seconds(life)})
			if err = refused; err == nil {
				c = out.Credentials
			}
		}
		if ReadAnswer(err).Code != "ValidationError" { // a longer session than it allows
			break
		}
	}
	if err != nil {
		return made, err
	}
	return sessionOf(c)
}

// sessionOf is a session as the server has given it.
func sessionOf(c *types.Credentials) (made aws.Credentials, err error) {
	if c == nil || aws.ToString(c.SessionToken) == "" || c.Expiration == nil {
		return made, errors.New("the server has answered, and given no session")
	}
	return aws.Credentials{AccessKeyID: aws.ToString(c.AccessKeyId), SecretAccessKey: aws.ToString(c.SecretAccessKey),
		SessionToken: *c.SessionToken, CanExpire: true, Expires: *c.Expiration}, nil
}

func seconds(d time.Duration) *int32 { return aws.Int32(int32(d / time.Second)) }
