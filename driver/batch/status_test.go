package batch

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/store"
)

// The words are those that AWS documents, and that users of it have quoted.
func TestWhatBatchSaysOfAnAttemptIsHowItEnded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		why, said string
		code      int // -1: none
		want      remote.Process
	}{
		"ended well":      {"Essential container in task exited", "", 0, remote.Process{State: driver.Ended, Reason: "Essential container in task exited"}},
		"ended badly":     {"Essential container in task exited", "", 3, remote.Process{State: driver.Ended, Code: 3, Reason: "Essential container in task exited"}},
		"left":            {"Essential container in task exited", "", 75, remote.Process{State: driver.Taken, Code: 75, Reason: "Essential container in task exited"}},
		"killed":          {"Essential container in task exited", "", 137, remote.Process{State: driver.Lost, Code: 137, Reason: "Essential container in task exited"}},
		"no code":         {"Task stopped", "", -1, remote.Process{State: driver.Lost, Code: -1, Reason: "Task stopped"}},
		"spot":            {"Host EC2 (instance i-0123456789abcdef0) terminated.", "", -1, remote.Process{State: driver.Taken, Code: -1, Reason: "Host EC2 (instance i-0123456789abcdef0) terminated."}},
		"spot, 143":       {"Host EC2 (instance i-0123456789abcdef0) terminated.", "", 143, remote.Process{State: driver.Taken, Code: 143, Reason: "Host EC2 (instance i-0123456789abcdef0) terminated."}},
		"time":            {"Job attempt duration exceeded timeout", "", -1, remote.Process{State: driver.Taken, Code: -1, Reason: "Job attempt duration exceeded timeout", Hint: "Give it longer: --timeout."}},
		"memory":          {"Essential container in task exited", "OutOfMemoryError: Container killed due to memory usage", 137, remote.Process{State: driver.Ended, Code: 137, Reason: "Essential container in task exited: OutOfMemoryError: Container killed due to memory usage", Hint: "Give it more: --memory."}},
		"no image":        {"Task failed to start", "CannotPullContainerError: no such manifest", -1, remote.Process{State: driver.Ended, Code: -1, Reason: "Task failed to start: CannotPullContainerError: no such manifest", Hint: "Check --image, and that the machines of the queue may pull it."}},
		"could not start": {"Task failed to start", "DockerTimeoutError", -1, remote.Process{State: driver.Ended, Code: -1, Reason: "Task failed to start: DockerTimeoutError"}},
	} {
		a := types.AttemptDetail{StatusReason: &row.why, Container: &types.AttemptContainerDetail{}}
		if row.said != "" {
			a.Container.Reason = &row.said
		}
		if row.code >= 0 {
			a.Container.ExitCode = aws.Int32(int32(row.code))
		}
		var got remote.Process
		judge(&got, a)
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEachAttemptOfAJobIsAProcess(t *testing.T) {
	t.Parallel()
	claimed := func(attempt int) remote.Claimant {
		return remote.Claimant{ID: "a", Index: 3, Attempt: attempt}
	}
	taken := types.AttemptDetail{StatusReason: aws.String("Host EC2 (instance i-1) terminated."), StartedAt: aws.Int64(1), StoppedAt: aws.Int64(2)}
	running := types.AttemptDetail{StartedAt: aws.Int64(3)}
	gone := remote.Process{Claimant: claimed(1), State: driver.Taken, Code: -1, Reason: "Host EC2 (instance i-1) terminated."}
	for name, row := range map[string]struct {
		job  types.JobDetail
		want []remote.Process
	}{
		"in the queue": {types.JobDetail{Status: types.JobStatusRunnable}, []remote.Process{{Claimant: claimed(1), State: driver.Waiting, Code: -1, Reason: "it waits in its queue for a machine"}}},
		"blocked": {types.JobDetail{Status: types.JobStatusRunnable, StatusReason: aws.String("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - x")},
			[]remote.Process{{Claimant: claimed(1), State: driver.Waiting, Code: -1, Reason: "its job is RUNNABLE: MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - x",
				Hint: "The queue may use no more cores: raise maxvCpus of its compute environment, or ask for less with --cpus."}}},
		"starting": {types.JobDetail{Status: types.JobStatusStarting}, []remote.Process{{Claimant: claimed(1), State: driver.Waiting, Code: -1, Reason: "its container is starting: its machine pulls the image"}}},
		"pending":  {types.JobDetail{Status: types.JobStatusPending}, []remote.Process{{Claimant: claimed(1), State: driver.Waiting, Code: -1, Reason: "its job is PENDING"}}},
		"running":  {types.JobDetail{Status: types.JobStatusRunning, Attempts: []types.AttemptDetail{running}}, []remote.Process{{Claimant: claimed(1), State: driver.Running, Code: -1}}},
		"taken, and in the queue again": {types.JobDetail{Status: types.JobStatusRunnable, Attempts: []types.AttemptDetail{taken}},
			[]remote.Process{gone, {Claimant: claimed(2), State: driver.Waiting, Code: -1, Reason: "it waits in its queue for a machine"}}},
		"taken, and running again": {types.JobDetail{Status: types.JobStatusRunning, Attempts: []types.AttemptDetail{taken, running}}, []remote.Process{gone, {Claimant: claimed(2), State: driver.Running, Code: -1}}},
		"taken too often":          {types.JobDetail{Status: types.JobStatusFailed, Attempts: []types.AttemptDetail{taken}}, []remote.Process{gone}},
		"terminated by another": {types.JobDetail{Status: types.JobStatusFailed, StatusReason: aws.String("too dear"), IsTerminated: aws.Bool(true), Attempts: []types.AttemptDetail{{StatusReason: aws.String("Essential container in task exited"), StoppedAt: aws.Int64(2)}}},
			[]remote.Process{{Claimant: claimed(1), State: driver.Ended, Code: -1, Reason: "terminated in AWS Batch: too dear"}}},
		"terminated by drover": {types.JobDetail{Status: types.JobStatusFailed, StatusReason: aws.String(stopped), IsTerminated: aws.Bool(true), Attempts: []types.AttemptDetail{{StatusReason: aws.String("Essential container in task exited"), StoppedAt: aws.Int64(2)}}},
			[]remote.Process{{Claimant: claimed(1), State: driver.Ended, Code: -1, Reason: "stopped by drover", Terminated: true}}},
		"terminated before it ran": {types.JobDetail{Status: types.JobStatusFailed, StatusReason: aws.String(stopped), IsTerminated: aws.Bool(true)}, []remote.Process{{Claimant: claimed(1), State: driver.Ended, Code: -1, Reason: "stopped by drover", Terminated: true}}},
	} {
		if diff := cmp.Diff(row.want, processesOf("a", 3, row.job)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEachBlockedReasonHasSomethingToDo(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested for instance type [p4d.24xlarge]": "AWS has no such machine free just now: wait, or use a queue with more types of machines.",
		"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement is higher than that can be met":                  "No machine of the queue is so large: ask for less with --cpus, --memory or --gpus, or use another queue.",
		"MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS":                        "The service role of the queue's compute environment lacks rights: see the environment in the console of AWS Batch.",
		"UNDETERMINED - Batch job is blocked, root cause is undetermined.": "",
	} {
		if got := hintOf(reason); got != want {
			t.Errorf("%s: %s", reason, got)
		}
	}
}

// Why an agent never came up is what its container printed last; a right to read it is not needed.
func TestAnAgentThatNeverCameUpLeavesItsLastWords(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"", "GetLogEvents"} {
		a := newAccount(t)
		a.Deny(denied)
		d := a.driver(t)
		r := a.request(t, 2)
		r.Run.Programs = func(context.Context, string) (driver.Program, error) {
			return driver.Program{SHA256: strings.Repeat("0", 64), Downloads: []store.Download{{Tool: "cat", Command: "echo 'the bucket is closed' >&2; false"}}}, nil
		}
		h, err := d.Start(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Until(t, "both have ended", func() bool {
			all, err := d.Status(t.Context(), h)
			return err == nil && len(all) == 2 && all[0].State == driver.Ended && all[1].State == driver.Ended
		})
		all, err := d.Status(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if !strings.HasPrefix(m.Reason, "it never came up: ") || strings.Contains(m.Tail, "drover: program not fetched with cat: the bucket is closed") != (denied == "") {
				t.Errorf("denied %q: %+v", denied, m)
			}
		}
	}
}

// An agent that waits behind other jobs says behind how many; one that is first, or of which AWS gives a reason, does not.
func TestTheJobsBeforeAnAgentAreCounted(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.HoldFor("")
	d := a.driver(t)
	for i, want := range []string{"it waits in its queue for a machine", "it waits in its queue for a machine, behind other jobs: 1", "it waits in its queue for a machine, behind other jobs: 2"} {
		r := a.request(t, 1+i%2) // a job, an array
		r.Placement = i + 1
		h, err := d.Start(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		all, err := d.Status(t.Context(), h)
		if err != nil || all[0].State != driver.Waiting || all[0].Reason != want {
			t.Errorf("%+v, %v; want %s", all, err, want)
		}
	}
	a.Deny("getjobqueuesnapshot")
	r := a.request(t, 1)
	r.Placement = 4
	h, err := d.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := d.Status(t.Context(), h); err != nil || all[0].Reason != "it waits in its queue for a machine" {
		t.Errorf("%+v, %v", all, err)
	}
}
