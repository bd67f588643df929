package gcpbatch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/driver/remote"
)

// Facts of Google Batch, each with its source, and what drover says of them. None was seen at Google by drover.
func TestWhatGoogleSaysOfTasks(t *testing.T) {
	exit := func(code int, words string) batchapi.StatusEvent {
		return batchapi.StatusEvent{Description: words, TaskExecution: &batchapi.TaskExecution{ExitCode: code}}
	}
	change := func(words string) batchapi.StatusEvent { return batchapi.StatusEvent{Description: words} }
	const preempted = "Task state is updated from RUNNING to PENDING on zones/europe-west1-b/instances/1 due to Spot VM preemption with exit code 50001."
	for name, row := range map[string]struct {
		source string
		job    string
		events []batchapi.StatusEvent // the job's
		task   batchapi.TaskStatus
		begun  int
		want   []string // state, code, reason, hint
	}{
		"it waits": {"JobStatus.state in the discovery document", batchapi.JobQueued, nil, batchapi.TaskStatus{}, 0,
			[]string{"waiting -1 its job is queued in Google Batch"}},
		"a quota is used up": {"dsub#303: the job alone says so, and waits for ever", batchapi.JobQueued, []batchapi.StatusEvent{change("CODE_GCE_QUOTA_EXCEEDED: quota 'CPUS' exceeded.")}, batchapi.TaskStatus{State: batchapi.TaskPending}, 0,
			[]string{"waiting -1 a quota of the project is used up: CODE_GCE_QUOTA_EXCEEDED: quota 'CPUS' exceeded; Ask Google for more at https://console.cloud.google.com/iam-admin/quotas, or use another region: --on gcp/REGION."}},
		"no capacity": {"no record of the words: they are those of managed instance groups", batchapi.JobScheduled, []batchapi.StatusEvent{change("CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED")}, batchapi.TaskStatus{State: batchapi.TaskPending}, 0,
			[]string{"waiting -1 Google has none of its machines now: CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED; Allow other types or regions, with --machine or --on gcp/REGION, or use --on-demand."}},
		"it boots":         {"TaskStatus.state in the discovery document", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskAssigned}, 0, []string{"waiting -1 its machine boots"}},
		"it comes up":      {"as above", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskRunning}, 0, []string{"running -1 its agent comes up"}},
		"it runs":          {"as above", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskRunning}, 1, []string{"running -1 its task runs"}},
		"it has ended":     {"nextflow#6977: its events have no exit code", batchapi.JobSucceeded, nil, batchapi.TaskStatus{State: batchapi.TaskSucceeded, StatusEvents: []batchapi.StatusEvent{change("SUCCEEDED")}}, 1, []string{"ended 0 its task has ended"}},
		"it was preempted": {"50001; the words are Google's", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskPending, StatusEvents: []batchapi.StatusEvent{exit(codePreempted, preempted)}}, 1, []string{"taken -1 Google has taken its machine away: spot capacity", "waiting -1 its job is queued in Google Batch"}},
		"it was preempted, and its successor is up before Google shows it": {"lists may lag", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskRunning}, 2, []string{"lost -1 its machine is gone: Google Batch has started its task again", "running -1 its task runs"}},
		"it left early":            {"75 is drover's own", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskRunning, StatusEvents: []batchapi.StatusEvent{exit(75, "with exit code 75.")}}, 2, []string{"taken 75 with exit code 75", "running -1 its task runs"}},
		"it was silent":            {"50002, cromwell#7783", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskPending, StatusEvents: []batchapi.StatusEvent{exit(codeNoReport, "VM reporting timeout.")}}, 1, []string{"lost -1 VM reporting timeout", "waiting -1 its job is queued in Google Batch"}},
		"it took too long":         {"50005", batchapi.JobRunning, nil, batchapi.TaskStatus{State: batchapi.TaskPending, StatusEvents: []batchapi.StatusEvent{exit(codeOverTime, "")}}, 1, []string{"taken -1 its time limit at Google Batch is over; Give it longer: --timeout.", "waiting -1 its job is queued in Google Batch"}},
		"its image is not there":   {"125 is docker's", batchapi.JobFailed, nil, batchapi.TaskStatus{State: batchapi.TaskFailed, StatusEvents: []batchapi.StatusEvent{exit(125, "with exit code 125.")}}, 0, []string{"ended 125 with exit code 125"}},
		"it was killed":            {"137 is of SIGKILL", batchapi.JobFailed, nil, batchapi.TaskStatus{State: batchapi.TaskFailed, StatusEvents: []batchapi.StatusEvent{exit(137, "")}}, 1, []string{"lost 137 exit code 137"}},
		"it failed without a code": {"permissions and images that are refused", batchapi.JobFailed, []batchapi.StatusEvent{change("Batch Error: code - CODE_VM_ACCESS, description - the agent has no permission.")}, batchapi.TaskStatus{State: batchapi.TaskFailed}, 0, []string{"ended -1 Batch Error: code - CODE_VM_ACCESS, description - the agent has no permission"}},
		"it failed without a word": {"as above", batchapi.JobFailed, nil, batchapi.TaskStatus{State: batchapi.TaskFailed}, 0, []string{"ended -1 its task has failed, and Google Batch says no more"}},
		"it was cancelled":         {"what cancelled tasks show is written nowhere", batchapi.JobCancelled, nil, batchapi.TaskStatus{State: batchapi.TaskFailed}, 1, []string{"ended -1 cancelled in Google Batch"}},
		"it never ran":             {"UNEXECUTED in the discovery document", batchapi.JobFailed, nil, batchapi.TaskStatus{State: batchapi.TaskUnexecuted}, 0, []string{"ended -1 its job has ended before it began"}},
		"its job is over":          {"a task that Google does not list", batchapi.JobFailed, nil, batchapi.TaskStatus{}, 0, []string{"ended -1 its job has ended before it began"}},
		"its job waited for two days": {"as of a quota that is used up; changes of a job's state say nothing more", batchapi.JobFailed, []batchapi.StatusEvent{change("CODE_GCE_QUOTA_EXCEEDED: quota 'CPUS' exceeded."), change("Job state is set from QUEUED to FAILED for job x.")}, batchapi.TaskStatus{}, 0,
			[]string{"ended -1 a quota of the project is used up: CODE_GCE_QUOTA_EXCEEDED: quota 'CPUS' exceeded; Ask Google for more at https://console.cloud.google.com/iam-admin/quotas, or use another region: --on gcp/REGION."}},
		"another task has failed": {"FAILED is said to be of a job of which at least one task has failed", batchapi.JobFailed, nil, batchapi.TaskStatus{State: batchapi.TaskRunning}, 1, []string{"running -1 its task runs"}},
	} {
		j := batchapi.Job{Status: &batchapi.JobStatus{State: row.job, StatusEvents: row.events}}
		var got []string
		for _, p := range startsOf(remote.Claimant{ID: "drover-a-1"}, j, row.task, row.begun) {
			text := strings.TrimSpace(string(p.State) + " " + strconv.Itoa(p.Code) + " " + p.Reason)
			if p.Hint != "" {
				text += "; " + p.Hint
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (%s) (-want +got):\n%s", name, row.source, diff)
		}
	}
}

