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

// Credentials are those of an Account. Their failure can be told from the server's, and they
// can be told to look again. They are renewed early, so where no new ones are given
// out just then, the old ones are used to their end.
type Credentials struct {
	from  aws.CredentialsProvider
	clock cloud.Clock

	mu  sync.Mutex
	had aws.Credentials // the newest
}

var _ aws.CredentialsProvider = (*Credentials)(nil)

// Retrieve returns the newest ones. Its error is a *NoCredentials.
func (c *Credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.from.Retrieve(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.had = found
	case c.had.CanExpire && c.clock.Now().Before(c.had.Expires.Add(early/2)): // the least that was taken off
		return c.had, nil
	default:
		err = &NoCredentials{err, c.had.HasKeys()}
	}
	return found, err
}

// Renew drops what is known, which the server has refused, and says whether it could.
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

// NoCredentials says that none were found, or that they could not be renewed.
type NoCredentials struct {
	err error
	had bool // there were some: what gives them out is away, and will be back
}

// Error leaves the vendor's words out where there is nothing to mend but that a person
// signs in.
func (n *NoCredentials) Error() string {
	if !n.Nowhere() {
		return n.err.Error()
	}
	_, why, _ := strings.Cut(n.err.Error(), "operation error ec2imds: ")
	return "the environment and profiles hold none, and this machine has no role (EC2 IMDS: " + cmp.Or(why, "none found") + ")"
}

// Unwrap returns the vendor's error.
func (n *NoCredentials) Unwrap() error { return n.err }

// Nowhere says that all places were looked at, down to the machine's own role. Credentials
// that are there and cannot be used are another error.
func (n *NoCredentials) Nowhere() bool { return !n.had && strings.Contains(n.err.Error(), "EC2 IMDS") }

// Away says that nothing is wrong but the way to what gives them out. Before the
// first ones that looks as on a machine that has none.
func (n *NoCredentials) Away() bool {
	var below net.Error
	var said smithy.APIError
	a := ReadAnswer(n.err)
	theirs := errors.As(n.err, &said) && said.ErrorFault() == smithy.FaultServer
	return n.had && (theirs || a.Throttled() || a.Status >= 500 || a.Status == 0 && errors.As(n.err, &below))
}
