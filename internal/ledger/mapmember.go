package ledger

import (
	"context"
	"errors"
	"math"
	"path"
	"slices"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
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
	Settled *Settled
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
	// Later stores what nobody waits for: indexes that anyone can make again, in the
	// background and in any order. nil: at once.
	Later func(store func(context.Context) error)
}

// MapMember is one agent's part in a map: it claims chunks, hands over, tends what
// others left, and settles. The agent owns the processes; nothing here blocks
// longer than the store does. Not for concurrent use.
type MapMember struct {
	ID string

	t     *chart
	watch *watch
	o     MapOptions
	self  Host
	pace  pace
	risk  int

	holds     []*Hold
	ready     bool
	claims    int // chunks claimed so far
	began     time.Duration
	mine      []Child // handed over by us, not known to be claimed
	tell      []Child // of these, those an idle agent is to be told of
	unsure    []unsureClaim
	cursor    finder
	asked     int           // how often for idle agents
	marked    bool          // our name stands among the idle
	bell      bool          // somebody's has, ever
	glanced   time.Duration // when heartbeats were last looked at
	resting   int           // looks in a row that found nothing
	since     time.Duration // when the first of them was
	tired     time.Duration // until when nothing is surveyed, unless something was claimed
	roll      roll
	shared    int           // the stop for which our share of chunks was ended
	few       int           // fewAgents
	scout     bool          // one of those that are likely to be spares
	glimpse   int           // what surely says; 0: as many as it takes
	patrolled int           // chunks that the patrol under way has passed
	tries     int           // of ours that took counts
	took      time.Duration // each of these, on average

	recorded, failed int
	room             int // how many more of ours may fail, by what we knew at the last Poll; < 0: too many did
}

// NewMapMember makes an agent's part in map j. id is its AgentID, self its process.
func (w World) NewMapMember(j job.Job, id string, self Host, o MapOptions) *MapMember {
	m := &MapMember{ID: id, t: w.newChart(j, id), watch: newWatch(w, j.Path()), o: o, self: self, pace: farPace(j.Spec.Workers), roll: roll{spare: -1},
		risk: max(riskLeast, riskEach*o.Slots, o.Risk), few: fewAgents,
		scout: hash(id) < math.MaxUint32/sparesEach}
	if o.Near {
		m.pace = nearPace
	}
	m.t.saw = func(c *Chunk, e Entry) {
		for _, h := range m.holds {
			if h.c == c {
				h.saw(e)
			}
		}
	}
	return m
}

// Ready tells the member that its agent has prepared everything: from now on it
// claims chunks.
func (m *MapMember) Ready() { m.ready, m.began = true, m.t.now() }

// Holds are the chunks it owns.
func (m *MapMember) Holds() []*Hold { return slices.Clone(m.holds) }

// Map is the newest fold of the job's log, for showing.
func (m *MapMember) Map() *Map { return m.t.m }

// Dress fills in what a heartbeat says of the work.
func (m *MapMember) Dress(b *Beat) {
	b.Recorded, b.Failed, b.Flight, b.Chunks = m.recorded, m.failed, 0, nil
	for _, h := range m.holds {
		b.Flight += len(h.flight)
		b.Chunks = append(b.Chunks, h.c.ID)
	}
}

// live says whether items may start and chunks be claimed.
func (m *MapMember) live() bool {
	return m.ready && m.t.m.Settled == nil && m.t.m.Stop == nil && !m.t.m.Paused && !m.drained() && !m.TooMany()
}

// drained says that this agent was asked to leave: it begins nothing more, and what
// it has not begun is for others at once.
func (m *MapMember) drained() bool {
	_, drained := m.t.m.Drained[m.ID]
	return drained
}

// Poll reads the job's log, appends what anyone who sees it should append, and
// says what the agent is to do. It is called every Poll near by and every Heartbeat
// far away (E5), or more often.
func (m *MapMember) Poll(ctx context.Context) (MapOrder, error) {
	for {
		if err := m.t.w.exists(ctx, m.t.p); err != nil {
			if errors.Is(err, ErrRemoved) {
				m.holds = nil
				return MapOrder{Do: Depart, Why: "the job was removed"}, nil
			}
			return MapOrder{}, err
		}
		if err := m.t.readLog(ctx); err != nil {
			return MapOrder{}, err
		}
		m.watch.awake(m.t.now())
		var step MapStep
		if limit, limited := m.t.m.Spec.FailLimit(m.t.m.Items()); limited { // to count is work
			bad := m.t.bad()
			step = m.t.m.Next(job.Tally{}, false, bad)
			m.room = limit - bad - m.unsaid()
		}
		if step.Fail == nil {
			o := m.order()
			if o.Do == Depart && o.Settled == nil {
				if stayed, err := m.stayed(ctx); err != nil {
					return MapOrder{}, err
				} else if !stayed {
					o.Do, o.Why = Work, ""
				}
			}
			if o.Do == Depart {
				return o, m.lowerHand(ctx)
			}
			return o, m.glance(ctx)
		}
		if _, err := m.t.append(ctx, Entry{Failing: step.Fail}); err != nil {
			return MapOrder{}, err
		}
	}
}

