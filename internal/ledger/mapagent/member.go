// Package mapagent is an agent's part in a map: it claims chunks, says which items may begin,
// records results, hands off what it has not begun, scans other agents' chunks, and settles the
// job.
//
// It refuses to know processes: its caller has them. Proved by the simulation of maps in package
// ledger.
package mapagent

import (
	"context"
	"errors"
	"math"
	"path"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// MapDo is what a MapMember asks its agent to do.
type MapDo int

// The orders of a map's agent.
const (
	Work   MapDo = iota // start items of its holds; seek more when slots fall idle
	Rest                // the job is paused: start nothing
	Drain               // it was cancelled, and what runs may end: start nothing, then Wind each hold
	Cease               // it was stopped: end all items, then Wind each hold
	Depart              // go, with Status
	Quit                // it was drained: start nothing; once nothing runs, Release each hold and go
)

// MapOrder is what to do, and what binds items that start now (J2).
type MapOrder struct {
	Do      MapDo
	Why     string // for people
	Limits  job.Limits
	Timeout time.Duration // of one try of an item; 0: none
	Step    float64       // how many times the memory it gets after it had too little
	Code    string        // digest of the new code that items run with; "": the job's own
	Settled *protocol.Settled
	Status  int // for Depart: the agent's exit status
}

// MapOptions say what an agent has.
type MapOptions struct {
	Slots int
	// Risk is how many tries may begin, or have ended, without being recorded: 0 for
	// what processes need. It bounds what an agent's death costs (M10).
	Risk int
	// Near says that the store answers in microseconds: it is then asked more often.
	Near bool
	// Later stores what nothing waits for: indexes that any process can make again, in the
	// background and in any order. nil: at once.
	Later func(store func(context.Context) error)
}

// MapMember is one agent's part in a map: it claims chunks, scans those of others, and settles
// the job. The agent owns the processes; nothing here blocks longer than the store does. Not for
// concurrent use.
type MapMember struct {
	*part
	memberList
	handoffs
	chunkSearch
	tryTimes

	observer *liveness.Observer
	Self     protocol.Host
	Pace     pace
	Risk     int

	OwnedChunks   []*OwnedChunk
	ready         bool
	claims        int // chunks claimed so far
	began         time.Duration
	Unsure        []UnsureClaim
	scannedAt     time.Duration // when heartbeats were last read in a scan
	resting       int           // scans in a row that found nothing
	since         time.Duration // when the first of them was
	restUntil     time.Duration // until when nothing is scanned, unless something was claimed
	shared        int           // the stop for which our share of chunks was ended
	FewAgents     int           // fewAgents
	Scanner       bool          // one of those that are likely to be standbys
	scannedChunks int           // chunks that the scan under way has passed

	recorded, failed int
	room             int // how many more of ours may fail, by what we knew at the last Poll; < 0: too many did
}

// part is which agent of which job it is, and what it has: all that its parts share.
type part struct {
	ID        string
	Inventory *chunks.Inventory
	o         MapOptions
}

// NewMapMember makes an agent's part in map j. id is its AgentID, self its process.
func NewMapMember(w protocol.World, j job.Job, id string, self protocol.Host, o MapOptions) *MapMember {
	p := &part{ID: id, Inventory: chunks.NewInventory(w, j, id), o: o}
	m := &MapMember{part: p, memberList: memberList{part: p, Members: membership{Standby: -1}}, handoffs: handoffs{part: p}, chunkSearch: chunkSearch{part: p},
		observer: liveness.NewObserver(w, j.Path()), Self: self, Pace: FarPace(j.Spec.Workers),
		Risk: max(riskLeast, riskEach*o.Slots, o.Risk), FewAgents: FewAgents,
		Scanner: hash(id) < math.MaxUint32/standbysEach}
	if o.Near {
		m.Pace = nearPace
	}
	m.Inventory.OnEntry = func(c *chunks.Chunk, e protocol.ChunkEntry) {
		for _, h := range m.OwnedChunks {
			if h.Chunk == c {
				h.noteEntry(e)
			}
		}
	}
	return m
}

// Ready tells the member that its agent has prepared everything: from now on it
// claims chunks.
func (m *MapMember) Ready() { m.ready, m.began = true, m.Inventory.Now() }

// Owned are the chunks it owns.
func (m *MapMember) Owned() []*OwnedChunk { return slices.Clone(m.OwnedChunks) }

// Map is the newest fold of the job's log, for showing.
func (m *MapMember) Map() *chunks.Map { return m.Inventory.Map }

// FillHeartbeat fills in what a heartbeat says of the work.
func (m *MapMember) FillHeartbeat(b *protocol.Heartbeat) {
	b.Recorded, b.Failed, b.Flight, b.Chunks = m.recorded, m.failed, 0, nil
	for _, h := range m.OwnedChunks {
		b.Flight += len(h.flight)
		b.Chunks = append(b.Chunks, h.Chunk.ID)
	}
}

// mayBegin says whether items may start and chunks be claimed.
func (m *MapMember) mayBegin() bool {
	return m.ready && m.Inventory.Map.Settled == nil && m.Inventory.Map.Stop == nil && !m.Inventory.Map.Paused && !m.isDrained() && !m.TooMany()
}

// isDrained says that this agent was asked to leave: it begins nothing more, and what
// it has not begun is for others at once.
func (m *MapMember) isDrained() bool {
	_, drained := m.Inventory.Map.Drained[m.ID]
	return drained
}

// Poll reads the job's log, appends what any process that sees it should append, and
// says what the agent is to do. It is called every Poll near by and every HeartbeatEvery
// far away (E5), or more often.
func (m *MapMember) Poll(ctx context.Context) (MapOrder, error) {
	for {
		if err := liveness.CheckSeenRecently(ctx, m.Inventory.World, m.Inventory.Path); err != nil {
			if errors.Is(err, liveness.ErrRemoved) {
				m.OwnedChunks = nil
				return MapOrder{Do: Depart, Why: "the job was removed"}, nil
			}
			return MapOrder{}, err
		}
		if err := m.Inventory.ReadJobLog(ctx); err != nil {
			return MapOrder{}, err
		}
		m.observer.NoteReading(m.Inventory.Now())
		var step chunks.Step
		if limit, limited := m.Inventory.Map.Spec.FailLimit(m.Inventory.Map.Items()); limited { // to count is work
			bad := m.Inventory.CountFailed()
			step = m.Inventory.Map.Next(chunks.Evidence{Failed: bad})
			m.room = limit - bad - m.unrecordedFailures()
		}
		if step.Fail == nil {
			o := m.currentOrder()
			if o.Do == Depart && o.Settled == nil {
				if stayed, err := m.standbysAreThere(ctx); err != nil {
					return MapOrder{}, err
				} else if !stayed {
					o.Do, o.Why = Work, ""
				}
			}
			if o.Do == Depart {
				return o, m.withdrawIdle(ctx)
			}
			return o, m.scanWhileWorking(ctx)
		}
		if _, err := m.Inventory.AppendToJob(ctx, protocol.JobEntry{Failing: step.Fail}); err != nil {
			return MapOrder{}, err
		}
	}
}

// unrecordedFailures is how many items have failed for good with us that no entry says yet.
func (m *MapMember) unrecordedFailures() (n int) {
	for _, h := range m.OwnedChunks {
		for _, r := range h.results {
			if r.FailedForGood() {
				n++
			}
		}
	}
	return n
}

// TooMany says that more items have failed than may: nothing begins until the next
// Poll, which is due at once, as is each Flush.
func (m *MapMember) TooMany() bool {
	return m.room < 0 && m.Inventory.Map.Stop == nil && m.Inventory.Map.Settled == nil && m.Inventory.Map.Spec.MaxFails != ""
}

// scanWhileWorking looks at the other agents while we work, so that a lease has run out when
// we look for more, and does not begin then. Where there may be thousands, the
// spares do that, each for its share.
func (m *MapMember) scanWhileWorking(ctx context.Context) error {
	switch {
	case !m.scansAlone():
		return m.scanShare(ctx)
	case m.scannedAt > 0 && m.Inventory.Now()-m.scannedAt < protocol.HeartbeatEvery:
		return nil
	}
	m.scannedAt = max(m.Inventory.Now(), 1)
	var others []string
	for o, err := range m.Inventory.World.Store.List(ctx, protocol.JobDir(m.Inventory.Path)+"/agents/") {
		if err != nil {
			return err
		}
		if id := path.Base(o.Key); id != m.ID {
			others = append(others, id)
		}
	}
	return m.observer.ReadHeartbeats(ctx, others)
}

func (m *MapMember) currentOrder() MapOrder {
	f := m.Inventory.Map
	o := MapOrder{Do: Work, Limits: f.Limits(), Timeout: f.ItemTimeout(), Step: f.MemoryStep(), Settled: f.Settled}
	if f.Amended.Code != nil {
		o.Code = f.Amended.Code.Digest
	}
	switch {
	case f.Settled != nil && len(m.OwnedChunks) == 0:
		o.Do, o.Why = Depart, "the job has ended"
	case f.Settled != nil:
		o.Do, o.Why = Cease, "the job has ended"
	case f.Stop != nil && f.Stop.Drain:
		o.Do, o.Why = Drain, "the job was cancelled: running items may finish"
	case f.Stop != nil:
		o.Do, o.Why = Cease, "the job was stopped"
	case m.isDrained():
		o.Do, o.Why = Quit, f.Drained[m.ID].ReasonInWords()
	case f.Paused:
		o.Do, o.Why = Rest, "the job is paused"
	case m.MayLeave():
		o.Do, o.Why = Depart, "no item is left to start"
	}
	return o
}

// Leave lets the task's log know that the job has settled: what an agent does last
// that departs after it.
func (m *MapMember) Leave(ctx context.Context) error {
	return tasks.CloseJob(ctx, m.Inventory.World, m.Inventory.Path, m.ID)
}

// Again is how long to wait before the next Seek.
func (m *MapMember) Again() time.Duration {
	if m.o.Near {
		return min(20*time.Millisecond<<min(m.resting, 10), 200*time.Millisecond)
	}
	return min(time.Second<<min(m.resting, 10), 15*time.Second)
}

// Seek looks for a chunk to work on, and does meanwhile what any agent should do that
// sees the job so: ends chunks after a stop, opens them again after a reopen,
// settles. nil: there is none now. It is called when slots fall idle, and then
// after Again.
func (m *MapMember) Seek(ctx context.Context) (*OwnedChunk, error) {
	if m.Inventory.Map.Settled != nil || !m.ready || m.runsIsolated() {
		return nil, nil
	}
	if h, err := m.ResolveUnsure(ctx); h != nil || err != nil {
		return h, err
	}
	if m.mayBegin() {
		for _, find := range []func(context.Context) (*OwnedChunk, error){m.claimHandedTo, m.claimOwnHandoff, m.claimUntouched} {
			if h, err := find(ctx); h != nil || err != nil {
				return h, err
			}
		}
	}
	h, err := m.ScanAndTend(ctx)
	if h != nil || err != nil {
		return h, err
	}
	if m.resting++; m.resting == 1 {
		m.since = m.Inventory.Now()
	}
	if len(m.OwnedChunks) > 0 {
		return nil, err
	}
	if m.mayBegin() {
		err = m.announceIdle(ctx)
	}
	if m.Inventory.Map.Stop != nil && !m.scansAlone() && !m.Scanner && m.Inventory.SinceStop() < 2*protocol.StopGrace {
		return nil, err // thousands fall idle at once: the scouts do what there is to do
	}
	return nil, errors.Join(err, m.ListMembers(ctx))
}

// deathOf is the evidence against an agent, the engine's word in the job's log
// before our own.
func (m *MapMember) deathOf(agent string) liveness.Death {
	if d := m.Inventory.Map.Gone[agent]; d != liveness.Alive {
		return d
	}
	if agent == m.ID {
		return liveness.Alive
	}
	return m.observer.DeathOf(agent)
}

// Fail ends the job because nothing can run: an environment that cannot be built,
// a program that is not there. It does not wait for the end.
func (m *MapMember) Fail(ctx context.Context, s protocol.Stop) error {
	for m.Inventory.Map.Stop == nil && m.Inventory.Map.Settled == nil {
		if _, err := m.Inventory.AppendToJob(ctx, protocol.JobEntry{Failing: &s}); err != nil {
			return err
		}
	}
	return nil
}
