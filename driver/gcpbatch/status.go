package gcpbatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// Processes gives the tasks of the jobs, each start of them apart. A job that Google Batch has forgotten has none. One that is missing while
// another of its placement goes on was never made, as the command that made them has died in between: it is made now. A job that has waited for machines
// long enough is attended to; a look that is cut off in between is done again by the next.
func (e *engine) Processes(ctx context.Context, h driver.Handle, ids []string, known remote.Known) (all []remote.Process, err error) {
	at, err := siteOf(h)
	if err != nil {
		return nil, err
	}
	up := known.Up
	var living batchapi.Job
	var missing []string
	tails := mostTails
	for _, id := range ids {
		j, err := e.find(ctx, at, id)
		if errors.Is(err, rest.ErrNotFound) {
			missing = append(missing, id)
			continue
		}
		if err != nil {
			return nil, err
		}
		if leaving(j.job) {
			continue
		}
		if known.Stopped || !ended(j.job) && j.job.Status.State != batchapi.JobCancelling {
			living = j.job // of a stopped placement any will do: nothing is made of it
		}
		var gone bool
		if !known.Stopped {
			gone, err = e.attend(ctx, at, id, j.job)
		}
		if err != nil && !remote.Refused(err) { // what Google refuses, as to a user that may only look, stays as it is
			return nil, err
		}
		if gone {
			continue
		}
		starts := processesOf(id, j, up)
		addWords(starts, err)
		e.addTails(ctx, at, j, starts, up, &tails)
		all = append(all, starts...)
	}
	for _, id := range missing {
		if living.Name == "" || !slices.Contains(jobNames(h, agentsOf(living)), id) || id == jobName(h) ||
			slices.ContainsFunc(up, func(c remote.Claimant) bool { return c.ID == id }) { // it was there, and a user has deleted it
			continue
		}
		in, state := part(living, id), batchapi.JobCancelled
		if err = nil; !known.Stopped {
			err, state = create(ctx, e.client(at), id, in, nil), batchapi.JobQueued
		}
		if err != nil && !remote.Refused(err) {
			return nil, err
		}
		in.Status = &batchapi.JobStatus{State: state}
		starts := processesOf(id, seenJob{job: in}, up)
		addWords(starts, err)
		all = append(all, starts...)
	}
	return all, nil
}

// addWords says of starts that wait what was refused; nil: nothing was.
func addWords(starts []remote.Process, err error) {
	for i := range starts {
		if err != nil && starts[i].State == driver.Waiting {
			starts[i].Reason += "; " + err.Error()
		}
	}
}

// attend does what follows from the time that a job has waited for machines: it is cancelled, or one of on-demand machines is made in its place before it is
// deleted. gone says that another has its place.
func (e *engine) attend(ctx context.Context, at site, id string, j batchapi.Job) (gone bool, err error) {
	if !overdue(j, e.now()) && !late(j, e.now()) {
		return false, nil
	}
	c := e.client(at)
	if j, err = c.Get(ctx, id); err != nil { // it may have begun since it was looked at
		return false, err
	}
	switch {
	case overdue(j, e.now()):
		e.forget(at, []string{id})
		return false, c.Cancel(ctx, id)
	case late(j, e.now()):
		name := onDemandName(id)
		if err := create(ctx, c, name, onDemand(j, name), nil); err != nil {
			return false, err
		}
		e.forget(at, []string{id})
		if err := c.Delete(ctx, id); err != nil && !errors.Is(err, rest.ErrNotFound) {
			return false, err
		}
		return true, nil
	}
	return false, nil
}

// processesOf are the starts of a job's tasks. up are those that have become agents: Google Batch may not yet show a start of which the agent is up.
func processesOf(id string, j seenJob, up []remote.Claimant) (all []remote.Process) {
	_, first, ok := parseJobName(id)
	if !ok || len(j.job.TaskGroups) == 0 || j.job.Status == nil {
		return nil
	}
	place, before := placeOf(id)
	begun := map[int]int{} // by index: the newest start that has become an agent
	for _, c := range up {
		if c.ID == place && c.Attempt > before && c.Attempt <= before+mostRetries+1 {
			begun[c.Index] = max(begun[c.Index], c.Attempt)
		}
	}
	tasks := map[int]batchapi.TaskStatus{}
	for _, t := range j.tasks {
		if n, err := strconv.Atoi(t.Name[strings.LastIndexByte(t.Name, '/')+1:]); err == nil {
			tasks[n] = t.Status
		}
	}
	for n := range int(j.job.TaskGroups[0].TaskCount) {
		all = append(all, startsOf(remote.Claimant{ID: place, Index: first + n, Attempt: before}, j.job, tasks[n], begun[first+n])...)
	}
	return all
}

// taskGroup is the name of the one group of tasks that a job has.
const taskGroup = "group0"

