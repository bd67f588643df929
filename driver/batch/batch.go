// Package batch is the target of AWS Batch: agents are jobs of a queue in the user's account, in the
// user's image, with the role that the user names.
//
// A placement is one job, or one array job with a child for each agent, under a name that follows from
// its handle. Its records lie in the store (package remote); each container fetches drover's
// program from there by its own role, checks its digest, and becomes the agent's supervisor. AWS
// Batch starts again what was taken away, while no command is attached.
//
// What jobs stand on is made by a Setup, as one stack of CloudFormation; queues that something else has made
// are used as they are.
//
// It refuses to know what agents do. drivertest proves it, over a fake of AWS (batchtest).
package batch

import (
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/logtail"
	"github.com/drover-run/drover/cloud/amazon/quota"
	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/driver/stack"
)

// Name is the target in the handles of this driver.
const Name = "batch"

// Target is AWS Batch as a place to run.
var Target = driver.Target{Name: Name, Adopt: adopt, Policy: writePolicy,
	New: func(f driver.Config) driver.Driver { return New(f.State, f.Store, remote.Options{}) },
	Setup: func(f driver.Config) driver.Setup {
		return &Setup{New(f.State, f.Store, remote.Options{}).engine, stack.Look}
	},
	Properties: func(driver.Config) driver.Properties {
		return driver.Properties{Apart: true, Containers: true, Pulls: true, Entrypoint: true, Stores: []string{"s3"}, Identity: "the job role", TimeLimit: true}
	}}

// Driver starts agents by AWS Batch.
type Driver struct {
	*remote.Driver
	engine *engine
	stores driver.OpenStore
}

var _ driver.Driver = (*Driver)(nil)

// New makes the driver of this machine's account. It remembers in the folder state in which queues
// it has started something, and sends nothing.
func New(state string, open driver.OpenStore, o remote.Options) *Driver {
	e := &engine{state: state, clients: amazon.NewClients(openClient)}
	return &Driver{remote.New(Name, e, open, o), e, open}
}

// engine is AWS Batch as package remote asks it.
type engine struct {
	state   string
	clients *amazon.Clients[*client]
}

var _ remote.Engine = (*engine)(nil)

// client sends the requests of one region.
type client struct {
	api     *batch.Client
	secrets *secret.Manager
	logs    *logtail.Reader
	images  *registry.Registries
	region  string
	send    amazon.Sender

	mu     sync.Mutex
	limits map[string][]quota.Quota // by service, of those that were asked for
}
