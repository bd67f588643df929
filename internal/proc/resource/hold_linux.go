package resource

import (
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/proc/process"
)

// Hold is what holds the limits of one tree, as its agent knows it.
type Hold struct {
	limits     Limits
	groups     []*group
	cores, few []int             // as in fence
	refusals   map[string]string // by controller, why no group holds it
	support    Support
}

// MakeHold makes what will hold l, for a tree with that token; nil: nothing to hold.
func (l Limits) MakeHold(token string) *Hold {
	if l.hasNoLimit() {
		return nil
	}
	h := &Hold{limits: l, cores: l.Cores}
	h.groups, h.refusals = kernel.makeGroups(groupName(token), l)
	if l.CPUs > 0 {
		h.few = l.chosenCores()
	}
	h.concludeSupport()
	return h
}

// chosenCores are as many as may be used up, of those that may be used; nil: that
// would be all. Where no user has chosen, chance does, as trees that all took the
// first would share it.
func (l Limits) chosenCores() []int {
	cores, first := l.Cores, 0
	if len(cores) == 0 {
		if cores = OwnCores(); len(cores) > 0 {
			first = mathrand.IntN(len(cores))
		}
	}
	if l.CPUs > float64(len(cores)-1) {
		return l.Cores
	}
	few := make([]int, int(math.Ceil(l.CPUs)))
	for i := range few {
		few[i] = cores[(first+i)%len(cores)]
	}
	return few
}

// concludeSupport makes out what holds each limit.
func (h *Hold) concludeSupport() {
	by := map[string]string{forMemory: ByWatching, forCPUs: ByAffinity, forProcesses: ByWatching}
	for _, g := range h.groups {
		for _, k := range g.controllers {
			by[k] = [...]string{1: ByCgroup1, 2: ByCgroup2}[g.version]
		}
	}
	h.support = h.limits.supportedBy(by, h.refusals)
}

// groupHolding is the group that holds this limit; nil: none does.
func (h *Hold) groupHolding(controller string) *group {
	if h == nil {
		return nil
	}
	for _, g := range h.groups {
		if slices.Contains(g.controllers, controller) {
			return g
		}
	}
	return nil
}

// MinderFence is what the minder is told.
func (h *Hold) MinderFence() *Fence {
	if h == nil {
		return nil
	}
	f := &Fence{Cores: h.cores, Few: h.few}
	if h.groupHolding(forCPUs) == nil && h.few != nil {
		f.Cores = h.few
	}
	for _, g := range h.groups {
		f.Doors = append(f.Doors, g.entryDoor())
	}
	return f
}

// NoteRefused notes what groups the minder could not enter.
func (h *Hold) NoteRefused(refusals map[string]string) {
	for k, why := range refusals {
		h.refusals[k] = why
		for _, g := range h.groups {
			g.controllers = slices.DeleteFunc(g.controllers, func(c string) bool { return c == k })
		}
	}
	if len(refusals) > 0 {
		h.concludeSupport()
	}
}

func (h *Hold) GroupFolders() (list []string) {
	if h != nil {
		for _, g := range h.groups {
			list = append(list, g.folder)
		}
	}
	return list
}

func (h *Hold) RemoveGroups() {
	if h != nil {
		for _, g := range h.groups {
			g.removeGroup()
		}
	}
}

// readCounters reads what the groups have counted, and removes them.
func (h *Hold) readCounters(e *totals) {
	if h == nil {
		return
	}
	if g := h.groupHolding(forMemory); g != nil {
		e.PeakMemory = max(e.PeakMemory, g.peakBytes())
		e.OOM = e.OOM || g.killedForMemory()
	}
	if g := h.groupHolding(forCPUs); g != nil {
		e.Throttled = g.throttled()
	}
	h.RemoveGroups()
}

// NeedsWatching says whether the agent has to look while the tree lives.
func (h *Hold) NeedsWatching() bool {
	return h != nil && (h.limits.Memory > 0 || h.limits.Processes > 0)
}

// How often a living tree is looked at, and how much of a core's time that may
// take at most on a machine with very many processes: one part in watchShare.
const (
	watchEvery = 100 * time.Millisecond
	watchShare = 20
	watchMost  = 2 * time.Second
)

// EnforceLimits calls kill once the tree is beyond a limit. The kernel ends what it likes of
// a v1 group; the rest would often wait for that forever.
func (m *Meter) EnforceLimits(ended <-chan struct{}, kill func()) {
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
	h := m.hold
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

// supportHere tries each limit out, with a program that is none.
func supportHere() Support {
	l := Limits{CPUs: 1, Memory: 1 << 30, Processes: 1000}
	h := l.MakeHold("probe-" + rand.Text())
	defer h.RemoveGroups()
	f := h.MinderFence()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f.OpenDoors()
	_, _ = f.StartLimited(&syscall.SysProcAttr{}, func(*syscall.SysProcAttr) (int, error) { return 0, nil })
	h.NoteRefused(f.refusals)
	if h.support.CPUs == ByAffinity {
		h.support.Why += "; so CPUs are whole cores"
	}
	return h.support
}
