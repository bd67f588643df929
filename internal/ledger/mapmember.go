package ledger

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

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
)

// MapOrder is what to do, and what binds items that start now (J2).
type MapOrder struct {
	Do      MapDo
	Why     string // for people
	Limits  job.Limits
	Timeout time.Duration // of one try of an item; 0: none
	Settled *Settled
	Status  int // for Depart: the agent's exit status
}

// MapOptions say what an agent has.
type MapOptions struct {
	Slots int
	// Near says that the store answers in microseconds: it is then asked more often.
	Near bool
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

	holds   []*Hold
	ready   bool
	claims  int // chunks claimed so far
	began   time.Duration
	mine    []Child // handed over by us, not known to be claimed
	tell    []Child // of these, those an idle agent is to be told of
	cursor  finder
	marked  bool          // our name stands among the idle
	glanced time.Duration // when heartbeats were last looked at
	resting int           // looks in a row that found nothing
	roll    roll

	recorded, failed int
}

// NewMapMember makes an agent's part in map j. id is its AgentID, self its process.
func (w World) NewMapMember(j job.Job, id string, self Host, o MapOptions) *MapMember {
	m := &MapMember{ID: id, t: w.newChart(j, id), watch: newWatch(w, j.Path()), o: o, self: self, pace: farPace,
		risk: max(riskLeast, riskEach*o.Slots)}
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
	return m.ready && m.t.m.Settled == nil && m.t.m.Stop == nil && !m.t.m.Paused
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
		var step MapStep
		if m.t.m.Spec.MaxFails != "" { // to count is work
			step = m.t.m.Next(job.Tally{}, false, m.t.bad())
		}
		if step.Fail == nil {
			return m.order(), m.glance(ctx)
		}
		if _, err := m.t.append(ctx, Entry{Failing: step.Fail}); err != nil {
			return MapOrder{}, err
		}
	}
}

// glance looks at the other agents' heartbeats while we work, so that a lease has
// run out when we look for more, and does not begin then. Far away, where there may
// be thousands, the idle ones do that.
func (m *MapMember) glance(ctx context.Context) error {
	now := m.t.now()
	if !m.o.Near || m.glanced > 0 && now-m.glanced < Heartbeat {
		return nil
	}
	m.glanced = max(now, 1)
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
	o := MapOrder{Do: Work, Limits: f.Limits(), Timeout: f.ItemTimeout(), Settled: f.Settled}
	switch {
	case f.Settled != nil && len(m.holds) == 0:
		o.Do, o.Why = Depart, "the job has ended"
	case f.Settled != nil:
		o.Do, o.Why = Cease, "the job has ended"
	case f.Stop != nil && f.Stop.Drain:
		o.Do, o.Why = Drain, "the job was cancelled"
	case f.Stop != nil:
		o.Do, o.Why = Cease, "the job was stopped"
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
	m.resting++
	if m.live() && len(m.holds) == 0 {
		err = errors.Join(m.raiseHand(ctx), m.callRoll(ctx))
	}
	return nil, err
}

// full says that it must not take more: items of one hold run alone, or the
// others asked for have not had their turn.
func (m *MapMember) full() bool {
	return slices.ContainsFunc(m.holds, (*Hold).Careful)
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
		if c.Owner != "" {
			m.watch.wrote(c)
		}
		why, free := c.Free(m.death)
		if !free || !m.live() || !m.t.ripe(c) || c.Careful() && len(m.holds) > 0 || m.holding(c) {
			return nil, nil
		}
		e := Entry{Claimed: &Claimed{Agent: m.ID, Host: m.self, N: c.Claim + 1, Why: why, Risk: m.risk}}
		mine, sent, err := m.t.write(ctx, c, m.ID, e)
		if err != nil {
			return nil, err
		}
		if !mine {
			continue // somebody wrote first: decide again
		}
		m.claims++
		m.resting = 0
		h := m.newHold(c, sent)
		m.holds = append(m.holds, h)
		return h, m.lowerHand(ctx)
	}
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

// tend surveys the job: it claims what is free, does what anyone owes a chunk, and
// settles when all are done. Far away, one of the idle does that for all.
func (m *MapMember) tend(ctx context.Context) (*Hold, error) {
	if !m.o.Near && m.roll.spare > 0 && m.live() && m.resting < 4*(m.roll.spare+1) {
		return nil, nil
	}
	m.watch.bury()
	var got *Hold
	probes := 0
	if m.cursor.done(m.t.m.Chunks()) || m.t.m.Stop != nil || len(m.t.m.Reopened)+len(m.t.m.Extensions) > 0 {
		probes = m.t.m.Chunks()
	}
	tally, whole, err := m.t.survey(ctx, probes, func(c *Chunk) error {
		if got != nil {
			return nil
		}
		h, err := m.look(ctx, c)
		got = h
		return err
	})
	if err != nil || got != nil {
		return got, err
	}
	if !whole {
		return nil, nil
	}
	return nil, m.settle(ctx, tally)
}

// settle ends the job, which it found whole: no entry of its log came since.
func (m *MapMember) settle(ctx context.Context, tally job.Tally) error {
	step := m.t.m.Next(tally, true, 0)
	if step.Settle == nil {
		return nil
	}
	_, err := m.t.append(ctx, Entry{Settled: step.Settle})
	return err
}

// look does with one chunk what is to be done.
func (m *MapMember) look(ctx context.Context, c *Chunk) (*Hold, error) {
	if m.holding(c) {
		return nil, nil // its Flush does what is to be done
	}
	if c.Owner == m.ID { // a claim that we had given up has landed
		h := m.newHold(c, 0)
		m.holds = append(m.holds, h)
		return h, nil
	}
	if c.Owner != "" {
		if err := m.watch.owner(ctx, c); err != nil {
			return nil, err
		}
	}
	for {
		e, ok := m.t.m.Owes(c, m.death, m.t.stopAge())
		if !ok {
			break
		}
		if _, _, err := m.t.write(ctx, c, m.ID, e); err != nil {
			return nil, err
		}
	}
	if m.greedy() {
		return nil, nil
	}
	return m.claim(ctx, c)
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
