package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// soon is within what a living agent ends its program: a poll, requests that are
// tried again, the grace.
const soon = protocol.Poll + 25*time.Second

// checkEnd looks at the whole history once everything has come to rest.
func (s *scene) checkEnd() {
	s.checkTask()
	for rank := range s.nodes {
		s.checkWriters(rank)
	}
	for id := range s.jobs {
		st := s.storyOf(id)
		if st.settled == nil {
			s.violate("I6: job %s was accepted and has not settled", id)
			continue
		}
		s.checkWritten(id, st)
		s.checkDrained(id, st)
		s.checkVerdict(id, st)
		s.checkAttempts(id, st)
		s.checkFailing(id, st)
		s.checkStop(id, st)
		s.checkPeers(id, st)
	}
	for _, c := range s.cancels {
		st := s.storyOf(c.job)
		if c.stands && (st.stop == nil || st.stop.Cancelled == nil || st.settled != nil && st.settled.State != job.Cancelled) {
			s.violate("E1: cancel of %s stood and the job is %v", c.job, st.settled)
		}
	}
	s.checkLeft()
	for _, b := range s.breaks {
		s.checkBreak(b)
	}
}

// checkLeft: R1, agents stay until the job has settled, and no longer.
func (s *scene) checkLeft() {
	for _, d := range s.left {
		if st := s.storyOf(d.m.job); d.m.told == "" && (st.settled == nil || st.settledAt > d.at) {
			s.violate("R1: agent %s left at %s, before the job settled", d.m.agent, d.at)
		}
	}
	for _, m := range s.built {
		if !m.p.dead && m.p.awake(s.now-30*time.Second, s.now) {
			s.violate("R1: agent %s is still there, and the job has settled", m.agent)
		}
	}
}

// checkTask: T1, a job is submitted only after the one before it had settled and
// was closed; what a submit was told is so.
func (s *scene) checkTask() {
	l := s.taskLog()
	live := ""
	for n, e := range l.entries {
		switch {
		case e.By == "vandal":
		case e.Submitted != nil && live != "":
			s.violate("T1: %s was submitted beside %s", e.Submitted.Job, live)
		case e.Submitted != nil:
			live = e.Submitted.Job
		case e.Closed != nil && e.Closed.Job != live:
			s.violate("T1: %s was closed, and %s was live", e.Closed.Job, live)
		case e.Closed != nil:
			if st := s.storyOf(live); st.settled == nil || st.settledAt > l.at[n] {
				s.violate("T1: %s was closed before it had settled", live)
			}
			live = ""
		}
	}
	places, _ := s.order()
	for id := range s.jobs {
		if _, ok := places[id]; !ok {
			s.violate("T1: a submit was told that %s is live, and it never was", id)
		}
	}
}

// checkWritten: L3 and J1, only the vandal wrote what does not count.
func (s *scene) checkWritten(id string, st story) {
	for _, e := range st.ignored {
		if e.By != "vandal" {
			s.violate("L3: %s wrote what was not allowed: %s", e.By, protocol.Encode(e))
		}
	}
	for i, e := range st.placed {
		if e.Placed.Placement != i+1 {
			s.violate("J1: placement %d of %s was placed as number %d", e.Placed.Placement, id, i+1)
		}
		if st.placedAt[i] > st.settledAt || st.stop != nil && st.placedAt[i] > st.stopAt {
			s.violate("J1: placement %d of %s was placed after its end", i+1, id)
		}
	}
}

// checkWriters: R6, no agent takes a rank over, or saves it, after a newer attempt.
func (s *scene) checkWriters(rank int) {
	held := writer{-1, 0}
	for n, e := range s.stateOf(rank).entries {
		switch {
		case e.By == "vandal":
		case e.Restored != nil:
			w := writer{e.Restored.Submission, e.Restored.Attempt}
			if !w.after(held) {
				s.violate("R6: entry %d of rank %d: attempt %d took over from attempt %d", n, rank, w.attempt, held.attempt)
			}
			held = w
		case e.Saved != nil:
			if w := (writer{e.Saved.Submission, e.Saved.Attempt}); w != held {
				s.violate("R6: entry %d of rank %d: attempt %d saved after attempt %d took over", n, rank, w.attempt, held.attempt)
			}
		}
	}
}

