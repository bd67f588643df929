package ledger

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// An agent of a map or of a run is drained (J4), by an entry of the job's log, which
// the agent is to heed and all others are to ignore. Worlds without stay what they
// were: the draws have randomness of their own.

// setDrains draws whether this world has it.
func (s *yard) setDrains() {
	rng := rand.New(rand.NewPCG(s.seed, 23))
	if rng.IntN(6) != 0 {
		return
	}
	for range 1 + rng.IntN(4) {
		s.at(time.Duration(rng.Int64N(int64(s.troubledFor()))), func() { s.somebody("warden", s.warden) })
	}
}

// warden drains an agent that lives, as far as it knows.
func (s *yard) warden(p *process) {
	var there []string
	for _, a := range s.built {
		if a.job == s.newest() && a.agent != "" && !a.p.dead {
			there = append(there, a.agent)
		}
	}
	if len(there) > 0 {
		agent := there[s.rng.IntN(len(there))]
		s.say(p, "drain "+agent, func(w protocol.World, id string) (bool, error) {
			return control.DrainAgent(ctx, w, pathOf(id), p.name, protocol.Drained{Agent: agent, Reason: "wanted elsewhere"})
		})
	}
	p.end()
}

func (t *mapTale) drain(agent string) {
	if t.drained == nil {
		t.drained = map[string]time.Duration{}
	}
	if t.drained[agent] == 0 {
		t.drained[agent] = max(t.s.now, 1)
		t.s.seen["drained an agent"]++
	}
}

// checkUndrained: an agent that was drained, and was awake to read of it, does nothing new.
func (s *yard) checkUndrained(t *mapTale, agent, does string) {
	if since := t.drained[agent]; since > 0 && s.now-since > s.prompt() {
		s.checkAwake(agent, since, "drained: %s %s, %s after it was drained", agent, does, s.now-since)
	}
}

// checkPassed: what has not begun is for others at once.
func (a *mapAgent) checkPassed(h *mapagent.OwnedChunk, fate mapagent.Outcome) {
	if a.order.Do == mapagent.Quit && fate == mapagent.Holding && h.Waiting() > 0 && !h.Isolated() && h.Unsure == nil {
		a.s.violate("drained: %s keeps %d items of chunk %s that it will not begin", a.agent, h.Waiting(), h.ID())
	}
}

// checkQuit: no agent leaves because of another's entry.
func (a *mapAgent) checkQuit() {
	a.s.seen["left as it was drained"]++
	if a.s.tales[a.job].drained[a.agent] == 0 {
		a.s.violate("drained: %s leaves %s, and nobody drained it", a.agent, a.job)
	}
}

// setDrains is the same for runs.
func (s *scene) setDrains() {
	rng := rand.New(rand.NewPCG(s.seed, 29))
	if rng.IntN(6) != 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		s.at(time.Duration(rng.Int64N(int64(troubledFor))), func() { s.somebody("warden", s.warden) })
	}
}

func (s *scene) warden(p *process) {
	var there []*machine
	for _, m := range s.built {
		if m.agent != "" && !m.p.dead && s.storyOf(m.job).settled == nil {
			there = append(there, m)
		}
	}
	if len(there) > 0 {
		m := there[s.rng.IntN(len(there))]
		stands, err := control.DrainAgent(ctx, s.ledgerOf(p), pathOf(m.job), p.name, protocol.Drained{Agent: m.agent})
		must(err)
		s.logf("%s drains %s: %v", p.name, m.agent, stands)
	}
	p.end()
}

func (st *story) drain(agent string, at time.Duration) {
	if st.drained == nil {
		st.drained = map[string]time.Duration{}
	}
	if st.drained[agent] == 0 {
		st.drained[agent] = max(at, 1)
	}
}

// checkYield: no agent leaves because of another's entry.
func (s *scene) checkYield(m *machine) {
	s.seen["yielded"]++
	if s.storyOf(m.job).drained[m.agent] == 0 {
		s.violate("drained: %s leaves %s, and nobody drained it", m.agent, m.job)
	}
}

// checkDrained: an agent that was drained, and awake to read of it, is gone soon after, whatever
// it was doing. A stop comes first: then it stays as all others do.
func (s *scene) checkDrained(id string, st story) {
	const late = 2 * soon // it polls, ends its program, saves, and says so
	for _, agent := range slices.Sorted(maps.Keys(st.drained)) {
		t, m := st.drained[agent], s.agentNamed(agent)
		switch {
		case m == nil, st.stop != nil && st.stopAt < t+late, m.p.dead && m.died < t, !m.p.awake(t, min(t+late, s.now)):
		case m.p.dead && m.died <= t+late:
			s.seen["drained in time"]++
		case s.now > t+late:
			s.violate("drained: %s is there %s after it was drained", agent, min(s.now, max(m.died, t))-t)
		}
	}
}
