// Package liveness judges agents by what can be seen of them: it writes and reads heartbeats,
// and an Observer keeps the leases and the evidence of death (rules D1 to D3). It names agents
// and looks whether their job is still there.
//
// It refuses to know what an agent works on. Proved by the simulations of package ledger.
package liveness

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// WriteHeartbeat writes an agent's heartbeat. The caller counts, and calls it every
// HeartbeatEvery; a failed one is sent again at once (D2), by the store's retries.
func WriteHeartbeat(ctx context.Context, w protocol.World, p job.Path, b protocol.Heartbeat) error {
	b.V, b.At = protocol.Format, w.Clock().Now().UTC()
	return w.Store.Put(ctx, protocol.AgentKey(p, b.Agent), protocol.Encode(b))
}

func ReadHeartbeat(ctx context.Context, w protocol.World, p job.Path, agent string) (protocol.Heartbeat, bool, error) {
	var beat protocol.Heartbeat
	b, err := w.ReadObject(ctx, protocol.AgentKey(p, agent), protocol.MaxRecord) // it is rewritten: never remembered
	if errors.Is(err, store.ErrNotExist) {
		return beat, false, nil
	}
	if err != nil {
		return beat, false, fmt.Errorf("read heartbeat: %w", err)
	}
	return beat, true, protocol.Decode(b, &beat, &beat.V, protocol.AgentKey(p, agent))
}

// Observer judges agents by what can be seen of them (D1, D2).
type Observer struct {
	w    protocol.World
	p    job.Path
	Seen map[string]*sight
	// folded is how far chunks' logs were read when their owners were looked after.
	folded map[string]int
	read   time.Duration // when we last read anything; 0: never
	// EngineSays holds what the engine says of agents (D1b).
	EngineSays map[string]Death
}

// sight is what an observer knows of one agent.
type sight struct {
	counter int64
	beats   bool   // a heartbeat was ever read
	join    string // nonce of the newest join record that was read
	host    protocol.Host
	known   bool      // host was read
	at      time.Time // of its last heartbeat, by its own clock
	moved   time.Duration
	looked  time.Duration
	gone    bool
	refuted bool // it joined after the engine had called it dead
}

func NewObserver(w protocol.World, p job.Path) *Observer {
	return &Observer{w: w, p: p, Seen: map[string]*sight{}, EngineSays: map[string]Death{}}
}

// NoteJoin notes an agent's join record, read at the time at. One that was not seen
// before is a sign of life (D2), whatever its heartbeats said.
func (o *Observer) NoteJoin(j protocol.Join, at time.Duration) {
	s := o.sightOfAgent(j.Agent, at)
	s.host, s.known = j.Host, true
	if s.join != j.Nonce {
		s.refuted = s.refuted || o.EngineSays[j.Agent] != Alive
		s.join, s.moved, s.looked = j.Nonce, at, at
	}
}

func (o *Observer) sightOfAgent(agent string, at time.Duration) *sight {
	s := o.Seen[agent]
	if s == nil {
		s = &sight{moved: at, looked: at - protocol.HeartbeatEvery}
		o.Seen[agent] = s
	}
	return s
}

// ReadHeartbeats reads the heartbeats that are due: an agent's at most once a HeartbeatEvery.
func (o *Observer) ReadHeartbeats(ctx context.Context, agents []string) error {
	for _, id := range agents {
		sent := o.w.Clock().Boot() // a counter that stands still has done so until then, at least
		o.NoteReading(sent)
		s := o.sightOfAgent(id, sent)
		if s.gone || sent-s.looked < protocol.HeartbeatEvery {
			continue
		}
		b, ok, err := ReadHeartbeat(ctx, o.w, o.p, id)
		if err != nil {
			return err
		}
		s.looked = sent
		if ok && (!s.beats || b.Counter != s.counter) {
			s.counter, s.beats, s.moved = b.Counter, true, o.w.Clock().Boot() // it may have moved until the answer
		}
		if ok {
			s.host, s.known, s.at = b.Host, true, b.At
		}
	}
	return nil
}

// NoteReading says that we are reading. After a time in which we did not, all leases start
// again (D2): an observer that slept knows of no agent's silence. Of an agent that was not
// looked at for long while we read other things, the counter tells.
func (o *Observer) NoteReading(now time.Duration) {
	if o.read != 0 && now-o.read > protocol.ReadGap {
		for _, s := range o.Seen {
			s.moved = max(s.moved, now)
		}
	}
	o.read = now
}

// Sign is what the log of a chunk says of its owner.
type Sign struct {
	Agent string
	Host  protocol.Host // zero: it is not known
	Chunk string        // its id
	N     int           // entries of its log that were read
	Wrote time.Time     // when the owner sealed its newest entry, by its own clock
}

