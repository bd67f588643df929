package batch

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// fargateSize is what a task of Fargate may have: so many cores, with memory from least to most MB in
// steps.
type fargateSize struct {
	cpus              float64
	least, most, step int64
}

// fargateSizes are all of them, the smallest first. Source: AWS Batch's documentation of
// ResourceRequirement, 2026-11.
var fargateSizes = []fargateSize{
	{0.25, 512, 1024, 512}, {0.25, 2048, 2048, 1024}, {0.5, 1024, 4096, 1024}, {1, 2048, 8192, 1024}, {2, 4096, 16_384, 1024},
	{4, 8192, 30_720, 1024}, {8, 16_384, 61_440, 4096}, {16, 32_768, 122_880, 8192},
}

// The disk of a task of Fargate, in bytes.
const (
	fargateDisk     = 20 << 30 // where nothing is said
	mostFargateDisk = 200 << 30
)

// fitFargate gives the smallest task of Fargate that has so much; ok is false where there is none.
func fitFargate(cpus float64, memory int64) (c float64, m int64, ok bool) {
	for _, s := range fargateSizes {
		if s.cpus < cpus || s.most<<20 < memory {
			continue
		}
		m = s.least << 20
		for m < memory {
			m += s.step << 20
		}
		return s.cpus, m, true
	}
	return cpus, memory, false
}

// isFargate says whether a queue has no machines that the account would see.
func (q queue) isFargate() bool {
	return slices.ContainsFunc(q.below, func(e types.ComputeEnvironmentDetail) bool {
		return e.ComputeResources != nil && (e.ComputeResources.Type == types.CRTypeFargate || e.ComputeResources.Type == types.CRTypeFargateSpot)
	})
}

// checkFargate holds needs against what Fargate has.
func (s shape) checkFargate(n driver.Needs) error {
	_, _, fits := fitFargate(s.cpus, s.memory)
	const other = "Use a queue of EC2 machines."
	switch {
	case s.options.executionRole == "":
		return fault.New(fault.Denied, "Name one with Amazon's policy AmazonECSTaskExecutionRolePolicy: `--target-arg execution-role=arn:aws:iam::ACCOUNT:role/NAME`.", "no role by which Fargate pulls images is named")
	case s.gpus > 0:
		return fault.New(fault.Invalid, other, "Fargate has no GPUs")
	case s.shm > 0:
		return fault.New(fault.Invalid, other, "Fargate gives no other size to /dev/shm: --shm")
	case !fits:
		return fault.New(fault.Full, other, "no task of Fargate is so large: the largest has 16 cores and 120 GB of memory")
	case n.Disk > mostFargateDisk:
		return fault.New(fault.Full, other, "a task of Fargate has at most 200 GB of disk")
	}
	return nil
}

// onFargate makes a definition's container one for Fargate.
func (s shape) onFargate(c *types.ContainerProperties) {
	// without an address of its own a container in a public subnet has no way to the bucket
	c.NetworkConfiguration = &types.NetworkConfiguration{AssignPublicIp: types.AssignPublicIpEnabled}
	if s.disk > fargateDisk {
		c.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: aws.Int32(int32((s.disk + 1<<30 - 1) >> 30))}
	}
}
