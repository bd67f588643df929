package mapagent

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// memberList lists the agents of the job by their heartbeats, and finds the standbys among them
// (M12).
type memberList struct {
	*part
	Members     membership
	ListAtLeast int // what enoughListed says; 0: as many as it takes
}

// membership is what is known of the other agents of the job, for M12.
type membership struct {
	at            time.Duration // of the last listing
	Asked         time.Duration // when those that stay were last seen to be there
	round         int           // of the job, that it was called in
	seen          []listedAgent // in the order of a listing
	Known         bool          // two listings were compared
	Moved         []string      // between those, in order
	Standby       int           // our place among the spares, from 0; -1: none of them
	standbys      int           // how many there are
	StandbysAhead []string      // the spares before us that were read and had not left
	most          int           // agents that moved at once, in this round
}

// listedAgent is an agent's heartbeat and its time by the store's clock.
type listedAgent struct {
	agent string
	at    time.Time
}

// The standbys of M12: they stay although nothing is to be claimed.
const (
	ListMembersEvery = 30 * time.Second
	StandbysLeast    = 2
	standbysEach     = 50 // one for so many agents: 2 %
	// farBehind is how many more than the spares come before an agent that need not
	// read which of them have left.
	farBehind = 16
)

// StandbyCount is how many stay. A standby stays one while others leave.
func (m *memberList) StandbyCount() int { return max(StandbysLeast, m.Members.most/standbysEach) }

// enoughListed is how many agents must come before us in a listing, though some of them may
// not have moved, for us to be none of the spares. The rest need not be listed: of ten
// thousand that fall idle at once each asks for a page or two, and not for ten.
func (m *memberList) enoughListed() int {
	if m.ListAtLeast > 0 {
		return m.ListAtLeast
	}
	return 5 * (max(m.StandbyCount(), m.Inventory.Map.Spec.Workers/standbysEach) + farBehind) / 4
}

// OnePage is how many objects S3 and Google list in one answer: a reader that stops before a
// folder's end asks for no more at a time.
const OnePage = 1000

// standbyOrder is an agent's in the order in which they become spares.
type standbyOrder struct {
	hash uint32
	id   string
}

func standbyOrderOf(id string) standbyOrder { return standbyOrder{hash(id), id} }

func (p standbyOrder) comesBefore(o standbyOrder) bool {
	return p.hash < o.hash || p.hash == o.hash && p.id < o.id
}

// ListMembers finds out whether we are a spare: one of the first, by a hash of their
// ids, among the agents with heartbeats that moved since the last listing.
func (m *memberList) ListMembers(ctx context.Context) error {
	now := m.Inventory.Now()
	if m.Members.seen != nil && now-m.Members.at < ListMembersEvery {
		return nil
	}
	known := m.Members.seen != nil && now-m.Members.at <= ListMembersEvery+protocol.ReadGap && m.Members.round == m.Inventory.Map.Round
	here, moved := []listedAgent{}, []string(nil)
	before, me, listed, ahead := m.Members.seen, standbyOrderOf(m.ID), 0, 0
	for o, err := range m.Inventory.World.Store.ListBy(ctx, protocol.JobDir(m.Inventory.Path)+"/agents/", OnePage) {
		if err != nil {
			return fmt.Errorf("list agents: %w", err)
		}
		id := path.Base(o.Key)
		here = append(here, listedAgent{id, o.Time})
		first := standbyOrderOf(id).comesBefore(me)
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
		if listed >= m.enoughListed() && (!known || ahead >= m.enoughListed()*4/5) {
			break
		}
	}
	most := 0
	if m.Members.round == m.Inventory.Map.Round {
		most = m.Members.most
	}
	m.Members = membership{at: now, Asked: now, round: m.Inventory.Map.Round, seen: here, Standby: -1, most: max(most, len(moved))}
	if !known { // or so long ago that an agent that moved since may be gone (D2), as one that left after a round
		return nil
	}
	m.Members.Moved = moved
	err := m.findStandbyRank(ctx)
	m.Members.Known = err == nil
	return err
}

// findStandbyRank finds our place among the spares: how many of those that moved come
// before us and have not left. Of a listing that ended early it counts too few, and we
// stay rather than go. An agent that is among the first anyway, or far behind, need
// not read which have left.
func (m *memberList) findStandbyRank(ctx context.Context) error {
	spares, me := m.StandbyCount(), standbyOrderOf(m.ID)
	var before []string
	for _, id := range m.Members.Moved {
		if standbyOrderOf(id).comesBefore(me) {
			before = append(before, id)
		}
	}
	m.Members.Standby = -1
	m.Members.standbys = min(spares, max(len(m.Members.Moved), len(before)+1))
	if len(before) < spares {
		m.Members.Standby = len(before)
		return nil
	}
	if len(before) >= spares+farBehind {
		return nil
	}
	for _, id := range before {
		if left, err := m.hasLeft(ctx, id); err != nil {
			return err
		} else if !left {
			m.Members.StandbysAhead = append(m.Members.StandbysAhead, id)
		}
		if len(m.Members.StandbysAhead) == spares {
			return nil
		}
	}
	m.Members.Standby = len(m.Members.StandbysAhead)
	return nil
}

// standbysAreThere says whether the spares that we leave the job to are still there: each may
// have been told to go since the listing. An agent that finds one gone stays for the next listing.
func (m *memberList) standbysAreThere(ctx context.Context) (bool, error) {
	asked := m.Inventory.Now()
	for _, id := range m.Members.StandbysAhead[:min(StandbysLeast, len(m.Members.StandbysAhead))] {
		if left, err := m.hasLeft(ctx, id); err != nil {
			return false, err
		} else if left {
			m.Members.Known = false
			return false, nil
		}
	}
	m.Members.Asked = asked
	return true, nil
}

func (m *memberList) hasLeft(ctx context.Context, id string) (bool, error) {
	b, ok, err := liveness.ReadHeartbeat(ctx, m.Inventory.World, m.Inventory.Path, id)
	return !ok || b.Phase == protocol.Left, err
}

// leaveAfter is how long an agent waits for what the dead have left: a standby has
// seen by then which they are, and hands it over.
const leaveAfter = protocol.Lease + 2*ListMembersEvery

// MayLeave says that nothing is claimable, nor was for a while, and that others
// stay for what may become so (M12): they moved within the last roll. A chunk in
// back-off counts.
func (m *MapMember) MayLeave() bool {
	now := m.Inventory.Now()
	if !m.Members.Known || m.Members.Standby >= 0 || len(m.OwnedChunks) > 0 || now-m.Members.at > ListMembersEvery {
		return false
	}
	if m.resting == 0 || now-m.since < leaveAfter {
		return false
	}
	for _, c := range m.Inventory.ChunksRead {
		if _, free := c.Free(m.deathOf); free && c.Wait > 0 {
			return false
		}
	}
	return true
}
