package runs

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Evidence is what the decision may know beside the log.
type Evidence struct {
	Death func(agent string) liveness.Death
	// StopAge is how long ago the observer first read the job's stop entry, on
	// a clock that goes on while the machine sleeps.
	StopAge time.Duration
}

// Step is what any process that sees a run in this state should append next. Nothing
// set means: nothing to do but wait.
type Step struct {
	Open   *protocol.Attempt
	Fail   *protocol.Stop // append `failing`
	Settle *protocol.Settled
}

// Next decides what follows from what is written. It is pure: engine and agent
// both call it, and two callers with the same evidence get the same.
func (r Run) Next(ev Evidence) Step {
	switch {
	case r.Settled != nil:
		return Step{}
	case r.Stop != nil:
		return r.settleStopped(ev)
	case r.Attempt() == 0:
		return Step{Open: &protocol.Attempt{K: 1, Cause: protocol.First}}
	}
	lost, told := r.missingRanks(ev)
	switch {
	case len(r.Exits) == r.Nodes && len(told) == 0:
		return r.verdict()
	case len(lost) > 0 || len(told) > 0:
		return r.reopenAttempt(lost, told, ev)
	}
	return Step{}
}

// missingRanks lists the ranks with an agent that died without an exit, and those that
// left because their machine, or a person, said so.
func (r Run) missingRanks(ev Evidence) (lost, told []int) {
	for rank := range r.Nodes {
		exit, ended := r.Exits[rank]
		join, joined := r.Joins[rank]
		switch {
		case ended && (exit.Verdict == protocol.Interrupted || exit.Verdict == protocol.AskedToStop):
			told = append(told, rank)
		case !ended && joined && ev.Death(join.Agent) != liveness.Alive:
			lost = append(lost, rank)
		}
	}
	return lost, told
}

// reopenAttempt opens the next attempt for all ranks (R3a, R4), free of charge: the
// user's code is not blamed while a member is missing.
func (r Run) reopenAttempt(lost, told []int, ev Evidence) Step {
	a := &protocol.Attempt{K: r.Attempt() + 1, Cause: protocol.Lost, Ranks: lost, Keep: map[int]string{}}
	if len(lost) == 0 {
		a.Cause, a.Ranks = protocol.Asked, told
		for _, rank := range told {
			if r.Exits[rank].Verdict == protocol.Interrupted {
				a.Cause = protocol.Notice
			}
		}
	}
	if a.Cause != protocol.Asked && r.Interruptions() >= protocol.MaxInterruptions {
		reason := fmt.Sprintf("interrupted %d times", r.Interruptions()+1)
		for _, rank := range told {
			if last := r.Exits[rank].Reason; last != "" {
				reason = fmt.Sprintf("%s, the last time because %s", reason, last)
				break
			}
		}
		return Step{Fail: &protocol.Stop{Code: fault.ExitDrover, Reason: reason}}
	}
	for rank, join := range r.Joins {
		if !slices.Contains(lost, rank) && !slices.Contains(told, rank) && ev.Death(join.Agent) == liveness.Alive {
			a.Keep[rank] = join.Agent
		}
	}
	return Step{Open: a}
}

// verdict settles an attempt in which every rank has ended by itself.
func (r Run) verdict() Step {
	rank, exit, ok := r.blamedRank()
	if !ok {
		return Step{Settle: &protocol.Settled{State: job.Succeeded, Attempt: r.Attempt()}}
	}
	if exit.Verdict == protocol.Broke && r.Failures() < r.Retries {
		keep := map[int]string{}
		for rank, join := range r.Joins {
			keep[rank] = join.Agent
		}
		return Step{Open: &protocol.Attempt{K: r.Attempt() + 1, Cause: protocol.Failure, Ranks: []int{rank}, Keep: keep}}
	}
	reason := exit.Reason
	if r.Nodes > 1 && reason != "" {
		reason = fmt.Sprintf("node %d: %s", rank, reason)
	}
	return Step{Settle: &protocol.Settled{State: job.Failed, Attempt: r.Attempt(), Rank: rank,
		Code: exit.Code, Reason: reason, Hint: exit.Hint}}
}

// blamedRank finds the exit that the run's failure is put down to: the lowest rank
// that failed by itself, not one that was halted because of it.
func (r Run) blamedRank() (int, protocol.Exit, bool) {
	for _, halted := range []bool{false, true} {
		for rank := range r.Nodes {
			e := r.Exits[rank]
			if e.Verdict != protocol.Done && (e.Verdict == protocol.Halted) == halted {
				return rank, e, true
			}
		}
	}
	return 0, protocol.Exit{}, false
}

// settleStopped settles a stopped run when every joined rank has ended or is dead, or
// when the time that R8 gives them is over.
func (r Run) settleStopped(ev Evidence) Step {
	for rank, join := range r.Joins {
		_, ended := r.Exits[rank]
		if !ended && ev.Death(join.Agent) == liveness.Alive && ev.StopAge < protocol.StopGrace+r.Grace {
			return Step{}
		}
	}
	s := &protocol.Settled{State: job.Cancelled, Attempt: r.Attempt(), Code: fault.ExitInterrupted, Reason: "cancelled"}
	if r.Failing {
		s.State, s.Code = job.Failed, fault.ExitDrover
	}
	if r.Stop.Reason != "" {
		s.Reason = r.Stop.Reason
	}
	if r.Stop.Code != 0 {
		s.Code = r.Stop.Code
	}
	return Step{Settle: s}
}

// HaltFor says why a rank of the current attempt must end its program now, or
// "" when it may go on: the job is stopping, or another rank ended badly (R4).
func (r Run) HaltFor(attempt, rank int) string {
	switch {
	case r.Settled != nil:
		return "the job has ended"
	case r.Stop != nil:
		return "the job was stopped"
	case r.Attempt() != attempt:
		return fmt.Sprintf("attempt %d began", r.Attempt())
	}
	for other := range r.Nodes {
		if e, ended := r.Exits[other]; ended && other != rank && e.Verdict != protocol.Done {
			return fmt.Sprintf("node %d ended first", other)
		}
	}
	return ""
}