func (s *scene) checkVerdict(id string, st story) {
	switch st.settled.State {
	case job.Succeeded:
		if st.stop != nil {
			s.violate("E1: %s succeeded after a stop", id)
		}
		for rank := range s.nodes {
			if !s.ranTo(id, st.settled.Attempt, rank, st.settledAt) {
				s.violate("R5: %s succeeded and rank %d of attempt %d has not ended with 0 before", id, rank, st.settled.Attempt)
			}
		}
	case job.Failed:
		if st.stop == nil {
			s.checkBlame(id, st)
		}
	case job.Cancelled:
		if st.stop == nil || st.stop.Cancelled == nil {
			s.violate("E1: %s is cancelled and nobody cancelled it", id)
		}
	}
}

// blame finds the rank that an attempt's failure is put down to by t: the lowest
// that failed by itself. told says that one of them was interrupted.
func (s *scene) blame(id string, k int, t time.Duration) (rank int, exit protocol.Exit, exits int, told bool) {
	rank = -1
	for r := range s.nodes {
		e, ok := s.exitAt(id, k, r, t)
		if !ok {
			continue
		}
		exits++
		switch e.Verdict {
		case protocol.Interrupted, protocol.AskedToStop:
			told = true
		case protocol.Broke, protocol.TimedOut, protocol.Setup:
			if rank < 0 {
				rank, exit = r, e
			}
		}
	}
	return rank, exit, exits, told
}

// checkBlame: R4 and R5, a run has failed because a rank failed by itself, once
// all have ended and no retry is left.
func (s *scene) checkBlame(id string, st story) {
	k := st.settled.Attempt
	rank, e, exits, told := s.blame(id, k, st.settledAt)
	switch spent := st.count(protocol.Failure); {
	case exits < s.nodes || told:
		s.violate("R4: %s failed with %d of %d exits (one was interrupted: %v)", id, exits, s.nodes, told)
	case rank < 0:
		s.violate("R4: %s failed in attempt %d and no rank failed there by itself", id, k)
	case st.settled.Rank != rank || st.settled.Code != e.Code || !strings.HasSuffix(st.settled.Reason, e.Reason):
		s.violate("R4: %s failed for %q of rank %d, want %q of rank %d", id, st.settled.Reason, st.settled.Rank, e.Reason, rank)
	case e.Verdict == protocol.Broke && spent != s.retries:
		s.violate("R4: %s failed in attempt %d with %d of %d retries spent", id, k, spent, s.retries)
	}
}

// ranTo says whether the program of that rank truly ended with 0 and its
// outputs were stored before t.
func (s *scene) ranTo(id string, attempt, rank int, t time.Duration) bool {
	for _, r := range s.starts {
		if r.job == id && r.attempt == attempt && r.rank == rank && r.ended && !r.late && r.code == 0 && r.to == s.work && r.end <= t {
			e, ok := s.exitAt(id, attempt, rank, t)
			stored, there := s.made["blobs/"+string(e.Outputs["model"])]
			return ok && there && stored <= s.made[fmt.Sprintf("p/t/%s/attempts/%d/exit/%d", id, attempt, rank)]
		}
	}
	return false
}

// checkAttempts: R3, R4 and R5, each attempt has a true cause and keeps the survivors.
func (s *scene) checkAttempts(id string, st story) {
	for i, a := range st.attempts {
		if i == 0 {
			if a.Cause != protocol.First {
				s.violate("R3: the first attempt is there because of %s", a.Cause)
			}
			continue
		}
		s.checkCause(id, st, i)
		s.checkKeep(id, st, i)
	}
	if n := st.count(protocol.Failure); n > s.retries {
		s.violate("R3: %d attempts for failures, %d retries", n, s.retries)
	}
	if n := st.count(protocol.Lost, protocol.Notice); n > protocol.MaxInterruptions {
		s.violate("R5: %d interruptions", n)
	}
}

// checkCause: what attempt k+1 says of attempt k is so.
func (s *scene) checkCause(id string, st story, k int) {
	a, t := st.attempts[k], st.opened[k]
	rank, e, exits, told := s.blame(id, k, t)
	switch a.Cause {
	case protocol.Failure:
		if exits < s.nodes || told || rank < 0 || e.Verdict != protocol.Broke || !slices.Equal(a.Ranks, []int{rank}) {
			s.violate("R4: attempt %d blames ranks %v with %d of %d exits, interrupted %v, %s of rank %d", a.K, a.Ranks, exits, s.nodes, told, e.Verdict, rank)
		}
	case protocol.Lost:
		s.checkLost(id, st, k)
	case protocol.Notice, protocol.Asked:
		notice := false
		for _, rank := range a.Ranks {
			e, ok := s.exitAt(id, k, rank, t)
			if !ok || e.Verdict != protocol.Interrupted && e.Verdict != protocol.AskedToStop {
				s.violate("R3: attempt %d says that rank %d had notice: %q", a.K, rank, e.Verdict)
			}
			notice = notice || e.Verdict == protocol.Interrupted
		}
		if notice != (a.Cause == protocol.Notice) || len(a.Ranks) == 0 {
			s.violate("R3: attempt %d was opened for %s of ranks %v (notice: %v)", a.K, a.Cause, a.Ranks, notice)
		}
	default:
		s.violate("R3: attempt %d was opened for no cause: %q", a.K, a.Cause)
	}
}

