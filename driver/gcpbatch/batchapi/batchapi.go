// Package batchapi sends the requests of Google Batch (batch.googleapis.com, v1) that drover needs, and has their members. Names and forms are those of
// Google's discovery document, revision 20260723, to which the tests of driver/gcpbatch hold every request and answer.
//
// It refuses to know what a job is for.
package batchapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-run/drover/cloud/google/rest"
)

// Job is a job, as it is asked for and as it is.
type Job struct {
	Name             string            `json:"name,omitempty"` // projects/P/locations/R/jobs/ID
	UID              string            `json:"uid,omitempty"`
	TaskGroups       []TaskGroup       `json:"taskGroups,omitempty"`
	AllocationPolicy *AllocationPolicy `json:"allocationPolicy,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	LogsPolicy       *LogsPolicy       `json:"logsPolicy,omitempty"`
	Status           *JobStatus        `json:"status,omitempty"`
	CreateTime       *time.Time        `json:"createTime,omitempty"`
	UpdateTime       *time.Time        `json:"updateTime,omitempty"`
}

// TaskGroup is the one group of a job.
type TaskGroup struct {
	TaskSpec         TaskSpec `json:"taskSpec"`
	TaskCount        int64    `json:"taskCount,omitempty,string"`
	Parallelism      int64    `json:"parallelism,omitempty,string"`
	TaskCountPerNode int64    `json:"taskCountPerNode,omitempty,string"`
}

// TaskSpec is what each task does.
type TaskSpec struct {
	Runnables         []Runnable        `json:"runnables"`
	ComputeResource   ComputeResource   `json:"computeResource"`
	MaxRetryCount     int               `json:"maxRetryCount"`
	LifecyclePolicies []LifecyclePolicy `json:"lifecyclePolicies,omitempty"`
	MaxRunDuration    string            `json:"maxRunDuration,omitempty"` // "3600s"
	Volumes           []Volume          `json:"volumes,omitempty"`
	Environment       *Environment      `json:"environment,omitempty"`
}

// Runnable is a step of a task: a script, or a container.
type Runnable struct {
	Script      *Script    `json:"script,omitempty"`
	Container   *Container `json:"container,omitempty"`
	DisplayName string     `json:"displayName,omitempty"`
}

// Script runs on the machine, as root.
type Script struct {
	Text string `json:"text"`
}

// Container runs by the machine's Docker.
type Container struct {
	ImageURI   string   `json:"imageUri"`
	Entrypoint string   `json:"entrypoint,omitempty"`
	Commands   []string `json:"commands,omitempty"`
	Volumes    []string `json:"volumes,omitempty"` // HOST:CONTAINER:OPTIONS
	Options    string   `json:"options,omitempty"` // of docker run
}

// ComputeResource is what a task needs of a machine.
type ComputeResource struct {
	CPUMilli    int64 `json:"cpuMilli,omitempty,string"`
	MemoryMib   int64 `json:"memoryMib,omitempty,string"`
	BootDiskMib int64 `json:"bootDiskMib,omitempty,string"`
}

// LifecyclePolicy says what follows some exit codes.
type LifecyclePolicy struct {
	Action          string          `json:"action"` // RETRY_TASK or FAIL_TASK
	ActionCondition ActionCondition `json:"actionCondition"`
}

// ActionCondition names exit codes.
type ActionCondition struct {
	ExitCodes []int `json:"exitCodes"`
}

// Volume is a bucket, a file share or a disk that a machine mounts.
type Volume struct {
	GCS          *GCS     `json:"gcs,omitempty"`
	NFS          *NFS     `json:"nfs,omitempty"`
	DeviceName   string   `json:"deviceName,omitempty"` // that of an AttachedDisk
	MountPath    string   `json:"mountPath"`
	MountOptions []string `json:"mountOptions,omitempty"`
}

// GCS is a bucket, or a folder of it.
type GCS struct {
	RemotePath string `json:"remotePath"` // BUCKET/FOLDER
}

// NFS is a file share.
type NFS struct {
	Server     string `json:"server"`
	RemotePath string `json:"remotePath"`
}

// Environment is that of all runnables of a task.
type Environment struct {
	Variables map[string]string `json:"variables,omitempty"`
}

// AllocationPolicy says on what a job runs.
type AllocationPolicy struct {
	Instances      []Instances       `json:"instances,omitempty"`
	Location       *Location         `json:"location,omitempty"`
	Network        *Network          `json:"network,omitempty"`
	Placement      *PlacementPolicy  `json:"placement,omitempty"`
	ServiceAccount *ServiceAccount   `json:"serviceAccount,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
}

