package mapagent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Few says whether so many agents may ask a folder that a server keeps as often as one
// of their own machine.
func Few(agents int) bool { return agents <= FewAgents }

// FewAgents may all tend a whole job at once. Of more of them, far away, each spare
// tends a share, and after a stop every agent does so once (E5).
const FewAgents = 16

func (m *MapMember) scansAlone() bool { return m.o.Near || m.Inventory.Map.Spec.Workers <= m.FewAgents }

// scanEach is how many chunks a patrol looks at in one Poll: more would keep
// items waiting.
const scanEach = 40

// scanEvery is how long a patrol rests that has passed all of its share.
const scanEvery = 3 * protocol.Lease

// scanShare keeps the roll and reads on, a part at a time, in the chunks of our share,
// if we are a spare or likely to become one.
func (m *MapMember) scanShare(ctx context.Context) error {
	now := m.Inventory.Now()
	if !m.Scanner && m.Members.Standby < 0 || !m.mayBegin() || len(m.OwnedChunks) == 0 {
		return nil
	}
	if err := m.ListMembers(ctx); err != nil {
		return err
	}
	if !m.Members.Known || m.Members.Standby < 0 || m.scannedChunks == 0 && m.scannedAt > 0 && now-m.scannedAt < scanEvery {
		return nil
	}
	if m.scannedChunks == 0 {
		m.scannedAt = max(now, 1)
		if err := m.Inventory.ListSnapshots(ctx); err != nil {
			return err
		}
	}
	mine, at, left := chunks.Share{At: m.Members.Standby, Of: m.Members.standbys}, 0, scanEach
	for id, s := range m.Inventory.ChunksOf(mine) {
		if at++; at <= m.scannedChunks {
			continue
		}
		if _, done := m.Inventory.ChunkIsDone(id); done {
			continue
		}
		c := m.Inventory.ChunkOf(id, s)
		if m.ownsChunk(c) {
			continue
		}
		if _, err := m.Inventory.ReadChunk(ctx, c, nil); err != nil {
			return err
		}
		if err := m.checkOwner(ctx, c); err != nil {
			return err
		}
		if left--; left == 0 {
			m.scannedChunks = at
			return nil
		}
	}
	m.scannedChunks = 0
	return nil
}

// checkOwner looks after the owner of a chunk that was just read.
func (m *MapMember) checkOwner(ctx context.Context, c *chunks.Chunk) error {
	if c.Owner == "" {
		return nil
	}
	m.observer.NoteEntry(c.Sign())
	if m.heartbeatMoved(c.Owner) {
		m.observer.NoteHeartbeat(c.Owner, m.Members.at)
		return nil
	}
	return m.observer.ReadHeartbeats(ctx, []string{c.Owner})
}

// ScanTurn is which share of the chunks is ours to survey now; ok is false for none.
func (m *MapMember) ScanTurn() (mine chunks.Share, ok bool) {
	f, r := m.Inventory.Map, m.Members
	switch {
	case m.scansAlone():
		return mine, true
	case f.Stop != nil && m.shared != f.StopAt:
		m.shared = f.StopAt
		_, index, _ := liveness.PlacementAndIndex(m.ID)
		return chunks.Share{At: index % f.Spec.Workers, Of: f.Spec.Workers, Blind: true}, true
	case len(m.OwnedChunks) > 0 || !r.Known || r.Standby < 0:
		return mine, false
	case m.resting%16 == 15: // the standby that was to look may have gone
		return mine, true
	}
	return chunks.Share{At: r.Standby, Of: r.standbys}, true
}

// After a scan that found nothing an agent rests so many times as long as that took: of a job of
// thousands of chunks each survey near by is milliseconds of a core that others need.
const (
	restEach = 20
	restMost = 2 * time.Second
)

// passFor is how long a survey goes on for others once it has found what we do next:
// far away a whole one is minutes of requests, and what we have got waits.
const passFor = 5 * time.Second

// errEnough ends a survey.
var errEnough = errors.New("there is enough work")