// CheckOwner notes the sign of the owner of a chunk that was just read, and reads its heartbeat if
// that is due.
func (o *Observer) CheckOwner(ctx context.Context, c Sign) error {
	o.NoteEntry(c)
	return o.ReadHeartbeats(ctx, []string{c.Agent})
}

// NoteEntry takes a new entry in a chunk's log for a sign of life of its owner (D2). How
// long ago it was written the owner's clock tells, which set the time of its heartbeats too.
func (o *Observer) NoteEntry(c Sign) {
	at := o.w.Clock().Boot()
	o.NoteReading(at)
	s := o.sightOfAgent(c.Agent, at)
	if c.Host != (protocol.Host{}) {
		s.host, s.known = c.Host, true
	}
	if o.folded == nil {
		o.folded = map[string]int{}
	}
	if o.folded[c.Chunk] < c.N {
		s.moved += min(at-s.moved, max(0, c.Wrote.Sub(s.at)))
	}
	o.folded[c.Chunk] = c.N
}

// NoteHeartbeat notes that an agent's heartbeat was seen to have moved by the time at.
func (o *Observer) NoteHeartbeat(agent string, at time.Duration) {
	o.NoteReading(o.w.Clock().Boot())
	s := o.sightOfAgent(agent, at)
	s.moved = max(s.moved, at)
}

// MarkDead notes the agents of which the process on this machine is gone (D1a). It comes before exits
// are read: an agent that is gone by then has written its exit, or never will.
func (o *Observer) MarkDead() {
	for _, s := range o.Seen {
		if s.known && !s.gone {
			gone, known := o.w.Gone(s.host)
			s.gone = known && gone
		}
	}
}

// DeathOf is the evidence against an agent (D1).
func (o *Observer) DeathOf(agent string) Death {
	s := o.Seen[agent]
	if d := o.EngineSays[agent]; d != Alive && (s == nil || !s.refuted) {
		return d
	}
	if s == nil {
		return Alive
	}
	if s.gone || s.looked-s.moved >= protocol.Lease {
		return Dead
	}
	return Alive
}

// NewAgentID makes an agent's id: its placement and index, by which an engine's
// word about a machine finds it, and randomness, so that it is never used twice
// (L2).
func NewAgentID(w protocol.World, placement, index int) string {
	return fmt.Sprintf("%d-%d-%s", placement, index, w.NewNonce())
}

// PlacementAndIndex takes the placement and index out of an agent's id.
func PlacementAndIndex(agent string) (placement, index int, ok bool) {
	first, rest, _ := strings.Cut(agent, "-")
	second, _, whole := strings.Cut(rest, "-")
	placement, err := strconv.Atoi(first)
	index, err2 := strconv.Atoi(second)
	return placement, index, whole && err == nil && err2 == nil
}

// ErrRemoved says that the job's job.json is gone: an agent that works on it writes
// nothing any more and leaves with status 0 (E6).
var ErrRemoved = errors.New("job was removed")

// CheckSeenRecently looks for job.json, unless it was seen a moment ago.
func CheckSeenRecently(ctx context.Context, w protocol.World, p job.Path) error {
	return CheckSeenSince(ctx, w, p, protocol.JobSeenFor)
}

// CheckExists reads job.json now; the error is ErrRemoved when it is gone.
func CheckExists(ctx context.Context, w protocol.World, p job.Path) error {
	return CheckSeenSince(ctx, w, p, 0)
}

// CheckSeenSince looks for job.json, unless it was seen so long ago at most.
func CheckSeenSince(ctx context.Context, w protocol.World, p job.Path, ago time.Duration) error {
	_, err := w.ReadWriteOnce(ctx, protocol.JobKey(p), ago, protocol.MaxRecord)
	if errors.Is(err, store.ErrNotExist) {
		return ErrRemoved
	}
	return err
}

// HeartbeatVersions is different when an agent of the job has written a heartbeat since, and as a
// rule only then. It is one listing.
func HeartbeatVersions(ctx context.Context, w protocol.World, p job.Path) (string, error) {
	var pulse strings.Builder
	for o, err := range w.Store.List(ctx, protocol.JobDir(p)+"/agents/") {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&pulse, "%s %d %d\n", o.Key, o.Size, o.Time.UnixNano())
	}
	return pulse.String(), nil
}

// Death is what an observer holds against an agent.
type Death int

// An agent is alive until there is evidence (D1). Taken means that the engine
// called it an interruption.
const (
	Alive Death = iota
	Dead
	Taken
)