// The eleventh loss of one task is the end of it and of its job; the other agents go on.
func TestTheEleventhLossIsTheLast(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	h, err := l.Start(t.Context(), l.request(t, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	id := "drover-" + jobID + "-1"
	for k := range mostRetries + 1 {
		number := k * 2 // task 0 has these numbers
		drivertest.Until(t, "its agent is up", func() bool {
			all, err := l.Status(t.Context(), h)
			return err == nil && len(all) > 0 && runs(all, number) && runs(all, 1)
		})
		l.Take(id, 0)
	}
	drivertest.Until(t, "it is not started again", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && count(all, driver.Taken) == mostRetries+1 && count(all, driver.Running) == 1 && count(all, driver.Waiting) == 0
	})
	l.remove(t, h)
}

func runs(all []driver.Member, number int) bool {
	for _, m := range all {
		if m.Index == number && m.State == driver.Running {
			return true
		}
	}
	return false
}

func count(all []driver.Member, s driver.State) (n int) {
	for _, m := range all {
		if m.State == s {
			n++
		}
	}
	return n
}

// A job that is deleted by hand is forgotten: its agents are lost.
func TestAJobThatWasDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	h, err := l.Start(t.Context(), l.request(t, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it runs", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && runs(all, 0)
	})
	if err := l.engine.client(site{"europe-west1", "demo-project"}).Delete(context.Background(), "drover-"+jobID+"-1"); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "its agent is lost", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && count(all, driver.Lost) == 1
	})
}

