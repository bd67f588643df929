// Package runagent is an agent's part in a run: it joins attempts, starts and ends the program
// when Run.Next says so, and carries the calls of MPI between nodes.
//
// It refuses to know processes: its caller has them. Proved by the simulation of runs in
// package ledger.
package runagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
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
	Joins   []protocol.Join // for Launch: all ranks, in order
	Settled *protocol.Settled
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
	Joining func(*protocol.Join) error
	// Pace is how old what was read may be when Poll decides, below R7's bound: where
	// a request costs something, an agent that has just read does not read again
	// because of what it did itself. What is decided by old knowledge is an append, a
	// join or a start that stand or fall in the store. 0: each Poll reads.
	Pace time.Duration

	w     protocol.World
	p     job.Path
	ID    string
	self  protocol.Join // what a join record of ours says, but for token and nonce
	nodes int

	log      *protocol.Log[protocol.JobEntry]
	observer *liveness.Observer
	run      runs.Run

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
func NewMember(w protocol.World, j job.Job, id string, self protocol.Join) *Member {
	p := j.Path()
	self.Agent = id
	return &Member{w: w, p: p, ID: id, self: self, nodes: j.Spec.Nodes,
		log: w.JobLog(p, id), observer: liveness.NewObserver(w, p),
		run: runs.Run{Nodes: j.Spec.Nodes, Retries: j.Spec.Retries, Grace: time.Duration(j.Spec.Grace)}}
}

// Poll reads what is new, appends what any process that sees it should append, joins,
// and says what the agent is to do. It is called every Poll or more often, and
// after every event; calling it again before the order was carried out gives
// the order again.
func (m *Member) Poll(ctx context.Context) (Order, error) {
	for {
		if err := m.readAll(ctx); err != nil {
			if errors.Is(err, liveness.ErrRemoved) {
				return Order{Do: Leave}, nil
			}
			return Order{}, err
		}
		if m.run.Settled != nil {
			return m.settledOrder(), nil
		}
		if m.running || m.stoppedBefore() {
			if why := m.run.HaltFor(m.attempt, m.rank); why != "" {
				return Order{Do: Halt, Why: why, Attempt: m.attempt, Rank: m.rank, Over: m.run.Stop != nil}, nil
			}
		}
		acted, err := m.appendNext(ctx)
		if err != nil {
			return Order{}, err
		}
		if acted {
			continue
		}
		if d, drained := m.run.Drained[m.ID]; drained && m.run.Stop == nil {
			return Order{Do: Yield, Why: d.ReasonInWords(), Attempt: m.attempt, Rank: m.rank}, nil
		}
		return m.nextOrder(ctx)
	}
}

// stoppedBefore says that this agent has joined the current attempt of a run that was
// stopped since, and has not started its program. It never will, so it has to record
// that its part is over: the stopped run is settled when each rank that has joined has
// an exit (R8).
func (m *Member) stoppedBefore() bool {
	return m.run.Stop != nil && m.attempt > 0 && m.attempt == m.run.Attempt() && !m.ended
}

// settledOrder ends our part: first our process, then the outputs.
func (m *Member) settledOrder() Order {
	if m.running {
		return Order{Do: Halt, Why: "the job has ended", Attempt: m.attempt, Rank: m.rank, Settled: m.run.Settled, Over: true}
	}
	return Order{Do: Finish, Attempt: m.attempt, Rank: m.rank, Settled: m.run.Settled}
}

// appendNext appends what follows from the state. True: something was read or written.
func (m *Member) appendNext(ctx context.Context) (bool, error) {
	step := m.run.Next(m.deathEvidence())
	var e protocol.JobEntry
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
	m.foldLog()
	return true, err
}

// Again is how long the next Poll may be put off (R7).
func (m *Member) Again() time.Duration {
	return max(0, protocol.Poll-(m.w.Clock().Boot()-m.looked))
}

func (m *Member) deathEvidence() runs.Evidence {
	return runs.Evidence{Death: m.observer.DeathOf, StopAge: m.w.Clock().Boot() - m.stopAt}
}

