package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/account"
	"github.com/drover-run/drover/driver/batch/entrypoint"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// What AWS Batch takes at most.
const (
	mostAgents    = 10_000 // children of an array
	mostOverrides = 8192   // characters of a job's overrides, as JSON
)

// mostTime is the time limit of a job of which none was said.
const mostTime = 14 * 24 * time.Hour

// saveTime is what a job has beyond its program's time limit, to begin and to save.
const saveTime = 10 * time.Minute

// programFile is where a container has drover's program. A variable for tests, which run containers
// as processes of one machine.
var programFile = "/tmp/.drover/drover"

// jobName is the name of a placement's job.
func jobName(h driver.Handle) string {
	return fmt.Sprintf("%s%s-%d", account.Prefix, h.Job, h.Placement)
}

// secretName is the name in Secrets Manager of what a placement's agents are handed.
func secretName(h driver.Handle) string { return "drover/" + jobName(h) }

// parseJobName is the handle without a Detail that jobName has named.
func parseJobName(name string) (h driver.Handle, ok bool) {
	rest, mine := strings.CutPrefix(name, account.Prefix)
	id, number, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(number)
	h = driver.Handle{Target: Name, Job: id, Placement: n}
	return h, mine && err == nil && jobName(h) == name
}

// Submit submits one job, or one array.
func (e *engine) Submit(ctx context.Context, s remote.Submission) ([]string, error) {
	at, err := parseSite(s.Handle.Detail)
	if err != nil {
		return nil, err
	}
	c, err := e.clients.In(ctx, at.region)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(s.Request.Needs.Args)
	if err != nil {
		return nil, err
	}
	q, err := c.findQueue(ctx, at)
	if err != nil {
		return nil, err
	}
	shape, err := shapeOf(s.Request.Needs, q.complete(o), q)
	if err != nil {
		return nil, err
	}
	in, err := jobInput(ctx, at, s, shape, c.region)
	if err != nil {
		return nil, err
	}
	if err := e.notePlace(at); err != nil {
		return nil, err
	}
	definition, err := c.ensureDefinition(ctx, shape)
	if err != nil {
		return nil, err
	}
	if len(s.Secrets) > 0 {
		if err := c.secrets.Store(ctx, secretName(s.Handle), s.Secrets); err != nil {
			return nil, err
		}
	}
	in.JobDefinition = &definition
	var out *batch.SubmitJobOutput
	err = c.send.Once(ctx, "submit the job", func(ctx context.Context) (err error) {
		out, err = c.api.SubmitJob(ctx, in)
		return err
	})
	if err != nil {
		return nil, remote.Undo(err, func() bool { return len(s.Secrets) == 0 || c.secrets.Remove(ctx, secretName(s.Handle)) == nil })
	}
	return []string{aws.ToString(out.JobId)}, nil
}

// jobInput is the request for a job, without its definition.
func jobInput(ctx context.Context, at site, s remote.Submission, shape shape, region string) (*batch.SubmitJobInput, error) {
	script, err := s.StartScript(ctx, system, programFile, "")
	if err != nil {
		return nil, err
	}
	command, err := entrypoint.HandOver(s.Request.Needs.Place.Entrypoint, script, shape.options.passes)
	if err != nil {
		return nil, err
	}
	overrides := &types.ContainerOverrides{
		Command:     command,
		Environment: variables(s.Request.Run.Env, shape, region),
	}
	if len(s.Secrets) > 0 {
		overrides.Environment = append(overrides.Environment, types.KeyValuePair{Name: aws.String(variableSecret), Value: aws.String(secretName(s.Handle))})
	}
	in := &batch.SubmitJobInput{
		JobName: aws.String(jobName(s.Handle)), JobQueue: aws.String(at.name()), ContainerOverrides: overrides,
		Timeout: &types.JobTimeout{AttemptDurationSeconds: aws.Int32(int32(timeLimit(s.Request.Needs.Time) / time.Second))},
		Tags:    tags(s.Request.Needs.Labels), PropagateTags: aws.Bool(true),
	}
	if err := shape.options.job.amendJob(in); err != nil {
		return nil, err
	}
	text, err := json.Marshal(in.ContainerOverrides)
	if err != nil {
		return nil, err
	}
	if len(text) > mostOverrides {
		return nil, fault.New(fault.Invalid, "Give the program less in its environment: `--env`.", "start agents: what AWS Batch is told of a job takes %d characters, and it accepts %d", len(text), mostOverrides)
	}
	switch n := s.Request.Agents; {
	case n > mostAgents:
		return nil, tooMany(n)
	case n > 1:
		in.ArrayProperties = &types.ArrayProperties{Size: aws.Int32(int32(n))}
	}
	return in, nil
}

