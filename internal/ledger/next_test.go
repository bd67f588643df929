package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// stood makes a run of nodes whose attempts had these causes, first excepted.
func stood(nodes int, causes ...Cause) Run {
	r := Run{Nodes: nodes, Grace: 20 * time.Second, Joins: map[int]Join{}, Exits: map[int]Exit{}}
	for i, c := range append([]Cause{First}, causes...) {
		r.Attempts = append(r.Attempts, Attempt{K: i + 1, Cause: c})
	}
	return r
}

// joined lets agents a0, a1, ... hold the first n ranks.
func (r Run) joined(n int) Run {
	for rank := range n {
		r.Joins[rank] = Join{Agent: fmt.Sprintf("a%d", rank)}
	}
	return r
}

// exited gives ranks 0, 1, ... an exit; "" leaves one out.
func (r Run) exited(verdicts ...Verdict) Run {
	for rank, v := range verdicts {
		if v != "" {
			r.Exits[rank] = Exit{Verdict: v, Code: 10 + rank, Reason: "it " + string(v), Hint: "Mend it."}
		}
	}
	return r
}

func (r Run) retries(n int) Run { r.Retries = n; return r }

func (r Run) stopped(s Stop, failing bool) Run { r.Stop, r.Failing = &s, failing; return r }

func repeat(c Cause, n int) (all []Cause) {
	for range n {
		all = append(all, c)
	}
	return all
}

