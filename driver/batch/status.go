package batch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/cloud/amazon/logtail"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// mostDescribed is how many jobs one request describes.
const mostDescribed = 100

// stopped is the reason that this driver gives with a request to end a job.
const stopped = "stopped by drover"

// isAlive says whether a job may be running, now or later.
func isAlive(s types.JobStatus) bool {
	return s != types.JobStatusSucceeded && s != types.JobStatusFailed
}

// childID is the id of a job's process number index; size is that of its array, 0: it is none.
func childID(id string, index, size int) string {
	if size == 0 {
		return id
	}
	return fmt.Sprintf("%s:%d", id, index)
}

// Processes gives the attempts of the jobs, and of the children of those that are arrays.
func (e *engine) Processes(ctx context.Context, h driver.Handle, ids []string, _ remote.Known) (all []remote.Process, err error) {
	c, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return nil, err
	}
	parents, err := c.describe(ctx, ids)
	if err != nil {
		return nil, err
	}
	before := e.newQueuePlaces(c, h)
	tails := logtail.NewBudget()
	attempts := func(id string, index int, j types.JobDetail) []remote.Process {
		some := processesOf(id, index, j)
		c.addTails(ctx, tails, j, some)
		before.add(ctx, id, j, some)
		return some
	}
	for _, id := range ids {
		i := slices.IndexFunc(parents, func(j types.JobDetail) bool { return aws.ToString(j.JobId) == id })
		if i < 0 {
			continue // forgotten, or not shown yet: package remote knows which
		}
		size := arraySize(parents[i])
		if size == 0 {
			all = append(all, attempts(id, 0, parents[i])...)
			continue
		}
		var children []string
		for n := range size {
			children = append(children, childID(id, n, size))
		}
		jobs, err := c.describe(ctx, children)
		if err != nil {
			return nil, err
		}
		for n, j := range childrenOf(id, parents[i], jobs) {
			all = append(all, attempts(id, n, j)...)
		}
	}
	return all, nil
}

// childrenOf are the children of an array, by their index. A child that is not shown yet waits with its parent.
func childrenOf(id string, parent types.JobDetail, jobs []types.JobDetail) []types.JobDetail {
	size := arraySize(parent)
	byID := map[string]types.JobDetail{}
	for _, j := range jobs {
		byID[aws.ToString(j.JobId)] = j
	}
	all := make([]types.JobDetail, size)
	for n := range size {
		j, shown := byID[childID(id, n, size)]
		if !shown {
			j = types.JobDetail{Status: parent.Status, StatusReason: parent.StatusReason}
		}
		all[n] = j
	}
	return all
}

func arraySize(j types.JobDetail) int {
	if j.ArrayProperties == nil {
		return 0
	}
	return int(aws.ToInt32(j.ArrayProperties.Size))
}