// Instances are a job's machines.
type Instances struct {
	Policy            *InstancePolicy `json:"policy,omitempty"`
	InstallGPUDrivers bool            `json:"installGpuDrivers,omitempty"`
}

// InstancePolicy is their type and how they are bought.
type InstancePolicy struct {
	MachineType       string         `json:"machineType,omitempty"`
	ProvisioningModel string         `json:"provisioningModel,omitempty"`
	Reservation       string         `json:"reservation,omitempty"`
	Disks             []AttachedDisk `json:"disks,omitempty"`
}

// AttachedDisk is a disk of a machine beside that from which it boots.
type AttachedDisk struct {
	DeviceName   string `json:"deviceName"`
	ExistingDisk string `json:"existingDisk"` // projects/P/zones/Z/disks/NAME
}

// PlacementPolicy says how near machines are to each other.
type PlacementPolicy struct {
	Collocation string `json:"collocation"` // COLLOCATED
}

// Location is where machines may be: regions/R, zones/Z.
type Location struct {
	AllowedLocations []string `json:"allowedLocations"`
}

// Network is that of machines.
type Network struct {
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces"`
}

// NetworkInterface is the one of a machine.
type NetworkInterface struct {
	Network             string `json:"network,omitempty"`
	Subnetwork          string `json:"subnetwork,omitempty"`
	NoExternalIPAddress bool   `json:"noExternalIpAddress,omitempty"`
}

// ServiceAccount is that of machines.
type ServiceAccount struct {
	Email string `json:"email"`
}

// LogsPolicy says where what tasks print goes.
type LogsPolicy struct {
	Destination string `json:"destination"`
}

// The states of jobs.
const (
	JobQueued, JobScheduled, JobRunning, JobSucceeded, JobFailed = "QUEUED", "SCHEDULED", "RUNNING", "SUCCEEDED", "FAILED"
	JobCancelling, JobCancelled, JobDeleting                     = "CANCELLATION_IN_PROGRESS", "CANCELLED", "DELETION_IN_PROGRESS"
)

// The states of tasks.
const (
	TaskPending, TaskAssigned, TaskRunning, TaskFailed, TaskSucceeded, TaskUnexecuted = "PENDING", "ASSIGNED", "RUNNING", "FAILED", "SUCCEEDED", "UNEXECUTED"
)

// JobStatus is how a job is.
type JobStatus struct {
	State        string                     `json:"state"`
	StatusEvents []StatusEvent              `json:"statusEvents,omitempty"`
	TaskGroups   map[string]TaskGroupStatus `json:"taskGroups,omitempty"`
}

// TaskGroupStatus counts tasks by their states, and names the machines' types.
type TaskGroupStatus struct {
	Counts    map[string]Count `json:"counts,omitempty"`
	Instances []InstanceStatus `json:"instances,omitempty"`
}

// Count is a number that Google writes as text.
type Count int64

// MarshalText implements encoding.TextMarshaler.
func (c Count) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(c), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*c = Count(n)
	return err
}

// InstanceStatus is what the machines of a group are.
type InstanceStatus struct {
	MachineType       string `json:"machineType,omitempty"`
	ProvisioningModel string `json:"provisioningModel,omitempty"`
}

