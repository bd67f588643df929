// Package waiting tells what agents wait for before they can begin: once for each change, and
// not before it has stood for a while. Proved by its tests.
package waiting

import (
	"slices"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/report"
)

// patience is how long reasons must stand until they are told: most engines say something
// of the second in which they start an agent.
const patience = 3 * time.Second

// Reporter tells each change of what agents wait for, once.
type Reporter struct {
	Tell  func([]report.Waiting) // nil: nothing is told
	seen  []report.Waiting
	since time.Duration // when seen was first seen
	told  []report.Waiting
}

// Note looks at the members of a job at the time now.
func (r *Reporter) Note(members []driver.Member, now time.Duration) {
	if r.Tell == nil {
		return
	}
	all := Of(members)
	if !sameReasons(all, r.seen) {
		r.seen, r.since = all, now
	}
	if now-r.since < patience || sameReasons(all, r.told) {
		return
	}
	r.told = all
	if len(all) > 0 {
		r.Tell(all)
	}
}

// Of sums up what members wait for.
func Of(members []driver.Member) (all []report.Waiting) {
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
