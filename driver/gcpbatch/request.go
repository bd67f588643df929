package gcpbatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// programFile is where a machine has drover's program, and its container too. A variable for tests, which run machines as processes of one machine.
// Below /var/lib/google, as of Container-Optimized OS little else may hold programs. Source: "Disks and file system overview", Container-Optimized OS, 2026-11.
var programFile = "/var/lib/google/drover/drover"

const (
	// mostRetries is how often Google Batch starts a task again at most. Source: the discovery document, TaskSpec.maxRetryCount.
	mostRetries = 10
	// longTime is how long a job may run of which no limit was said. Source: quotas of Batch, 2026-11.
	longTime = 14 * 24 * time.Hour
	// saveTime is what a task has beyond its program's time limit, to begin and to save.
	saveTime = 15 * time.Minute
	// secretTime is how long a secret stays after the longest that its job may run.
	secretTime = 3 * 24 * time.Hour
	// usualDisk is what each task adds to its machine's boot disk, in MiB, beside the program's own: for images and inputs.
	usualDisk = 40 << 10
)

// The codes with which Google Batch says what has happened to a task's machine. Source: "Reserved exit codes", Batch, 2026-11.
const (
	codePreempted = 50001 + iota
	codeNoReport
	codeRebooted
	codeStuck
	codeOverTime
	codeRecreated
)

// timeLimit is how long a job may run.
func timeLimit(limit time.Duration) time.Duration {
	if limit == 0 {
		return longTime
	}
	return min(limit+saveTime, longTime)
}

// isSpot says whether machines are spot capacity: they are where nothing was said.
func isSpot(n driver.Needs) bool { return n.Spot != job.SpotNever }