// StatusEvent is something that happened to a job or a task.
type StatusEvent struct {
	Type          string         `json:"type,omitempty"`
	Description   string         `json:"description,omitempty"`
	EventTime     *time.Time     `json:"eventTime,omitempty"`
	TaskState     string         `json:"taskState,omitempty"`
	TaskExecution *TaskExecution `json:"taskExecution,omitempty"`
}

// TaskExecution is how a task has ended.
type TaskExecution struct {
	ExitCode int `json:"exitCode,omitempty"`
}

// Task is a task of a job.
type Task struct {
	Name   string     `json:"name"` // JOB/taskGroups/group0/tasks/INDEX
	Status TaskStatus `json:"status"`
}

// TaskStatus is how a task is.
type TaskStatus struct {
	State        string        `json:"state"`
	StatusEvents []StatusEvent `json:"statusEvents,omitempty"`
}

// Client asks Google Batch in one region, as one project.
type Client struct {
	Caller          *rest.Caller
	Project, Region string
}

func (c *Client) parent() string {
	return fmt.Sprintf("%s/v1/projects/%s/locations/%s", c.Caller.Address("batch"), c.Project, c.Region)
}

func (c *Client) job(name string) string { return c.parent() + "/jobs/" + name }

// Create creates a job of a Job, or of one with more members. A second request with the same id creates nothing, and gives the job that is there.
func (c *Client) Create(ctx context.Context, name, requestID string, in any) (out Job, err error) {
	address := c.parent() + "/jobs?" + url.Values{"jobId": {name}, "requestId": {requestID}}.Encode()
	err = c.Caller.Do(ctx, rest.Call{Doing: "create the job in Google Batch", Method: http.MethodPost, URL: address, In: in, Out: &out})
	return out, err
}

// Get gives a job.
func (c *Client) Get(ctx context.Context, name string) (out Job, err error) {
	err = c.Caller.Do(ctx, rest.Call{Doing: "look at the job in Google Batch", Method: http.MethodGet, URL: c.job(name), Out: &out})
	return out, err
}

// page is the most of a list that Google Batch gives at once.
const page = "500"

// List gives the jobs that a filter lets through.
func (c *Client) List(ctx context.Context, filter string) (all []Job, err error) {
	for token := ""; ; {
		var out struct {
			Jobs          []Job  `json:"jobs"`
			NextPageToken string `json:"nextPageToken"`
		}
		address := c.parent() + "/jobs?" + url.Values{"filter": {filter}, "pageSize": {page}, "pageToken": {token}}.Encode()
		if err := c.Caller.Do(ctx, rest.Call{Doing: "list jobs of Google Batch", Method: http.MethodGet, URL: address, Out: &out}); err != nil {
			return nil, err
		}
		all = append(all, out.Jobs...)
		if token = out.NextPageToken; token == "" {
			return all, nil
		}
	}
}

// Tasks gives the tasks of a job.
func (c *Client) Tasks(ctx context.Context, name string) (all []Task, err error) {
	for token := ""; ; {
		var out struct {
			Tasks         []Task `json:"tasks"`
			NextPageToken string `json:"nextPageToken"`
		}
		address := c.job(name) + "/taskGroups/group0/tasks?" + url.Values{"pageSize": {page}, "pageToken": {token}}.Encode()
		if err := c.Caller.Do(ctx, rest.Call{Doing: "list tasks of Google Batch", Method: http.MethodGet, URL: address, Out: &out}); err != nil {
			return nil, err
		}
		all = append(all, out.Tasks...)
		if token = out.NextPageToken; token == "" {
			return all, nil
		}
	}
}

// Cancel ends all tasks of a job.
func (c *Client) Cancel(ctx context.Context, name string) error {
	return c.Caller.Do(ctx, rest.Call{Doing: "cancel the job in Google Batch", Method: http.MethodPost, URL: c.job(name) + ":cancel", In: struct{}{}})
}

// Delete takes a job off the list.
func (c *Client) Delete(ctx context.Context, name string) error {
	return c.Caller.Do(ctx, rest.Call{Doing: "delete the job in Google Batch", Method: http.MethodDelete, URL: c.job(name)})
}