// decidedAt is when the process that signed an entry decided.
func (s *scene) decidedAt(e protocol.JobEntry, landed time.Duration) time.Duration {
	return min(e.At.Sub(epoch)-s.processOf(e.By).skew, landed)
}

func (s *scene) checkLost(id string, st story, k int) {
	a, t := st.attempts[k], st.opened[k]
	decided := s.decidedAt(st.by[k], t)
	if len(a.Ranks) == 0 {
		s.violate("R3: attempt %d was opened without a cause", a.K)
	}
	for _, rank := range a.Ranks {
		j, ok := s.joinAt(id, k, rank, t)
		if !ok {
			s.violate("R3: attempt %d mourns rank %d, which never joined", a.K, rank)
			continue
		}
		s.checkUnended(id, k, rank, s.agentNamed(j.Agent), decided, st.by[k])
		s.checkDeath(j.Agent, t, decided, st.by[k])
	}
}

// checkUnended: R3, an agent that wrote how it ended, and died then, is not marked dead, unless a
// lease had run out before. Of one that lives on, an exit may have crossed the
// observer's look.
func (s *scene) checkUnended(id string, k, rank int, m *machine, decided time.Duration, by protocol.JobEntry) {
	when, ok := s.made[fmt.Sprintf("p/t/%s/attempts/%d/exit/%d", id, k, rank)]
	switch {
	case !ok:
	case m.p.dead && m.died <= decided && !m.disowned && when <= m.died && !m.silent(when+unsure),
		when < decided-10*time.Second && s.processOf(by.By).awake(when, decided):
		s.violate("R3: attempt %d mourns rank %d, which had ended at %s (decided by %s at %s, died %s)", k+1, rank, when, by.By, decided, m.died)
	}
}

// checkKeep: R3, a survivor keeps its rank, and no other agent does.
func (s *scene) checkKeep(id string, st story, k int) {
	a, t := st.attempts[k], st.opened[k]
	for rank := range s.nodes {
		j, joined := s.joinAt(id, k, rank, t)
		kept, cause := a.Keep[rank], a.Cause != protocol.Failure && slices.Contains(a.Ranks, rank)
		switch e, _ := s.exitAt(id, k, rank, t); {
		case kept != "" && (!joined || j.Agent != kept):
			s.violate("R3: attempt %d keeps rank %d for %s, which was %s's", a.K, rank, kept, j.Agent)
		case kept != "" && cause:
			s.violate("R3: attempt %d keeps rank %d for %s, which it mourns", a.K, rank, kept)
		case kept == "" && joined && !cause && e.Verdict != protocol.Interrupted && e.Verdict != protocol.AskedToStop:
			m, key := s.agentNamed(j.Agent), fmt.Sprintf("p/t/%s/attempts/%d/join/%d", id, k, rank)
			decided, seen := s.decidedAt(st.by[k], t), s.processOf(st.by[k].By).awake(s.made[key], t)
			if s.made[key] < decided-15*time.Second && seen && !m.goneBy(decided) {
				s.violate("R3: attempt %d does not keep rank %d for %s, which survived", a.K, rank, j.Agent)
			}
		}
	}
}

// checkDeath: D1 and D2, no agent is called dead that lives and was heard of. What
// counts is when the observer decided, not when its entry landed; what came in
// the last seconds before that may have crossed its look.
func (s *scene) checkDeath(agent string, t, decided time.Duration, e protocol.JobEntry) {
	m, observer := s.agentNamed(agent), s.processOf(e.By)
	if m.p.dead && m.died <= t || m.disowned && m.disownedAt <= t && !s.refuted(m, e, decided) {
		return
	}
	if !m.silent(decided) {
		s.violate("D1: agent %s was called dead at %s and had a heartbeat at %s", agent, decided, m.lastBeat(decided))
	}
	for _, a := range observer.away {
		if a.to <= decided && decided-a.to < protocol.Lease-protocol.ReadGap && a.to-a.from > protocol.Lease {
			s.violate("D2: agent %s was called dead by %s, who had just slept for %s", agent, e.By, a.to-a.from)
		}
	}
	s.checkSigns(m, e.By, decided)
}

