package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// How long a pass is asked for. Agents work with nobody attached, and then nobody
// renews it; a role gives an hour where its owner has allowed no more.
const (
	passLife = 12 * time.Hour
	roleLife = time.Hour
	// passWait is how long the server of passes may take.
	passWait = 15 * time.Second
)

// passFile is the file's form.
type passFile struct {
	Key     string    `json:"key"`
	Secret  string    `json:"secret"`
	Token   string    `json:"token,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Region  string    `json:"region,omitempty"`
	Comment string    `json:"comment"`
}

// Pass makes one that gives r on this place for some hours: a session of role, an
// ARN, or without one of whoever we are, with a policy that allows no more. Where
// neither is to be had, what we use ourselves is the pass, and it says so.
// Anonymous places need none: its File is nil.
func (b *Bucket) Pass(ctx context.Context, r store.Rights, role string) (store.Pass, error) {
	if b.given.Anonymous {
		return store.Pass{}, nil
	}
	own, err := b.creds.Retrieve(ctx)
	if err != nil {
		return store.Pass{}, fault.Wrap(err, fault.Denied, b.signInHint(), "make a pass to %s: find credentials", b.text)
	}
	made, err := b.patiently(ctx, func(ctx context.Context) (aws.Credentials, error) { return b.session(ctx, own, r, role) })
	switch a := hear(err); {
	case err == nil:
		return b.pass(made, store.Pass{})
	case context.Cause(ctx) != nil:
		return store.Pass{}, context.Cause(ctx)
	case a.vague():
		// One's own key is not for a bad minute of the server.
		return store.Pass{}, fault.Wrap(a, fault.Lost, "Try again, or name a profile for agents: --agent-profile NAME.", "make a pass to %s", b.text)
	}
	if role != "" {
		// Who named a role does not mean his own keys.
		return store.Pass{}, fault.Wrap(hear(err), fault.Denied, "See that its trust policy names you: aws sts assume-role --role-arn "+role+" --role-session-name test.",
			"make a pass to %s: take the role %s", b.text, role)
	}
	return b.pass(own, store.Pass{Wide: true, Why: hear(err).short()})
}

// patiently asks until the answer is clear, for passWait.
func (b *Bucket) patiently(ctx context.Context, ask func(context.Context) (aws.Credentials, error)) (c aws.Credentials, err error) {
	limited, cancel := context.WithTimeout(ctx, passWait)
	defer cancel()
	for begun, try := b.clock.Boot(), 0; ; try++ {
		c, err = ask(limited)
		if err == nil || !hear(err).vague() || b.clock.Boot()-begun > passWait || b.pause(limited, try) != nil {
			return c, err
		}
	}
}

// vague says that an answer is none: it may be another one in a moment.
func (a answer) vague() bool {
	return a.throttled() || a.status >= 500 && !a.final() || a.status == 0 && sent(a.err)
}

func (b *Bucket) pass(c aws.Credentials, p store.Pass) (store.Pass, error) {
	f := passFile{Key: c.AccessKeyID, Secret: c.SecretAccessKey, Token: c.SessionToken, Region: b.client.Load().Options().Region,
		Comment: "opens " + b.text + "; written by drover"}
	if c.CanExpire {
		p.Until, f.Until = c.Expires, c.Expires
	}
	text, err := json.Marshal(f)
	p.File = append(text, '\n')
	return p, err
}

// session asks for one that is narrower than own.
func (b *Bucket) session(ctx context.Context, own aws.Credentials, r store.Rights, role string) (made aws.Credentials, err error) {
	client := b.sts()
	policy, name := b.limitTo(r), "drover-agents"
	var c *types.Credentials
	switch {
	case role == "" && b.client.Load().Options().BaseEndpoint == nil:
		if own.SessionToken != "" {
			return made, errors.New("a session gives no narrower one: name a role with agent_role")
		}
		var out *sts.GetFederationTokenOutput
		if out, err = client.GetFederationToken(ctx, &sts.GetFederationTokenInput{Name: &name, Policy: &policy, DurationSeconds: seconds(passLife)}); err == nil {
			c = out.Credentials
		}
	default:
		if role == "" {
			// A server that is not Amazon's has no roles: the session is our own user's.
			role = "arn:aws:iam::000000000000:role/self"
		}
		in := &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: &name, Policy: &policy, DurationSeconds: seconds(passLife)}
		out, refused := client.AssumeRole(ctx, in)
		if hear(refused).code == "ValidationError" { // longer than the role allows
			in.DurationSeconds = seconds(roleLife)
			out, refused = client.AssumeRole(ctx, in)
		}
		if err = refused; err == nil {
			c = out.Credentials
		}
	}
	if err != nil {
		return made, err
	}
	if c == nil || aws.ToString(c.SessionToken) == "" || c.Expiration == nil {
		return made, errors.New("the server has answered, and given no session")
	}
	return aws.Credentials{AccessKeyID: aws.ToString(c.AccessKeyId), SecretAccessKey: aws.ToString(c.SecretAccessKey),
		SessionToken: *c.SessionToken, CanExpire: true, Expires: *c.Expiration}, nil
}

func seconds(d time.Duration) *int32 { return aws.Int32(int32(d / time.Second)) }

// sts asks where the bucket is: servers that are not Amazon's answer for both.
func (b *Bucket) sts() *sts.Client {
	o := b.client.Load().Options()
	return sts.New(sts.Options{Region: o.Region, Credentials: b.creds, HTTPClient: o.HTTPClient, BaseEndpoint: o.BaseEndpoint,
		Retryer: aws.NopRetryer{}, Logger: o.Logger})
}

// passed reads credentials from a file that somebody may replace by newer ones.
type passed struct{ path string }

var _ aws.CredentialsProvider = passed{}

func (p passed) Retrieve(context.Context) (aws.Credentials, error) {
	f, err := p.read()
	if err != nil {
		return aws.Credentials{}, err
	}
	return aws.Credentials{AccessKeyID: f.Key, SecretAccessKey: f.Secret, SessionToken: f.Token, Source: "drover's pass",
		CanExpire: !f.Until.IsZero(), Expires: f.Until}, nil
}

func (p passed) read() (f passFile, err error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return f, err
	}
	if json.Unmarshal(text, &f) != nil || f.Key == "" || f.Secret == "" { // an error of JSON would quote it
		return f, fmt.Errorf("read %s: it holds no pass", p.path)
	}
	return f, nil
}

// ended says whether an answer means that a pass has ended. Whoever made it may
// renew it, so it is waited for.
func (b *Bucket) ended(a answer) bool {
	return b.passFile != "" && (a.code == "ExpiredToken" || a.code == "ExpiredTokenException" || a.code == "TokenRefreshRequired")
}
