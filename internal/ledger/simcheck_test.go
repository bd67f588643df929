package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// The checks of the moment: they are made while a world is played. simrules_test.go
// has those that look at a whole history.

// checkAgentID: L2, no agent is called like another.
func (s *scene) checkAgentID(m *machine) {
	for _, other := range s.built {
		if other != m && other.agent == m.agent {
			s.violate("L2: two agents are called %s", m.agent)
		}
	}
}

// checkPlaced: J1, placed stands before the engine is asked. And no run asks for
// ever: the worst of 50,000 worlds asked a third as often.
func (s *scene) checkPlaced(id string, placed protocol.Placed) {
	st := s.storyOf(id)
	if placed.Placement > 100 {
		s.violate("R5: the engine is asked for placement %d of %s", placed.Placement, id)
	}
	if !slices.ContainsFunc(st.placed, func(e protocol.JobEntry) bool { return *e.Placed == placed }) {
		s.violate("J1: placement %d of %s was started and is not in the log", placed.Placement, id)
	}
}

func (s *scene) countAgents(id string) {
	living := 0
	for _, m := range s.built {
		if m.job == id && !m.p.dead {
			living++
		}
	}
	if living > s.nodes {
		s.seen["more agents than ranks"]++
	}
}

// checkJoin sees a join that came to be.
func (s *scene) checkJoin(m *machine, st story, k, rank int) {
	j, _ := s.joinAt(m.job, k, rank, s.now)
	where := fmt.Sprintf("%s/%d rank %d", m.job, k, rank)
	for _, name := range []string{j.Token, fmt.Sprint("port ", j.Port)} {
		if was, ok := s.tokens[name]; ok {
			s.violate("R2: %s of %s is used again in %s", name, was, where)
		}
		s.tokens[name] = where
	}
	if m.ready == 0 {
		s.violate("R1: %s joined as %s before it was ready", m.agent, where)
	}
	for other := range s.nodes {
		if o, ok := s.joinAt(m.job, k, other, s.now); ok && other != rank && o.Agent == m.agent {
			s.violate("R1: %s has joined as ranks %d and %d", m.agent, rank, other)
		}
	}
	if st.stop != nil && s.now > st.stopAt+15*time.Second && !m.p.dead && m.p.awake(st.stopAt, s.now) {
		s.violate("E1: %s joined as %s, %s after the stop", m.agent, where, s.now-st.stopAt)
	}
	if k > len(st.attempts) {
		s.violate("R1: %s joined attempt %d of %d", m.agent, k, len(st.attempts))
		return
	}
	s.checkKept(m, st.attempts[k-1], st.opened[k-1], rank)
}

// checkKept: R3, survivors keep their rank, for so long and no longer.
func (s *scene) checkKept(m *machine, a protocol.Attempt, opened time.Duration, rank int) {
	for mine, agent := range a.Keep {
		if _, taken := s.joinAt(m.job, a.K, mine, s.now); agent == m.agent && mine != rank && !taken {
			s.violate("R3: %s took rank %d of attempt %d, and had kept %d", m.agent, rank, a.K, mine)
		}
	}
	owner := s.agentNamed(a.Keep[rank])
	age := s.now - opened
	switch {
	case a.Keep[rank] == "" || owner == nil:
	case owner != m && age < protocol.KeepRankFor && !owner.goneBy(s.now):
		s.violate("R3: %s took rank %d of attempt %d after %s, which was kept for %s", m.agent, rank, a.K, age, owner.agent)
	case owner != m && !owner.p.dead && age >= protocol.KeepRankFor:
		s.seen["a survivor did not come for its rank"]++
	}
}

// checkWaiting: R3, no agent waits while a rank of the attempt has been free for
// longer than it is kept for any agent.
func (s *scene) checkWaiting(m *machine) {
	st := s.storyOf(m.job)
	k := len(st.attempts)
	if k == 0 || !st.open() || !m.spare(k) {
		return
	}
	full := true
	for rank := range s.nodes {
		_, ok := s.joinAt(m.job, k, rank, s.now)
		full = full && ok
	}
	if full && m.joined > 0 && m.placed < len(st.placed) {
		s.seen["woke up to an attempt that was full"]++
	}
	since := max(st.opened[k-1], m.ready)
	if !full && s.now-since > protocol.KeepRankFor+30*time.Second && m.p.awake(since, s.now) {
		s.violate("R3: attempt %d has a free rank, and %s has waited for %s", k, m.agent, s.now-since)
	}
}

// spare says whether an agent could join attempt k and has not.
func (m *machine) spare(k int) bool {
	if m.p.dead || m.ready == 0 || m.told != "" {
		return false
	}
	joined, _ := m.member.Joined()
	return joined != k
}

