package runs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// stood makes a run of nodes with attempts of these causes, first excepted.
func stood(nodes int, causes ...protocol.Cause) Run {
	r := Run{Nodes: nodes, Grace: 20 * time.Second, Joins: map[int]protocol.Join{}, Exits: map[int]protocol.Exit{}}
	for i, c := range append([]protocol.Cause{protocol.First}, causes...) {
		r.Attempts = append(r.Attempts, protocol.Attempt{K: i + 1, Cause: c})
	}
	return r
}

// joined lets agents a0, a1, ... hold the first n ranks.
func (r Run) joined(n int) Run {
	for rank := range n {
		r.Joins[rank] = protocol.Join{Agent: fmt.Sprintf("a%d", rank)}
	}
	return r
}

// exited gives ranks 0, 1, ... an exit; "" leaves one out.
func (r Run) exited(verdicts ...protocol.Verdict) Run {
	for rank, v := range verdicts {
		if v != "" {
			r.Exits[rank] = protocol.Exit{Verdict: v, Code: 10 + rank, Reason: "it " + string(v), Hint: "Mend it."}
		}
	}
	return r
}

func (r Run) retries(n int) Run { r.Retries = n; return r }

func (r Run) stopped(s protocol.Stop, failing bool) Run { r.Stop, r.Failing = &s, failing; return r }

func repeat(c protocol.Cause, n int) (all []protocol.Cause) {
	for range n {
		all = append(all, c)
	}
	return all
}

