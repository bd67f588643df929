package resource

import (
	"time"

	"github.com/drover-run/drover/internal/proc/process"
)

// How often a living tree is measured, and how much of a core's time that may
// take at most on a machine with very many processes: one part in watchShare.
const (
	watchEvery = 100 * time.Millisecond
	watchShare = 20
	watchMost  = 2 * time.Second
)

// Enforce calls kill once the tree is beyond a limit. The kernel ends what it likes of
// a v1 group; the rest would often wait for that forever.
func (m *Meter) Enforce(ended <-chan struct{}, kill func()) {
	for {
		began := time.Now()
		if oom, crowd := m.limitsPassed(); oom || crowd {
			m.noteLimitPassed(oom, crowd)
			kill()
			return
		}
		pause := time.NewTimer(min(max(watchEvery, watchShare*time.Since(began)), watchMost))
		select {
		case <-ended:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// limitsPassed says which limits the tree has passed by now.
func (m *Meter) limitsPassed() (oom, crowd bool) {
	h := m.limiter
	memory, processes := h.limits.Memory, h.limits.Processes
	if g := h.groupHolding(forMemory); g != nil {
		if g.killedForMemory() {
			return true, false
		}
		if g.peakBytes() == 0 { // before Linux 5.19
			m.noteUsage(Usage{Memory: g.memoryInUse()})
		}
		memory = 0
	}
	if h.groupHolding(forProcesses) != nil {
		processes = 0
	}
	if memory == 0 && processes == 0 {
		return false, false
	}
	tree, err := process.Below(m.supervisor)
	if err != nil {
		return false, false
	}
	uses := measure(tree)
	if processes > 0 && uses.threads > processes {
		return false, true
	}
	if memory == 0 {
		return false, false
	}
	now := uses.resident
	if now > memory { // what is shared was counted more than once, and files that are only mapped, too
		now = 0
		for _, t := range tree {
			now += owned(t.PID)
		}
	}
	m.noteUsage(Usage{Memory: now})
	return now > memory, false
}
