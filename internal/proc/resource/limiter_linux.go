package resource

import (
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"syscall"
)

// Limiter is what holds the limits of one tree, as its agent knows it.
type Limiter struct {
	limits     Limits
	groups     []*group
	cores, few []int             // as in Bounds
	refusals   map[string]string // by controller, why no group holds it
	support    Support
}

// NewLimiter makes what will hold l, for a tree with that token; nil: nothing to hold.
func (l Limits) NewLimiter(token string) *Limiter {
	if l.hasNoLimit() {
		return nil
	}
	h := &Limiter{limits: l, cores: l.Cores}
	h.groups, h.refusals = kernelGroups.makeGroups(groupName(token), l)
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
func (h *Limiter) concludeSupport() {
	by := map[string]string{forMemory: ByWatching, forCPUs: ByAffinity, forProcesses: ByWatching}
	for _, g := range h.groups {
		for _, k := range g.controllers {
			by[k] = [...]string{1: ByCgroup1, 2: ByCgroup2}[g.version]
		}
	}
	h.support = h.limits.supportedBy(by, h.refusals)
}

// groupHolding is the group that holds this limit; nil: none does.
func (h *Limiter) groupHolding(controller string) *group {
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

// Bounds is what the supervisor is told.
func (h *Limiter) Bounds() *Bounds {
	if h == nil {
		return nil
	}
	f := &Bounds{Cores: h.cores, FewCores: h.few}
	if h.groupHolding(forCPUs) == nil && h.few != nil {
		f.Cores = h.few
	}
	for _, g := range h.groups {
		f.Groups = append(f.Groups, g.handle())
	}
	return f
}

// NoteRefused notes what groups the supervisor could not enter.
func (h *Limiter) NoteRefused(refusals map[string]string) {
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

// GroupFolders are the folders of the groups that were made for the tree.
func (h *Limiter) GroupFolders() (list []string) {
	if h != nil {
		for _, g := range h.groups {
			list = append(list, g.folder)
		}
	}
	return list
}

// RemoveGroups removes the groups of a tree that is gone.
func (h *Limiter) RemoveGroups() {
	if h != nil {
		for _, g := range h.groups {
			g.removeGroup()
		}
	}
}

// readCounters reads what the groups have counted, and removes them.
func (h *Limiter) readCounters(e *Totals) {
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

// NeedsWatching says whether the agent has to watch while the tree lives.
func (h *Limiter) NeedsWatching() bool {
	return h != nil && (h.limits.Memory > 0 || h.limits.Processes > 0)
}

// probeSupport tries each limit out, with a program that is none.
func probeSupport() Support {
	l := Limits{CPUs: 1, Memory: 1 << 30, Processes: 1000}
	h := l.NewLimiter("probe-" + rand.Text())
	defer h.RemoveGroups()
	f := h.Bounds()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f.OpenGroups()
	_, _ = f.StartLimited(&syscall.SysProcAttr{}, func(*syscall.SysProcAttr) (int, error) { return 0, nil })
	h.NoteRefused(f.refusals)
	if h.support.CPUs == ByAffinity {
		h.support.Why += "; so CPUs are whole cores"
	}
	return h.support
}