// unsaid is how many items have failed for good with us that no entry says yet.
func (m *MapMember) unsaid() (n int) {
	for _, h := range m.holds {
		for _, r := range h.buffer {
			if r.bad() {
				n++
			}
		}
	}
	return n
}

// TooMany says that more items have failed than may: nothing begins until the next
// Poll, which is due at once, as is each Flush.
func (m *MapMember) TooMany() bool {
	return m.room < 0 && m.t.m.Stop == nil && m.t.m.Settled == nil && m.t.m.Spec.MaxFails != ""
}

// glance looks at the other agents while we work, so that a lease has run out when
// we look for more, and does not begin then. Where there may be thousands, the
// spares do that, each for its share.
func (m *MapMember) glance(ctx context.Context) error {
	switch {
	case !m.alone():
		return m.patrol(ctx)
	case m.glanced > 0 && m.t.now()-m.glanced < Heartbeat:
		return nil
	}
	m.glanced = max(m.t.now(), 1)
	var others []string
	for o, err := range m.t.w.Store.List(ctx, jobDir(m.t.p)+"/agents/") {
		if err != nil {
			return err
		}
		if id := path.Base(o.Key); id != m.ID {
			others = append(others, id)
		}
	}
	return m.watch.look(ctx, others)
}

func (m *MapMember) order() MapOrder {
	f := m.t.m
	o := MapOrder{Do: Work, Limits: f.Limits(), Timeout: f.ItemTimeout(), Step: f.MemoryStep(), Settled: f.Settled}
	if f.Amended.Code != nil {
		o.Code = f.Amended.Code.Digest
	}
	switch {
	case f.Settled != nil && len(m.holds) == 0:
		o.Do, o.Why = Depart, "the job has ended"
	case f.Settled != nil:
		o.Do, o.Why = Cease, "the job has ended"
	case f.Stop != nil && f.Stop.Drain:
		o.Do, o.Why = Drain, "the job was cancelled: running items may finish"
	case f.Stop != nil:
		o.Do, o.Why = Cease, "the job was stopped"
	case m.drained():
		o.Do, o.Why = Quit, f.Drained[m.ID].words()
	case f.Paused:
		o.Do, o.Why = Rest, "the job is paused"
	case m.mayLeave():
		o.Do, o.Why = Depart, "nothing is left to claim"
	}
	return o
}

// Leave lets the task's log know that the job has settled: what an agent does last
// that departs after it.
func (m *MapMember) Leave(ctx context.Context) error { return m.t.w.Close(ctx, m.t.p, m.ID) }

// Again is how long to wait before the next Seek.
func (m *MapMember) Again() time.Duration {
	if m.o.Near {
		return min(20*time.Millisecond<<min(m.resting, 10), 200*time.Millisecond)
	}
	return min(time.Second<<min(m.resting, 10), 15*time.Second)
}

// Seek looks for a chunk to work on, and does meanwhile what anyone should do who
// sees the job so: ends chunks after a stop, opens them again after a reopen,
// settles. nil: there is none now. It is called when slots fall idle, and then
// after Again.
func (m *MapMember) Seek(ctx context.Context) (*Hold, error) {
	if m.t.m.Settled != nil || !m.ready || m.full() {
		return nil, nil
	}
	if h, err := m.resolve(ctx); h != nil || err != nil {
		return h, err
	}
	if m.live() {
		for _, find := range []func(context.Context) (*Hold, error){m.mail, m.ownChildren, m.untouched} {
			if h, err := find(ctx); h != nil || err != nil {
				return h, err
			}
		}
	}
	h, err := m.tend(ctx)
	if h != nil || err != nil {
		return h, err
	}
	if m.resting++; m.resting == 1 {
		m.since = m.t.now()
	}
	if len(m.holds) > 0 {
		return nil, err
	}
	if m.live() {
		err = m.raiseHand(ctx)
	}
	if m.t.m.Stop != nil && !m.alone() && !m.scout && m.t.stopAge() < 2*stopGrace {
		return nil, err // thousands fall idle at once: the scouts do what there is to do
	}
	return nil, errors.Join(err, m.callRoll(ctx))
}

