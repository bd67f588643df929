package batch

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon/metadata"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// The variables that a container of drover's has beside those of AWS Batch.
const (
	variableCPUs   = "DROVER_BATCH_CPUS"
	variableMemory = "DROVER_BATCH_MEMORY" // bytes
	variableGPUs   = "DROVER_BATCH_GPUS"
	variableSecret = "DROVER_BATCH_SECRET" // the secret's name in Secrets Manager, where there is one
)

// stateFolder is where an agent has its own files, beside the program's.
const stateFolder = "/tmp/.drover"

// orderLook is how often a supervisor reads orders to stop; 0: as package remote has it. A variable for
// tests.
var orderLook time.Duration

// adopt makes a job's first process an agent's supervisor, and the process below it the agent.
func adopt(p driver.AgentProcess) (*driver.Allocation, error) {
	if _, ours := os.LookupEnv(variableCPUs); !ours {
		return nil, nil
	}
	c, err := claimant(os.Getenv)
	if err != nil {
		return nil, err
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(os.Getenv(name), 10, 64) // 0 where it is none: what the machine has
		return n
	}
	m := remote.Machine{Claimant: c, Look: orderLook,
		Notices: notices,
		Given: driver.Allocation{Root: "/", State: stateFolder, Hosts: "/etc/hosts",
			Cores: int(number(variableCPUs)), Memory: number(variableMemory), GPUs: int(number(variableGPUs)), Shared: &driver.Sharing{},
			OOMKills: func() int64 { return folder.OOMKills("/sys/fs/cgroup") }}}
	if name := os.Getenv(variableSecret); name != "" && remote.Supervised() {
		if m.Given.Secrets, err = secret.ReadHere(context.Background(), name); err != nil {
			return nil, err
		}
	}
	a, err := remote.Adopt(Name, p, m)
	for _, name := range []string{variableCPUs, variableMemory, variableGPUs, variableSecret} {
		os.Unsetenv(name) // a process below this one must not take them for its own
	}
	return a, err
}

// claimant is this process as AWS Batch names it.
func claimant(env func(string) string) (c remote.Claimant, err error) {
	id, child, _ := strings.Cut(env("AWS_BATCH_JOB_ID"), ":")
	c = remote.Claimant{ID: id}
	c.Index, err = strconv.Atoi(cmp.Or(env("AWS_BATCH_JOB_ARRAY_INDEX"), child, "0"))
	if err == nil {
		c.Attempt, err = strconv.Atoi(cmp.Or(env("AWS_BATCH_JOB_ATTEMPT"), "1"))
	}
	if err != nil || id == "" {
		return c, fault.New(fault.Invalid, "Unset "+variableCPUs+".", "adopt agent: AWS_BATCH_JOB_ID=%q names no job", env("AWS_BATCH_JOB_ID"))
	}
	return c, nil
}

// notices gives AWS's announcement that it takes the machine away, as its metadata service tells. ECS tells its containers of it
// only where that was switched on for the machine.
func notices(ctx context.Context) <-chan driver.Notice {
	all := make(chan driver.Notice)
	go metadata.Watch(ctx, metadata.New(), metadata.Look, func(a metadata.Announcement) { all <- driver.Notice{Why: a.Why, Left: a.Left} }, metadata.Spot)
	return all
}
