package sagemaker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// The variables that a container of drover's has beside those of SageMaker.
const (
	variableGPUs   = "DROVER_SAGEMAKER_GPUS"
	variableSpot   = "DROVER_SAGEMAKER_SPOT"   // the job is of spot capacity, and may be started again
	variableSecret = "DROVER_SAGEMAKER_SECRET" // the secret's name in Secrets Manager, where there is one
)

// stateFolder is where an agent has its own files, beside the program's.
const stateFolder = "/tmp/.drover"

// termTime is how long a container has after SIGTERM. Source: StopTrainingJob in SageMaker's API reference, 2026-11.
const termTime = 120 * time.Second

// orderLook is how often a supervisor reads orders to stop; 0: as package remote has it. A variable for
// tests.
var orderLook time.Duration

// adopt makes a container's first process an agent's supervisor, and the process below it the agent.
func adopt(p driver.AgentProcess) (*driver.Allocation, error) {
	gpus, ours := os.LookupEnv(variableGPUs)
	if !ours {
		return nil, nil
	}
	m := remote.Machine{Look: orderLook, Signal: termNotice, Given: driver.Allocation{Root: "/", State: stateFolder, Hosts: "/etc/hosts", Shared: &driver.Sharing{}, Archives: true, Failure: "/opt/ml/output/failure",
		OOMKills: func() int64 { return folder.OOMKills("/sys/fs/cgroup") }}}
	m.Given.GPUs, _ = strconv.Atoi(gpus) // 0 where it is none: what the machine has
	var err error
	if !remote.Supervised() {
		if m.Claimant, err = claimant(context.Background()); err != nil {
			return nil, err
		}
	} else if name := os.Getenv(variableSecret); name != "" {
		if m.Given.Secrets, err = secret.ReadHere(context.Background(), name); err != nil {
			return nil, err
		}
	}
	a, err := remote.Adopt(Name, p, m)
	for _, name := range []string{variableGPUs, variableSpot, variableSecret} {
		os.Unsetenv(name) // a process below this one must not take them for its own
	}
	return a, err
}

// noticeTime is how long SageMaker has to say why it ends a container.
const noticeTime = 5 * time.Second

// termNotice is what a SIGTERM of SageMaker's says: a user has stopped the job, or else its machine goes.
func termNotice() driver.Notice {
	n := driver.Notice{Why: "SageMaker ends its container: its spot capacity is taken, or its time is over", Left: termTime}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
	defer cancel()
	name, k, err := ownName()
	if err != nil || name == "" {
		return n
	}
	if j, err := describeHere(ctx, k, name); err == nil && j.stoppedByHand(time.Now()) {
		n.Asked, n.Why = true, "its job was stopped in SageMaker"
	}
	return n
}

// describeHere describes a job from a container of it, by its role.
func describeHere(ctx context.Context, k kind, name string) (j description, err error) {
	account, err := amazon.Open(ctx, amazon.Options{Region: os.Getenv("AWS_REGION")})
	if err == nil {
		j, _, err = newClient(account, amazon.Patience, 0).describe(ctx, k, name)
	}
	return j, err
}

// ownName is the name of the job that this container is of; "": it has none.
func ownName() (name string, k kind, err error) {
	if name := os.Getenv("TRAINING_JOB_NAME"); name != "" {
		return name, training, nil
	}
	var config struct{ ProcessingJobName string } // no variable of a processing job has its name
	if err := folder.ReadJSON(filepath.Join(mlFolder(), "config", "processingjobconfig.json"), &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", processing, fault.Wrap(err, fault.Invalid, "", "adopt agent: read which processing job this is")
	}
	return config.ProcessingJobName, processing, nil
}

// claimant is this process as SageMaker names it. Nothing tells a container that it was started again: of a job of spot capacity SageMaker is
// asked how often it has interrupted it.
func claimant(ctx context.Context) (c remote.Claimant, err error) {
	name, k, err := ownName()
	if err != nil {
		return c, err
	}
	hosts := filepath.Join(mlFolder(), "input", "config")
	if k == processing {
		hosts = filepath.Join(mlFolder(), "config")
	}
	_, worker, ok := parseJobName(name)
	if !ok {
		return c, fault.New(fault.Invalid, "Unset "+variableGPUs+".", "adopt agent: TRAINING_JOB_NAME=%q names no job of drover's", name)
	}
	c = remote.Claimant{ID: name, Index: worker, Attempt: 1}
	if worker < 0 {
		if c.Index, err = hostNumber(filepath.Join(hosts, "resourceconfig.json")); err != nil {
			return c, err
		}
	}
	if os.Getenv(variableSpot) == "" {
		return c, nil
	}
	j, err := describeHere(ctx, training, name)
	c.Attempt += j.interruptions()
	return c, err
}

// mlFolder is where SageMaker has its files in a container.
func mlFolder() string { return cmp.Or(os.Getenv("SAGEMAKER_BASE_DIR"), "/opt/ml") }

// hostNumber is the place of this machine among those of its job, in the order of their names, as SageMaker's file says.
func hostNumber(file string) (int, error) {
	var hosts struct {
		CurrentHost string   `json:"current_host"`
		Hosts       []string `json:"hosts"`
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &hosts)
	}
	if err != nil {
		return 0, fault.Wrap(err, fault.Invalid, "", "adopt agent: read which of the job's machines this is")
	}
	slices.SortFunc(hosts.Hosts, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) // algo-2 before algo-10
	n := slices.Index(hosts.Hosts, hosts.CurrentHost)
	if n < 0 {
		return 0, fault.New(fault.Invalid, "", "adopt agent: %s does not name its own host %q", file, hosts.CurrentHost)
	}
	return n, nil
}