// nextOrder joins the current attempt if we have not, and starts it when all are there.
func (m *Member) nextOrder(ctx context.Context) (Order, error) {
	k := m.run.Attempt()
	if k == 0 || m.run.Stop != nil || !m.ready {
		return Order{Do: Wait}, nil
	}
	if m.attempt != k {
		joined, err := m.joinAttempt(ctx, k)
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

// joinAttempt takes a rank of attempt k: our own if we survived, else a free one. A join of ours
// that is there is of a request that was given up, and has landed since: that rank is ours.
func (m *Member) joinAttempt(ctx context.Context, k int) (bool, error) {
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
		rec.V, rec.Nonce, rec.Token, rec.At = protocol.Format, m.w.NewNonce(), m.w.NewNonce(), m.w.Clock().Now().UTC()
		held, mine, err := m.w.Store.CreateOnce(ctx, protocol.AttemptKey(m.p, k, "join", rank), protocol.Encode(rec))
		if err != nil {
			return false, fmt.Errorf("join attempt %d: %w", k, err)
		}
		var there protocol.Join
		if err := protocol.Decode(held, &there, &there.V, protocol.AttemptKey(m.p, k, "join", rank)); err != nil {
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
	late := m.w.Clock().Boot()-m.openedAt > protocol.KeepRankFor
	var ranks []int
	for rank := range m.nodes {
		if _, taken := m.run.Joins[rank]; taken {
			continue
		}
		switch owner := keep[rank]; {
		case owner == m.ID:
			return []int{rank}
		case owner == "" || late || m.observer.DeathOf(owner) != liveness.Alive:
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Ready tells the member that its agent has fetched and prepared everything: from
// now on it joins. No agent joins a rank that could not start at once.
func (m *Member) Ready() { m.ready = true }

// Started tells the member that the program of the ordered attempt runs.
func (m *Member) Started() { m.running = true }

// Ended records how our part in the attempt ended: outputs are stored and
// verified before (R5). In an attempt that is over it writes nothing.
func (m *Member) Ended(ctx context.Context, e protocol.Exit) error {
	m.running = false
	if m.attempt == 0 || m.ended {
		return nil
	}
	m.ended = true
	if m.run.Attempt() != m.attempt {
		return nil
	}
	e.V, e.Nonce, e.Agent, e.At = protocol.Format, m.w.NewNonce(), m.ID, m.w.Clock().Now().UTC()
	key := protocol.AttemptKey(m.p, m.attempt, "exit", m.rank)
	held, _, err := m.w.Store.CreateFixed(ctx, key, protocol.Encode(e))
	if err != nil {
		m.ended = false
		return fmt.Errorf("record exit: %w", err)
	}
	if m.nodes > 1 {
		m.fresh = false // the others' may be there
	}
	var there protocol.Exit
	if err := protocol.Decode(held, &there, &there.V, key); err != nil {
		return err
	}
	m.run.Exits[m.rank] = there
	return nil
}

// Leave lets the task's log know that the job has settled: what an agent does
// last after Finish.
func (m *Member) Leave(ctx context.Context) error {
	return tasks.CloseRun(ctx, m.w, m.p, m.ID, m.rank == 0)
}

// Joined says which attempt and rank the member holds; 0 before it has joined.
func (m *Member) Joined() (attempt, rank int) { return m.attempt, m.rank }

// ExitOf is how a rank's part in the attempt we joined ended, as last read; ok is
// false while it has not.
func (m *Member) ExitOf(rank int) (e protocol.Exit, ok bool) {
	if m.run.Attempt() != m.attempt {
		return e, false
	}
	e, ok = m.run.Exits[rank]
	return e, ok
}

// readAll brings the run up to date: job's log, records of the current attempt,
// and the heartbeats that are due.
func (m *Member) readAll(ctx context.Context) error {
	now := m.w.Clock().Boot()
	if m.fresh && now-m.looked < m.Pace {
		return nil
	}
	if err := liveness.CheckSeenRecently(ctx, m.w, m.p); err != nil {
		return err
	}
	m.observer.MarkDead()
	if err := m.log.ReadUntil(ctx, func() bool { return runs.RunHasEnded(m.log) }); err != nil {
		return err
	}
	m.foldLog()
	own := -1
	if m.attempt == m.run.Attempt() {
		own = m.rank // no other writes how we ended
	}
	if err := runs.ReadRecords(ctx, m.w, m.p, &m.run, own); err != nil {
		return err
	}
	m.looked, m.fresh = now, true
	return runs.ObserveAgents(ctx, m.w, m.observer, m.run, m.ID)
}

// foldLog takes in what the log says now.
func (m *Member) foldLog() {
	before, stopped := m.run.Attempt(), m.run.Stop != nil
	m.run.RefoldLog(m.log.Entries)
	if m.run.Attempt() != before {
		m.openedAt = m.w.Clock().Boot() // after the answer: it may have taken long
	}
	if m.run.Stop != nil && !stopped {
		m.stopAt = m.w.Clock().Boot()
	}
}
