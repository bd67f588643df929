package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// coverage counts what happened, so that a quiet simulator is noticed.
type coverage map[string]int

func (c coverage) add(o coverage) {
	for k, n := range o {
		c[k] += n
	}
}

// count adds up what a world was once it is over.
func (s *scene) count() {
	c := s.seen
	c["steps"] += s.steps
	c["saved"] += len(s.saves)
	c["torn"] += len(s.torn)
	for id := range s.jobs {
		s.countJob(c, id, s.storyOf(id))
	}
	if len(s.jobs) > 1 {
		c["second job"]++
	}
	for k, n := range s.bucket.Counts() {
		c["store "+k] += n
	}
}

func (s *scene) countJob(c coverage, id string, st story) {
	if st.settled != nil {
		c[string(st.settled.State)]++
		if st.settled.State == job.Cancelled && s.allDone(id, st) {
			c["cancel before the end it raced with"]++
		}
	}
	for i, a := range st.attempts {
		c["attempt "+string(a.Cause)]++
		if a.Cause == protocol.Lost {
			c[fmt.Sprintf("lost, N=%d", s.nodes)]++
			s.countEvidence(c, id, a, st.opened[i])
		}
	}
	if st.count(protocol.Failure) > 0 && st.count(protocol.Lost, protocol.Notice) > 0 {
		c["failures and interruptions in one run"]++
	}
	for k := range st.attempts {
		for rank := range s.nodes {
			if e, ok := s.exitAt(id, k+1, rank, forever); ok {
				c["exit "+string(e.Verdict)]++
			}
		}
	}
	s.countRivals(c, id, st)
}

// countEvidence says what the engine had told of agents that were marked dead.
func (s *scene) countEvidence(c coverage, id string, a protocol.Attempt, t time.Duration) {
	for _, rank := range a.Ranks {
		j, _ := s.joinAt(id, a.K-1, rank, forever)
		switch m := s.agentNamed(j.Agent); {
		case m == nil:
		case m.disowned && m.disownedAt <= t:
			c["evidence: taken, and it lives"]++
		case !m.p.dead || m.died > t:
			c["evidence: silent"]++
		case m.taken:
			c["evidence: taken"]++
		case m.broke:
			c["evidence: broke"]++
		default:
			c["evidence: dead"]++
		}
	}
}

// countRivals counts cancels that met an attempt, or a resume, at its beginning.
func (s *scene) countRivals(c coverage, id string, st story) {
	if st.stop == nil || st.stop.Cancelled == nil {
		return
	}
	for _, t := range st.opened[min(1, len(st.opened)):] {
		if near(st.stopAt, t) {
			c["cancel beside a new attempt"]++
		}
	}
	for _, k := range s.keepers {
		if k.job == id && k.born > st.opened0() && near(st.stopAt, k.born) {
			c["cancel beside a resume"]++
		}
	}
}

// allDone says whether every rank of the job's last attempt ended well.
func (s *scene) allDone(id string, st story) bool {
	for rank := range s.nodes {
		if e, ok := s.exitAt(id, len(st.attempts), rank, st.settledAt); !ok || e.Verdict != protocol.Done {
			return false
		}
	}
	return true
}

func (c coverage) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s: %d", k, c[k]))
	}
	return strings.Join(parts, "\n")
}

// wanted is what must have happened at least once in a normal test run.
func wanted() []string {
	all := []string{
		"SUCCEEDED", "FAILED", "CANCELLED", "second job", "saved", "torn",
		"failing: interrupted too often", "failing: nothing came to live", "died before it joined",
		"attempt first", "attempt lost", "attempt notice", "attempt asked", "attempt failure",
		"lost, N=1", "lost, N=2", "lost, N=3", "lost, N=4",
		"evidence: taken", "evidence: broke", "evidence: dead", "evidence: silent", "evidence: taken, and it lives",
		"failures and interruptions in one run", "more agents than ranks",
		"late join", "late exit", "fenced while it ran", "fenced before it began", "a survivor did not come for its rank", "woke up to an attempt that was full",
		"began anew after work that was done", "went on from an earlier job", "went on from a checkpoint",
		"cancel lost to the end", "cancel before the end it raced with", "cancel beside a new attempt", "cancel beside a resume",
		"cancelled behind settled", "settled behind cancelled", "attempt behind attempt", "submitted behind submitted", "wrong entry",
		"yielded", "drained in time", "deaf beside a cancel", "halted before it began", "job.json changed", "a changed job.json was refused",
	}
	for _, v := range []protocol.Verdict{protocol.Done, protocol.Broke, protocol.TimedOut, protocol.Setup, protocol.Halted, protocol.Interrupted, protocol.AskedToStop} {
		all = append(all, "exit "+string(v))
	}
	for _, t := range troubles {
		all = append(all, "fault "+t.name)
	}
	for _, kind := range moments {
		for _, stage := range []string{leaving, arrived, back} {
			all = append(all, "fault "+stage+" "+kind)
		}
	}
	return all
}

func (c coverage) check(t *testing.T) {
	for _, want := range wanted() {
		if c[want] == 0 {
			t.Errorf("in all worlds this never was: %s", want)
		}
	}
	if lost, all := c["faults to the dead"]+c["faults in vain"], c["faults"]; lost*20 > all {
		t.Errorf("%d of %d faults came to nothing", lost, all)
	}
}
