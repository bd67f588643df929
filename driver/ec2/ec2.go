// Package ec2 is the target of EC2: agents are machines of an Auto Scaling group in the user's account, one machine for each agent,
// spot capacity first. Auto Scaling replaces a machine that AWS takes away, also while no command is attached.
//
// A placement is one launch template and one group, under a name that follows from its handle; their records lie in the store (package remote).
// A machine fetches drover's program by its own role, claims a number, runs the agent, in a container or as it is, and ends itself
// with its agent. A scheduled action of the group ends all machines an hour after the last sign of drover: agents and
// attached commands move it on.
//
// It refuses to know what agents do. drivertest proves it, over a fake of EC2 and Auto Scaling (ec2test).
package ec2

import (
	"context"
	"sync"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// Name is the target in the handles of this driver.
const Name = "ec2"

// Target is EC2 as a place to run.
var Target = driver.Target{Name: Name, Adopt: adopt, Policy: writePolicy,
	New: func(f driver.Config) driver.Driver { return New(f.State, f.Store, remote.Options{}) },
	Setup: func(f driver.Config) driver.Setup {
		return &Setup{New(f.State, f.Store, remote.Options{}).engine, stack.Look}
	},
	Properties: func(driver.Config) driver.Properties {
		all := driver.Properties{Apart: true, Containers: true, Pulls: true, Stores: []string{"s3"}, Identity: "the machines' role", TimeLimit: true}
		all.OfDetail = func(detail string) driver.Properties {
			own := all
			if at, err := parseSite(detail); err == nil && at.bare {
				own.Containers, own.Pulls = false, false
			}
			return own
		}
		return all
	}}

// Driver starts agents by Auto Scaling.
type Driver struct {
	*remote.Driver
	engine *engine
	stores driver.OpenStore
}

var _ driver.Driver = (*Driver)(nil)

// New makes the driver of this machine's account. It remembers in the folder state in which regions
// it has started something, and which types of machines there are; it sends nothing.
func New(state string, open driver.OpenStore, o remote.Options) *Driver {
	e := &engine{state: state, clients: amazon.NewClients(openClient), now: time.Now, looks: map[string]groupLook{}, tails: map[string]string{}}
	return &Driver{remote.New(Name, e, open, o), e, open}
}

// engine is Auto Scaling as package remote asks it.
type engine struct {
	state   string
	clients *amazon.Clients[*client]
	now     func() time.Time

	mu    sync.Mutex
	looks map[string]groupLook // by the group's name
	tails map[string]string    // of machines' consoles
}

var _ remote.Engine = (*engine)(nil)

// client sends the requests of one region.
type client struct {
	*api.Client // of EC2 and Auto Scaling
	send        amazon.Sender
	secrets     *secret.Manager
	stacks      *stack.Client
	images      *registry.Registries
	region      string
}

// openClient makes the client of a region; "": the one that this machine's configuration names. It sends nothing.
func openClient(ctx context.Context, region string) (c *client, of string, err error) {
	account, err := amazon.Open(ctx, amazon.Options{Region: region})
	if err != nil {
		return nil, "", err
	}
	if account.Config.Region == "" {
		return nil, "", fault.New(fault.Invalid, "Say where: `--on ec2/REGION`, or export AWS_REGION=REGION.", "ask EC2: there is no region")
	}
	c = newClient(account, amazon.Patience, stack.Look)
	return c, c.region, nil
}

// newClient makes the client of an account; wait is as in amazon.Sender, look as in stack.New.
func newClient(account *amazon.Account, wait, look time.Duration) *client {
	send := amazon.Sender{Account: account, Wait: wait}
	return &client{Client: api.New(send), send: send, secrets: secret.New(send),
		stacks: stack.New(account, look), region: account.Config.Region,
		images: &registry.Registries{Open: func(context.Context, string) (*amazon.Account, error) { return account, nil }}} // in this region alone
}

// clientOfHandle is the client of the region of a handle.
func (e *engine) clientOfHandle(ctx context.Context, h driver.Handle) (*client, site, error) {
	at, err := parseSite(h.Detail)
	if err != nil {
		return nil, at, err
	}
	c, err := e.clients.In(ctx, at.region)
	return c, at, err
}