// full says that it must not take more: items of one hold run alone, or the
// others asked for have not had their turn.
func (m *MapMember) full() bool {
	return slices.ContainsFunc(m.holds, (*Hold).Careful)
}

// lost says that a hold is over and its items may still run: what another has handed
// on of it must not begin beside them.
func (m *MapMember) lost() bool {
	return slices.ContainsFunc(m.holds, func(h *Hold) bool { return h.over })
}

// maxPolite is how long a fast agent leaves the others' share of a small job to
// them, who may still be preparing.
const maxPolite = 5 * time.Second

// greedy says that a further chunk may be another agent's share.
func (m *MapMember) greedy() bool {
	f := m.t.m
	workers := max(1, f.Spec.Workers)
	share := (f.Chunks() + workers - 1) / workers
	return m.claims >= share && m.claims < 8 && len(m.holds) > 0 && m.t.now()-m.began < maxPolite
}

// claim takes a chunk that was read to its end, if nobody was quicker.
func (m *MapMember) claim(ctx context.Context, c *Chunk) (*Hold, error) {
	for {
		if h := m.adopt(c); h != nil {
			return h, nil
		}
		if c.Owner != "" {
			m.watch.wrote(c)
		}
		why, free := c.Free(m.death)
		if !free || !m.live() || !m.t.ripe(c) || c.Careful() && len(m.holds) > 0 || m.holding(c) || m.lost() {
			return nil, nil
		}
		e := Entry{Claimed: &Claimed{Agent: m.ID, Host: m.self, N: c.Claim + 1, Why: why, Risk: m.risk}}
		mine, sent, err := m.t.write(ctx, c, m.ID, e)
		if errors.Is(err, store.ErrUnclear) {
			m.addUnsure(unsureClaim{c, c.N})
		}
		if err != nil {
			return nil, err
		}
		if !mine {
			continue // somebody wrote first: decide again
		}
		m.claims++
		m.resting = 0
		h := m.newHold(c, 0)
		m.holds = append(m.holds, h)
		if err := h.renew(ctx, sent); err != nil {
			return h, err
		}
		return h, m.lowerHand(ctx)
	}
}

// adopt takes on a chunk that is ours and that we do not hold: a claim that we had
// given up has landed.
func (m *MapMember) adopt(c *Chunk) *Hold {
	if c.Owner != m.ID || m.holding(c) {
		return nil
	}
	h := m.newHold(c, 0) // its first Flush gives the licence
	m.holds = append(m.holds, h)
	m.resting = 0
	return h
}

// unsureClaim is a claim whose outcome is unknown: it may have landed under its number
// of the chunk's log, or may land there as long as the number is free.
type unsureClaim struct {
	c *Chunk
	n int
}

func (m *MapMember) addUnsure(u unsureClaim) {
	if !slices.Contains(m.unsure, u) {
		m.unsure = append(m.unsure, u)
	}
}

// resolve looks after the claims whose outcome stayed unknown, each until its number
// holds an entry: if that is the claim, nobody else works on the chunk (L1). It returns
// the first chunk that is ours. A claim whose number is still free is sent again if the
// chunk may be claimed now, and is left for later if not; others are not kept waiting.
func (m *MapMember) resolve(ctx context.Context) (*Hold, error) {
	for _, u := range slices.Clone(m.unsure) {
		if _, err := m.t.read(ctx, u.c, nil); err != nil {
			return nil, err
		}
		h, err := m.claim(ctx, u.c)
		if err != nil {
			return nil, err
		}
		if u.c.N > u.n {
			m.unsure = slices.DeleteFunc(m.unsure, func(o unsureClaim) bool { return o == u })
		}
		if h != nil {
			return h, nil
		}
	}
	return nil, nil
}

// death is the evidence against an agent, the engine's word in the job's log
// before our own.
func (m *MapMember) death(agent string) Death {
	if d := m.t.m.Told[agent]; d != Alive {
		return d
	}
	if agent == m.ID {
		return Alive
	}
	return m.watch.death(agent)
}

func (m *MapMember) holding(c *Chunk) bool {
	return slices.ContainsFunc(m.holds, func(h *Hold) bool { return h.c == c })
}

// Fail ends the job because nothing can run: an environment that cannot be built,
// a program that is not there. It does not wait for the end.
func (m *MapMember) Fail(ctx context.Context, s Stop) error {
	for m.t.m.Stop == nil && m.t.m.Settled == nil {
		if _, err := m.t.append(ctx, Entry{Failing: &s}); err != nil {
			return err
		}
	}
	return nil
}