// refuted says whether an agent has joined again since the observer had mourned it
// on the engine's word: that word is spent.
func (s *scene) refuted(m *machine, by protocol.JobEntry, decided time.Duration) bool {
	st := s.storyOf(m.job)
	for k, a := range st.attempts {
		if a.Cause != protocol.Lost || st.by[k].By != by.By || st.opened[k] >= decided || s.decidedAt(st.by[k], st.opened[k]) < m.disownedAt+10*time.Second {
			continue
		}
		for _, rank := range a.Ranks {
			if j, ok := s.joinAt(m.job, k, rank, decided); ok && j.Agent == m.agent {
				return true
			}
		}
	}
	return false
}

// checkSigns: D2, a join and an entry of the job's log are signs of life too.
func (s *scene) checkSigns(m *machine, by string, decided time.Duration) {
	const crossed = 10 * time.Second // logs and joins are read at every poll
	fresh := func(at time.Duration) bool {
		return at < decided-crossed && at > decided-(protocol.Lease-protocol.HeartbeatEvery-crossed)
	}
	l := s.jobLog(m.job)
	for n, e := range l.entries {
		if e.By == m.agent && fresh(l.at[n]) {
			s.violate("D2: agent %s was called dead %s after it had written entry %d", m.agent, decided-l.at[n], n)
		}
	}
	for k := range s.storyOf(m.job).attempts {
		for rank := range s.nodes {
			j, ok := s.joinAt(m.job, k+1, rank, decided)
			when := s.made[fmt.Sprintf("p/t/%s/attempts/%d/join/%d", m.job, k+1, rank)]
			if ok && j.Agent == m.agent && fresh(when) {
				s.violate("D2: agent %s was called dead by %s, %s after it had joined", m.agent, by, decided-when)
			}
		}
	}
}

// checkFailing: a run is given up only because it was interrupted once more than
// it may be, or because nothing of what was asked for came to live.
func (s *scene) checkFailing(id string, st story) {
	if st.stop == nil || st.stop.Failing == nil {
		return
	}
	switch reason := st.stop.Failing.Reason; {
	case strings.HasPrefix(reason, "interrupted"):
		s.seen["failing: interrupted too often"]++
		k, again, decided := len(st.attempts), false, s.decidedAt(*st.stop, st.stopAt)
		for rank := range s.nodes {
			j, joined := s.joinAt(id, k, rank, decided)
			e, ended := s.exitAt(id, k, rank, decided)
			again = again || e.Verdict == protocol.Interrupted || joined && !ended && s.agentNamed(j.Agent).goneBy(decided)
		}
		if n := st.count(protocol.Lost, protocol.Notice); n != protocol.MaxInterruptions || !again {
			s.violate("R5: %s was given up after %d interruptions, and then another: %v", id, n, again)
		}
	case strings.Contains(reason, "could not be started"):
		s.seen["failing: nothing came to live"]++
		if n := s.barren(id, st); n < attached.MaxFailedPlacements {
			s.violate("K2: %s was given up after %d placements had come to nothing", id, n)
		}
	default:
		s.violate("R5: %s is failing for no reason of ours: %s", id, reason)
	}
}

// barren counts the placements of a job that are dead, were not taken, and from
// which no agent had joined, or one had broken. A join that landed when its agent was
// gone may have crossed the keeper's look.
func (s *scene) barren(id string, st story) (n int) {
	for r := range st.placed {
		joined, broke, taken, living := false, false, false, false
		for _, m := range s.built {
			if m.job == id && m.placed == r+1 {
				taken, broke = taken || m.taken || m.disowned, broke || m.broke || m.p.broke
				living = living || !m.p.dead || m.died > st.stopAt
				joined = joined || m.joined > 0 && (!m.p.dead || m.joined <= m.died)
			}
		}
		if !taken && !living && (broke || !joined) {
			n++
		}
	}
	return n
}