// describe describes jobs; those that AWS Batch does not know are left out.
func (c *client) describe(ctx context.Context, ids []string) (all []types.JobDetail, err error) {
	for part := range slices.Chunk(ids, mostDescribed) {
		var out *batch.DescribeJobsOutput
		err := c.send.Read(ctx, "describe jobs", func(ctx context.Context) (err error) {
			out, err = c.api.DescribeJobs(ctx, &batch.DescribeJobsInput{Jobs: part})
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, out.Jobs...)
	}
	return all, nil
}

// clientOfHandle is the client of the region of a handle's queue.
func (e *engine) clientOfHandle(ctx context.Context, h driver.Handle) (*client, error) {
	at, err := parseSite(h.Detail)
	if err != nil {
		return nil, err
	}
	return e.clients.In(ctx, at.region)
}

// processesOf are the attempts of one job.
func processesOf(id string, index int, j types.JobDetail) (all []remote.Process) {
	n := 0
	for _, a := range j.Attempts {
		if a.StoppedAt == nil && isAlive(j.Status) {
			continue // the one that runs now
		}
		n++
		p := remote.Process{Claimant: remote.Claimant{ID: id, Index: index, Attempt: n}}
		judge(&p, a)
		all = append(all, p)
	}
	if last := len(all) - 1; last >= 0 && !isAlive(j.Status) {
		judgeOrder(&all[last], j)
	}
	now := remote.Process{Claimant: remote.Claimant{ID: id, Index: index, Attempt: n + 1}, Code: -1}
	switch {
	case j.Status == types.JobStatusRunning:
		now.State = driver.Running
	case isAlive(j.Status):
		now.State, now.Reason, now.Hint = driver.Waiting, waitingWords(j), hintOf(aws.ToString(j.StatusReason))
	case n > 0:
		return all
	default: // it ended without an attempt
		now.State, now.Reason = driver.Ended, aws.ToString(j.StatusReason)
		now.Terminated = isOurs(j)
	}
	return append(all, now)
}

// judgeOrder says of the last attempt of a job whether a request has ended it.
func judgeOrder(p *remote.Process, j types.JobDetail) {
	why := aws.ToString(j.StatusReason)
	switch {
	case isOurs(j):
		p.State, p.Reason, p.Hint, p.Terminated = driver.Ended, why, "", true
	case aws.ToBool(j.IsTerminated):
		p.State, p.Reason, p.Hint = driver.Ended, "terminated in AWS Batch: "+why, ""
	}
}

// isOurs says whether this driver has ended a job.
func isOurs(j types.JobDetail) bool {
	return (aws.ToBool(j.IsTerminated) || aws.ToBool(j.IsCancelled)) && aws.ToString(j.StatusReason) == stopped
}

// judge says how an attempt has ended.
func judge(p *remote.Process, a types.AttemptDetail) {
	why, said := aws.ToString(a.StatusReason), ""
	p.Code = -1
	if a.Container != nil {
		said = aws.ToString(a.Container.Reason)
		if a.Container.ExitCode != nil {
			p.Code = int(*a.Container.ExitCode)
		}
	}
	p.Reason = why
	if said != "" {
		p.Reason = why + ": " + said
	}
	p.Hint = hintOf(p.Reason)
	switch {
	case strings.HasPrefix(why, takenHost), strings.HasPrefix(why, takenTask), p.Code == fault.ExitLater, strings.HasPrefix(why, "Job attempt duration exceeded"):
		p.State = driver.Taken
	case strings.HasPrefix(said, "OutOfMemoryError"):
		p.State, p.Code = driver.Ended, 137
	case strings.HasPrefix(why, "Task failed to start"), strings.HasPrefix(said, "CannotPullContainer"), p.Code >= 0 && p.Code < 128:
		p.State = driver.Ended
	default:
		p.State = driver.Lost
	}
}

// waitingWords say what a job waits for.
func waitingWords(j types.JobDetail) string {
	if why := aws.ToString(j.StatusReason); why != "" && why != "Essential container in task exited" {
		return "its job is " + string(j.Status) + ": " + why
	}
	switch j.Status {
	case types.JobStatusStarting:
		return "its container is starting: its machine pulls the image"
	case types.JobStatusRunnable:
		return "it waits in its queue for a machine"
	}
	return "its job is " + string(j.Status)
}

// hints are what to do about what AWS Batch says, by a part of its words.
var hints = []struct{ words, hint string }{
	{"OutOfMemoryError", "Give it more: --memory."},
	{"Job attempt duration exceeded", "Give it longer: --timeout."},
	{"CannotPullContainer", "Check --image, and that the machines of the queue may pull it."},
	{"JOB_RESOURCE_REQUIREMENT", "No machine of the queue is so large: ask for less with --cpus, --memory or --gpus, or use another queue."},
	{"COMPUTE_ENVIRONMENT_MAX_RESOURCE", "The queue may use no more cores: raise maxvCpus of its compute environment, or ask for less with --cpus."},
	{"SERVICE_ROLE_PERMISSIONS", "The service role of the queue's compute environment lacks rights: see the environment in the console of AWS Batch."},
	{"INSUFFICIENT_INSTANCE_CAPACITY", "AWS has no such machine free just now: wait, or use a queue with more types of machines."},
}

func hintOf(reason string) string {
	for _, h := range hints {
		if strings.Contains(reason, h.words) {
			return h.hint
		}
	}
	return ""
}

// atOnce is how many children of an array are ended at the same time.
const atOnce = 16

// Terminate ends jobs. Where all children of an array are to end, one request for the array ends them.
func (e *engine) Terminate(ctx context.Context, h driver.Handle, end []remote.Process) error {
	c, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return err
	}
	byID := map[string][]int{}
	for _, p := range end {
		byID[p.ID] = append(byID[p.ID], p.Index)
	}
	for id, indexes := range byID {
		parents, err := c.describe(ctx, []string{id})
		if err != nil {
			return err
		}
		if len(parents) == 0 {
			continue
		}
		size := arraySize(parents[0])
		targets := []string{id}
		if size > len(indexes) {
			targets = targets[:0]
			for _, i := range indexes {
				targets = append(targets, childID(id, i, size))
			}
		}
		all, ctx := errgroup.WithContext(ctx)
		all.SetLimit(atOnce)
		for _, job := range targets {
			all.Go(func() error {
				return c.send.Read(ctx, "terminate the job", func(ctx context.Context) error {
					_, err := c.api.TerminateJob(ctx, &batch.TerminateJobInput{JobId: &job, Reason: aws.String(stopped)})
					return err
				})
			})
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	return nil
}
