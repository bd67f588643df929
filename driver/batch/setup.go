package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/account"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// Setup makes, as one stack of CloudFormation, what jobs of a project stand on in an account: a network,
// roles, compute environments and queues.
type Setup struct {
	engine *engine
	look   time.Duration
}

var _ driver.Setup = (*Setup)(nil)

// setupName is the name of a scope's stack, and of its queue of spot capacity where the scope names none.
func setupName(s driver.Scope, at site) string {
	sum := sha256.Sum256(fmt.Append(nil, s.Store, "\x00", s.Project, "\x00", at.queue))
	name := strings.TrimPrefix(s.Project, account.Prefix)
	if at.queue != "" {
		name = strings.TrimPrefix(strings.ReplaceAll(at.queue, "_", "-"), account.Prefix)
	}
	return account.Prefix + name + "-" + hex.EncodeToString(sum[:3])
}

// mostQueue is how long the name of a set-up's queue may be, so that those of its other queues and its stack have no more
// than 128 letters.
const mostQueue = 100

// open finds the stack of a scope, with the options that it was made with and those of the scope.
func (u *Setup) open(ctx context.Context, s driver.Scope) (c *client, stacks *stack.Client, made stack.Stack, err error) {
	if ctx.Err() != nil {
		return nil, nil, made, context.Cause(ctx)
	}
	at, err := parseSite(s.Detail)
	if err != nil {
		return nil, nil, made, err
	}
	if account.IsFargate(at.queue) {
		at.queue = "" // they are queues of the project's set-up
	}
	asked, err := account.MergeOptions(s.Args, optionNames)
	if err != nil {
		return nil, nil, made, err
	}
	if len(at.queue) > mostQueue {
		return nil, nil, made, fault.New(fault.Invalid, "Choose a shorter one.", "set up AWS Batch: the names of other queues begin with %s, which has more than %d letters", at.queue, mostQueue)
	}
	if !strings.HasPrefix(s.Store, "s3://") {
		return nil, nil, made, fault.New(fault.Invalid, "Name a bucket: `--store s3://bucket/prefix`.", "set up AWS Batch: its agents open no store in %s", s.Store)
	}
	if c, err = u.engine.clients.In(ctx, at.region); err != nil {
		return nil, nil, made, err
	}
	stacks = stack.New(c.send.Account, u.look)
	name := setupName(s, at)
	kept, err := stacks.Options(ctx, name)
	if err != nil {
		return nil, nil, made, err
	}
	before, err := account.SplitOptions(kept)
	if err != nil {
		return nil, nil, made, err
	}
	all, err := account.MergeOptions(append(before, asked...), optionNames)
	if err != nil {
		return nil, nil, made, err
	}
	o, err := account.ParseOptions(all)
	if err != nil {
		return nil, nil, made, err
	}
	at.region = c.region
	made, err = account.Stack(name, s, at.queue, at.region, o)
	made.Options = account.JoinOptions(all)
	return c, stacks, made, err
}

// Describe gives the stack, its resources, the repositories of images that were built for its jobs, and which of its queues' names something else has.
func (u *Setup) Describe(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
	c, stacks, st, err := u.open(ctx, s)
	if err != nil {
		return nil, err
	}
	pieces, err := describeSetup(ctx, c, stacks, st)
	if err != nil || pieces[0].State != driver.PieceThere {
		return pieces, err
	}
	images, err := c.findImages(ctx, st)
	if err != nil {
		return nil, err
	}
	more, err := images.Pieces(ctx)
	return append(pieces, more...), err
}

func describeSetup(ctx context.Context, c *client, stacks *stack.Client, st stack.Stack) ([]driver.Piece, error) {
	pieces, err := stacks.Describe(ctx, st)
	if err != nil || pieces[0].State != driver.PieceMissing {
		return pieces, err
	}
	found, err := c.queues(ctx, queueNames(st))
	for _, q := range found {
		i := slices.IndexFunc(pieces, func(p driver.Piece) bool {
			return p.Kind == account.KindQueue && p.Name == aws.ToString(q.JobQueueName)
		})
		if i >= 0 && pieces[i].State == driver.PieceMissing && q.Status != types.JQStatusDeleted && q.Status != types.JQStatusDeleting && q.Tags[account.TagSetup] != st.Name {
			pieces[i].State, pieces[i].Why = driver.PieceForeign, "a queue that this set-up did not make"
		}
	}
	return pieces, err
}

