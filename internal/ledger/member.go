package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/job"
)

// Do is what a Member asks its agent to do.
type Do int

// The orders.
const (
	Wait   Do = iota // nothing yet: poll again
	Launch           // every rank is there: start the program, then call Started
	Halt             // end the process tree now, if there is one, then call Ended
	Finish           // the job has settled: make output/, then call Leave
	Yield            // this agent was drained: save, call Ended as interrupted, and go; another takes its rank
	Leave            // go, with status 0
)

// Order is what to do, and what is known about it.
type Order struct {
	Do      Do
	Why     string // for Halt: a sentence for people
	Attempt int
	Rank    int
	Joins   []Join // for Launch: all ranks, in order
	Settled *Settled
	// Over, of Halt: the job was stopped or has settled, so it waits for nothing but
	// this rank's exit, and not for long (R8).
	Over bool
}

// Member is one agent's part in a run: it opens attempts, joins, says when to
// start and when to end, and settles. The agent owns the process; Member never
// blocks longer than the store does. Not for concurrent use.
type Member struct {
	// Joining completes the record of an attempt that is about to be joined with
	// what is known only then, such as a port, which must never be that of an
	// attempt before (R2). Nil: there is nothing to add.
	Joining func(*Join) error
	// Pace is how old what was read may be when Poll decides, below R7's bound: where
	// a request costs something, an agent that has just read does not read again
	// because of what it did itself. What is decided by old knowledge is an append, a
	// join or a start that stand or fall in the store. 0: each Poll reads.
	Pace time.Duration

	w     World
	p     job.Path
	ID    string
	self  Join // what a join record of ours says, but for token and nonce
	nodes int

	log   *Log
	watch *watch
	run   Run

	looked   time.Duration // when all was read last, from before it was asked for
	fresh    bool          // since then nothing has happened that calls for another look
	ready    bool
	openedAt time.Duration // when the current attempt was first read
	stopAt   time.Duration // when the stop entry was first read
	attempt  int           // the attempt we joined, 0: none
	rank     int
	running  bool // between Started and Ended
	ended    bool // our exit of this attempt is written, or will never be
}

// NewMember makes an agent's part in job j. self gives host, name and address.
func (w World) NewMember(j job.Job, id string, self Join) *Member {
	p := j.Path()
	self.Agent = id
	return &Member{w: w, p: p, ID: id, self: self, nodes: j.Spec.Nodes,
		log: w.openLog(jobDir(p)+"/log", id), watch: newWatch(w, p),
		run: Run{Nodes: j.Spec.Nodes, Retries: j.Spec.Retries, Grace: time.Duration(j.Spec.Grace)}}
}

// Poll reads what is new, appends what anyone who sees it should append, joins,
// and says what the agent is to do. It is called every Poll or more often, and
// after every event; calling it again before the order was carried out gives
// the order again.
func (m *Member) Poll(ctx context.Context) (Order, error) {
	for {
		if err := m.read(ctx); err != nil {
			if errors.Is(err, ErrRemoved) {
				return Order{Do: Leave}, nil
			}
			return Order{}, err
		}
		if m.run.Settled != nil {
			return m.settled(), nil
		}
		if m.running || m.stoppedBefore() {
			if why := m.run.HaltFor(m.attempt, m.rank); why != "" {
				return Order{Do: Halt, Why: why, Attempt: m.attempt, Rank: m.rank, Over: m.run.Stop != nil}, nil
			}
		}
		acted, err := m.act(ctx)
		if err != nil {
			return Order{}, err
		}
		if acted {
			continue
		}
		if d, drained := m.run.Drained[m.ID]; drained && m.run.Stop == nil {
			return Order{Do: Yield, Why: d.words(), Attempt: m.attempt, Rank: m.rank}, nil
		}
		return m.place(ctx)
	}
}

// stoppedBefore says that this agent has joined the current attempt of a run that was
// stopped since, and has not started its program. It never will, so it has to record
// that its part is over: the stopped run is settled when each rank that has joined has
// an exit (R8).
func (m *Member) stoppedBefore() bool {
	return m.run.Stop != nil && m.attempt > 0 && m.attempt == m.run.Attempt() && !m.ended
}

// settled ends our part: first our process, then the outputs.
func (m *Member) settled() Order {
	if m.running {
		return Order{Do: Halt, Why: "the job has ended", Attempt: m.attempt, Rank: m.rank, Settled: m.run.Settled, Over: true}
	}
	return Order{Do: Finish, Attempt: m.attempt, Rank: m.rank, Settled: m.run.Settled}
}

// act appends what follows from the state. True: something was read or written.
func (m *Member) act(ctx context.Context) (bool, error) {
	step := m.run.Next(m.evidence())
	var e Entry
	switch {
	case step.Open != nil:
		e.Attempt = step.Open
	case step.Fail != nil:
		e.Failing = step.Fail
	case step.Settle != nil:
		e.Settled = step.Settle
	default:
		return false, nil
	}
	mine, err := m.log.Append(ctx, e)
	m.fresh = m.fresh && mine && (m.nodes == 1 || e.Settled != nil)
	m.fold()
	return true, err
}