func TestWhatComesNext(t *testing.T) {
	const grace = stopGrace + 20*time.Second
	again := func(k int, c Cause, ranks []int, keep map[int]string) Step {
		return Step{Open: &Attempt{K: k, Cause: c, Ranks: ranks, Keep: keep}}
	}
	failed := func(k, rank int, v Verdict) Step { // a run of one node
		return Step{Settle: &Settled{State: job.Failed, Attempt: k, Rank: rank, Code: 10 + rank, Reason: "it " + string(v), Hint: "Mend it."}}
	}
	blamed := func(rank int, v Verdict) Step { // one of several
		s := failed(1, rank, v)
		s.Settle.Reason = fmt.Sprintf("node %d: it %s", rank, v)
		return s
	}
	tooOften := Step{Fail: &Stop{Code: fault.ExitDrover, Reason: "interrupted 21 times"}}
	tooOftenTold := Step{Fail: &Stop{Code: fault.ExitDrover, Reason: "interrupted 21 times, the last time because it interrupted"}}
	wait := Step{}
	done := Step{Settle: &Settled{State: job.Succeeded, Attempt: 1}}
	gone := Step{Settle: &Settled{State: job.Cancelled, Attempt: 1, Code: fault.ExitInterrupted, Reason: "enough"}}
	enough := Stop{Reason: "enough"}

	for _, row := range []struct {
		name string
		run  Run
		dead string // agents with evidence against them
		age  time.Duration
		want Step
	}{
		{"nothing was opened", Run{Nodes: 1}, "", 0, Step{Open: &Attempt{K: 1, Cause: First}}},
		{"nobody has joined: it is waited for", stood(2), "", 0, wait},
		{"one has joined", stood(2).joined(1), "", 0, wait},
		{"all run", stood(2).joined(2), "", 0, wait},
		{"one of two is done", stood(2).joined(2).exited(Done), "", 0, wait},
		{"a done rank's agent may die", stood(2).joined(2).exited(Done), "a0", 0, wait},
		{"all are done", stood(2).joined(2).exited(Done, Done), "", 0, done},
		{"all are done, and dead since", stood(2).joined(2).exited(Done, Done), "a0 a1", 0, done},
		{"it has settled", Run{Nodes: 1, Settled: &Settled{}}, "", 0, wait},

		{"one is lost", stood(2).joined(2), "a1", 0, again(2, Lost, []int{1}, map[int]string{0: "a0"})},
		{"one is lost before the others came", stood(3).joined(1), "a0", 0, again(2, Lost, []int{0}, map[int]string{})},
		{"one is lost after another is done", stood(2).joined(2).exited(Done), "a1", 0, again(2, Lost, []int{1}, map[int]string{0: "a0"})},
		{"one is lost after another failed: nobody is blamed", stood(2).joined(2).exited(Broke), "a1", 0, again(2, Lost, []int{1}, map[int]string{0: "a0"})},
		{"who is done and dead keeps nothing", stood(2).joined(2).exited(Done), "a0 a1", 0, again(2, Lost, []int{1}, map[int]string{})},
		{"a lost one counts before one with notice", stood(3).joined(3).exited(Interrupted, ""), "a1", 0, again(2, Lost, []int{1}, map[int]string{2: "a2"})},

		{"a machine had notice", stood(2).joined(2).exited(Interrupted), "", 0, again(2, Notice, []int{0}, map[int]string{1: "a1"})},
		{"a machine had notice and the other was halted", stood(2).joined(2).exited(Interrupted, Halted), "", 0, again(2, Notice, []int{0}, map[int]string{1: "a1"})},
		{"a person asked", stood(1).joined(1).exited(AskedToStop), "", 0, again(2, Asked, []int{0}, map[int]string{})},
		{"a person asked one, the machine another", stood(2).joined(2).exited(AskedToStop, Interrupted), "", 0, again(2, Notice, []int{0, 1}, map[int]string{})},

		{"it failed", stood(1).joined(1).exited(Broke), "", 0, failed(1, 0, Broke)},
		{"it failed, a retry is left", stood(2).joined(2).exited(Broke, Halted).retries(1), "", 0, again(2, Failure, []int{0}, map[int]string{0: "a0", 1: "a1"})},
		{"it failed, the last retry is spent", stood(1, Failure).joined(1).exited(Broke).retries(1), "", 0, failed(2, 0, Broke)},
		{"interruptions spend no retry", stood(1, Lost, Notice, Asked).joined(1).exited(Broke).retries(1), "", 0, again(5, Failure, []int{0}, map[int]string{0: "a0"})},
		{"the time limit is not tried again", stood(1).joined(1).exited(TimedOut).retries(9), "", 0, failed(1, 0, TimedOut)},
		{"what never started is not tried again", stood(1).joined(1).exited(Setup).retries(9), "", 0, failed(1, 0, Setup)},
		{"who failed is waited for until all have an exit", stood(2).joined(2).exited(Broke), "", 0, wait},

		{"the lowest that failed is blamed", stood(3).joined(3).exited(Done, Broke, Broke), "", 0, blamed(1, Broke)},
		{"the halted one is not blamed", stood(3).joined(3).exited(Halted, Halted, Broke), "", 0, blamed(2, Broke)},
		{"a halted one is, if there is nobody else", stood(2).joined(2).exited(Done, Halted), "", 0, blamed(1, Halted)},

		{"the twentieth interruption", stood(1, repeat(Lost, MaxInterruptions-1)...).joined(1), "a0", 0, again(21, Lost, []int{0}, map[int]string{})},
		{"one too many", stood(1, repeat(Lost, MaxInterruptions)...).joined(1), "a0", 0, tooOften},
		{"one too many, by notice", stood(1, repeat(Notice, MaxInterruptions)...).joined(1).exited(Interrupted), "", 0, tooOftenTold},
		{"both kinds count", stood(1, append(repeat(Lost, 10), repeat(Notice, 10)...)...).joined(1), "a0", 0, tooOften},
		{"a person may ask for ever", stood(1, repeat(Asked, 30)...).joined(1).exited(AskedToStop), "", 0, again(32, Asked, []int{0}, map[int]string{})},
		{"asked after twenty interruptions", stood(1, repeat(Lost, MaxInterruptions)...).joined(1).exited(AskedToStop), "", 0, again(22, Asked, []int{0}, map[int]string{})},

		{"stopped, still running", stood(2).joined(2).stopped(enough, false), "", 0, wait},
		{"stopped, one has ended", stood(2).joined(2).exited(Halted).stopped(enough, false), "", 0, wait},
		{"stopped, all have ended", stood(2).joined(2).exited(Halted, Halted).stopped(enough, false), "", 0, gone},
		{"stopped, one has ended, one is dead", stood(2).joined(2).exited(Halted).stopped(enough, false), "a1", 0, gone},
		{"stopped, nobody had joined", stood(2).stopped(enough, false), "", 0, gone},
		{"stopped, the time is not over", stood(2).joined(2).stopped(enough, false), "", grace - 1, wait},
		{"stopped, the time is over", stood(2).joined(2).stopped(enough, false), "", grace, gone},
		{"stopped before the first attempt", Run{Nodes: 1}.stopped(enough, false), "", 0,
			Step{Settle: &Settled{State: job.Cancelled, Code: fault.ExitInterrupted, Reason: "enough"}}},
		{"stopped without a word", stood(1).stopped(Stop{}, false), "", 0,
			Step{Settle: &Settled{State: job.Cancelled, Attempt: 1, Code: fault.ExitInterrupted, Reason: "cancelled"}}},
		{"failing, all done since", stood(1).joined(1).exited(Done).stopped(Stop{Reason: "too long", Code: 124}, true), "", 0,
			Step{Settle: &Settled{State: job.Failed, Attempt: 1, Code: 124, Reason: "too long"}}},
		{"failing without a status", stood(1).stopped(Stop{Reason: "too long"}, true), "", 0,
			Step{Settle: &Settled{State: job.Failed, Attempt: 1, Code: fault.ExitDrover, Reason: "too long"}}},
		{"a stop wins over a loss", stood(2).joined(2).stopped(enough, false), "a0", 0, wait},
	} {
		ev := Evidence{StopAge: row.age, Death: deaths(row.dead)}
		if diff := cmp.Diff(row.want, row.run.Next(ev), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

// deaths is the evidence against the agents named in a text.
func deaths(dead string) func(string) Death {
	return func(agent string) Death {
		if slices.Contains(strings.Fields(dead), agent) {
			return Dead
		}
		return Alive
	}
}

// What Next says is what the fold will take: or two who agree would append for ever.
func TestTheFoldTakesWhatNextSays(t *testing.T) {
	for name, r := range map[string]Run{
		"lost":      stood(2, Notice).joined(2),
		"failed":    stood(1).joined(1).exited(Broke),
		"retried":   stood(1).joined(1).exited(Broke).retries(1),
		"done":      stood(1).joined(1).exited(Done),
		"cancelled": stood(1).stopped(Stop{}, false),
		"failing":   stood(1).stopped(Stop{}, true),
		"too often": stood(1, repeat(Lost, MaxInterruptions)...).joined(1),
	} {
		step := r.Next(Evidence{Death: deaths("a0")})
		if !r.take(Entry{Attempt: step.Open, Failing: step.Fail, Settled: step.Settle}) {
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
		{"another is done", stood(2).joined(2).exited("", Done), 1, 0, ""},
		{"another failed", stood(2).joined(2).exited("", Broke), 1, 0, "node 1 ended first"},
		{"another had notice", stood(2).joined(2).exited(Interrupted), 1, 1, "node 0 ended first"},
		{"its own exit is nothing to it", stood(2).joined(2).exited(Broke), 1, 0, ""},
		{"the next attempt began", stood(2, Lost), 1, 0, "attempt 2 began"},
		{"a stop", stood(2).stopped(Stop{}, false), 1, 0, "the job was stopped"},
		{"the end", Run{Nodes: 1, Settled: &Settled{}}, 1, 0, "the job has ended"},
	} {
		if got := row.run.HaltFor(row.attempt, row.rank); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
