package ledger

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// What the checks know: the raw objects, and when each came to be. It shares
// nothing with the code under test but the entries' decoding.

// raw is a log as it lies in the store, past the faults.
type raw[E protocol.Entry] struct {
	entries []E
	at      []time.Duration
}

// rawUnder reads a log on from where it was read before.
func rawUnder[E protocol.Entry](s *scene, dir string) *raw[E] {
	l, known := s.logs[dir].(*raw[E])
	if !known {
		l = &raw[E]{}
		s.logs[dir] = l
	}
	for {
		key := fmt.Sprintf("%s/%08d", dir, len(l.entries))
		when, ok := s.made[key]
		if !ok {
			return l
		}
		var e E
		s.peek(key, &e)
		l.entries, l.at = append(l.entries, e), append(l.at, when)
	}
}

func (s *scene) taskLog() *raw[protocol.TaskEntry] { return rawUnder[protocol.TaskEntry](s, "p/t/log") }

func (s *scene) jobLog(id string) *raw[protocol.JobEntry] {
	return rawUnder[protocol.JobEntry](s, "p/t/"+id+"/log")
}

func (s *scene) stateOf(rank int) *raw[protocol.StateEntry] {
	return rawUnder[protocol.StateEntry](s, fmt.Sprintf("p/t/state/%d", rank))
}

// text reads an object past the faults.
func (s *scene) text(key string) []byte {
	r, err := s.under.Get(ctx, key, 0, -1)
	must(err)
	defer r.Close()
	b, err := io.ReadAll(r)
	must(err)
	return b
}

func (s *scene) peek(key string, into any) { must(json.Unmarshal(s.text(key), into)) }

func blob(text string) io.ReadSeeker { return strings.NewReader(text) }

// joinAt and exitAt read a rank's record, if it came to be by t.
func (s *scene) joinAt(id string, k, rank int, t time.Duration) (j protocol.Join, ok bool) {
	return j, s.recordAt(fmt.Sprintf("p/t/%s/attempts/%d/join/%d", id, k, rank), t, &j)
}

func (s *scene) exitAt(id string, k, rank int, t time.Duration) (e protocol.Exit, ok bool) {
	return e, s.recordAt(fmt.Sprintf("p/t/%s/attempts/%d/exit/%d", id, k, rank), t, &e)
}

func (s *scene) recordAt(key string, t time.Duration, into any) bool {
	when, ok := s.made[key]
	if !ok || when > t {
		return false
	}
	s.peek(key, into)
	return true
}

const forever = time.Duration(1<<63 - 1)

// story is what a job's log says, by our own reading of L3 and E1.
type story struct {
	attempts  []protocol.Attempt // that count
	opened    []time.Duration
	by        []protocol.JobEntry // their entries
	stop      *protocol.JobEntry
	stopAt    time.Duration
	settled   *protocol.Settled
	settledAt time.Duration // 0: it has not
	placed    []protocol.JobEntry
	placedAt  []time.Duration
	ignored   []protocol.JobEntry
	drained   map[string]time.Duration // agents that are to leave, and since when
}

func (st story) open() bool { return st.stop == nil && st.settled == nil }

func (s *scene) storyOf(id string) (st story) {
	l := s.jobLog(id)
	for n, e := range l.entries {
		switch {
		case e.Placed != nil:
			st.placed, st.placedAt = append(st.placed, e), append(st.placedAt, l.at[n])
		case e.Drained != nil:
			st.drain(e.Drained.Agent, l.at[n])
		case e.Attempt != nil && st.open() && e.Attempt.K == len(st.attempts)+1:
			st.attempts, st.opened, st.by = append(st.attempts, *e.Attempt), append(st.opened, l.at[n]), append(st.by, e)
		case (e.Cancelled != nil || e.Failing != nil) && st.open():
			st.stop, st.stopAt = &l.entries[n], l.at[n]
		case e.Settled != nil && st.settled == nil && st.mayEnd(*e.Settled):
			st.settled, st.settledAt = e.Settled, l.at[n]
		default:
			st.ignored = append(st.ignored, e)
		}
	}
	return st
}

func (st story) mayEnd(s protocol.Settled) bool {
	switch {
	case st.stop == nil:
		return s.Attempt == len(st.attempts) && s.State != job.Cancelled
	case st.stop.Failing != nil:
		return s.State == job.Failed
	}
	return s.State == job.Cancelled
}

// opened0 is when the first attempt was opened.
func (st story) opened0() time.Duration {
	if len(st.opened) == 0 {
		return forever
	}
	return st.opened[0]
}

// near says whether two things happened at about the same time.
func near(a, b time.Duration) bool { return max(a-b, b-a) < 2*time.Second }

// count counts the attempts of a cause.
func (st story) count(causes ...protocol.Cause) (n int) {
	for _, a := range st.attempts {
		for _, c := range causes {
			if a.Cause == c {
				n++
			}
		}
	}
	return n
}

// order is the order of jobs: a submitted counts when the one before it was
// closed.
func (s *scene) order() (places map[string]int, live string) {
	places = map[string]int{}
	for n, e := range s.taskLog().entries {
		switch {
		case e.Submitted != nil && live == "":
			live = e.Submitted.Job
			places[live] = n
		case e.Closed != nil && e.Closed.Job == live:
			live = ""
		}
	}
	return places, live
}

// writer is the holder of a rank's state.
type writer struct{ place, attempt int }

func (w writer) after(o writer) bool {
	return w.place > o.place || w.place == o.place && w.attempt > o.attempt
}

// generation finds, in a rank's log, what an attempt that takes over after these
// entries is to begin with: the newest that its writer saved while it held the
// rank, and of which nothing is lost.
func (s *scene) generation(entries []protocol.StateEntry) (number int, g *protocol.Saved) {
	number = -1
	held, agent := writer{-1, 0}, ""
	for n, e := range entries {
		switch {
		case e.Restored != nil && (writer{e.Restored.Submission, e.Restored.Attempt}).after(held):
			held, agent = writer{e.Restored.Submission, e.Restored.Attempt}, e.Restored.Agent
		case e.Saved != nil && (writer{e.Saved.Submission, e.Saved.Attempt}) == held && e.Saved.Agent == agent:
			if !s.torn[e.Saved.Checkpoints] {
				number, g = n, e.Saved
			}
		}
	}
	return number, g
}

// processOf finds the process that signed an entry: an agent's id, or a command line's name.
func (s *scene) processOf(by string) *process {
	if m := s.agentNamed(by); m != nil {
		return m.p
	}
	for _, p := range s.procs {
		if p.name == by {
			return p
		}
	}
	return &process{}
}

// lastBeat is when the agent's heartbeat was written last before t.
func (m *machine) lastBeat(t time.Duration) time.Duration {
	last := -time.Hour
	for _, b := range m.beats {
		if b <= t {
			last = b
		}
	}
	return last
}

// unsure is how much of what was written before an observer decided it may not have
// seen: it reads every HeartbeatEvery, and requests take their time.
const unsure = protocol.HeartbeatEvery + 5*time.Second

// goneBy says whether there was reason at t to hold an agent for dead: it was, or
// the engine said so, or it had not beaten for a lease, as far as an observer can tell.
func (m *machine) goneBy(t time.Duration) bool {
	return m.p.dead && m.died <= t || m.disowned && m.disownedAt <= t || m.silent(t)
}

func (m *machine) silent(t time.Duration) bool {
	return t-unsure-m.lastBeat(t-unsure) >= protocol.Lease-protocol.HeartbeatEvery-unsure
}
