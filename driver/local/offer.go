package local

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"

	"github.com/drover-run/drover/driver"
)

// hardware is what this machine lets us have: less than it has in a container or
// cgroup with limits, or when the process is bound to some of its cores.
type hardware struct {
	Cores  int
	Memory int64 // bytes; 0: not known
}

// Offer says whether the agents fit into this machine together. It does not count
// what runs here already. It costs nothing.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	have := measure()
	o := driver.Offer{Machine: have.String(), Cores: have.Cores, Memory: have.Memory, Attached: true}
	gpus := 0
	if n.GPUs > 0 {
		gpus = countGPUs(ctx)
	}
	o.Reason = refusal(have, gpus, n)
	o.Fits = o.Reason == ""
	return o, nil
}

// refusal is why n does not fit, in one sentence, or empty.
func refusal(have hardware, gpus int, n driver.Needs) string {
	agents := max(n.Agents, 1)
	each := ""
	if agents > 1 {
		each = fmt.Sprintf(" for %d agents", agents)
	}
	cores := n.CPUs * float64(agents)
	memory := float64(n.Memory) * float64(agents)
	switch {
	case cores > float64(have.Cores):
		return fmt.Sprintf("this machine has %s, and %.4g are needed%s", count(have.Cores, "core"), cores, each)
	case have.Memory > 0 && memory > float64(have.Memory):
		return fmt.Sprintf("this machine has %s of memory, and %s is needed%s", gigabytes(float64(have.Memory)), gigabytes(memory), each)
	case n.GPUs > 0 && gpus == 0:
		return "this machine has no GPU that nvidia-smi can see"
	case float64(n.GPUs)*float64(agents) > float64(gpus):
		return fmt.Sprintf("this machine has %s, and %.4g are needed%s", count(gpus, "GPU"), float64(n.GPUs)*float64(agents), each)
	}
	return ""
}

// String is the machine as a plan shows it.
func (h hardware) String() string {
	s := "this machine, " + count(h.Cores, "core")
	if h.Memory > 0 {
		s += ", " + gigabytes(float64(h.Memory))
	}
	return s
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// gigabytes rounds as memory is sold: by 2^30, and to a half below ten.
func gigabytes(bytes float64) string {
	gb := bytes / (1 << 30)
	if gb < 10 {
		return fmt.Sprintf("%g GB", max(math.Round(gb*2)/2, 0.5))
	}
	return fmt.Sprintf("%.0f GB", gb)
}

// countGPUs asks nvidia-smi. A machine without it, or whose driver does not
// answer, has none.
func countGPUs(ctx context.Context) int {
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=index", "--format=csv,noheader").Output()
	if err != nil {
		return 0
	}
	return bytes.Count(out, []byte("\n"))
}

// hostname is who we are where the machine has no number of its own.
func hostname() string {
	name, _ := os.Hostname() // empty at worst: then all nameless machines are one
	return name
}