func tooMany(n int) error {
	return fault.New(fault.Full, "Ask for fewer: `--workers 10000`.", "start agents: an array of AWS Batch has at most 10,000 jobs, not %d", n)
}

// timeLimit is how long AWS Batch lets an attempt of a job live.
func timeLimit(program time.Duration) time.Duration {
	if program == 0 || program > mostTime-saveTime {
		return mostTime
	}
	return program + saveTime
}

// variables are a container's, beyond those of its image: the job's, and what adopt reads.
func variables(env []string, s shape, region string) (all []types.KeyValuePair) {
	own := []string{
		variableCPUs + "=" + strconv.Itoa(int(math.Ceil(s.cpus))), variableMemory + "=" + strconv.FormatInt(s.memory-agentMemory, 10), variableGPUs + "=" + strconv.Itoa(s.gpus),
		"AWS_REGION=" + region, // no document promises it
	}
	for _, v := range slices.Concat(env, own) {
		name, value, _ := strings.Cut(v, "=")
		all = append(all, types.KeyValuePair{Name: &name, Value: &value})
	}
	return all
}

// tags are labels as tags of AWS, which take few letters.
func tags(labels map[string]string) map[string]string {
	all := map[string]string{stack.TagManaged: stack.ManagedBy}
	for name, value := range labels {
		all["drover-"+amazon.TagText(name, 121)] = amazon.TagText(value, 256)
	}
	return all
}

// Find gives the jobs of a handle's name.
func (e *engine) Find(ctx context.Context, h driver.Handle) (ids []string, err error) {
	at, err := parseSite(h.Detail)
	if err != nil {
		return nil, err
	}
	c, err := e.clients.In(ctx, at.region)
	if err != nil {
		return nil, err
	}
	found, err := c.jobsNamed(ctx, at, jobName(h))
	for _, j := range slices.Backward(found) { // AWS Batch has the newest first
		if aws.ToString(j.JobName) == jobName(h) { // it finds names whatever their case
			ids = append(ids, aws.ToString(j.JobId))
		}
	}
	return ids, err
}

// jobsNamed lists the jobs of a queue with a name, which may end in a star, newest first.
func (c *client) jobsNamed(ctx context.Context, at site, name string) (all []types.JobSummary, err error) {
	in := &batch.ListJobsInput{JobQueue: aws.String(at.name()), Filters: []types.KeyValuesPair{{Name: aws.String("JOB_NAME"), Values: []string{name}}}}
	for {
		var out *batch.ListJobsOutput
		err := c.send.Read(ctx, "list the jobs of queue "+at.queue, func(ctx context.Context) (err error) {
			out, err = c.api.ListJobs(ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, out.JobSummaryList...)
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return all, nil
		}
	}
}

// Held names what lives in the queues where this machine has started something: AWS Batch forgets by
// itself what has ended.
func (e *engine) Held(ctx context.Context) (all []driver.Handle, silent error) {
	places := e.readPlaces()
	var regions []string
	for _, at := range places {
		regions = append(regions, at.region)
	}
	if err := amazon.CheckConfigured(ctx, regions...); err != nil {
		return nil, err
	}
	for _, at := range places {
		c, err := e.clients.In(ctx, at.region)
		if err != nil {
			silent = errors.Join(silent, err)
			continue
		}
		found, err := c.jobsNamed(ctx, at, account.Prefix+"*")
		if fault.KindOf(err) == fault.Invalid {
			continue // the queue was deleted, and nothing runs without it
		}
		silent = errors.Join(silent, err)
		for _, j := range found {
			h, ok := parseJobName(aws.ToString(j.JobName))
			if h.Detail = at.String(); ok && isAlive(j.Status) {
				all = append(all, h)
			}
		}
	}
	return all, silent
}

// Remove deletes a placement's secrets. What has ended is forgotten by AWS Batch itself, and a
// definition costs nothing and is used again.
func (e *engine) Remove(ctx context.Context, h driver.Handle, ids []string) error {
	c, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return err
	}
	return c.secrets.Remove(ctx, secretName(h))
}