// newJob is the request for a placement's jobs, without what differs between them.
func newJob(ctx context.Context, s remote.Submission, at site, o options) (in batchapi.Job, err error) {
	n := s.Request.Needs
	m, err := chooseMachine(n, at.region)
	if err != nil {
		return in, err
	}
	image, err := imageOf(n.Place)
	if err != nil {
		return in, err
	}
	fetch, err := s.FetchScript(ctx, "linux/"+cmp.Or(m.arch, "amd64"), programFile)
	if err != nil {
		return in, err
	}
	boot := s.Request.Run
	boot.Binary = programFile
	argv := boot.Argv(s.Handle.Placement, 0)
	folder := path.Dir(programFile)
	container := batchapi.Container{ImageURI: image, Entrypoint: argv[0], Commands: argv[1:], Volumes: []string{folder + ":" + folder + ":ro"}, Options: dockerOptions(n)}
	variables := map[string]string{variableProject: at.project, variableGPUs: strconv.Itoa(m.gpus)}
	for _, v := range s.Request.Run.Env {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	if len(s.Secrets) > 0 {
		variables[variableSecret] = secretName(s.Handle)
	}
	group := batchapi.TaskGroup{TaskSpec: batchapi.TaskSpec{
		Runnables:       []batchapi.Runnable{{Script: &batchapi.Script{Text: "#!/bin/sh\n" + fetch}, DisplayName: "fetch drover"}, {Container: &container, DisplayName: "agent"}},
		ComputeResource: batchapi.ComputeResource{CPUMilli: m.cpuMilli(n), MemoryMib: m.memoryMiB(n), BootDiskMib: usualDisk + (n.Disk+1<<20-1)>>20},
		MaxRetryCount:   mostRetries, MaxRunDuration: fmt.Sprintf("%ds", int(timeLimit(n.Time).Seconds())),
		LifecyclePolicies: []batchapi.LifecyclePolicy{{Action: "RETRY_TASK", ActionCondition: batchapi.ActionCondition{
			ExitCodes: []int{fault.ExitLater, codePreempted, codeNoReport, codeRebooted, codeStuck, codeOverTime, codeRecreated}}}},
		Environment: &batchapi.Environment{Variables: variables}}}
	if n.Place.Nodes > 1 || m.name != "" {
		group.TaskCountPerNode = 1
	}
	in.TaskGroups = []batchapi.TaskGroup{group}
	policy := batchapi.InstancePolicy{MachineType: m.name, ProvisioningModel: "STANDARD", Reservation: o.reserved}
	if isSpot(n) {
		policy.ProvisioningModel = "SPOT"
	}
	in.AllocationPolicy = &batchapi.AllocationPolicy{Instances: []batchapi.Instances{{Policy: &policy, InstallGPUDrivers: m.gpus > 0}}, Location: &batchapi.Location{AllowedLocations: locations(at, o)}, Labels: labels(n.Labels)}
	if o.network != "" || o.subnetwork != "" || o.noExternal {
		in.AllocationPolicy.Network = &batchapi.Network{NetworkInterfaces: []batchapi.NetworkInterface{{Network: longName(at, "global/networks/", o.network), Subnetwork: longName(at, "regions/"+at.region+"/subnetworks/", o.subnetwork), NoExternalIPAddress: o.noExternal}}}
	}
	if o.near {
		in.AllocationPolicy.Placement = &batchapi.PlacementPolicy{Collocation: "COLLOCATED"}
	}
	addVolumes(&in, at, o.volumes)
	if o.account != "" {
		in.AllocationPolicy.ServiceAccount = &batchapi.ServiceAccount{Email: o.account}
	}
	in.Labels = labels(n.Labels)
	if n.Spot == job.SpotFirst {
		in.Labels[labelFirst] = "yes"
	}
	if o.wait > 0 {
		in.Labels[labelWait] = strconv.Itoa(int(o.wait.Seconds()))
	}
	in.Labels["drover_job"], in.Labels[labelAgents] = labelText(s.Handle.Job), strconv.Itoa(s.Request.Agents)
	in.LogsPolicy = &batchapi.LogsPolicy{Destination: "CLOUD_LOGGING"}
	return in, nil
}

// The labels of a job that say how many agents its placement has, in all of its jobs, for how many seconds it waits for machines, and that on-demand
// machines come in the place of spot capacity that does not.
const (
	labelAgents = "drover_agents"
	labelWait   = "drover_wait"
	labelFirst  = "drover_first"
)

// firstTime is how long spot capacity is waited for, before machines are bought on demand.
const firstTime = 10 * time.Minute

// onDemand is the request for the job that takes the place of one of spot capacity.
func onDemand(in batchapi.Job, name string) batchapi.Job {
	out := part(in, name)
	delete(out.Labels, labelFirst)
	instances := in.AllocationPolicy.Instances[0]
	machines := *instances.Policy
	machines.ProvisioningModel = "STANDARD"
	instances.Policy = &machines
	out.AllocationPolicy.Instances = []batchapi.Instances{instances}
	return out
}

// agentsOf is how many agents the placement of a job has; 0: it does not say.
func agentsOf(j batchapi.Job) int {
	n, _ := strconv.Atoi(j.Labels[labelAgents]) // absent: 0
	return n
}

// part is the request for one of a placement's jobs, made of that for another one.
func part(in batchapi.Job, name string) batchapi.Job {
	_, first, _ := parseJobName(name)
	count := min(mostTasks, agentsOf(in)-first)
	in.Name, in.UID, in.Status, in.CreateTime, in.UpdateTime = "", "", nil, nil, nil
	policy := *in.AllocationPolicy
	in.Labels, policy.Labels = ownLabels(in.Labels), ownLabels(policy.Labels)
	in.AllocationPolicy = &policy
	group := in.TaskGroups[0]
	group.TaskCount, group.Parallelism = int64(count), int64(count)
	group.TaskSpec.Environment = &batchapi.Environment{Variables: maps.Clone(group.TaskSpec.Environment.Variables)}
	group.TaskSpec.Environment.Variables[variableJob] = name
	in.TaskGroups = []batchapi.TaskGroup{group}
	return in
}

// dockerOptions are those of docker run. Nodes have the machine's network, so that they reach each other. Google Batch gives containers the GPUs of machines on which it
// installs their drivers (nextflow PR 5406), and --gpus has failed there (nextflow#3273).
func dockerOptions(n driver.Needs) string {
	all := []string{"--user 0"}
	if n.Place.Nodes > 1 {
		all = append(all, "--network host")
	}
	if n.Place.Shm > 0 {
		all = append(all, "--shm-size "+strconv.FormatInt(n.Place.Shm, 10))
	}
	return strings.Join(all, " ")
}

// imageOf is the image that agents run in.
func imageOf(p driver.Place) (string, error) {
	image, err := p.ImageOrPython()
	if err == nil && p.Image == "" {
		image = "mirror.gcr.io/library/" + image // Docker's own registry counts the pulls of an address
	}
	return image, err
}

// locations are where machines may be.
func locations(at site, o options) (all []string) {
	for _, z := range o.zones {
		all = append(all, "zones/"+z)
	}
	for _, v := range o.volumes { // a disk is in its zone alone
		if v.zone != "" && !slices.Contains(all, "zones/"+v.zone) {
			all = append(all, "zones/"+v.zone)
		}
	}
	if len(all) == 0 {
		all = []string{"regions/" + at.region}
	}
	return all
}

// longName is the name of a network as Google Batch takes it.
func longName(at site, kind, name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return "projects/" + at.project + "/" + kind + name
}
