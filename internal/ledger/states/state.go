// Package states is the log of a rank's state: the generations of checkpoints that attempts and
// jobs begin with (rule R6), and the state that the ranks of a job share (R9).
//
// It refuses to know what files mean. Proved by the simulation of runs in package ledger.
package states

import (
	"context"
	"errors"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// ErrFenced says that a newer attempt has taken a rank's state over. A saver that gets
// it stops writing for good; what it had is not lost, it is merely not the newest.
var ErrFenced = errors.New("a newer attempt has taken over")

// Generations is one writer's hold on the state of one rank of a task.
type Generations struct {
	Log *protocol.Log[protocol.StateEntry]
	me  protocol.Restored
}

// CurrentHolder is the writer with the `restored` that stands: the greatest so far. Two agents
// of one attempt and rank cannot be, a rank has one join.
func CurrentHolder(entries []protocol.StateEntry) (protocol.Restored, bool) {
	var h protocol.Restored
	found := false
	for _, e := range entries {
		if e.Restored != nil && (!found || e.Restored.Replaces(h)) {
			h, found = *e.Restored, true
		}
	}
	return h, found
}

// BeginsWith is the generation that the holder begins with, as long as it has saved none of its own; nil: none. A gc keeps it.
func BeginsWith(entries []protocol.StateEntry) *protocol.Saved {
	h, ok := CurrentHolder(entries)
	if !ok || h.Generation < 0 || h.Generation >= len(entries) {
		return nil
	}
	for _, e := range entries[h.Generation+1:] {
		if e.Saved != nil && e.Saved.By(h) {
			return nil
		}
	}
	return entries[h.Generation].Saved
}

// CountedGenerations lists, oldest first, the numbers of those `saved` entries that
// were written by the holder of their time.
func CountedGenerations(entries []protocol.StateEntry) []int {
	var h protocol.Restored
	found := false
	var counted []int
	for n, e := range entries {
		switch {
		case e.Restored != nil && (!found || e.Restored.Replaces(h)):
			h, found = *e.Restored, true
		case e.Saved != nil && found && e.Saved.By(h):
			counted = append(counted, n)
		}
	}
	return counted
}

// RestoreState takes the state of a rank over for the attempt that me names, and
// returns the newest generation that complete accepts, nil when there is none.
// Checkpoints and files of jobs before place since are not offered; state always is.
// complete is asked again once the choice is named (E7), and another generation chosen if that is torn by then.
// It returns ErrFenced when a newer attempt already has it.
func RestoreState(ctx context.Context, w protocol.World, p job.Path, rank int, me protocol.Restored, since int, complete func(protocol.Saved) (bool, error)) (*Generations, *protocol.Saved, error) {
	g := &Generations{Log: w.StateLog(p, rank, me.Agent), me: me}
	// The first attempt of a task's first job finds nothing, or else its append does.
	named := false
	for read := me.Submission > 0 || me.Attempt > 1; ; read = true {
		if read {
			if err := g.Log.Read(ctx); err != nil {
				return nil, nil, err
			}
		}
		if h, ok := CurrentHolder(g.Log.Entries); ok && !h.Before(g.me) {
			switch ours := g.me.Replaces(h); {
			case !ours:
				return nil, nil, ErrFenced
			case !named:
				return g, nil, nil // ours already: nothing has run in between
			}
		}
		number, saved, err := NewestGeneration(g.Log.Entries, complete)
		if err != nil {
			return nil, nil, err
		}
		g.me.Generation = number
		mine, err := g.Log.Append(ctx, protocol.StateEntry{Restored: &g.me})
		if err != nil {
			return nil, nil, err
		}
		if !mine {
			continue
		}
		named = true
		if saved == nil {
			return g, nil, nil
		}
		// From its name on no gc takes it; one that looked before may have.
		if whole, err := complete(*saved); err != nil {
			return nil, nil, err
		} else if !whole {
			continue
		}
		if saved.Submission < since {
			saved.Checkpoints, saved.Files = "", ""
		}
		return g, saved, nil
	}
}

// ReopenState gives the hold on a rank's state back to the attempt that me names, for what
// its agent had written and not saved when it died. newest is its newest generation,
// or the one that it began with; nil: there is none. ErrFenced unless that attempt was
// the last to take the state over.
func ReopenState(ctx context.Context, w protocol.World, p job.Path, rank int, me protocol.Restored) (g *Generations, newest *protocol.Saved, err error) {
	g = &Generations{Log: w.StateLog(p, rank, me.Agent), me: me}
	if err := g.Log.Read(ctx); err != nil {
		return nil, nil, err
	}
	if h, ok := CurrentHolder(g.Log.Entries); !ok || h.Submission != me.Submission || h.Attempt != me.Attempt || h.Agent != me.Agent {
		return nil, nil, ErrFenced
	}
	if counted := CountedGenerations(g.Log.Entries); len(counted) > 0 {
		newest = g.Log.Entries[counted[len(counted)-1]].Saved
	}
	return g, newest, nil
}

// NewestGeneration finds the newest complete generation. A torn one, or one that misses a
// blob, is never offered: the one before it is.
func NewestGeneration(entries []protocol.StateEntry, complete func(protocol.Saved) (bool, error)) (int, *protocol.Saved, error) {
	counted := CountedGenerations(entries)
	for i := len(counted) - 1; i >= 0; i-- {
		s := *entries[counted[i]].Saved
		ok, err := complete(s)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			return counted[i], &s, nil
		}
	}
	return -1, nil, nil
}

