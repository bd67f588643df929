package s3

import (
	"cmp"
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const renewHint = "Go on with the job: `drover resume` makes it anew."

// Pass makes a credential that gives r on this bucket and prefix for some hours: a session
// with a policy that allows no more, of role, an ARN, or without one of our own account.
// Where no such session is given, it is a session with all our rights, or else our own
// credential, and it says so. A bucket that is used without credentials needs none: File is
// nil.
func (b *Bucket) Pass(ctx context.Context, r store.Rights, role string) (store.Pass, error) {
	if b.given.Anonymous {
		return store.Pass{}, nil
	}
	own, err := b.conn.account.Credentials.Retrieve(ctx)
	if err != nil {
		return store.Pass{}, fault.Wrap(err, fault.Denied, b.conn.signInHint(), "make a credential for %s: find credentials", b.text)
	}
	if b.conn.isAmazons() && role == "" && own.SessionToken != "" {
		return b.makePass(own, store.Pass{Wide: true, Why: "a session gives no narrower one", Fix: "drover config set agent_role " + roleOf(own)})
	}
	policy := b.compactPolicy(r)
	if len(policy) > amazon.MaxPolicy {
		return store.Pass{}, b.policyTooLong(fmt.Errorf("its policy has %d characters, and a session's may have %d", len(policy), amazon.MaxPolicy))
	}
	made, err := b.conn.openSessions().Narrow(ctx, policy, role)
	switch a := hear(err); {
	case err == nil:
		return b.makePass(made, store.Pass{})
	case context.Cause(ctx) != nil:
		return store.Pass{}, context.Cause(ctx)
	case a.Unclear():
		// A server that is briefly away is no reason to hand over the user's own key.
		return store.Pass{}, b.wrapUnheard(a)
	case a.Code == "PackedPolicyTooLarge" || a.Code == "PackedPolicyTooLargeException":
		return store.Pass{}, b.policyTooLong(a)
	}
	if role != "" {
		// A user that names a role does not want the user's own keys handed over.
		return store.Pass{}, fault.Wrap(hear(err), fault.Denied, "See that its trust policy names you: `aws sts assume-role --role-arn "+role+" --role-session-name test`.",
			"make a credential for %s: take the role %s", b.text, role)
	}
	wide := store.Pass{Wide: true, Why: hear(err).Short()}
	if b.conn.isAmazons() {
		wide.Fix = "let yourself be allowed sts:GetFederationToken, or drover config set agent_role " + roleOf(own)
		all, err := b.conn.openSessions().Whole(ctx)
		switch a := hear(err); {
		case err == nil:
			own = all // the session ends, and the key does not
		case a.Unclear():
			return store.Pass{}, b.wrapUnheard(a)
		}
	}
	return b.makePass(own, wide)
}

// isAmazons says whether sessions come from Amazon: other servers know no roles.
func (c *connection) isAmazons() bool { return c.client.Load().Options().BaseEndpoint == nil }

// roleOf is how a role of the same account is written.
func roleOf(c aws.Credentials) string {
	return "arn:aws:iam::" + cmp.Or(c.AccountID, "ACCOUNT") + ":role/NAME"
}

// wrapUnheard: a server that is busy or away is no reason to hand over the user's own key.
func (b *Bucket) wrapUnheard(a answer) error {
	return fault.Wrap(a, fault.Lost, "Try again, or name a profile for agents: `--agent-profile NAME`.", "make a credential for %s", b.text)
}

// policyTooLong: a session with more rights is not what the caller wants.
func (b *Bucket) policyTooLong(err error) error {
	return fault.Wrap(err, fault.Invalid, "Name a store with a shorter prefix, or a profile for agents: `--agent-profile NAME`.", "make a credential for %s", b.text)
}

func (b *Bucket) makePass(c aws.Credentials, p store.Pass) (store.Pass, error) {
	f := amazon.NewFile(c, b.conn.client.Load().Options().Region, "opens "+b.text+"; written by drover")
	p.Until = f.Until
	text, err := f.Bytes()
	p.File = text
	return p, err
}

// openSessions gives the server of sessions: a bucket's server that is not Amazon's gives both.
func (c *connection) openSessions() *amazon.Sessions {
	at := c.client.Load().Options()
	return c.account.Sessions(at.Region, at.BaseEndpoint, c.given.Endpoint != "")
}

// credentialEnded says whether an answer means that a handed-over credential has ended. An
// attached command may renew it, so requests wait for that.
func (c *connection) credentialEnded(a answer) bool { return c.passFile != "" && a.Expired() }
