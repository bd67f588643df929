package engine

import (
	"slices"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/report"
)

// Told are the functions by which AttendTold tells what it sees. One that is nil is not called.
type Told struct {
	// Asked is called whenever the target has been asked for all agents that are wanted just
	// now: from then on those go on without us, unless they live beside the command line.
	Asked func()
	// Waiting is called when agents have waited for a while, and again when the reasons have
	// changed.
	Waiting func([]report.Waiting)
}

// waitPatience is how long reasons must stand until they are told: most engines say something
// of the second in which they start an agent.
const waitPatience = 3 * time.Second

// waitReporter tells each change of what agents wait for, once.
type waitReporter struct {
	tell  func([]report.Waiting)
	seen  []report.Waiting
	since time.Duration // when seen was first seen
	told  []report.Waiting
}

// note looks at the members of a job at the time now.
func (r *waitReporter) note(members []driver.Member, now time.Duration) {
	if r.tell == nil {
		return
	}
	all := WaitingOf(members)
	if !sameReasons(all, r.seen) {
		r.seen, r.since = all, now
	}
	if now-r.since < waitPatience || sameReasons(all, r.told) {
		return
	}
	r.told = all
	if len(all) > 0 {
		r.tell(all)
	}
}

// WaitingOf sums up what members wait for.
func WaitingOf(members []driver.Member) (all []report.Waiting) {
	for _, m := range members {
		if m.State == driver.Waiting && m.Reason != "" {
			all = report.CountWaiting(all, m.Reason, m.Hint)
		}
	}
	return all
}

// sameReasons compares without the numbers of agents, which change with each that begins.
func sameReasons(a, b []report.Waiting) bool {
	within := func(a, b []report.Waiting) bool {
		return !slices.ContainsFunc(a, func(x report.Waiting) bool {
			return !slices.ContainsFunc(b, func(y report.Waiting) bool { return x.Reason == y.Reason })
		})
	}
	return within(a, b) && within(b, a)
}