// What never came up is told by what its task printed, of the first that are looked at; a caller that may not read it is told the rest.
func TestTheLogOfWhatNeverCameUpIsShown(t *testing.T) {
	t.Parallel()
	for _, denied := range []bool{false, true} {
		l := newLocated(t)
		if denied {
			l.Forbid("logging.logEntries.list")
		}
		r := l.request(t, 1, mostTails)
		r.Needs.Place.Image = "europe-docker.pkg.dev/demo-project/nowhere/image:1"
		h, err := l.Start(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Until(t, "all have ended", func() bool {
			all, err := l.Status(t.Context(), h)
			return err == nil && count(all, driver.Ended) == mostTails
		})
		all, err := l.Status(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		tails, want := 0, mostTails
		if denied {
			want = 0
		}
		for _, m := range all {
			if strings.HasSuffix(m.Tail, "docker: Error response from daemon: manifest for europe-docker.pkg.dev/demo-project/nowhere/image:1 not found: manifest unknown") {
				tails++
			}
			if m.Code != 125 || !strings.HasPrefix(m.Reason, "it never came up: ") {
				t.Errorf("%+v", m)
			}
		}
		if n := l.Requests("entries.list"); tails != want || n != mostTails {
			t.Errorf("%d tails, %d requests", tails, n)
		}
	}
}

// A job that has waited for longer than it is to is cancelled by the next look, and says so; one that has no such time waits.
func TestAJobWaitsForMachinesNoLongerThanItIsTo(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Hold("held")
	r := l.request(t, 1, 2)
	patient, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Placement, r.Needs.Args = 2, []string{"wait=2h"}
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	look := func(h driver.Handle, by time.Duration) remote.Process {
		t.Helper()
		l.Age(jobName(h), by)
		all, err := l.engine.Processes(t.Context(), h, []string{jobName(h)}, remote.Known{})
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	for _, of := range []driver.Handle{patient, h} {
		if p := look(of, 119*time.Minute); p.State != driver.Waiting {
			t.Errorf("%+v", p)
		}
		look(of, time.Minute) // cancels it, if it is to
	}
	if p := look(h, 0); p.State != driver.Ended || p.Reason != "no machine has come for it within 2h0m0s" || p.Hint != "Wait for longer, with --target-arg wait=, or allow other machines, with --machine or --on-demand." {
		t.Errorf("%+v", p)
	}
	if p := look(patient, 0); p.State != driver.Waiting {
		t.Errorf("%+v", p)
	}
	if n := l.Requests("jobs.cancel"); n != 1 {
		t.Errorf("%d jobs were cancelled", n)
	}
}

// A job has waited once no machine is there for it, not even one that boots, and the states of jobs that wait alone count.
func TestAJobWaitsUntilAMachineBootsForIt(t *testing.T) {
	created := time.Now().Add(-time.Hour)
	job := func(state, task string) batchapi.Job {
		return batchapi.Job{CreateTime: &created, Status: &batchapi.JobStatus{State: state, TaskGroups: map[string]batchapi.TaskGroupStatus{taskGroup: {Counts: map[string]batchapi.Count{task: 1, batchapi.TaskPending: 3}}}}}
	}
	for _, row := range []struct {
		job  batchapi.Job
		long time.Duration
		want bool
	}{
		{job(batchapi.JobQueued, batchapi.TaskPending), time.Minute, true}, {job(batchapi.JobScheduled, batchapi.TaskPending), time.Minute, true}, {job(batchapi.JobQueued, batchapi.TaskPending), 2 * time.Hour, false},
		{job(batchapi.JobScheduled, batchapi.TaskAssigned), time.Minute, false}, {job(batchapi.JobRunning, batchapi.TaskPending), time.Minute, false}, {batchapi.Job{CreateTime: &created}, time.Minute, false},
	} {
		if got := waits(row.job, time.Now(), row.long); got != row.want {
			t.Errorf("%+v: %t", row.job.Status, got)
		}
	}
}

// What Google Batch does in days: a job that waits fails, and one that has ended is forgotten. What was recorded of its agents stays.
func TestDaysGoBy(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Hold("held")
	r := l.request(t, 1, 1)
	queued, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	l.Age(jobName(queued), 48*time.Hour)
	drivertest.Until(t, "it has failed", func() bool {
		all, err := l.Status(t.Context(), queued)
		return err == nil && count(all, driver.Ended) == 1 && strings.HasPrefix(all[0].Reason, "it never came up: ")
	})
	l.Release()
	r.Placement = 2
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it runs", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && runs(all, 0)
	})
	if err := l.Stop(t.Context(), h, time.Minute, false); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it has ended", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && count(all, driver.Ended) == 1
	})
	l.Age(jobName(h), 60*24*time.Hour)
	drivertest.Until(t, "its job is forgotten", func() bool {
		_, err := l.engine.client(site{"europe-west1", "demo-project"}).Get(t.Context(), jobName(h))
		return errors.Is(err, rest.ErrNotFound)
	})
	all, err := (located{l.project.driver(), l.project}).Status(t.Context(), h)
	if err != nil || count(all, driver.Ended) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A log is asked for by its job and task, the newest lines first, and briefly.
func TestALogIsOfItsTask(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	var asked struct{ Filter, OrderBy string }
	caller := *l.engine.caller()
	caller.Over = roundTrip(func(r *http.Request) (*http.Response, error) {
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		return &http.Response{StatusCode: 403, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})
	l.engine.caller = func() *rest.Caller { return &caller }
	_, err := l.engine.readTail(t.Context(), site{"europe-west1", "demo-project"}, "uid", 12)
	if err == nil || !strings.HasPrefix(err.Error(), "read the log of a task in Cloud Logging: the server says 403") {
		t.Error(err)
	}
	if asked.OrderBy != "timestamp desc" || asked.Filter != `logName="projects/demo-project/logs/batch_task_logs" AND labels.job_uid="uid" AND labels.task_id=~"group0-12(/|$)"` {
		t.Errorf("%+v", asked)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
