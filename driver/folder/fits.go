package folder

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"

	"github.com/drover-run/drover/driver"
)

// Hardware is what a target on this machine can give to jobs.
type Hardware struct {
	Place  string // the target's name in a sentence: "this machine"
	Cores  int
	Memory int64 // bytes; 0: not known
}

// String is the hardware as a plan shows it: "this machine, 8 cores, 32 GB".
func (h Hardware) String() string {
	s := h.Place + ", " + count(h.Cores, "core")
	if h.Memory > 0 {
		s += ", " + Gigabytes(float64(h.Memory))
	}
	return s
}

// Refusal says in one sentence why n does not fit; "": it fits. The first argument is the name of
// the target in that sentence.
func (h Hardware) Refusal(who string, gpus int, n driver.Needs) string {
	agents := max(n.Agents, 1)
	each := ""
	if agents > 1 {
		each = fmt.Sprintf(" for %d agents", agents)
	}
	cores := n.CPUs * float64(agents)
	memory := float64(n.Memory) * float64(agents)
	switch {
	case cores > float64(h.Cores):
		return fmt.Sprintf("%s has %s, and %.4g are needed%s", who, count(h.Cores, "core"), cores, each)
	case h.Memory > 0 && memory > float64(h.Memory):
		return fmt.Sprintf("%s has %s of memory, and %s is needed%s", who, Gigabytes(float64(h.Memory)), Gigabytes(memory), each)
	case n.GPUs > 0 && gpus == 0:
		return "this machine has no GPU that nvidia-smi can see"
	case float64(n.GPUs)*float64(agents) > float64(gpus):
		return fmt.Sprintf("this machine has %s, and %.4g are needed%s", count(gpus, "GPU"), float64(n.GPUs)*float64(agents), each)
	}
	return ""
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Gigabytes rounds as sellers of memory do: by 2^30, and to a half below ten.
func Gigabytes(bytes float64) string {
	gb := bytes / (1 << 30)
	if gb < 10 {
		return fmt.Sprintf("%g GB", max(math.Round(gb*2)/2, 0.5))
	}
	return fmt.Sprintf("%.0f GB", gb)
}

// GPUs asks nvidia-smi. A machine without it, or with a driver that does not answer, has
// none.
func GPUs(ctx context.Context) int {
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=index", "--format=csv,noheader").Output()
	if err != nil {
		return 0
	}
	return bytes.Count(out, []byte("\n"))
}
