package resource

import (
	"sync"
	"time"
)

// Usage is what a living tree uses.
type Usage struct {
	CPU     time.Duration // so far, with those that ended, except processes that were not waited for
	Memory  int64         // bytes now, of the whole tree, what is shared counted once where the kernel tells
	Peak    int64         // bytes; the kernel's own where Memory is limited by it, else the most that was seen
	Count   int           // processes
	Threads int           // of all processes
	Read    int64         // bytes from disks and network folders, by the living and those they waited for
	Written int64         // likewise
}

// Meter measures one tree, and knows the most that was measured of it. Its processes vanish
// from one reading to the next, but what they used has been used.
type Meter struct {
	supervisor int // the process id of what all of the tree hangs from
	limiter    *Limiter

	mu         sync.Mutex
	seen       Usage
	oom, crowd bool // a limit that is watched was passed
}

// NewMeter makes the meter of a tree below supervisor; nil: no limits.
func NewMeter(supervisor int, h *Limiter) *Meter { return &Meter{supervisor: supervisor, limiter: h} }

// Totals are what a tree that is gone has used and run into.
type Totals struct {
	PeakMemory int64
	OOM, Crowd bool
	Throttled  time.Duration
}

// noteUsage notes u and gives what is known by now.
func (m *Meter) noteUsage(u Usage) Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.CPU, u.Peak = max(u.CPU, m.seen.CPU), max(u.Peak, u.Memory, m.seen.Peak)
	u.Read, u.Written = max(u.Read, m.seen.Read), max(u.Written, m.seen.Written)
	m.seen = u
	return u
}

// noteLimitPassed notes which limits a tree that is watched has passed.
func (m *Meter) noteLimitPassed(oom, crowd bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.oom, m.crowd = oom, crowd
}

// Close gives the totals of a tree that is gone, and removes its groups.
func (m *Meter) Close() Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Totals{PeakMemory: m.seen.Peak, OOM: m.oom, Crowd: m.crowd}
	m.limiter.readCounters(&t)
	return t
}
