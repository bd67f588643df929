package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/job"
)

// Few says whether so many agents may ask a folder that a server keeps as often as one
// of their own machine.
func Few(agents int) bool { return agents <= fewAgents }

// fewAgents may all tend a whole job at once. Of more of them, far away, each spare
// tends a share, and after a stop every agent does so once (E5).
const fewAgents = 16

func (m *MapMember) alone() bool { return m.o.Near || m.t.m.Spec.Workers <= m.few }

// patrolEach is how many chunks a patrol looks at in one Poll: more would keep
// items waiting.
const patrolEach = 40

// patrolEvery is how long a patrol rests that has passed all of its share.
const patrolEvery = 3 * Lease

// patrol keeps the roll and reads on, a part at a time, in the chunks of our share,
// if we are a spare or likely to become one.
func (m *MapMember) patrol(ctx context.Context) error {
	now := m.t.now()
	if !m.scout && m.roll.spare < 0 || !m.live() || len(m.holds) == 0 {
		return nil
	}
	if err := m.callRoll(ctx); err != nil {
		return err
	}
	if !m.roll.known || m.roll.spare < 0 || m.patrolled == 0 && m.glanced > 0 && now-m.glanced < patrolEvery {
		return nil
	}
	if m.patrolled == 0 {
		m.glanced = max(now, 1)
		if err := m.t.list(ctx); err != nil {
			return err
		}
	}
	mine, at, left := share{at: m.roll.spare, of: m.roll.spares}, 0, patrolEach
	for id, s := range m.t.all(mine) {
		if at++; at <= m.patrolled {
			continue
		}
		if _, done := m.t.done(id); done {
			continue
		}
		c := m.t.chunk(id, s)
		if m.holding(c) {
			continue
		}
		if _, err := m.t.read(ctx, c, nil); err != nil {
			return err
		}
		if err := m.mind(ctx, c); err != nil {
			return err
		}
		if left--; left == 0 {
			m.patrolled = at
			return nil
		}
	}
	m.patrolled = 0
	return nil
}

// mind looks after the owner of a chunk that was just read.
func (m *MapMember) mind(ctx context.Context, c *Chunk) error {
	if c.Owner == "" {
		return nil
	}
	m.watch.wrote(c)
	if m.heard(c.Owner) {
		m.watch.heard(c.Owner, m.roll.at)
		return nil
	}
	return m.watch.look(ctx, []string{c.Owner})
}

// turn is which share of the chunks is ours to survey now; ok is false for none.
func (m *MapMember) turn() (mine share, ok bool) {
	f, r := m.t.m, m.roll
	switch {
	case m.alone():
		return mine, true
	case f.Stop != nil && m.shared != f.StopAt:
		m.shared = f.StopAt
		_, index, _ := Seat(m.ID)
		return share{index % f.Spec.Workers, f.Spec.Workers, true}, true
	case len(m.holds) > 0 || !r.known || r.spare < 0:
		return mine, false
	case m.resting%16 == 15: // whoever was to look may have gone
		return mine, true
	}
	return share{at: r.spare, of: r.spares}, true
}

// Who surveys for nothing then rests so many times as long as that took: of a job of
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

// tend surveys its share of the job: it claims what is free, does what anyone owes a
// chunk, and settles when all are done.
func (m *MapMember) tend(ctx context.Context) (*Hold, error) {
	began := m.t.now()
	mine, ok := m.turn()
	if !ok || m.o.Near && m.resting > 0 && began < m.tired {
		return nil, nil
	}
	defer func() { m.tired = m.t.now() + min(restEach*(m.t.now()-began), restMost) }()
	m.watch.bury()
	var got *Hold
	var others []string     // who wait for work
	var since time.Duration // when we had got something
	probes := 0
	if m.searched() || m.t.m.Stop != nil || len(m.t.m.Reopened)+len(m.t.m.Extensions) > 0 {
		probes = m.t.m.Chunks()
	}
	tally, whole, err := m.t.survey(ctx, mine, probes, func(c *Chunk) error {
		switch {
		case m.t.m.Done(c) && m.o.Near:
			return nil
		case m.t.m.Done(c):
			return m.t.rename(ctx, c)
		}
		if got != nil && (len(others) == 0 || m.t.now()-since > passFor) {
			return errEnough
		}
		// More than we need: the untouched may be on its way to somebody, and of what
		// kills agents one is enough (M13).
		if got != nil && (c.Claim == 0 || c.mayKill()) {
			return m.mind(ctx, c)
		}
		h, err := m.look(ctx, c)
		switch {
		case err != nil || h == nil:
			return err
		case got != nil:
			others, err = others[1:], h.pass(ctx, others[0])
			return err
		}
		if got, since = h, m.t.now(); !m.alone() && !h.Careful() {
			others, err = m.idle(ctx)
			others = slices.DeleteFunc(others, func(id string) bool { return !m.heard(id) })
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
	m.watch.awake(m.t.now())
	if h := m.adopt(c); h != nil {
		return h, nil
	}
	if err := m.ask(ctx, c); err != nil {
		return nil, err
	}
	for {
		e, ok := m.t.m.Owes(c, m.death, m.t.stopAge())
		if !ok {
			break
		}
		mine, _, err := m.t.write(ctx, c, m.ID, e)
		if err == nil && mine && c.Closed && !m.o.Near { // who settles goes by names
			err = m.t.snapshot(c, nil, c.Claim > 0)(ctx)
		}
		if err != nil {
			return nil, err
		}
		if c.Owner != "" { // somebody wrote first: he lives
			m.watch.wrote(c)
		}
	}
	if m.greedy() {
		return nil, nil
	}
	return m.claim(ctx, c)
}

// ask looks after a chunk's owner, for its death would let us act. Right after a stop
// thousands would ask for thousands at once, and living owners end their own: who is
// dead then is found by the spares, once the owners have had their time.
func (m *MapMember) ask(ctx context.Context, c *Chunk) error {
	if m.t.m.Stop != nil && !m.alone() && m.t.stopAge() < stopGrace {
		if c.Owner != "" {
			m.watch.wrote(c)
		}
		return nil
	}
	return m.mind(ctx, c)
}

// heard says that an agent's heartbeat moved by the last roll, which is one listing
// for a thousand of them: then nobody need read it.
func (m *MapMember) heard(agent string) bool {
	if m.o.Near || !m.roll.known || m.t.now()-m.roll.at >= rollEvery {
		return false
	}
	_, moved := slices.BinarySearch(m.roll.moved, agent)
	return moved
}
