// Package chunks is the fold of a map's log and of its chunks' logs, and the pure decisions what
// follows: Map.Next for the job, Map.NextOf for a chunk. Inventory is all that one reader knows of
// a map's chunks, and reads and writes their logs and snapshots.
//
// It refuses to know which chunk an agent works on, and why. Proved by the simulation of maps in
// package ledger.
package chunks

import (
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
)

// Map is the fold of a map's log. How its items stand is in its chunks.
type Map struct {
	Base job.Manifest
	Size int // of the manifest's chunks, in items
	Spec job.Spec

	N          int // entries folded
	Placed     []protocol.Placed
	Extensions []Extension
	Amended    protocol.Amended // what binds now; nil fields: as the spec says, which has the settings
	Reopened   []Numbered[protocol.Reopened]
	// Gone are the agents that the engine says are gone.
	Gone   map[string]liveness.Death
	Paused bool
	Pause  Pause // valid while Paused
	// Drained are the agents that are to leave, by id; nil: none.
	Drained map[string]protocol.Drained

	Stop    *protocol.Stop // of this round
	StopAt  int            // number of its entry
	Failing bool
	Settled *protocol.Settled
	Ended   time.Time // of the entry that settled it, by its writer's clock
	// Place is that of the task's log which this round goes by, and Round the entry
	// that began it; both are 0 in the first.
	Place, Round int
	// Ignored lists the numbers of entries that were not allowed when written (L3).
	Ignored []int
}

// Extension is an `extended` that counts, by number.
type Extension = Numbered[protocol.Extended]

// Pause is the user that asked that nothing new begins, and when by the clock of the command.
type Pause struct {
	protocol.Paused
	At time.Time
}

// Numbered is a fact and the number of its entry.
type Numbered[T any] struct {
	N    int
	Fact T
}

// NewMap is the fold of job j before its first entry.
func NewMap(j job.Job) *Map {
	return &Map{Base: j.Manifest, Size: j.ChunkSize, Spec: j.Spec, Gone: map[string]liveness.Death{}}
}

// ChunkSize is M7: how many items a chunk of a job has.
func ChunkSize(items, agents int) int {
	return max(1, min(4096, (items+8*agents-1)/(8*max(1, agents))))
}

// Items is how many items the job has by now.
func (m *Map) Items() int {
	n := m.Base.Count
	for _, x := range m.Extensions {
		n += x.Fact.Manifest.Count
	}
	return n
}

// Chunks is how many chunks the manifest and the extensions make. Those that were
// handed over are found in their parents (M2).
func (m *Map) Chunks() int {
	n := ChunksIn(m.Base.Count, m.Size)
	for _, x := range m.Extensions {
		n += ChunksIn(x.Fact.Manifest.Count, x.Fact.Size)
	}
	return n
}

// Seed is chunk i of them, counted from 0.
func (m *Map) Seed(i int) (id string, s protocol.Seed) {
	ext, first, items, size := 0, 1, m.Base.Count, m.Size
	for _, x := range m.Extensions {
		if i < ChunksIn(items, size) {
			break
		}
		i -= ChunksIn(items, size)
		ext, first, items, size = x.N, x.Fact.First, x.Fact.Manifest.Count, x.Fact.Size
	}
	from := first + i*size
	return protocol.ChunkID(ext, i), protocol.Seed{Items: protocol.Spans{{from, min(from+size, first+items) - 1}}, Mark: ext}
}

// Index is which of them has an id, counted from 0; ok is false for none.
func (m *Map) Index(id string) (i int, ok bool) {
	ext, k := "0", id
	if rest, added := strings.CutPrefix(id, "x"); added {
		ext, k, _ = strings.Cut(rest, "-")
	}
	x, err := strconv.Atoi(ext)
	i, err2 := strconv.Atoi(k)
	if err != nil || err2 != nil || i < 0 {
		return 0, false
	}
	if x > 0 {
		i += ChunksIn(m.Base.Count, m.Size)
		for _, had := range m.Extensions {
			if had.N < x {
				i += ChunksIn(had.Fact.Manifest.Count, had.Fact.Size)
			}
		}
	}
	if i >= m.Chunks() {
		return 0, false
	}
	found, _ := m.Seed(i)
	return i, found == id
}

// ChunksIn is how many chunks of a size items make.
func ChunksIn(items, size int) int {
	size = max(1, size) // of a record without chunks
	return (items + size - 1) / size
}

// Fold takes the next entry of the job's log in (L3, E1, E4, T2).
func (m *Map) Fold(e protocol.JobEntry) {
	n := m.N
	m.N++
	if !m.applyEntry(n, e) {
		m.Ignored = append(m.Ignored, n)
	}
}

func (m *Map) applyEntry(n int, e protocol.JobEntry) bool {
	ok := true
	if e.Reopened != nil {
		ok = m.applyReopened(n, *e.Reopened)
	}
	if e.Extended != nil {
		ok = m.applyExtended(n, *e.Extended) && ok
	}
	live := m.Stop == nil && m.Settled == nil
	switch {
	case e.Placed != nil:
		m.Placed = append(m.Placed, *e.Placed)
		ok = m.Settled == nil
	case e.Amended != nil && ok: // by itself, or what a round begins with
		m.Amend(*e.Amended)
	case e.Paused != nil:
		if !m.Paused { // of two pauses the first is shown
			m.Pause = Pause{*e.Paused, e.At}
		}
		m.Paused = true
	case e.Resumed != nil:
		m.Paused = false
	case e.Drained != nil:
		m.Drained = protocol.WithDrained(m.Drained, *e.Drained)
	case e.Gone != nil:
		for agent, taken := range e.Gone {
			m.Gone[agent] = liveness.Dead
			if taken {
				m.Gone[agent] = liveness.Taken
			}
		}
	case e.Cancelled != nil && live:
		m.Stop, m.StopAt = e.Cancelled, n
	case e.Failing != nil && live:
		m.Stop, m.StopAt, m.Failing = e.Failing, n, true
	case e.Cancelled != nil && m.Settled == nil && m.Stop.IsHardenedBy(*e.Cancelled):
		m.Stop = e.Cancelled // what chunks are ended by stays: the entry that stopped it
	case e.Cancelled != nil || e.Failing != nil:
		ok = false
	case e.Settled != nil:
		ok = m.applySettled(e)
	}
	return ok
}