// startsOf are the starts of a task after those that c has had, as its events tell them: each that has ended has an event with an exit code, but for one that ended with 0.
func startsOf(c remote.Claimant, j batchapi.Job, t batchapi.TaskStatus, begun int) (all []remote.Process) {
	where := ""
	if group := j.Status.TaskGroups[taskGroup]; len(group.Instances) > 0 {
		where = strings.TrimSpace(group.Instances[0].MachineType + " " + strings.ToLower(group.Instances[0].ProvisioningModel))
	}
	for _, event := range t.StatusEvents {
		if event.TaskExecution == nil || event.TaskExecution.ExitCode == 0 {
			continue
		}
		c.Attempt++
		p := remote.Process{Claimant: c, Where: where}
		judge(&p, event.TaskExecution.ExitCode, event.Description)
		all = append(all, p)
	}
	over := t.State == batchapi.TaskFailed && len(all) > 0
	for c.Attempt+1 < begun { // their ends are not shown yet
		c.Attempt++
		all = append(all, remote.Process{Claimant: c, Where: where, State: driver.Lost, Code: -1, Reason: "its machine is gone: Google Batch has started its task again"})
	}
	if over && begun <= c.Attempt {
		return all
	}
	c.Attempt++
	now := remote.Process{Claimant: c, Code: -1, Where: where}
	switch {
	case gaveUp(j, t):
		now.State, now.Reason, now.Hint = driver.Ended, fmt.Sprintf("no machine has come for it within %s", waitOf(j)), "Wait for longer, with --target-arg wait=, or allow other machines, with --machine or --on-demand."
	case j.Status.State == batchapi.JobCancelled && t.State != batchapi.TaskSucceeded:
		now.State, now.Reason = driver.Ended, "cancelled in Google Batch"
	case t.State == batchapi.TaskSucceeded:
		now.State, now.Code, now.Reason = driver.Ended, 0, "its task has ended"
	case t.State == batchapi.TaskFailed:
		now.State, now.Reason = driver.Ended, cmp.Or(newest(t.StatusEvents), newest(j.Status.StatusEvents), "its task has failed, and Google Batch says no more")
	case t.State == batchapi.TaskRunning:
		now.State, now.Reason = driver.Running, "its task runs"
		if begun < c.Attempt {
			now.Reason = "its agent comes up"
		}
	case t.State == batchapi.TaskAssigned:
		now.State, now.Reason = driver.Waiting, "its machine boots"
	case ended(j):
		now.State = driver.Ended
		now.Reason, now.Hint = waitingWords(cmp.Or(newest(j.Status.StatusEvents), "its job has ended before it began"))
	default:
		now.State = driver.Waiting
		now.Reason, now.Hint = waitingWords(newest(j.Status.StatusEvents))
	}
	return append(all, now)
}

// waitOf is how long a job waits for machines; 0: for as long as Google Batch lets it.
func waitOf(j batchapi.Job) time.Duration {
	seconds, _ := strconv.Atoi(j.Labels[labelWait]) // absent: 0
	return time.Duration(seconds) * time.Second
}

// waits says whether a job has waited for its first machine for so long.
func waits(j batchapi.Job, now time.Time, long time.Duration) bool {
	if j.Status == nil || j.Status.State != batchapi.JobQueued && j.Status.State != batchapi.JobScheduled || j.CreateTime == nil {
		return false
	}
	for state, n := range j.Status.TaskGroups[taskGroup].Counts {
		if n > 0 && state != batchapi.TaskPending { // a machine boots for it
			return false
		}
	}
	return now.Sub(*j.CreateTime) >= long
}

// late says whether on-demand machines are to come in the place of a job's spot capacity.
func late(j batchapi.Job, now time.Time) bool {
	return j.Labels[labelFirst] != "" && waits(j, now, firstTime)
}

// overdue says whether a job has waited for machines for longer than it is to.
func overdue(j batchapi.Job, now time.Time) bool {
	return waitOf(j) > 0 && waits(j, now, waitOf(j))
}

// gaveUp says whether a job was cancelled as no machine had come for a task in time.
func gaveUp(j batchapi.Job, t batchapi.TaskStatus) bool {
	return j.Status.State == batchapi.JobCancelled && waitOf(j) > 0 && len(t.StatusEvents) == 0 && j.CreateTime != nil && j.UpdateTime != nil && j.UpdateTime.Sub(*j.CreateTime) >= waitOf(j)
}

// newest is what Google Batch has said last, but for changes of a job's state, which say nothing more.
func newest(events []batchapi.StatusEvent) string {
	for _, e := range slices.Backward(events) {
		if words := strings.TrimSuffix(e.Description, "."); words != "" && !strings.HasPrefix(words, "Job state is set from ") {
			return words
		}
	}
	return ""
}

// waitingWords say what a task waits for, and what can be done.
func waitingWords(said string) (reason, hint string) {
	switch {
	case strings.Contains(said, "QUOTA_EXCEEDED"):
		return "a quota of the project is used up: " + said, quotaHint
	case strings.Contains(said, "ZONE_RESOURCE_POOL_EXHAUSTED"):
		return "Google has none of its machines now: " + said, "Allow other types or regions, with --machine or --on gcp/REGION, or use --on-demand."
	case said == "":
		return "its job is queued in Google Batch", ""
	}
	return said, ""
}

// judge says how a start of a task has ended, by its exit code.
func judge(p *remote.Process, code int, said string) {
	p.Code, p.Reason = code, cmp.Or(strings.TrimSuffix(said, "."), "exit code "+strconv.Itoa(code))
	switch {
	case code == codePreempted:
		p.State, p.Code, p.Reason = driver.Taken, -1, "Google has taken its machine away: spot capacity"
	case code == codeOverTime:
		p.State, p.Code, p.Reason, p.Hint = driver.Taken, -1, "its time limit at Google Batch is over", "Give it longer: --timeout."
	case code == fault.ExitLater:
		p.State = driver.Taken
	case code >= 50000:
		p.State, p.Code = driver.Lost, -1
	case code >= 128:
		p.State = driver.Lost
	default:
		p.State = driver.Ended
	}
}
