// Package runs is the fold of a run's log and the pure decision what follows, Run.Next; it reads
// the run's log and the records of its attempts.
//
// It refuses to know whether an agent or a command line asks. Proved by its tables and the
// simulations of package ledger.
package runs

import (
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// Run is the fold of a run's log, with the join and exit records of its
// current attempt beside it.
type Run struct {
	Nodes   int // ranks 0 .. Nodes-1
	Retries int // how often the user's code may fail and start again
	Grace   time.Duration

	Placed   []protocol.Placed
	Attempts []protocol.Attempt // those that count, in order: Attempts[k-1] is attempt k
	Stop     *protocol.Stop
	Failing  bool // Stop came from `failing`, not `cancelled`
	Settled  *protocol.Settled
	Drained  map[string]protocol.Drained // agents that are to leave, by id; nil: none

	Joins map[int]protocol.Join // of the current attempt, by rank
	Exits map[int]protocol.Exit
	// Ignored lists the numbers of entries that were not allowed when written (L3).
	Ignored []int

	place int // of the round that a map is in (T2)
}

// Attempt is the current attempt's number; 0 before the first.
func (r Run) Attempt() int { return len(r.Attempts) }

// FoldRun applies L3: `attempt` counts only as the current one plus one and
// while nothing stands against it, `settled` only for the current attempt.
func FoldRun(entries []protocol.JobEntry) Run {
	var r Run
	for n, e := range entries {
		if !r.applyEntry(e) {
			r.Ignored = append(r.Ignored, n)
		}
	}
	return r
}

func (r *Run) applyEntry(e protocol.JobEntry) bool {
	open := r.Stop == nil && r.Settled == nil
	switch {
	case e.Placed != nil:
		r.Placed = append(r.Placed, *e.Placed)
		return r.Settled == nil
	case e.Attempt != nil:
		if !open || e.Attempt.K != r.Attempt()+1 {
			return false
		}
		r.Attempts = append(r.Attempts, *e.Attempt)
	case e.Cancelled != nil:
		if !open && (r.Settled != nil || !r.Stop.IsHardenedBy(*e.Cancelled)) {
			return false
		}
		r.Stop = e.Cancelled
	case e.Failing != nil:
		if !open {
			return false
		}
		r.Stop, r.Failing = e.Failing, true
	case e.Reopened != nil && r.Settled != nil: // a map's alone
		if e.Reopened.Submission <= r.Settled.Submission {
			return false
		}
		r.Settled, r.Stop, r.Failing, r.place = nil, nil, false, e.Reopened.Submission
	case e.Drained != nil:
		r.Drained = protocol.WithDrained(r.Drained, *e.Drained)
	case e.Settled != nil && r.Settled != nil && e.Settled.Submission > r.Settled.Submission:
		again := *r.Settled
		again.Submission = e.Settled.Submission
		r.Settled = &again
	case e.Settled != nil:
		if r.Settled != nil || e.Settled.Submission != r.place || !r.allowsSettled(*e.Settled) {
			return false
		}
		r.Settled = e.Settled
	}
	return true
}

// allowsSettled says whether settled fits what stands before it: a stop decides the
// state, and without one the current attempt does.
func (r *Run) allowsSettled(s protocol.Settled) bool {
	if r.Stop != nil {
		return r.Failing == (s.State == job.Failed) && s.State != job.Succeeded
	}
	return s.Attempt == r.Attempt() && s.State != job.Cancelled
}

// Failures counts the attempts that the user's code has failed so far.
func (r Run) Failures() int { return r.countCause(protocol.Failure) }

// Interruptions counts the attempts that were lost or given notice: free of
// charge, up to MaxInterruptions.
func (r Run) Interruptions() int { return r.countCause(protocol.Lost) + r.countCause(protocol.Notice) }

func (r Run) countCause(c protocol.Cause) (n int) {
	for _, a := range r.Attempts {
		if a.Cause == c {
			n++
		}
	}
	return n
}

// EstimateRun is about how many requests to an object store a run of so many nodes
// costs: to meet, to record how each ended, and to settle; and in each minute its
// heartbeats, and each node's looks at the job, the attempt and the others.
func EstimateRun(nodes int) (whole, minute report.Requests) {
	beats, polls := int(time.Minute/protocol.HeartbeatEvery), int(time.Minute/protocol.Poll)
	whole = report.Requests{Writes: 1 + 3*nodes, Lists: nodes - 1, Reads: 2 + 4*nodes}
	return whole, report.Requests{Writes: beats * nodes, Reads: polls*2*nodes + beats*nodes*(nodes-1)}
}
