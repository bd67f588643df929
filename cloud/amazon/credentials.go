package amazon

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	smithy "github.com/aws/smithy-go"

	"github.com/drover-run/drover/cloud"
)

// Credentials are those of an Account. Their errors differ from errors of the server, and
// Renew makes them look again. They are renewed early: where no new ones can be had at that
// moment, the old ones are used until they end.
type Credentials struct {
	from  aws.CredentialsProvider
	clock cloud.Clock

	mu  sync.Mutex
	had aws.Credentials // the newest that were retrieved
}

var _ aws.CredentialsProvider = (*Credentials)(nil)

// Retrieve returns the newest credentials. Its error is a *NoCredentials.
func (c *Credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.from.Retrieve(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.had = found
	case c.had.CanExpire && c.clock.Now().Before(c.had.Expires.Add(early/2)): // they still work: Expires is at least early/2 before their end
		return c.had, nil
	default:
		err = &NoCredentials{err, c.had.HasKeys()}
	}
	return found, err
}

// Renew drops the credentials that the server has refused, and says whether it could.
func (c *Credentials) Renew() bool {
	c.mu.Lock()
	c.had.CanExpire = false
	c.mu.Unlock()
	cache, ok := c.from.(*aws.CredentialsCache)
	if ok {
		cache.Invalidate()
	}
	return ok
}

// NoCredentials says that no credentials were found, or that they could not be renewed.
type NoCredentials struct {
	err error
	had bool // there were some before: their source cannot be reached now, and may be later
}

// Error leaves out the vendor's words where the user only has to sign in.
func (n *NoCredentials) Error() string {
	if !n.Nowhere() {
		return n.err.Error()
	}
	_, why, _ := strings.Cut(n.err.Error(), "operation error ec2imds: ")
	return "the environment and profiles hold none, and this machine has no role (EC2 IMDS: " + cmp.Or(why, "none found") + ")"
}

// Unwrap returns the vendor's error.
func (n *NoCredentials) Unwrap() error { return n.err }

// Nowhere says that all sources were tried, down to the machine's own role. Credentials that
// are there and cannot be used are another error.
func (n *NoCredentials) Nowhere() bool { return !n.had && strings.Contains(n.err.Error(), "EC2 IMDS") }

// Away says that only the way to the source of credentials fails. Before the first credentials
// this cannot be told from a machine that has none.
func (n *NoCredentials) Away() bool {
	var below net.Error
	var said smithy.APIError
	a := ReadAnswer(n.err)
	theirs := errors.As(n.err, &said) && said.ErrorFault() == smithy.FaultServer
	return n.had && (theirs || a.Throttled() || a.Status >= 500 || a.Status == 0 && errors.As(n.err, &below))
}