func TestWhatComesNext(t *testing.T) {
	const grace = protocol.StopGrace + 20*time.Second
	again := func(k int, c protocol.Cause, ranks []int, keep map[int]string) Step {
		return Step{Open: &protocol.Attempt{K: k, Cause: c, Ranks: ranks, Keep: keep}}
	}
	failed := func(k, rank int, v protocol.Verdict) Step { // a run of one node
		return Step{Settle: &protocol.Settled{State: job.Failed, Attempt: k, Rank: rank, Code: 10 + rank, Reason: "it " + string(v), Hint: "Mend it."}}
	}
	blamed := func(rank int, v protocol.Verdict) Step { // one of several
		s := failed(1, rank, v)
		s.Settle.Reason = fmt.Sprintf("node %d: it %s", rank, v)
		return s
	}
	tooOften := Step{Fail: &protocol.Stop{Code: fault.ExitDrover, Reason: "interrupted 21 times"}}
	tooOftenTold := Step{Fail: &protocol.Stop{Code: fault.ExitDrover, Reason: "interrupted 21 times, the last time because it interrupted"}}
	wait := Step{}
	done := Step{Settle: &protocol.Settled{State: job.Succeeded, Attempt: 1}}
	gone := Step{Settle: &protocol.Settled{State: job.Cancelled, Attempt: 1, Code: fault.ExitInterrupted, Reason: "enough"}}
	enough := protocol.Stop{Reason: "enough"}

	for _, row := range []struct {
		name string
		run  Run
		dead string // agents with evidence against them
		age  time.Duration
		want Step
	}{
		{"nothing was opened", Run{Nodes: 1}, "", 0, Step{Open: &protocol.Attempt{K: 1, Cause: protocol.First}}},
		{"nobody has joined: it is waited for", stood(2), "", 0, wait},
		{"one has joined", stood(2).joined(1), "", 0, wait},
		{"all run", stood(2).joined(2), "", 0, wait},
		{"one of two is done", stood(2).joined(2).exited(protocol.Done), "", 0, wait},
		{"a done rank's agent may die", stood(2).joined(2).exited(protocol.Done), "a0", 0, wait},
		{"all are done", stood(2).joined(2).exited(protocol.Done, protocol.Done), "", 0, done},
		{"all are done, and dead since", stood(2).joined(2).exited(protocol.Done, protocol.Done), "a0 a1", 0, done},
		{"it has settled", Run{Nodes: 1, Settled: &protocol.Settled{}}, "", 0, wait},

		{"one is lost", stood(2).joined(2), "a1", 0, again(2, protocol.Lost, []int{1}, map[int]string{0: "a0"})},
		{"one is lost before the others came", stood(3).joined(1), "a0", 0, again(2, protocol.Lost, []int{0}, map[int]string{})},
		{"one is lost after another is done", stood(2).joined(2).exited(protocol.Done), "a1", 0, again(2, protocol.Lost, []int{1}, map[int]string{0: "a0"})},
		{"one is lost after another failed: nobody is blamed", stood(2).joined(2).exited(protocol.Broke), "a1", 0, again(2, protocol.Lost, []int{1}, map[int]string{0: "a0"})},
		{"who is done and dead keeps nothing", stood(2).joined(2).exited(protocol.Done), "a0 a1", 0, again(2, protocol.Lost, []int{1}, map[int]string{})},
		{"a lost one counts before one with notice", stood(3).joined(3).exited(protocol.Interrupted, ""), "a1", 0, again(2, protocol.Lost, []int{1}, map[int]string{2: "a2"})},

		{"a machine had notice", stood(2).joined(2).exited(protocol.Interrupted), "", 0, again(2, protocol.Notice, []int{0}, map[int]string{1: "a1"})},
		{"a machine had notice and the other was halted", stood(2).joined(2).exited(protocol.Interrupted, protocol.Halted), "", 0, again(2, protocol.Notice, []int{0}, map[int]string{1: "a1"})},
		{"a person asked", stood(1).joined(1).exited(protocol.AskedToStop), "", 0, again(2, protocol.Asked, []int{0}, map[int]string{})},
		{"a person asked one, the machine another", stood(2).joined(2).exited(protocol.AskedToStop, protocol.Interrupted), "", 0, again(2, protocol.Notice, []int{0, 1}, map[int]string{})},

		{"it failed", stood(1).joined(1).exited(protocol.Broke), "", 0, failed(1, 0, protocol.Broke)},
		{"it failed, a retry is left", stood(2).joined(2).exited(protocol.Broke, protocol.Halted).retries(1), "", 0, again(2, protocol.Failure, []int{0}, map[int]string{0: "a0", 1: "a1"})},
		{"it failed, the last retry is spent", stood(1, protocol.Failure).joined(1).exited(protocol.Broke).retries(1), "", 0, failed(2, 0, protocol.Broke)},
		{"interruptions spend no retry", stood(1, protocol.Lost, protocol.Notice, protocol.Asked).joined(1).exited(protocol.Broke).retries(1), "", 0, again(5, protocol.Failure, []int{0}, map[int]string{0: "a0"})},
		{"the time limit is not tried again", stood(1).joined(1).exited(protocol.TimedOut).retries(9), "", 0, failed(1, 0, protocol.TimedOut)},
		{"what never started is not tried again", stood(1).joined(1).exited(protocol.Setup).retries(9), "", 0, failed(1, 0, protocol.Setup)},
		{"who failed is waited for until all have an exit", stood(2).joined(2).exited(protocol.Broke), "", 0, wait},

		{"the lowest that failed is blamed", stood(3).joined(3).exited(protocol.Done, protocol.Broke, protocol.Broke), "", 0, blamed(1, protocol.Broke)},
		{"the halted one is not blamed", stood(3).joined(3).exited(protocol.Halted, protocol.Halted, protocol.Broke), "", 0, blamed(2, protocol.Broke)},
		{"a halted one is, if there is no other agent", stood(2).joined(2).exited(protocol.Done, protocol.Halted), "", 0, blamed(1, protocol.Halted)},

		{"the twentieth interruption", stood(1, repeat(protocol.Lost, protocol.MaxInterruptions-1)...).joined(1), "a0", 0, again(21, protocol.Lost, []int{0}, map[int]string{})},
		{"one too many", stood(1, repeat(protocol.Lost, protocol.MaxInterruptions)...).joined(1), "a0", 0, tooOften},
		{"one too many, by notice", stood(1, repeat(protocol.Notice, protocol.MaxInterruptions)...).joined(1).exited(protocol.Interrupted), "", 0, tooOftenTold},
		{"both kinds count", stood(1, append(repeat(protocol.Lost, 10), repeat(protocol.Notice, 10)...)...).joined(1), "a0", 0, tooOften},
		{"a person may ask for ever", stood(1, repeat(protocol.Asked, 30)...).joined(1).exited(protocol.AskedToStop), "", 0, again(32, protocol.Asked, []int{0}, map[int]string{})},
		{"asked after twenty interruptions", stood(1, repeat(protocol.Lost, protocol.MaxInterruptions)...).joined(1).exited(protocol.AskedToStop), "", 0, again(22, protocol.Asked, []int{0}, map[int]string{})},

		{"stopped, still running", stood(2).joined(2).stopped(enough, false), "", 0, wait},
		{"stopped, one has ended", stood(2).joined(2).exited(protocol.Halted).stopped(enough, false), "", 0, wait},
		{"stopped, all have ended", stood(2).joined(2).exited(protocol.Halted, protocol.Halted).stopped(enough, false), "", 0, gone},
		{"stopped, one has ended, one is dead", stood(2).joined(2).exited(protocol.Halted).stopped(enough, false), "a1", 0, gone},
		{"stopped, nobody had joined", stood(2).stopped(enough, false), "", 0, gone},
		{"stopped, the time is not over", stood(2).joined(2).stopped(enough, false), "", grace - 1, wait},
		{"stopped, the time is over", stood(2).joined(2).stopped(enough, false), "", grace, gone},
		{"stopped before the first attempt", Run{Nodes: 1}.stopped(enough, false), "", 0,
			Step{Settle: &protocol.Settled{State: job.Cancelled, Code: fault.ExitInterrupted, Reason: "enough"}}},
		{"stopped without a word", stood(1).stopped(protocol.Stop{}, false), "", 0,
			Step{Settle: &protocol.Settled{State: job.Cancelled, Attempt: 1, Code: fault.ExitInterrupted, Reason: "cancelled"}}},
		{"failing, all done since", stood(1).joined(1).exited(protocol.Done).stopped(protocol.Stop{Reason: "too long", Code: 124}, true), "", 0,
			Step{Settle: &protocol.Settled{State: job.Failed, Attempt: 1, Code: 124, Reason: "too long"}}},
		{"failing without a status", stood(1).stopped(protocol.Stop{Reason: "too long"}, true), "", 0,
			Step{Settle: &protocol.Settled{State: job.Failed, Attempt: 1, Code: fault.ExitDrover, Reason: "too long"}}},
		{"a stop wins over a loss", stood(2).joined(2).stopped(enough, false), "a0", 0, wait},
	} {
		ev := Evidence{StopAge: row.age, Death: deaths(row.dead)}
		if diff := cmp.Diff(row.want, row.run.Next(ev), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

// deaths is the evidence against the agents named in a text.
func deaths(dead string) func(string) liveness.Death {
	return func(agent string) liveness.Death {
		if slices.Contains(strings.Fields(dead), agent) {
			return liveness.Dead
		}
		return liveness.Alive
	}
}

// What Next says is what the fold will take: or two processes that agree would append for ever.
func TestTheFoldTakesWhatNextSays(t *testing.T) {
	for name, r := range map[string]Run{
		"lost":      stood(2, protocol.Notice).joined(2),
		"failed":    stood(1).joined(1).exited(protocol.Broke),
		"retried":   stood(1).joined(1).exited(protocol.Broke).retries(1),
		"done":      stood(1).joined(1).exited(protocol.Done),
		"cancelled": stood(1).stopped(protocol.Stop{}, false),
		"failing":   stood(1).stopped(protocol.Stop{}, true),
		"too often": stood(1, repeat(protocol.Lost, protocol.MaxInterruptions)...).joined(1),
	} {
		step := r.Next(Evidence{Death: deaths("a0")})
		if !r.applyEntry(protocol.JobEntry{Attempt: step.Open, Failing: step.Fail, Settled: step.Settle}) {
			t.Errorf("%s: the fold ignores %+v", name, step)
		}
	}
}

func TestWhoMustEndItsProgram(t *testing.T) {
	for _, row := range []struct {
		name          string
		run           Run
		attempt, rank int
		want          string
	}{
		{"all run", stood(2).joined(2), 1, 0, ""},
		{"another is done", stood(2).joined(2).exited("", protocol.Done), 1, 0, ""},
		{"another failed", stood(2).joined(2).exited("", protocol.Broke), 1, 0, "node 1 ended first"},
		{"another had notice", stood(2).joined(2).exited(protocol.Interrupted), 1, 1, "node 0 ended first"},
		{"its own exit is nothing to it", stood(2).joined(2).exited(protocol.Broke), 1, 0, ""},
		{"the next attempt began", stood(2, protocol.Lost), 1, 0, "attempt 2 began"},
		{"a stop", stood(2).stopped(protocol.Stop{}, false), 1, 0, "the job was stopped"},
		{"the end", Run{Nodes: 1, Settled: &protocol.Settled{}}, 1, 0, "the job has ended"},
	} {
		if got := row.run.HaltFor(row.attempt, row.rank); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