// applyReopened begins a new round of a settled job, for a place of the task's log that
// it has not settled for yet; in a live one it selects more items.
func (m *Map) applyReopened(n int, r protocol.Reopened) bool {
	switch {
	case m.Settled != nil && r.Submission <= m.Settled.Submission, m.Settled == nil && m.Stop != nil:
		return false
	case m.Settled != nil:
		m.Settled, m.Stop, m.StopAt, m.Failing, m.Place, m.Round, m.Paused = nil, nil, 0, false, r.Submission, n, false
	}
	m.Reopened = append(m.Reopened, Numbered[protocol.Reopened]{n, r})
	return true
}

func (m *Map) applyExtended(n int, x protocol.Extended) bool {
	if m.Stop != nil || m.Settled != nil || x.First != m.Items()+1 || x.Size < 1 {
		return false
	}
	m.Extensions = append(m.Extensions, Extension{n, x})
	return true
}

// Amend takes in what binds from now on; fields left out stay.
func (m *Map) Amend(a protocol.Amended) {
	if a.Settings != nil {
		m.Spec = option.WithSettings(m.Spec, *a.Settings)
		m.Amended = protocol.Amended{Code: m.Amended.Code}
	}
	if a.Limits != nil {
		m.Amended.Limits = a.Limits
	}
	if a.Timeout != nil {
		m.Amended.Timeout = a.Timeout
	}
	if a.Retries != nil {
		m.Amended.Retries = a.Retries
	}
	if a.RetryOn != nil {
		m.Amended.RetryOn = a.RetryOn
	}
	if a.Code != nil {
		m.Amended.Code = a.Code
	}
	if a.MemoryStep != nil {
		m.Amended.MemoryStep = a.MemoryStep
	}
}

// applySettled ends a round. Said again of an ended job, for a later place, it declines
// that one: a `reopened` for it comes too late (T2).
func (m *Map) applySettled(e protocol.JobEntry) bool {
	s := *e.Settled
	if m.Settled != nil {
		if s.Submission <= m.Settled.Submission {
			return false
		}
		again := *m.Settled
		again.Submission = s.Submission
		m.Settled = &again
		return true
	}
	allowed := s.State == job.Succeeded || s.State == job.Failed
	if m.Stop != nil {
		allowed = s.State == job.Cancelled
		if m.Failing {
			allowed = s.State == job.Failed
		}
	}
	if s.Submission != m.Place || !allowed {
		return false
	}
	m.Settled, m.Ended = &s, e.At
	return true
}

// Retries is how often an item may fail and be tried again.
func (m *Map) Retries() int {
	if m.Amended.Retries != nil {
		return *m.Amended.Retries
	}
	return m.Spec.Retries
}

// RetryOn are the failures after which an item is tried again.
func (m *Map) RetryOn() job.RetryOn {
	if m.Amended.RetryOn != nil {
		return *m.Amended.RetryOn
	}
	return m.Spec.RetryOn
}

// Code is what items of j run with from now on.
func (m *Map) Code(j job.Job) protocol.Code {
	if m.Amended.Code != nil {
		return *m.Amended.Code
	}
	return protocol.Code{Code: j.Code, Environment: j.Environment, Interpreter: j.Interpreter}
}

// MemoryStep is how many times the memory an item gets after it had too little.
func (m *Map) MemoryStep() float64 {
	if m.Amended.MemoryStep != nil {
		return *m.Amended.MemoryStep
	}
	return m.Spec.MemoryStep
}

// IsFinal says whether a failure of an item, its nth, is its last (M13).
func (m *Map) IsFinal(r protocol.Result, n int) bool {
	return n > m.Retries() || !m.RetryOn().Matches(r.Code, r.Signal, r.Kind)
}

// Limits are those of an item that starts now.
func (m *Map) Limits() job.Limits {
	if m.Amended.Limits != nil {
		return *m.Amended.Limits
	}
	return m.Spec.Limits
}

// ItemTimeout is the time limit of one try of an item; 0: none.
func (m *Map) ItemTimeout() time.Duration {
	if m.Amended.Timeout != nil {
		return time.Duration(*m.Amended.Timeout)
	}
	return time.Duration(m.Spec.ItemTimeout)
}

// Bind is a job as it binds what begins now (J2): its spec, and its code.
func (m *Map) Bind(j job.Job) job.Job {
	j = m.Recoded(j)
	j.Spec = m.Bound()
	return j
}

// Recoded is a job with the newest code that it was given.
func (m *Map) Recoded(j job.Job) job.Job {
	c := m.Code(j)
	j.Code, j.Environment, j.Interpreter = c.Code, c.Environment, c.Interpreter
	return j
}

// Bound is the job's spec as it binds what begins now (J2).
func (m *Map) Bound() job.Spec {
	s := m.Spec
	s.Limits, s.ItemTimeout, s.Retries, s.RetryOn, s.MemoryStep = m.Limits(), job.Duration(m.ItemTimeout()), m.Retries(), m.RetryOn(), m.MemoryStep()
	return s
}