// Save adds a generation, with blobs that are stored already. ErrFenced when a newer
// attempt has taken over: the caller stops.
func (g *Generations) Save(ctx context.Context, s protocol.Saved) error {
	s.Job, s.Submission, s.Attempt, s.Agent = g.me.Job, g.me.Submission, g.me.Attempt, g.me.Agent
	for {
		if err := g.Log.Read(ctx); err != nil {
			return err
		}
		if h, _ := CurrentHolder(g.Log.Entries); g.me.Before(h) {
			return ErrFenced
		}
		mine, err := g.Log.Append(ctx, protocol.StateEntry{Saved: &s})
		if err != nil || mine {
			return err
		}
	}
}

// ReadState reads the newest generation of a rank's state without taking it over.
func ReadState(ctx context.Context, w protocol.World, p job.Path, rank int, complete func(protocol.Saved) (bool, error)) (*protocol.Saved, error) {
	l := w.StateLog(p, rank, "")
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	_, s, err := NewestGeneration(l.Entries, complete)
	return s, err
}

// PutState adds a generation by hand, between two jobs: change gets what the
// newest complete one names (its zero value when there is none) and says what is
// to be there, with blobs that are stored already. The next job begins with it.
// ErrFenced when one has begun meanwhile.
func PutState(ctx context.Context, w protocol.World, p job.Path, rank int, by string, complete func(protocol.Saved) (bool, error), change func(*protocol.Saved)) error {
	task, err := tasks.ReadTask(ctx, w, p)
	if err != nil {
		return err
	}
	place, _ := task.PlaceOf(task.Newest())
	if len(task.Jobs) == 0 {
		place = -1 // before the first
	}
	l := w.StateLog(p, rank, by)
	if err := l.Read(ctx); err != nil {
		return err
	}
	me := protocol.Restored{Job: task.Newest(), Submission: place, Agent: by}
	if h, ok := CurrentHolder(l.Entries); ok && !h.Before(me) {
		if h.Submission > place {
			return ErrFenced
		}
		me.Attempt = h.Attempt + 1
	}
	number, saved, err := NewestGeneration(l.Entries, complete)
	if err != nil {
		return err
	}
	if me.Generation = number; saved == nil {
		saved = &protocol.Saved{Submission: place}
	}
	was := *saved
	if change(saved); was.Submission < place { // a younger place would offer those of a job that ended well
		*saved = protocol.Saved{State: saved.State, Bytes: saved.Bytes}
	}
	if mine, err := l.Append(ctx, protocol.StateEntry{Restored: &me}); err != nil || !mine {
		return errors.Join(err, ErrFenced)
	}
	g := &Generations{Log: l, me: me}
	return g.Save(ctx, *saved)
}