// ScanAndTend surveys its share of the job: it claims what is free, does what any agent owes a
// chunk, and settles when all are done.
func (m *MapMember) ScanAndTend(ctx context.Context) (*OwnedChunk, error) {
	began := m.Inventory.Now()
	mine, ok := m.ScanTurn()
	if !ok || m.o.Near && m.resting > 0 && began < m.restUntil {
		return nil, nil
	}
	defer func() { m.restUntil = m.Inventory.Now() + min(restEach*(m.Inventory.Now()-began), restMost) }()
	m.observer.MarkDead()
	var got *OwnedChunk
	var others []string     // agents that wait for work
	var since time.Duration // when we had got something
	probes := 0
	if m.searchIsOver() || m.Inventory.Map.Stop != nil || len(m.Inventory.Map.Reopened)+len(m.Inventory.Map.Extensions) > 0 {
		probes = m.Inventory.Map.Chunks()
	}
	tally, whole, err := m.Inventory.ScanChunks(ctx, mine, probes, func(c *chunks.Chunk) error {
		switch {
		case m.Inventory.Map.Done(c) && m.o.Near:
			return nil
		case m.Inventory.Map.Done(c):
			return m.Inventory.NameAgain(ctx, c)
		}
		if got != nil && (len(others) == 0 || m.Inventory.Now()-since > passFor) {
			return errEnough
		}
		// More than we need: the untouched may be on its way to another, and of what
		// kills agents one is enough (M13).
		if got != nil && (c.Claim == 0 || c.MayKill()) {
			return m.checkOwner(ctx, c)
		}
		h, err := m.tendChunk(ctx, c)
		switch {
		case err != nil || h == nil:
			return err
		case got != nil:
			others, err = others[1:], h.handOverTo(ctx, others[0])
			return err
		}
		if got, since = h, m.Inventory.Now(); !m.scansAlone() && !h.Isolated() {
			others, err = m.IdleAgents(ctx)
			others = slices.DeleteFunc(others, func(id string) bool { return !m.heartbeatMoved(id) })
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil || got != nil {
		return got, err
	}
	if !whole {
		return nil, nil
	}
	return nil, m.settleJob(ctx, tally)
}

// settleJob ends the job, which it found whole: no entry of its log came since.
func (m *MapMember) settleJob(ctx context.Context, tally job.Tally) error {
	step := m.Inventory.Map.Next(chunks.Evidence{Done: true, Tally: tally})
	if step.Settle == nil {
		return nil
	}
	_, err := m.Inventory.AppendToJob(ctx, protocol.JobEntry{Settled: step.Settle})
	return err
}

// tendChunk does with one chunk what is to be done.
func (m *MapMember) tendChunk(ctx context.Context, c *chunks.Chunk) (*OwnedChunk, error) {
	if m.ownsChunk(c) {
		return nil, nil // its Flush does what is to be done
	}
	m.observer.NoteReading(m.Inventory.Now())
	if h := m.adoptClaim(c); h != nil {
		return h, nil
	}
	if err := m.checkOwnerUnlessStopped(ctx, c); err != nil {
		return nil, err
	}
	for {
		e, ok := m.Inventory.Map.NextOf(c, chunks.ChunkEvidence{Death: m.deathOf, StopAge: m.Inventory.SinceStop()})
		if !ok {
			break
		}
		mine, _, err := m.Inventory.AppendToChunk(ctx, c, m.ID, e)
		if err == nil && mine && c.Closed && !m.o.Near { // the agent that settles goes by names
			err = m.Inventory.SnapshotWriter(c, nil, c.Claim > 0)(ctx)
		}
		if err != nil {
			return nil, err
		}
		if c.Owner != "" { // another wrote first: the owner lives
			m.observer.NoteEntry(c.Sign())
		}
	}
	if m.leavesShare() {
		return nil, nil
	}
	return m.claimChunk(ctx, c)
}

// checkOwnerUnlessStopped looks after a chunk's owner, for its death would let us act. Right after a stop
// thousands would ask for thousands at once, and living owners end their own: standbys
// find the dead owners, once the owners have had their time.
func (m *MapMember) checkOwnerUnlessStopped(ctx context.Context, c *chunks.Chunk) error {
	if m.Inventory.Map.Stop != nil && !m.scansAlone() && m.Inventory.SinceStop() < protocol.StopGrace {
		if c.Owner != "" {
			m.observer.NoteEntry(c.Sign())
		}
		return nil
	}
	return m.checkOwner(ctx, c)
}

// heartbeatMoved says that an agent's heartbeat moved by the last roll, which is one listing
// for a thousand of them: then none need read it.
func (m *memberList) heartbeatMoved(agent string) bool {
	if m.o.Near || !m.Members.Known || m.Inventory.Now()-m.Members.at >= ListMembersEvery {
		return false
	}
	_, moved := slices.BinarySearch(m.Members.Moved, agent)
	return moved
}

// Stagger is how long an agent of an object store waits before its first request. An
// engine may start ten thousand in one second, and S3 takes 3,500 writes and 5,500
// reads a second of one prefix: so they come at most 500 a second, in the order of
// their index, and what they do every so often stays apart as well.
func Stagger(index int) time.Duration {
	const apart, most = 2 * time.Millisecond, 30 * time.Second
	return min(time.Duration(max(0, index-FewAgents))*apart, most)
}
