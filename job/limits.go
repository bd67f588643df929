package job

import (
	"fmt"
	"strconv"

	"github.com/drover-run/drover/fault"
)

// Limits are what one node's program may use, all its processes together; zero
// fields are not limited. A job that names cores, memory or GPUs waits until the
// machine has them to spare; one that does not starts at once.
type Limits struct {
	CPUs      float64 `json:"cpus,omitempty" yaml:"cpus,omitempty" jsonschema:"minimum=0,description=Cores for each node: waited for\\, and no more than these are used. Default: no limit"`
	Memory    Bytes   `json:"memory,omitempty" yaml:"memory,omitempty" jsonschema:"description=Memory for each node\\, such as 512M or 16G: waited for\\, and above it the program is ended. Default: no limit"`
	Disk      Bytes   `json:"disk,omitempty" yaml:"disk,omitempty" jsonschema:"description=Disk that each node's folders may fill\\, such as 10G; of a map\\, what files that it fetches may take\\, and outputs that wait. Default: no limit\\, of a map 10G"`
	Processes int     `json:"processes,omitempty" yaml:"processes,omitempty" jsonschema:"minimum=0,description=Processes and threads of each node at once. Default: no limit"`
}

// IsZero says that nothing is limited.
func (l Limits) IsZero() bool { return l == Limits{} }

// Share is what the jobs of one queue may hold of a machine together; zero fields
// are not limited. A job of such a queue that says nothing asks for all of it.
type Share struct {
	CPUs   float64 `json:"cpus,omitempty"`
	Memory Bytes   `json:"memory,omitempty"`
	GPUs   int     `json:"gpus,omitempty"`
}

// DefaultQueue is the queue of a job that names none.
const DefaultQueue = "default"

func checkLimits(s Spec) error {
	switch {
	case !(s.CPUs >= 0 && s.CPUs <= 10000):
		return fault.New(fault.Invalid, "Use `--cpus 0.5` to 10000.", "check job: %v cores", s.CPUs)
	case s.CPUs > 0 && s.CPUs < 0.01:
		return fault.New(fault.Invalid, "Use `--cpus 0.1` or more.", "check job: %v cores are less than a hundredth of one", s.CPUs)
	case s.Memory < 0 || s.Disk < 0:
		return fault.New(fault.Invalid, "Use a size such as 512M.", "check job: a limit below zero")
	case s.Memory > 0 && s.Memory < 1<<20:
		return fault.New(fault.Invalid, "Write the unit: `--memory "+strconv.FormatInt(int64(s.Memory), 10)+"G`.", "check job: a memory limit of %d bytes", int64(s.Memory))
	case s.Disk > 0 && s.Disk < 1<<20:
		return fault.New(fault.Invalid, "Write the unit: `--disk "+strconv.FormatInt(int64(s.Disk), 10)+"G`.", "check job: a disk limit of %d bytes", int64(s.Disk))
	case s.Processes < 0:
		return fault.New(fault.Invalid, "Use `--procs 1` or more.", "check job: %d processes", s.Processes)
	}
	return nil
}

func checkQueue(s Spec) error {
	if s.Priority < -1000 || s.Priority > 1000 {
		return fault.New(fault.Invalid, "Use `--priority -1000` to 1000.", "check job: priority %d", s.Priority)
	}
	if err := ValidName("queue", s.Queue); err != nil || s.Now {
		return err
	}
	nodes, share := float64(s.Nodes), s.Share
	switch {
	case share.CPUs > 0 && s.CPUs*nodes > share.CPUs*1.0001:
		return beyondShare(s.Queue, fmt.Sprintf("%g cores", share.CPUs), fmt.Sprintf("%g", s.CPUs*nodes), "cpus")
	case share.Memory > 0 && float64(s.Memory)*nodes > float64(share.Memory):
		return beyondShare(s.Queue, share.Memory.Words()+" of memory", (s.Memory * Bytes(s.Nodes)).Words(), "memory")
	case share.GPUs > 0 && s.GPUs*s.Nodes > share.GPUs:
		return beyondShare(s.Queue, fmt.Sprintf("%d GPUs", share.GPUs), strconv.Itoa(s.GPUs*s.Nodes), "gpus")
	}
	return nil
}

// beyondShare refuses a job that its queue could never let start.
func beyondShare(queue, has, asked, key string) error {
	return fault.New(fault.Invalid, "Ask for less, use another `--queue`, or raise targets.local.queues."+queue+"."+key+" in the config.",
		"check job: queue %s may use %s in all, and this job asks for %s", queue, has, asked)
}
