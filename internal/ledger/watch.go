package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Beat is an agent's heartbeat: the one object that is rewritten. It is a hint,
// never proof of a result.
type Beat struct {
	V       int       `json:"v"`
	Agent   string    `json:"agent"`
	Counter int64     `json:"counter"`
	At      time.Time `json:"at"`
	Host    Host      `json:"host"`
	Name    string    `json:"name,omitempty"`
	Phase   string    `json:"phase"` // preparing queued waiting running saving leaving left
	Attempt int       `json:"attempt,omitempty"`
	Rank    int       `json:"rank"`
	Since   time.Time `json:"since,omitzero"`  // the program runs since
	Live    string    `json:"live,omitempty"`  // socket that serves live output
	Note    string    `json:"note,omitempty"`  // what it is doing, for people
	Queue   string    `json:"queue,omitempty"` // what it waits for on its machine, for people
	// Saved is the number of the newest generation it saved, and when.
	Saved   int       `json:"saved,omitempty"`
	SavedAt time.Time `json:"saved_at,omitzero"`

	// Of a map's agent: results it recorded, final failures among them, tries that
	// run now, and the chunks it holds.
	Recorded int      `json:"recorded,omitempty"`
	Failed   int      `json:"failed,omitempty"`
	Flight   int      `json:"flight,omitempty"`
	Slots    int      `json:"slots,omitempty"`
	Chunks   []string `json:"chunks,omitempty"`
	Asked    bool     `json:"asked,omitempty"` // it left because a person stopped it
	// Lost counts files that items left in their working folder and that are not kept;
	// LostFirst is one of them.
	Lost      int    `json:"lost,omitempty"`
	LostFirst string `json:"lost_first,omitempty"`
}

// Beat writes an agent's heartbeat. The caller counts, and calls it every
// Heartbeat; a failed one is sent again at once (D2), by the store's retries.
func (w World) Beat(ctx context.Context, p job.Path, b Beat) error {
	b.V, b.At = format, w.clock().Now().UTC()
	return w.Store.Put(ctx, agentKey(p, b.Agent), encode(b))
}

// Lost counts files that items of the job left in their working folders, by the heartbeats
// of agents from a time on; first is one of them.
func (w World) Lost(ctx context.Context, p job.Path, since time.Time) (files int, first string, err error) {
	rep := Report{Path: p}
	if err := w.readBeats(ctx, &rep); err != nil {
		return 0, "", err
	}
	for _, b := range rep.Beats {
		if b.Lost <= 0 || b.At.Before(since) {
			continue
		}
		if files += b.Lost; first == "" {
			first = b.LostFirst
		}
	}
	return files, first, nil
}

func (w World) readBeat(ctx context.Context, p job.Path, agent string) (Beat, bool, error) {
	var beat Beat
	b, err := w.get(ctx, agentKey(p, agent), maxRecord) // it is rewritten: never remembered
	if errors.Is(err, store.ErrNotExist) {
		return beat, false, nil
	}
	if err != nil {
		return beat, false, fmt.Errorf("read heartbeat: %w", err)
	}
	return beat, true, decode(b, &beat, &beat.V, agentKey(p, agent))
}

// watch judges agents by what can be seen of them (D1, D2).
type watch struct {
	w    World
	p    job.Path
	seen map[string]*sight
	// folded is how far chunks' logs were read when their owners were looked after.
	folded map[string]int
	read   time.Duration // when we last read anything; 0: never
	// engine holds what the engine says of agents (D1b).
	engine map[string]Death
}

// sight is what an observer knows of one agent.
type sight struct {
	counter int64
	beats   bool   // a heartbeat was ever read
	join    string // nonce of the newest join record that was read
	host    Host
	known   bool      // host was read
	at      time.Time // of its last heartbeat, by its own clock
	moved   time.Duration
	looked  time.Duration
	gone    bool
	refuted bool // it joined after the engine had called it dead
}

func newWatch(w World, p job.Path) *watch {
	return &watch{w: w, p: p, seen: map[string]*sight{}, engine: map[string]Death{}}
}

// met notes an agent's join record, read at the time at. One that was not seen
// before is a sign of life (D2), whatever its heartbeats said.
func (o *watch) met(j Join, at time.Duration) {
	s := o.sight(j.Agent, at)
	s.host, s.known = j.Host, true
	if s.join != j.Nonce {
		s.refuted = s.refuted || o.engine[j.Agent] != Alive
		s.join, s.moved, s.looked = j.Nonce, at, at
	}
}