// Apply makes the stack.
func (u *Setup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	c, stacks, st, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	pieces, err := describeSetup(ctx, c, stacks, st)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if p.State == driver.PieceForeign && p.Kind == account.KindQueue {
			return fault.New(fault.Invalid, "Use it as it is, `--on batch/"+p.Name+"`, or choose another name.", "set up AWS Batch: queue %s is %s", p.Name, p.Why)
		}
	}
	return stacks.Apply(ctx, st, made)
}

// Destroy deletes the stack, the job definitions with its role, and the repositories of images that were built for its jobs. It deletes nothing while jobs are in
// its queues that drover did not submit.
func (u *Setup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	c, stacks, st, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	role := ""
	found, err := c.queues(ctx, queueNames(st))
	if err != nil {
		return err
	}
	for _, q := range found {
		if q.Tags[account.TagSetup] != st.Name {
			continue
		}
		role = q.Tags[account.TagRole]
		name, err := c.liveJob(ctx, aws.ToString(q.JobQueueName))
		if err != nil {
			return err
		}
		if name != "" {
			return fault.New(fault.Invalid, "Wait for it, or end it with `aws batch terminate-job`.", "take away the set-up of AWS Batch: job %s in queue %s has not ended", name, aws.ToString(q.JobQueueName))
		}
	}
	if role != "" {
		if err := c.removeDefinitions(ctx, role); err != nil {
			return err
		}
	}
	images, err := c.findImages(ctx, st)
	if err == nil {
		err = images.Delete(ctx, gone)
	}
	if err != nil {
		return err
	}
	return stacks.Destroy(ctx, st, gone)
}

// queueNames are those of a set-up's queues.
func queueNames(st stack.Stack) (all []string) {
	for _, r := range st.Resources {
		if r.Kind == account.KindQueue {
			all = append(all, r.Name)
		}
	}
	return all
}

// liveJob is the name of a job in a queue that has not ended; "": there is none.
func (c *client) liveJob(ctx context.Context, queue string) (string, error) {
	for _, status := range types.JobStatus("").Values() {
		if !isAlive(status) {
			continue
		}
		var out *batch.ListJobsOutput
		err := c.send.Read(ctx, "list the jobs of queue "+queue, func(ctx context.Context) (err error) {
			out, err = c.api.ListJobs(ctx, &batch.ListJobsInput{JobQueue: &queue, JobStatus: status, MaxResults: aws.Int32(1)})
			return err
		})
		if err != nil {
			return "", err
		}
		if len(out.JobSummaryList) > 0 {
			return aws.ToString(out.JobSummaryList[0].JobName), nil
		}
	}
	return "", nil
}

// removeDefinitions takes the job definitions of drover's with a role out of use.
func (c *client) removeDefinitions(ctx context.Context, role string) error {
	in := &batch.DescribeJobDefinitionsInput{Status: aws.String("ACTIVE")}
	for {
		var out *batch.DescribeJobDefinitionsOutput
		err := c.send.Read(ctx, "look for job definitions", func(ctx context.Context) (err error) {
			out, err = c.api.DescribeJobDefinitions(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		for _, d := range out.JobDefinitions {
			if !strings.HasPrefix(aws.ToString(d.JobDefinitionName), account.Prefix) || d.ContainerProperties == nil || aws.ToString(d.ContainerProperties.JobRoleArn) != role {
				continue
			}
			err := c.send.Read(ctx, "deregister a job definition", func(ctx context.Context) error {
				_, err := c.api.DeregisterJobDefinition(ctx, &batch.DeregisterJobDefinitionInput{JobDefinition: d.JobDefinitionArn})
				return err
			})
			if err != nil {
				return err
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return nil
		}
	}
}
