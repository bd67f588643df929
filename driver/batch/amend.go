package batch

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/driver/batch/amend"
	"github.com/drover-run/drover/fault"
)

// The options that amend requests of drover's with JSON in AWS Batch's own form, as the files that its own tool reads.
const (
	amendsDefinition = "register-job-definition"
	amendsJob        = "submit-job"
)

// amendment is the JSON of an option; "": nothing.
type amendment string

// amendDefinition merges the user's fields into a definition. Its name, its type and its command are drover's.
func (a amendment) amendDefinition(in *batch.RegisterJobDefinitionInput) error {
	if err := amend.Merge(amendsDefinition, string(a), in); err != nil {
		return err
	}
	if in.Type != types.JobDefinitionTypeContainer || in.ContainerProperties == nil || in.EcsProperties != nil || in.EksProperties != nil || in.NodeProperties != nil {
		return fault.New(fault.Invalid, "Use a definition of type container with containerProperties.", "read --target-arg %s: it is not a definition of one container", amendsDefinition)
	}
	c := in.ContainerProperties
	in.JobDefinitionName, c.Command = nil, nil
	replace := func(kind types.ResourceType, value *int32) { // what AWS Batch still takes in its older form, and not in both
		if value == nil {
			return
		}
		for i := range c.ResourceRequirements {
			if c.ResourceRequirements[i].Type == kind {
				c.ResourceRequirements[i].Value = aws.String(strconv.Itoa(int(*value)))
			}
		}
	}
	//lint:ignore SA1019 users' files have it
	cores := &c.Vcpus
	//lint:ignore SA1019 users' files have it
	memory := &c.Memory
	replace(types.ResourceTypeVcpu, *cores)
	replace(types.ResourceTypeMemory, *memory)
	*cores, *memory = nil, nil
	if c.ReadonlyRootFilesystem != nil && *c.ReadonlyRootFilesystem {
		return fault.New(fault.Invalid, "Leave readonlyRootFilesystem out.", "read --target-arg %s: the agent writes to its container's file system", amendsDefinition)
	}
	return nil
}

// definition is the definition as it is registered, without its name: an image that was named stays.
func (s shape) definition() (*batch.RegisterJobDefinitionInput, error) {
	in := s.input()
	err := s.options.definition.amendDefinition(in)
	if err == nil && s.named {
		in.ContainerProperties.Image = &s.image
	}
	return in, err
}

// amended is the shape as the user's definition has it.
func (s shape) amended() (shape, error) {
	in, err := s.definition()
	if err != nil {
		return s, err
	}
	s.image = aws.ToString(in.ContainerProperties.Image)
	s.options.jobRole = aws.ToString(in.ContainerProperties.JobRoleArn)
	for _, need := range in.ContainerProperties.ResourceRequirements {
		n, err := strconv.ParseFloat(aws.ToString(need.Value), 64)
		if err != nil {
			return s, fault.New(fault.Invalid, "Write it as a number.", "read --target-arg %s: %s is %q", amendsDefinition, need.Type, aws.ToString(need.Value))
		}
		switch need.Type {
		case types.ResourceTypeVcpu:
			s.cpus = n
		case types.ResourceTypeMemory:
			s.memory = int64(n) << 20
		case types.ResourceTypeGpu:
			s.gpus = int(n)
		}
	}
	return s, nil
}

// amendJob merges the user's fields into a job. What it is called, where it goes, how many it has and what runs in it are
// drover's; variables are added.
func (a amendment) amendJob(in *batch.SubmitJobInput) error {
	name, queue, array := in.JobName, in.JobQueue, in.ArrayProperties
	command, variables := in.ContainerOverrides.Command, in.ContainerOverrides.Environment
	in.ContainerOverrides.Environment = nil
	if err := amend.Merge(amendsJob, string(a), in); err != nil {
		return err
	}
	in.JobName, in.JobQueue, in.JobDefinition, in.ArrayProperties = name, queue, nil, array
	in.ContainerOverrides.Command = command
	in.ContainerOverrides.Environment = append(in.ContainerOverrides.Environment, variables...)
	return nil
}
