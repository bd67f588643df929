// Package sagemaker is the target of SageMaker: agents are training jobs in the user's account, or processing jobs, on machines that
// SageMaker brings up for them and takes away, in the user's image.
//
// The nodes of a run are the instances of one job; each worker of a map is a job of its own. Their names follow from
// the placement's handle and are never used again, so that a request without an answer is sent again. Records lie in the
// store (package remote); each container fetches drover's program from there by its own role, checks its digest, and becomes
// the agent's supervisor. SageMaker starts again what lost its spot capacity, while no command is attached.
//
// It refuses to know what agents do. drivertest proves it, over a fake of SageMaker (sagemakertest).
package sagemaker

import (
	"context"
	"sync"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/awsjson"
	"github.com/drover-run/drover/cloud/amazon/logtail"
	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// Name is the target in the handles of this driver.
const Name = "sagemaker"

// Target is SageMaker as a place to run.
var Target = driver.Target{Name: Name, Adopt: adopt, Policy: writePolicy,
	New: func(f driver.Config) driver.Driver { return New(f.State, f.Store, remote.Options{}) },
	Setup: func(f driver.Config) driver.Setup {
		return &Setup{New(f.State, f.Store, remote.Options{}).engine, stack.Look}
	},
	Properties: func(driver.Config) driver.Properties {
		return driver.Properties{Apart: true, Containers: true, Pulls: true, PullsFrom: isOfECR, Stores: []string{"s3"}, Identity: "the training job's role", Framework: "pytorch", SSM: true, Keeps: true, TimeLimit: true}
	}}

// Driver starts agents by SageMaker.
type Driver struct {
	*remote.Driver
	engine *engine
	stores driver.OpenStore
}

var _ driver.Driver = (*Driver)(nil)

// New makes the driver of this machine's account. It remembers in the folder state in which regions
// it has started something, and sends nothing.
func New(state string, open driver.OpenStore, o remote.Options) *Driver {
	e := &engine{state: state, clients: amazon.NewClients(openClient), look: lookTime, again: askTime, seen: map[string]seenJob{}, wanting: map[driver.Handle]wanting{}}
	return &Driver{remote.New(Name, e, open, o), e, open}
}

// lookTime is how long what SageMaker said of a job that goes on is believed.
const lookTime = 10 * time.Second

// engine is SageMaker as package remote asks it.
type engine struct {
	state   string
	clients *amazon.Clients[*client]
	look    time.Duration // such as lookTime
	again   time.Duration // such as askTime

	mu      sync.Mutex
	seen    map[string]seenJob // by kind and name
	wanting map[driver.Handle]wanting
}

// seenJob is what SageMaker said of a job, and when.
type seenJob struct {
	job description
	at  time.Time
}

var _ remote.Engine = (*engine)(nil)

// client sends the requests of one region.
type client struct {
	api     awsjson.Caller
	send    amazon.Sender
	secrets *secret.Manager
	stacks  *stack.Client
	images  *registry.Registries
	logs    *logtail.Reader
	region  string
}

// openClient makes the client of a region; "": the one that this machine's configuration names. It sends nothing.
func openClient(ctx context.Context, region string) (c *client, of string, err error) {
	account, err := amazon.Open(ctx, amazon.Options{Region: region})
	if err != nil {
		return nil, "", err
	}
	if account.Config.Region == "" {
		return nil, "", fault.New(fault.Invalid, "Say where: `--on sagemaker/REGION`, or export AWS_REGION=REGION.", "ask SageMaker: there is no region")
	}
	c = newClient(account, amazon.Patience, stack.Look)
	return c, c.region, nil
}

// newClient makes the client of an account; wait is as in amazon.Sender, look as in stack.New.
func newClient(account *amazon.Account, wait, look time.Duration) *client {
	send := amazon.Sender{Account: account, Wait: wait}
	return &client{api: awsjson.Caller{Service: service, Account: account}, send: send, secrets: secret.New(send), stacks: stack.New(account, look), logs: logtail.New(send), region: account.Config.Region,
		images: &registry.Registries{Open: func(context.Context, string) (*amazon.Account, error) { return account, nil }}} // in this region alone
}