// checkStart: R1 and R2, a program starts only with all ranks of its own attempt,
// as they are written, and once.
func (s *scene) checkStart(run *start, o runagent.Order) {
	if len(o.Joins) != s.nodes {
		s.violate("R1: started with %d of %d ranks", len(o.Joins), s.nodes)
	}
	for rank, j := range o.Joins {
		is, ok := s.joinAt(run.job, run.attempt, rank, s.now)
		if !ok || is != j {
			s.violate("R1: rank %d of attempt %d was told of %s as rank %d, which is %s", run.rank, run.attempt, j.Agent, rank, is.Agent)
		}
		if rank == run.rank && j.Agent != run.agent {
			s.violate("R1: %s started rank %d of attempt %d, which is %s's", run.agent, rank, run.attempt, j.Agent)
		}
	}
	for _, other := range s.starts {
		if other != run && other.job == run.job && other.attempt == run.attempt && other.rank == run.rank {
			s.violate("R1: rank %d of attempt %d was started twice", run.rank, run.attempt)
		}
	}
	for _, c := range s.cancels {
		if c.stands && c.job == run.job && s.current.p.awake(c.at, s.now) && s.now > c.at+30*time.Second {
			s.violate("E1: a program of a cancelled job was started %s after cancel returned", s.now-c.at)
		}
	}
}

// checkRestored: R6, what is offered is the newest complete generation of the rank
// at the moment of restored; and of older work's checkpoints nothing.
func (s *scene) checkRestored(r *program, o runagent.Order, saved *protocol.Saved) {
	l := s.stateOf(o.Rank)
	mine := slices.IndexFunc(l.entries, func(e protocol.StateEntry) bool {
		return e.Restored != nil && e.Restored.Agent == r.m.agent && e.Restored.Attempt == o.Attempt
	})
	if mine < 0 {
		s.violate("R6: attempt %d began rank %d without restored", o.Attempt, o.Rank)
		return
	}
	number, want := s.generation(l.entries[:mine])
	if e := l.entries[mine].Restored; e.Generation != number || e.Submission != r.place || e.Job != r.m.job {
		s.violate("R6: rank %d attempt %d says that it restored %d of place %d, want %d of %d", o.Rank, o.Attempt, e.Generation, e.Submission, number, r.place)
	}
	var offered, due protocol.Saved
	if saved != nil {
		offered = *saved
	}
	if want != nil {
		due = *want
		if since := s.since[r.m.job]; due.Submission < since {
			due.Checkpoints = ""
			s.seen["began anew after work that was done"]++
		} else if due.Submission < r.place {
			s.seen["went on from an earlier job"]++
		}
	}
	if offered != due {
		s.violate("R6: rank %d attempt %d of %s begins with %+v, want %+v", o.Rank, o.Attempt, r.m.job, offered, due)
	}
	if r.progress > 0 {
		s.seen["went on from a checkpoint"]++
	}
	for _, a := range s.saves {
		if a.job == r.m.job && a.rank == o.Rank && s.made[a.key] < l.at[mine] && a.progress > r.progress && !s.torn[a.blob] {
			s.violate("R6: rank %d attempt %d begins at %d, %d was saved", o.Rank, o.Attempt, r.progress, a.progress)
		}
	}
}

// checkInterrupted: a keeper gives up only because a person asked.
func (s *scene) checkInterrupted(k *keeperOf) {
	for n := range s.storyOf(k.job).attempts {
		for rank := range s.nodes {
			if e, ok := s.exitAt(k.job, n+1, rank, s.now); ok && e.Verdict == protocol.AskedToStop {
				return
			}
		}
	}
	s.violate("K1: %s holds %s for interrupted, and nobody asked", k.p.name, k.job)
}

// checkTold: what any process is told of the end is the end.
func (s *scene) checkTold(who, id string, told protocol.Settled) {
	if st := s.storyOf(id); st.settled == nil || *st.settled != told {
		s.violate("V1: %s is told that %s settled as %+v, and it is %+v", who, id, told, st.settled)
	}
}

// reader looks at every job again and again: what it has seen never becomes untrue.
func (s *scene) reader(p *process) {
	w := s.ledgerOf(p)
	last := map[string]job.State{}
	ended := map[string]protocol.Settled{}
	for {
		for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
			rep, err := views.ReadReport(ctx, w, pathOf(id))
			if errors.Is(err, store.ErrNotExist) {
				continue
			}
			must(err)
			if was, ok := last[id]; ok && !was.CanBecome(rep.State) {
				s.violate("V1: a reader saw %s become %s", was, rep.State)
			}
			last[id] = rep.State
			if rep.State.Settled() && s.storyOf(id).settled == nil {
				s.violate("V1: a reader saw %s, and nobody has settled it", rep.State)
			}
			if rep.Run.Settled != nil {
				if was, ok := ended[id]; ok && was != *rep.Run.Settled {
					s.violate("V1: a settled job changed from %v to %v", was, *rep.Run.Settled)
				}
				ended[id] = *rep.Run.Settled
			}
		}
		p.sleep(s.between(5*time.Second, 40*time.Second))
	}
}
