package ledger

import (
	"context"
	"fmt"
	"path"
	"time"
)

// roll is what is known of the other agents of the job, for M12.
type roll struct {
	at     time.Duration // of the last listing
	asked  time.Duration // when those that stay were last seen to be there
	round  int           // of the job, that it was called in
	seen   []seen        // in the order of a listing
	known  bool          // two listings were compared
	moved  []string      // between those, in order
	spare  int           // our place among the spares, from 0; -1: none of them
	spares int           // how many there are
	stay   []string      // the spares before us that were read and had not left
	most   int           // agents that moved at once, in this round
}

// seen is an agent's heartbeat and its time by the store's clock.
type seen struct {
	agent string
	at    time.Time
}

// The spares of M12: who stays although nothing is to be claimed.
const (
	rollEvery   = 30 * time.Second
	sparesLeast = 2
	sparesEach  = 50 // one for so many agents: 2 %
	// farBehind is how many more than the spares come before an agent that need not
	// read who of them has left.
	farBehind = 16
)

// spares is how many stay. Who was a spare stays one while others leave.
func (m *MapMember) spares() int { return max(sparesLeast, m.roll.most/sparesEach) }

// surely is how many agents must come before us in a listing, though some of them may
// not have moved, for us to be none of the spares. The rest need not be listed: of ten
// thousand who fall idle at once each asks for a page or two, and not for ten.
func (m *MapMember) surely() int {
	if m.glimpse > 0 {
		return m.glimpse
	}
	return 5 * (max(m.spares(), m.t.m.Spec.Workers/sparesEach) + farBehind) / 4
}

// onePage is how many objects S3 and Google list in one answer: who stops before a
// folder's end asks for no more at a time.
const onePage = 1000

// place is an agent's in the order in which they become spares.
type place struct {
	hash uint32
	id   string
}

func placeOf(id string) place { return place{hash(id), id} }

func (p place) before(o place) bool {
	return p.hash < o.hash || p.hash == o.hash && p.id < o.id
}

// callRoll finds out whether we are a spare: one of the first, by a hash of their
// ids, among the agents whose heartbeats moved since the last roll.
func (m *MapMember) callRoll(ctx context.Context) error {
	now := m.t.now()
	if m.roll.seen != nil && now-m.roll.at < rollEvery {
		return nil
	}
	known := m.roll.seen != nil && now-m.roll.at <= rollEvery+readGap && m.roll.round == m.t.m.Round
	here, moved := []seen{}, []string(nil)
	before, me, listed, ahead := m.roll.seen, placeOf(m.ID), 0, 0
	for o, err := range m.t.w.Store.ListBy(ctx, jobDir(m.t.p)+"/agents/", onePage) {
		if err != nil {
			return fmt.Errorf("list agents: %w", err)
		}
		id := path.Base(o.Key)
		here = append(here, seen{id, o.Time})
		first := placeOf(id).before(me)
		if first {
			listed++
		}
		for len(before) > 0 && before[0].agent < id {
			before = before[1:]
		}
		// One that was not in the last listing may only have been left out of it (L6).
		if len(before) > 0 && before[0].agent == id && !before[0].at.Equal(o.Time) {
			moved = append(moved, id)
			if first {
				ahead++
			}
		}
		if listed >= m.surely() && (!known || ahead >= m.surely()*4/5) {
			break
		}
	}
	most := 0
	if m.roll.round == m.t.m.Round {
		most = m.roll.most
	}
	m.roll = roll{at: now, asked: now, round: m.t.m.Round, seen: here, spare: -1, most: max(most, len(moved))}
	if !known { // or so long ago that who moved since may be gone (D2), as who left after a round
		return nil
	}
	m.roll.moved = moved
	err := m.findPlace(ctx)
	m.roll.known = err == nil
	return err
}

// findPlace finds our place among the spares: how many of those that moved come
// before us and have not left. Of a listing that ended early it counts too few, and we
// stay rather than go. Who is among the first anyway, or far behind, need
// not read who has left.
func (m *MapMember) findPlace(ctx context.Context) error {
	spares, me := m.spares(), placeOf(m.ID)
	var before []string
	for _, id := range m.roll.moved {
		if placeOf(id).before(me) {
			before = append(before, id)
		}
	}
	m.roll.spare = -1
	m.roll.spares = min(spares, max(len(m.roll.moved), len(before)+1))
	if len(before) < spares {
		m.roll.spare = len(before)
		return nil
	}
	if len(before) >= spares+farBehind {
		return nil
	}
	for _, id := range before {
		if left, err := m.hasLeft(ctx, id); err != nil {
			return err
		} else if !left {
			m.roll.stay = append(m.roll.stay, id)
		}
		if len(m.roll.stay) == spares {
			return nil
		}
	}
	m.roll.spare = len(m.roll.stay)
	return nil
}

// stayed says whether the spares that we leave the job to are still there: each may
// have been told to go since the roll. Who finds one gone stays for the next roll.
func (m *MapMember) stayed(ctx context.Context) (bool, error) {
	asked := m.t.now()
	for _, id := range m.roll.stay[:min(sparesLeast, len(m.roll.stay))] {
		if left, err := m.hasLeft(ctx, id); err != nil {
			return false, err
		} else if left {
			m.roll.known = false
			return false, nil
		}
	}
	m.roll.asked = asked
	return true, nil
}

func (m *MapMember) hasLeft(ctx context.Context, id string) (bool, error) {
	b, ok, err := m.t.w.readBeat(ctx, m.t.p, id)
	return !ok || b.Phase == Left, err
}

// leaveAfter is how long an agent waits for what the dead have left: who stays has
// seen by then who they are, and hands it over.
const leaveAfter = Lease + 2*rollEvery

// mayLeave says that nothing is claimable, nor was for a while, and that others
// stay for what may become so (M12): they moved within the last roll. A chunk in
// back-off counts.
func (m *MapMember) mayLeave() bool {
	now := m.t.now()
	if !m.roll.known || m.roll.spare >= 0 || len(m.holds) > 0 || now-m.roll.at > rollEvery {
		return false
	}
	if m.resting == 0 || now-m.since < leaveAfter {
		return false
	}
	for _, c := range m.t.chunks {
		if _, free := c.Free(m.death); free && c.Wait > 0 {
			return false
		}
	}
	return true
}
