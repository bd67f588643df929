package sagemaker

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/drover-run/drover/cloud/amazon/logtail"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// Processes gives the instances of the jobs, each start of them apart.
func (e *engine) Processes(ctx context.Context, h driver.Handle, ids []string, known remote.Known) (all []remote.Process, err error) {
	c, k, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return nil, err
	}
	jobs, err := e.describeAll(ctx, c, k, h, ids, newestClaims(known.Up))
	if err != nil {
		return nil, err
	}
	var missing []string
	like, living := description{}, ""
	tails := logtail.NewBudget()
	for _, id := range ids {
		j, there := jobs[id]
		if !there {
			missing = append(missing, id)
			continue
		}
		if j.alive() && living == "" {
			like, living = j, id
		}
		_, worker, _ := parseJobName(id)
		some := processesOf(id, worker, k, j)
		c.addTails(ctx, tails, k, some)
		all = append(all, some...)
	}
	if len(missing) > 0 && living != "" && !known.Stopped {
		if err := e.askAgain(ctx, c, k, h, missing, living); err != nil {
			return nil, err
		}
	}
	return append(all, e.waiting(c, k, h, missing, like, known.Stopped)...), nil
}

// addTails gives processes that ended badly the end of what their containers printed: it says why an agent never came up.
func (c *client) addTails(ctx context.Context, b *logtail.Budget, k kind, all []remote.Process) {
	for i := range all {
		p := &all[i]
		if p.State != driver.Ended || p.Code == 0 {
			continue
		}
		host := p.Index
		if _, worker, _ := parseJobName(p.ID); worker >= 0 {
			host = 0
		}
		p.Tail = c.logs.ReadNewest(ctx, b, k.logs, fmt.Sprintf("%s/algo-%d-", p.ID, host+1))
	}
}

// interruptions are how often SageMaker has taken a job's machines away.
func (j description) interruptions() (n int) {
	for _, t := range j.Transitions {
		if t.Status == "Interrupted" {
			n++
		}
	}
	return n
}

// processesOf are the instances of a job; worker is the number of the worker that it is, -1: it has the nodes of a run.
func processesOf(id string, worker int, k kind, j description) (all []remote.Process) {
	count := max(j.Resources.InstanceCount, 1)
	before := j.interruptions()
	for i := range count {
		index := i
		if worker >= 0 {
			index = worker
		}
		for n := range before {
			all = append(all, remote.Process{Claimant: remote.Claimant{ID: id, Index: index, Attempt: n + 1}, State: driver.Taken, Code: -1, Reason: interruptedWords, Where: j.Resources.InstanceType})
		}
		now := remote.Process{Claimant: remote.Claimant{ID: id, Index: index, Attempt: before + 1}, Code: -1, Where: j.Resources.InstanceType}
		judge(&now, k, j)
		all = append(all, now)
	}
	return all
}

const interruptedWords = "SageMaker has taken its machine away: spot capacity"

// exitForm is the end of what SageMaker says of a container that has failed.
var exitForm = regexp.MustCompile(`exit code: ([0-9]+)`)

// judge says how the newest start of a job is.
func judge(p *remote.Process, k kind, j description) {
	p.Reason = j.Reason
	class, _, _ := strings.Cut(j.Reason, ":")
	switch {
	case j.Status == stopping, j.Status == inProgress && (j.Secondary == "Training" || j.Secondary == "Uploading"):
		p.State = driver.Running
	case j.Status == inProgress && k == processing: // it says no more
		p.State, p.Reason = driver.Running, "its processing job is in progress"
	case j.Status == inProgress:
		p.State, p.Reason = driver.Waiting, waitingWords(j)
	case j.Status == completed:
		p.State, p.Code = driver.Ended, 0
	case j.Secondary == "MaxRuntimeExceeded":
		p.State, p.Reason, p.Hint = driver.Taken, "its time limit at SageMaker is over", "Give it longer: --timeout."
	case j.Secondary == "MaxWaitTimeExceeded":
		p.State, p.Reason, p.Hint = driver.Taken, "there was no spot capacity for it in its time", "Wait longer, --target-arg wait=48h, or use --on-demand."
	case j.Status == stopped:
		p.State, p.Reason = driver.Ended, "stopped in SageMaker"
	case class == "CapacityError", class == "InternalServerError":
		p.State, p.Hint = driver.Taken, "Name several types: --machine g5.xlarge,g4dn.xlarge."
	case class == "AlgorithmError":
		judgeExit(p)
	default:
		p.State = driver.Ended
	}
}

// judgeExit says how a container has ended, by the exit status in SageMaker's words.
func judgeExit(p *remote.Process) {
	m := exitForm.FindStringSubmatch(p.Reason)
	if m == nil {
		p.State = driver.Lost
		return
	}
	p.Code, _ = strconv.Atoi(m[1]) // digits
	switch {
	case p.Code == fault.ExitLater:
		p.State = driver.Taken
	case p.Code < 128:
		p.State = driver.Ended
	default:
		p.State = driver.Lost
	}
}

// waitingWords say what a job waits for, in SageMaker's newest words.
func waitingWords(j description) string {
	text := "its training job is " + j.Secondary
	if n := len(j.Transitions); n > 0 && j.Transitions[n-1].StatusMessage != "" {
		text += ": " + strings.TrimSuffix(j.Transitions[n-1].StatusMessage, ".")
	}
	return text
}

// Terminate stops the jobs of which all that lives is to end: a job with several nodes ends as a whole. An agent of another one that has
// not begun reads the order to stop when it does.
func (e *engine) Terminate(ctx context.Context, h driver.Handle, end []remote.Process) error {
	c, k, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return err
	}
	ending := map[string]int{}
	for _, p := range end {
		if p.State.Alive() {
			ending[p.ID]++
		}
	}
	for id, n := range ending {
		if _, worker, _ := parseJobName(id); worker < 0 {
			j, there, err := e.describe(ctx, c, k, id)
			if err != nil {
				return err
			}
			if !there || n < max(j.Resources.InstanceCount, 1) {
				continue
			}
		}
		if err := c.stop(ctx, k, id); err != nil {
			return err
		}
		e.mu.Lock()
		delete(e.seen, k.noun+" "+id) // it changes now
		e.mu.Unlock()
	}
	return nil
}
