package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// What agents get of which nothing was said.
const (
	defaultCPUs   = 1
	defaultMemory = 2 << 30
	// agentMemory is what a container has beyond --memory, for drover's agent.
	agentMemory = 256 << 20
)

// attempts is how often AWS Batch runs a job in all: its most.
const attempts = 10

// What AWS Batch says where it has taken the machine of a job away.
const (
	takenHost = "Host EC2"
	takenTask = "Your Spot Task was interrupted"
)

// retries says after which ends AWS Batch runs a job again: its host was taken away, the image could
// not be pulled, or the agent left work behind. Patterns take letters, digits, dots, colons and blanks.
func (s shape) retries() []types.EvaluateOnExit {
	taken := takenHost
	if s.fargate {
		taken = takenTask
	}
	return append([]types.EvaluateOnExit{{Action: types.RetryActionRetry, OnStatusReason: aws.String(taken + "*")}}, otherRetries...)
}

var otherRetries = []types.EvaluateOnExit{
	{Action: types.RetryActionRetry, OnReason: aws.String("CannotPullContainer*")},
	{Action: types.RetryActionRetry, OnStatusReason: aws.String("Task failed to start*")},
	{Action: types.RetryActionRetry, OnExitCode: aws.String(strconv.Itoa(fault.ExitLater))},
	{Action: types.RetryActionExit, OnExitCode: aws.String("*")},
}

// shape is what a job definition holds: what is the same for many jobs.
type shape struct {
	image   string
	named   bool // by the user
	cpus    float64
	memory  int64 // bytes, with that of the agent
	gpus    int
	shm     int64
	disk    int64 // on Fargate alone
	fargate bool
	options options
}

// shapeOf is what the agents of a request need in a queue.
func shapeOf(n driver.Needs, o options, q queue) (s shape, err error) {
	s = shape{cpus: n.CPUs, memory: n.Memory, gpus: n.GPUs, shm: n.Place.Shm, named: n.Place.Image != "", fargate: q.isFargate(), options: o}
	if s.image, err = n.Place.ImageOrPython(); err != nil {
		return s, err
	}
	if n.Place.Image == "" {
		s.image = publicPython + s.image // Docker's own registry counts the pulls of an address
	}
	if s.cpus == 0 {
		s.cpus = max(defaultCPUs, float64(n.Slots))
	}
	if s.memory == 0 {
		s.memory = defaultMemory
	}
	s.memory += agentMemory
	if s.fargate {
		s.disk = n.Disk
		s.cpus, s.memory, _ = fitFargate(s.cpus, s.memory) // check refuses what is too large
	} else {
		s.cpus = math.Ceil(s.cpus) // jobs on EC2 have whole cores
	}
	return s.amended()
}

// publicPython is where Amazon has the images of Docker's library.
const publicPython = "public.ecr.aws/docker/library/"

// input is the definition as it is registered, without its name.
func (s shape) input() *batch.RegisterJobDefinitionInput {
	needs := []types.ResourceRequirement{
		{Type: types.ResourceTypeVcpu, Value: aws.String(strconv.FormatFloat(s.cpus, 'f', -1, 64))},
		{Type: types.ResourceTypeMemory, Value: aws.String(strconv.FormatInt(s.memory>>20, 10))},
	}
	if s.gpus > 0 {
		needs = append(needs, types.ResourceRequirement{Type: types.ResourceTypeGpu, Value: aws.String(strconv.Itoa(s.gpus))})
	}
	c := &types.ContainerProperties{Image: &s.image, ResourceRequirements: needs, JobRoleArn: &s.options.jobRole,
		User: aws.String("0"), // as in Docker: an image's own user may not make /opt/ml
	}
	if s.options.executionRole != "" {
		c.ExecutionRoleArn = &s.options.executionRole
	}
	platform := types.PlatformCapabilityEc2
	if s.fargate {
		platform = types.PlatformCapabilityFargate
		s.onFargate(c)
	}
	if s.shm > 0 {
		c.LinuxParameters = &types.LinuxParameters{SharedMemorySize: aws.Int32(int32(min(s.shm>>20, math.MaxInt32)))}
	}
	if s.options.logGroup != "" {
		c.LogConfiguration = &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{"awslogs-group": s.options.logGroup}}
	}
	return &batch.RegisterJobDefinitionInput{
		Type: types.JobDefinitionTypeContainer, ContainerProperties: c, PlatformCapabilities: []types.PlatformCapability{platform},
		RetryStrategy: &types.RetryStrategy{Attempts: aws.Int32(attempts), EvaluateOnExit: s.retries()},
		PropagateTags: aws.Bool(true), Tags: map[string]string{stack.TagManaged: stack.ManagedBy},
	}
}

// ensureDefinition gives the ARN of the definition of a shape, and registers it unless it is there: its
// name is the digest of its content, so that jobs of one shape share it.
func (c *client) ensureDefinition(ctx context.Context, s shape) (arn string, err error) {
	in, err := s.definition()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	in.JobDefinitionName = aws.String("drover-" + hex.EncodeToString(sum[:16]))
	var found *batch.DescribeJobDefinitionsOutput
	err = c.send.Read(ctx, "look for the job definition", func(ctx context.Context) (err error) {
		found, err = c.api.DescribeJobDefinitions(ctx, &batch.DescribeJobDefinitionsInput{JobDefinitionName: in.JobDefinitionName, Status: aws.String("ACTIVE")})
		return err
	})
	if err != nil {
		return "", err
	}
	if len(found.JobDefinitions) > 0 {
		return aws.ToString(found.JobDefinitions[0].JobDefinitionArn), nil
	}
	var made *batch.RegisterJobDefinitionOutput
	err = c.send.Read(ctx, "register the job definition", func(ctx context.Context) (err error) { // a second one is only another revision
		made, err = c.api.RegisterJobDefinition(ctx, in)
		return err
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(made.JobDefinitionArn), nil
}
