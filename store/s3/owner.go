package s3

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/fault"
)

// A bucket's name does not tell its owner: another account can make a deleted bucket again,
// and a name can be mistyped. With Options.Owner every request names the account that it
// expects, and Amazon refuses it for a bucket of another account. Amazon does not tell the
// owner of a bucket, so drover asks only whether the owner is the caller's own account.

// Account returns the number of the account that the caller is signed in to; "" where the
// bucket is not Amazon's (other servers have no accounts), is used without credentials, or has
// a named owner already.
func (b *Bucket) Account(ctx context.Context) (string, error) {
	if !b.conn.isAmazons() || b.given.Anonymous || b.given.Owner != "" {
		return "", nil
	}
	number, err := b.conn.openSessions().Account(ctx)
	if err != nil {
		return "", fault.Wrap(hear(err), fault.Denied, "aws sts get-caller-identity says more.", "find out which account you are signed in to")
	}
	return number, nil
}

// OwnedBy refuses a bucket that does not belong to an account. The caller must have the right to
// list the bucket: otherwise the two refusals cannot be told apart.
func (b *Bucket) OwnedBy(ctx context.Context, account string) error {
	o := b.given
	o.Owner, o.Clock, o.Patience, o.PassFile = account, b.conn.clock, b.conn.patience, b.conn.passFile
	named, err := Open(ctx, b.text, o)
	if err != nil {
		return err
	}
	_, _, err = named.List(ctx, "", "", 1)
	var a answer
	if errors.As(err, &a) && a.Code == "AccessDenied" {
		p := b.place
		p.given.Owner = "ACCOUNT"
		return fault.New(fault.Denied, "If it is the bucket that you mean, name its owner: `--store '"+p.displayURL(aws.ToString(b.conn.client.Load().Options().BaseEndpoint))+"'`.",
			"open %s: the bucket belongs to another account than %s, which you are signed in to", b.text, account)
	}
	return err
}
