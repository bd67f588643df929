package gcpbatch

import (
	"context"
	"os"
	"strconv"
	"time"

	"cloud.google.com/go/compute/metadata"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/cloud/google/secretmanager"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// The variables that a container of drover's has beside those of Google Batch.
const (
	variableJob     = "DROVER_GCP_JOB" // the job's id in Google Batch
	variableProject = "DROVER_GCP_PROJECT"
	variableGPUs    = "DROVER_GCP_GPUS"
	variableSecret  = "DROVER_GCP_SECRET" // the secret's name in Secret Manager, where there is one
)

// stateFolder is where an agent has its own files, beside the program's.
const stateFolder = "/tmp/.drover"

// noticeTime is how long a machine of spot capacity has after its notice. Source: "Spot VMs", Compute Engine, 2026-11.
const noticeTime = 30 * time.Second

// orderLook is how often a supervisor reads orders to stop; 0: as package remote has it. A variable for tests.
var orderLook time.Duration

// adopt makes a container's first process an agent's supervisor, and the process below it the agent.
func adopt(p driver.AgentProcess) (*driver.Allocation, error) {
	name, ours := os.LookupEnv(variableJob)
	if !ours {
		return nil, nil
	}
	m := remote.Machine{Look: orderLook, Notices: notices, Given: driver.Allocation{Root: "/", State: stateFolder, Hosts: "/etc/hosts", Shared: &driver.Sharing{},
		OOMKills: func() int64 { return folder.OOMKills("/sys/fs/cgroup") }}}
	m.Given.GPUs, _ = strconv.Atoi(os.Getenv(variableGPUs)) // 0 where it is none: what the machine has
	var err error
	if !remote.Supervised() {
		m.Claimant, err = claimant(name)
	} else if secret := os.Getenv(variableSecret); secret != "" {
		all := secretmanager.Manager{Caller: rest.New(google.Source{}), Project: os.Getenv(variableProject)}
		m.Given.Secrets, err = all.Read(context.Background(), secret)
	}
	if err != nil {
		return nil, err
	}
	a, err := remote.Adopt(Name, p, m)
	for _, name := range []string{variableJob, variableProject, variableGPUs, variableSecret} {
		os.Unsetenv(name) // a process below this one must not take them for its own
	}
	return a, err
}

// claimant is this process as Google Batch names it: a task, and how often it was started.
func claimant(name string) (c remote.Claimant, err error) {
	_, first, ok := parseJobName(name)
	index, err := strconv.Atoi(os.Getenv("BATCH_TASK_INDEX"))
	retries, _ := strconv.Atoi(os.Getenv("BATCH_TASK_RETRY_ATTEMPT")) // absent: it is the first
	if !ok || err != nil || index < 0 || retries < 0 {
		return c, fault.New(fault.Invalid, "Unset "+variableJob+".", "adopt agent: BATCH_TASK_INDEX=%q of job %.80q is no task of drover's", os.Getenv("BATCH_TASK_INDEX"), name)
	}
	id, before := placeOf(name)
	return remote.Claimant{ID: id, Index: first + index, Attempt: before + retries + 1}, nil
}

// notices are what the metadata server announces: that the machine is preempted.
func notices(ctx context.Context) <-chan driver.Notice {
	all := make(chan driver.Notice)
	go func() { // for as long as ctx lasts
		for ctx.Err() == nil {
			// Its error is that of a server which does not answer: it is asked again.
			_ = metadata.NewClient(nil).SubscribeWithContext(ctx, "instance/preempted", func(_ context.Context, value string, there bool) error {
				if there && value == "TRUE" {
					all <- driver.Notice{Why: "Google takes its machine away: spot capacity", Left: noticeTime}
				}
				return nil
			})
			select {
			case <-time.After(noticeLook):
			case <-ctx.Done():
			}
		}
	}()
	return all
}

// noticeLook is how long a metadata server that does not answer is left alone. A variable for tests.
var noticeLook = 5 * time.Second