// Again is how long the next Poll may be put off (R7).
func (m *Member) Again() time.Duration {
	return max(0, Poll-(m.w.clock().Boot()-m.looked))
}

func (m *Member) evidence() Evidence {
	return Evidence{Death: m.watch.death, StopAge: m.w.clock().Boot() - m.stopAt}
}

// place joins the current attempt if we have not, and starts it when all are there.
func (m *Member) place(ctx context.Context) (Order, error) {
	k := m.run.Attempt()
	if k == 0 || m.run.Stop != nil || !m.ready {
		return Order{Do: Wait}, nil
	}
	if m.attempt != k {
		joined, err := m.join(ctx, k)
		if err != nil || !joined {
			return Order{Do: Wait}, err
		}
	}
	if m.running || m.ended || len(m.run.Joins) < m.nodes {
		return Order{Do: Wait, Attempt: k, Rank: m.rank}, nil
	}
	o := Order{Do: Launch, Attempt: k, Rank: m.rank}
	for rank := range m.nodes {
		o.Joins = append(o.Joins, m.run.Joins[rank])
	}
	return o, nil
}

// join takes a rank of attempt k: our own if we survived, else a free one. A join of ours
// that is there is of a request that was given up, and has landed since: that rank is ours.
func (m *Member) join(ctx context.Context, k int) (bool, error) {
	for rank, there := range m.run.Joins {
		if there.Agent == m.ID {
			m.attempt, m.rank, m.running, m.ended = k, rank, false, false
			return true, nil
		}
	}
	ranks := m.openRanks()
	if len(ranks) == 0 {
		return false, nil
	}
	self := m.self
	if m.Joining != nil {
		if err := m.Joining(&self); err != nil {
			return false, err
		}
	}
	for _, rank := range ranks {
		rec := self
		rec.V, rec.Nonce, rec.Token, rec.At = format, m.w.nonce(), m.w.nonce(), m.w.clock().Now().UTC()
		held, mine, err := m.w.Store.CreateOnce(ctx, attemptKey(m.p, k, "join", rank), encode(rec))
		if err != nil {
			return false, fmt.Errorf("join attempt %d: %w", k, err)
		}
		var there Join
		if err := decode(held, &there, &there.V, attemptKey(m.p, k, "join", rank)); err != nil {
			return false, err
		}
		m.run.Joins[rank] = there
		m.fresh = m.fresh && mine
		if mine || there.Agent == m.ID {
			m.attempt, m.rank, m.running, m.ended = k, rank, false, false
			return true, nil
		}
	}
	return false, nil
}

