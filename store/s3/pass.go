package s3

import (
	"cmp"
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

const (
	// How long a pass is asked for. Agents work with nobody attached, and then nobody
	// renews it. An hour is all that is given by a role whose owner has allowed no more,
	// by any role to who came with one (Amazon's limit for chains), and to an account's root.
	passLife, shortLife = 12 * time.Hour, time.Hour
	// maxPolicy is Amazon's limit for a session's policy, in characters.
	maxPolicy = 2048
	// passWait is how long the server of passes may take.
	passWait = 15 * time.Second

	renewHint = "Go on with the job: drover resume makes it anew."
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
// neither is to be had, it is a session that may do what we may, or else what we use
// ourselves, and it says so. Anonymous places need none: its File is nil.
func (b *Bucket) Pass(ctx context.Context, r store.Rights, role string) (store.Pass, error) {
	if b.given.Anonymous {
		return store.Pass{}, nil
	}
	own, err := b.creds.Retrieve(ctx)
	if err != nil {
		return store.Pass{}, fault.Wrap(err, fault.Denied, b.signInHint(), "make a credential for %s: find credentials", b.text)
	}
	if b.amazons() && role == "" && own.SessionToken != "" {
		return b.pass(own, store.Pass{Wide: true, Why: "a session gives no narrower one", Fix: "drover config set agent_role " + roleOf(own)})
	}
	policy := b.limitTo(r)
	if len(policy) > maxPolicy {
		return store.Pass{}, b.tooLong(fmt.Errorf("its policy has %d characters, and a session's may have %d", len(policy), maxPolicy))
	}
	made, err := b.patiently(ctx, func(ctx context.Context) (aws.Credentials, error) { return b.session(ctx, policy, role) })
	switch a := hear(err); {
	case err == nil:
		return b.pass(made, store.Pass{})
	case context.Cause(ctx) != nil:
		return store.Pass{}, context.Cause(ctx)
	case a.vague():
		// One's own key is not for a bad minute of the server.
		return store.Pass{}, b.unheard(a)
	case a.code == "PackedPolicyTooLarge" || a.code == "PackedPolicyTooLargeException":
		return store.Pass{}, b.tooLong(a)
	}
	if role != "" {
		// Who named a role does not mean his own keys.
		return store.Pass{}, fault.Wrap(hear(err), fault.Denied, "See that its trust policy names you: aws sts assume-role --role-arn "+role+" --role-session-name test.",
			"make a credential for %s: take the role %s", b.text, role)
	}
	wide := store.Pass{Wide: true, Why: hear(err).short()}
	if b.amazons() {
		wide.Fix = "let yourself be allowed sts:GetFederationToken, or drover config set agent_role " + roleOf(own)
		all, err := b.patiently(ctx, b.sessionOfAll)
		switch a := hear(err); {
		case err == nil:
			own = all // it ends, and the key does not
		case a.vague():
			return store.Pass{}, b.unheard(a)
		}
	}
	return b.pass(own, wide)
}

// amazons says whether sessions are Amazon's to give: other servers know no roles.
func (b *Bucket) amazons() bool { return b.client.Load().Options().BaseEndpoint == nil }

// roleOf is how a role of the same account is written.
func roleOf(c aws.Credentials) string {
	return "arn:aws:iam::" + cmp.Or(c.AccountID, "ACCOUNT") + ":role/NAME"
}

// unheard: a server that is busy or away is no reason to hand over one's own key.
func (b *Bucket) unheard(a answer) error {
	return fault.Wrap(a, fault.Lost, "Try again, or name a profile for agents: --agent-profile NAME.", "make a credential for %s", b.text)
}

// tooLong: a session that allows more is not what was meant.
func (b *Bucket) tooLong(err error) error {
	return fault.Wrap(err, fault.Invalid, "Name a store with a shorter prefix, or a profile for agents: --agent-profile NAME.", "make a credential for %s", b.text)
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

// session asks for one that may do what policy says, for as long as is to be had: of
// role, or of whoever we are.
func (b *Bucket) session(ctx context.Context, policy, role string) (made aws.Credentials, err error) {
	client, name := b.sts(), "drover-agents"
	if role == "" && !b.amazons() {
		role = "arn:aws:iam::000000000000:role/self" // it has no roles: the session is our own user's
	}
	var c *types.Credentials
	for _, life := range []time.Duration{passLife, shortLife} {
		c = nil
		if role == "" {
			out, refused := client.GetFederationToken(ctx, &sts.GetFederationTokenInput{Name: &name, Policy: &policy, DurationSeconds: seconds(life)})
			if err = refused; err == nil {
				c = out.Credentials
			}
		} else {
			out, refused := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: &name, Policy: &policy, DurationSeconds: seconds(life)})
			if err = refused; err == nil {
				c = out.Credentials
			}
		}
		if hear(err).code != "ValidationError" { // longer than it allows
			break
		}
	}
	if err != nil {
		return made, err
	}
	return given(c)
}

// sessionOfAll asks for one that may do what we may.
func (b *Bucket) sessionOfAll(ctx context.Context) (made aws.Credentials, err error) {
	out, err := b.sts().GetSessionToken(ctx, &sts.GetSessionTokenInput{DurationSeconds: seconds(passLife)})
	if err != nil {
		return made, err
	}
	return given(out.Credentials)
}

// given is a session as the server has given it.
func given(c *types.Credentials) (made aws.Credentials, err error) {
	if c == nil || aws.ToString(c.SessionToken) == "" || c.Expiration == nil {
		return made, errors.New("the server has answered, and given no session")
	}
	return aws.Credentials{AccessKeyID: aws.ToString(c.AccessKeyId), SecretAccessKey: aws.ToString(c.SecretAccessKey),
		SessionToken: *c.SessionToken, CanExpire: true, Expires: *c.Expiration}, nil
}

func seconds(d time.Duration) *int32 { return aws.Int32(int32(d / time.Second)) }

// sts asks where the bucket is: servers that are not Amazon's answer for both. This
// machine's configuration may name another one (AWS_ENDPOINT_URL_STS), but for a
// bucket whose server was named with it.
func (b *Bucket) sts() *sts.Client {
	at := b.client.Load().Options()
	return sts.NewFromConfig(b.config, func(o *sts.Options) {
		o.Region, o.Retryer = at.Region, aws.NopRetryer{}
		if o.BaseEndpoint == nil || b.given.Endpoint != "" {
			o.BaseEndpoint = at.BaseEndpoint
		}
	})
}

// passed reads credentials from a file that somebody may replace by newer ones.
type passed struct{ path string }

var _ aws.CredentialsProvider = passed{}

func (p passed) Retrieve(context.Context) (aws.Credentials, error) {
	f, err := p.read()
	if err != nil {
		return aws.Credentials{}, err
	}
	return aws.Credentials{AccessKeyID: f.Key, SecretAccessKey: f.Secret, SessionToken: f.Token, Source: "drover's credential",
		CanExpire: !f.Until.IsZero(), Expires: f.Until}, nil
}

func (p passed) read() (f passFile, err error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return f, err
	}
	if json.Unmarshal(text, &f) != nil || f.Key == "" || f.Secret == "" { // an error of JSON would quote it
		return f, fmt.Errorf("read %s: it holds no credential", p.path)
	}
	return f, nil
}

// ended says whether an answer means that a pass has ended. Whoever made it may
// renew it, so it is waited for.
func (b *Bucket) ended(a answer) bool {
	return b.passFile != "" && (a.code == "ExpiredToken" || a.code == "ExpiredTokenException" || a.code == "TokenRefreshRequired")
}