func (o *watch) sight(agent string, at time.Duration) *sight {
	s := o.seen[agent]
	if s == nil {
		s = &sight{moved: at, looked: at - Heartbeat}
		o.seen[agent] = s
	}
	return s
}

// look reads the heartbeats that are due: an agent's at most once a Heartbeat.
func (o *watch) look(ctx context.Context, agents []string) error {
	for _, id := range agents {
		sent := o.w.clock().Boot() // a lease counts from when the request was sent
		o.awake(sent)
		s := o.sight(id, sent)
		if s.gone || sent-s.looked < Heartbeat {
			continue
		}
		b, ok, err := o.w.readBeat(ctx, o.p, id)
		if err != nil {
			return err
		}
		s.looked = sent
		if ok && (!s.beats || b.Counter != s.counter) {
			s.counter, s.beats, s.moved = b.Counter, true, sent
		}
		if ok {
			s.host, s.known, s.at = b.Host, true, b.At
		}
	}
	return nil
}

// awake says that we are reading. After a time in which we did not, all leases start
// again (D2): whoever has slept knows of nobody's silence. Of an agent that was not
// looked at for long while we read other things, the counter tells.
func (o *watch) awake(now time.Duration) {
	if o.read != 0 && now-o.read > readGap {
		for _, s := range o.seen {
			s.moved = max(s.moved, now)
		}
	}
	o.read = now
}

// owner looks after the owner of a chunk that was just read.
func (o *watch) owner(ctx context.Context, c *Chunk) error {
	o.wrote(c)
	return o.look(ctx, []string{c.Owner})
}

// wrote takes a new entry in a chunk's log for a sign of life of its owner (D2). How
// long ago it was written its owner's clock tells, which set the time of his
// heartbeats too.
func (o *watch) wrote(c *Chunk) {
	at := o.w.clock().Boot()
	o.awake(at)
	s := o.sight(c.Owner, at)
	if c.Host != (Host{}) {
		s.host, s.known = c.Host, true
	}
	if o.folded == nil {
		o.folded = map[string]int{}
	}
	if o.folded[c.ID] < c.N {
		s.moved += min(at-s.moved, max(0, c.Wrote.Sub(s.at)))
	}
	o.folded[c.ID] = c.N
}

// heard notes that an agent's heartbeat was seen to have moved by the time at.
func (o *watch) heard(agent string, at time.Duration) {
	o.awake(o.w.clock().Boot())
	s := o.sight(agent, at)
	s.moved = max(s.moved, at)
}

// bury notes whose process on this machine is gone (D1a). It comes before exits
// are read: who is gone by then has written his, or never will.
func (o *watch) bury() {
	for _, s := range o.seen {
		if s.known && !s.gone {
			gone, known := o.w.Gone(s.host)
			s.gone = known && gone
		}
	}
}

// death is the evidence against an agent (D1).
func (o *watch) death(agent string) Death {
	s := o.seen[agent]
	if d := o.engine[agent]; d != Alive && (s == nil || !s.refuted) {
		return d
	}
	if s == nil {
		return Alive
	}
	if s.gone || s.looked-s.moved >= Lease {
		return Dead
	}
	return Alive
}

// AgentID makes an agent's id: its placement and index, by which an engine's
// word about a machine finds it, and randomness, so that it is never used twice
// (L2).
func (w World) AgentID(placement, index int) string {
	return fmt.Sprintf("%d-%d-%s", placement, index, w.nonce())
}

// Seat takes the placement and index out of an agent's id.
func Seat(agent string) (placement, index int, ok bool) {
	first, rest, _ := strings.Cut(agent, "-")
	second, _, whole := strings.Cut(rest, "-")
	placement, err := strconv.Atoi(first)
	index, err2 := strconv.Atoi(second)
	return placement, index, whole && err == nil && err2 == nil
}

// ErrRemoved says that the job's job.json is gone: whoever works on it writes
// nothing any more and leaves with status 0 (E6).
var ErrRemoved = errors.New("job was removed")

// exists looks for job.json, unless it was seen a moment ago.
func (w World) exists(ctx context.Context, p job.Path) error { return w.seen(ctx, p, sure) }

// CheckExists reads job.json now; the error is ErrRemoved when it is gone.
func (w World) CheckExists(ctx context.Context, p job.Path) error { return w.seen(ctx, p, 0) }

// seen looks for job.json, unless it was seen so long ago at most.
func (w World) seen(ctx context.Context, p job.Path, ago time.Duration) error {
	_, err := w.fixed(ctx, jobKey(p), ago, maxRecord)
	if errors.Is(err, store.ErrNotExist) {
		return ErrRemoved
	}
	return err
}