// openRanks lists the ranks we may try for, our kept one first. A rank kept for
// another survivor is free when that one is dead, or has not come in time.
func (m *Member) openRanks() []int {
	keep := m.run.Attempts[m.run.Attempt()-1].Keep
	late := m.w.clock().Boot()-m.openedAt > keepRank
	var ranks []int
	for rank := range m.nodes {
		if _, taken := m.run.Joins[rank]; taken {
			continue
		}
		switch owner := keep[rank]; {
		case owner == m.ID:
			return []int{rank}
		case owner == "" || late || m.watch.death(owner) != Alive:
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Ready tells the member that its agent has fetched and prepared everything: from
// now on it joins. A rank is joined by nobody who could not start at once.
func (m *Member) Ready() { m.ready = true }

// Started tells the member that the program of the ordered attempt runs.
func (m *Member) Started() { m.running = true }

// Ended records how our part in the attempt ended: outputs are stored and
// verified before (R5). In an attempt that is over it writes nothing.
func (m *Member) Ended(ctx context.Context, e Exit) error {
	m.running = false
	if m.attempt == 0 || m.ended {
		return nil
	}
	m.ended = true
	if m.run.Attempt() != m.attempt {
		return nil
	}
	e.V, e.Nonce, e.Agent, e.At = format, m.w.nonce(), m.ID, m.w.clock().Now().UTC()
	key := attemptKey(m.p, m.attempt, "exit", m.rank)
	held, _, err := m.w.Store.CreateFixed(ctx, key, encode(e))
	if err != nil {
		m.ended = false
		return fmt.Errorf("record exit: %w", err)
	}
	if m.nodes > 1 {
		m.fresh = false // the others' may be there
	}
	var there Exit
	if err := decode(held, &there, &there.V, key); err != nil {
		return err
	}
	m.run.Exits[m.rank] = there
	return nil
}

// Leave lets the task's log know that the job has settled: what an agent does
// last after Finish.
func (m *Member) Leave(ctx context.Context) error {
	return m.w.closeRun(ctx, m.p, m.ID, m.rank == 0)
}

// Joined says which attempt and rank the member holds; 0 before it has joined.
func (m *Member) Joined() (attempt, rank int) { return m.attempt, m.rank }

// ExitOf is how a rank's part in the attempt we joined ended, as last read; ok is
// false while it has not.
func (m *Member) ExitOf(rank int) (e Exit, ok bool) {
	if m.run.Attempt() != m.attempt {
		return e, false
	}
	e, ok = m.run.Exits[rank]
	return e, ok
}

// read brings the run up to date: job's log, records of the current attempt,
// and the heartbeats that are due.
func (m *Member) read(ctx context.Context) error {
	now := m.w.clock().Boot()
	if m.fresh && now-m.looked < m.Pace {
		return nil
	}
	if err := m.w.exists(ctx, m.p); err != nil {
		return err
	}
	m.watch.bury()
	if err := m.log.readUntil(ctx, m.log.runEnded); err != nil {
		return err
	}
	m.fold()
	own := -1
	if m.attempt == m.run.Attempt() {
		own = m.rank // nobody else writes how we ended
	}
	if err := m.w.readRecords(ctx, m.p, &m.run, own); err != nil {
		return err
	}
	m.looked, m.fresh = now, true
	return m.w.observe(ctx, m.watch, m.run, m.ID)
}

// fold takes in what the log says now.
func (m *Member) fold() {
	before, stopped := m.run.Attempt(), m.run.Stop != nil
	m.run.refold(m.log.Entries)
	if m.run.Attempt() != before {
		m.openedAt = m.w.clock().Boot() // after the answer: it may have taken long
	}
	if m.run.Stop != nil && !stopped {
		m.stopAt = m.w.clock().Boot()
	}
}

// runEnded says that a run has settled: what is written behind that does not count.
func (l *Log) runEnded() bool {
	return slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Settled != nil }) && foldRun(l.Entries).Settled != nil
}

// readRun refreshes the fold and reads the records of its current attempt that
// are still absent. Records already read never change.
func (w World) readRun(ctx context.Context, p job.Path, l *Log, r *Run) error {
	if err := l.readUntil(ctx, l.runEnded); err != nil {
		return err
	}
	r.refold(l.Entries)
	return w.readRecords(ctx, p, r, -1)
}

// refold is the fold of entries, with the records that belong to its attempt.
func (r *Run) refold(entries []Entry) {
	was := r.Attempt()
	fresh := foldRun(entries)
	fresh.Nodes, fresh.Retries, fresh.Grace = r.Nodes, r.Retries, r.Grace
	fresh.Joins, fresh.Exits = r.Joins, r.Exits
	*r = fresh
	if r.Attempt() != was || r.Joins == nil {
		r.Joins, r.Exits = map[int]Join{}, map[int]Exit{}
	}
}

// readRecords reads the joins and exits of the current attempt that are still
// absent, but the exit of the rank own.
func (w World) readRecords(ctx context.Context, p job.Path, r *Run, own int) error {
	k := r.Attempt()
	if k == 0 {
		return nil
	}
	err := fill(ctx, w, p, k, "join", r.Nodes, r.Joins, -1, func(j *Join) *int { return &j.V })
	if err != nil {
		return err
	}
	return fill(ctx, w, p, k, "exit", r.Nodes, r.Exits, own, func(e *Exit) *int { return &e.V })
}

// fill reads the records of ranks that are not in have yet, but that of rank own. A few are asked
// for by name; for many a listing says where to look (L6), one request for all.
func fill[T any](ctx context.Context, w World, p job.Path, k int, what string, nodes int, have map[int]T, own int, v func(*T) *int) error {
	const few = 8
	var ranks []int
	for rank := range nodes {
		if _, ok := have[rank]; !ok && rank != own {
			ranks = append(ranks, rank)
		}
	}
	if len(ranks) > few {
		ranks = ranks[:0]
		for o, err := range w.Store.List(ctx, fmt.Sprintf("%s/attempts/%d/%s/", jobDir(p), k, what)) {
			if err != nil {
				return err
			}
			var rank int
			if _, err := fmt.Sscanf(o.Key[len(jobDir(p)):], fmt.Sprintf("/attempts/%d/%s/%%d", k, what), &rank); err != nil {
				continue
			}
			if _, ok := have[rank]; !ok && rank < nodes && rank != own {
				ranks = append(ranks, rank)
			}
		}
	}
	for _, rank := range ranks {
		rec, ok, err := getRecord(ctx, w, attemptKey(p, k, what, rank), v)
		if err != nil {
			return err
		}
		if ok {
			have[rank] = rec
		}
	}
	return nil
}

// observe looks after the agents whose life matters: members without an exit,
// survivors a rank is kept for, and others that the caller names.
func (w World) observe(ctx context.Context, o *watch, r Run, self string, others ...string) error {
	agents := slices.Clone(others)
	for rank, join := range r.Joins {
		if join.Agent == self {
			continue
		}
		o.met(join, w.clock().Boot())
		if _, ended := r.Exits[rank]; !ended {
			agents = append(agents, join.Agent)
		}
	}
	if k := r.Attempt(); k > 0 {
		for rank, agent := range r.Attempts[k-1].Keep {
			if _, joined := r.Joins[rank]; !joined && agent != self {
				agents = append(agents, agent)
			}
		}
	}
	return o.look(ctx, sorted(agents))
}
