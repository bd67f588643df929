package figures

import (
	"fmt"
	"math"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

const (
	// adviceLeast is how many items must have ended: of fewer a 95th percentile says nothing.
	adviceLeast = 20
	// memoryRoom is left above what the largest used: programs grow with their data.
	memoryRoom = 1.25
	// memoryLeast is the request that advice never goes below: less memory saves nothing.
	memoryLeast = 64 << 20
	// worthIt is how many times too much must have been asked for.
	worthIt = 2
)

// Advise says how a map could ask for less and so have more items run at once, on a machine with
// so many cores and so much memory (0: not known); nil when it could not.
func Advise(f report.Figures, cores int, memory int64) *report.Advice {
	a := &report.Advice{Now: atOnce(f.Limits, cores, memory)}
	then := f.Limits
	what, typed := "", ""
	if want, said := memoryAdvice(f); want > 0 {
		a.Memory, then.Memory = want, want
		what, typed = said, "--memory "+want.String()
	}
	if want := coresAdvice(f); want > 0 {
		a.CPUs, then.CPUs = want, want
		if what != "" {
			what, typed = what+", and ", typed+" "
		}
		what += fmt.Sprintf("95 %% of items kept at most %.2g of %g cores busy", f.Cores.Quantile(0.95), f.Limits.CPUs)
		typed += fmt.Sprintf("--cpus %g", want)
	}
	if a.Then = atOnce(then, cores, memory); a.Then <= a.Now {
		return nil
	}
	a.Text = fmt.Sprintf("%s: %s would let %d run at once on a worker, not %d", what, typed, a.Then, a.Now)
	return a
}

// memoryAdvice is the limit that would do for every item, or for nearly every one where
// few need much more than the others; 0 when that is not worth a word.
func memoryAdvice(f report.Figures) (want job.Bytes, said string) {
	asked := f.Limits.Memory
	if asked == 0 || f.Memory.Count < adviceLeast {
		return 0, ""
	}
	most, usual := job.Bytes(f.Memory.Max), job.Bytes(f.Memory.Quantile(0.95))
	if want = roundUp(f.Memory.Max * memoryRoom); want*worthIt <= asked {
		return want, fmt.Sprintf("no item had a process of more than %s of the %s asked for", most.Words(), asked.Words())
	}
	if want = roundUp(f.Memory.Quantile(0.95) * memoryRoom); want*worthIt*worthIt <= asked {
		return want, fmt.Sprintf("95 %% of items had no process of more than %s of the %s asked for (item %d: %s; drover retry --memory %s runs such again)",
			usual.Words(), asked.Words(), f.Memory.MaxItem, most.Words(), asked)
	}
	return 0, ""
}

// coresAdvice are those that would do; 0 when that is not worth a word.
func coresAdvice(f report.Figures) float64 {
	if f.Limits.CPUs == 0 || f.Cores.Count < adviceLeast {
		return 0
	}
	if want := max(1, math.Ceil(f.Cores.Quantile(0.95))); want*worthIt <= f.Limits.CPUs {
		return want
	}
	return 0
}

// roundUp is the next size that people would type.
func roundUp(v float64) job.Bytes {
	for b := job.Bytes(memoryLeast); ; b *= 2 {
		if float64(b) >= v {
			return b
		}
		if between := b + b/2; float64(between) >= v {
			return between
		}
	}
}

// atOnce is how many items a worker runs, as it counts them itself.
func atOnce(l job.Limits, cores int, memory int64) int {
	n := cores
	if l.CPUs > 0 {
		n = int(float64(cores) / l.CPUs)
	}
	if l.Memory > 0 && memory > 0 {
		n = min(n, int(memory/int64(l.Memory)))
	}
	return max(n, 1)
}