// checkStop: R7 and R8, after a stop programs end soon, and the run is settled when
// they have, or their time is over; not before, and not much later.
func (s *scene) checkStop(id string, st story) {
	if st.stop == nil {
		return
	}
	s.checkHalted(id, 0, -1, st.stopAt, "R7: the job was stopped")
	s.checkUnstarted(id, st)
	took := st.settledAt - st.stopAt
	const bound = protocol.StopGrace + 10*time.Second
	if st.settled.Attempt != len(st.attempts) {
		s.violate("R8: %s was settled for attempt %d of %d", id, st.settled.Attempt, len(st.attempts))
	}
	for _, r := range s.starts {
		running := r.job == id && r.attempt == len(st.attempts) && r.at < st.settledAt && (r.end == 0 || r.end > st.settledAt)
		if running && took < bound && !s.agentNamed(r.agent).goneBy(st.settledAt) {
			s.violate("R8: %s was settled %s after its stop while rank %d ran", id, took, r.rank)
		}
	}
	for _, k := range s.keepers {
		if k.job == id && k.born < st.stopAt && (!k.p.dead || k.p.died >= st.settledAt) && !k.interrupted && k.p.awake(st.stopAt, st.settledAt) && took > bound+45*time.Second {
			s.violate("R8: %s was settled %s after its stop, and %s saw it all", id, took, k.p.name)
		}
	}
}

// checkUnstarted: R8, an agent that has joined and not started its program when the run
// is stopped says soon that it will not, and nothing waits for it any longer.
func (s *scene) checkUnstarted(id string, st story) {
	k := len(st.attempts)
	for rank := range s.nodes {
		j, joined := s.joinAt(id, k, rank, st.stopAt)
		m := s.agentNamed(j.Agent)
		started := slices.ContainsFunc(s.starts, func(r *start) bool { return r.job == id && r.attempt == k && r.rank == rank })
		if !joined || m == nil || started || st.settledAt <= st.stopAt+soon {
			continue
		}
		if _, ended := s.exitAt(id, k, rank, st.stopAt+soon); !ended && m.p.awake(st.stopAt, st.stopAt+soon) && (!m.p.dead || m.died > st.stopAt+soon) {
			s.violate("R8: rank %d of attempt %d of %s had not started when the run was stopped, and has not said so %s later", rank, k, id, soon)
		}
	}
}

// checkPeers: R4, when a rank ends badly the others end too.
func (s *scene) checkPeers(id string, st story) {
	for k := 1; k <= len(st.attempts); k++ {
		for rank := range s.nodes {
			if e, ok := s.exitAt(id, k, rank, forever); ok && e.Verdict != protocol.Done && e.Verdict != protocol.Halted {
				when := s.made[fmt.Sprintf("p/t/%s/attempts/%d/exit/%d", id, k, rank)]
				s.checkHalted(id, k, rank, when, fmt.Sprintf("R4: rank %d of attempt %d ended by %q", rank, k, e.Verdict))
			}
		}
	}
}

// checkHalted: programs that ran when something happened at t are gone soon
// after, unless their agent was held up. Attempt 0 means any.
func (s *scene) checkHalted(id string, attempt, but int, t time.Duration, what string) {
	for _, r := range s.starts {
		if r.job != id || attempt != 0 && r.attempt != attempt || r.rank == but || r.at > t {
			continue
		}
		p, end := s.processOf(r.agent), r.end
		if end == 0 {
			end = s.now
		}
		if end > t+soon && p.awake(t, t+soon) && (!p.dead || p.died > t+soon) {
			s.violate("%s, and rank %d ran on for %s", what, r.rank, end-t)
		}
	}
}

// checkBreak: what a person has interrupted, no agent that was there before goes on
// with. Only those count that saw it all.
func (s *scene) checkBreak(b ctrlC) {
	st := s.storyOf(b.job)
	begin, sure := b.from-10*time.Second, b.to+15*time.Second
	began := func(t time.Duration) bool { return t > begin && t < sure }
	resumed := slices.ContainsFunc(s.keepers, func(k *keeperOf) bool { return k.job == b.job && k.born > begin })
	if resumed || slices.ContainsFunc(st.placedAt, began) {
		return
	}
	s.seen["Ctrl-C that stands"]++
	// An agent that its target no longer knows is not told of a Ctrl-C: where it begins the next attempt the job goes
	// on, and lacks the others (seed 278453522).
	goesOn := func(placed time.Duration) bool {
		return slices.ContainsFunc(st.opened, func(t time.Duration) bool { return t > b.from && t < placed })
	}
	for i, e := range st.placed {
		if t, p := st.placedAt[i], s.processOf(e.By); t > sure && p.born < begin && p.awake(begin, t) && !goesOn(t) {
			s.violate("K1: %s placed %s again at %s, which a person had interrupted at %s", e.By, b.job, t, b.to)
		}
	}
}
