package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Begun says with what state all ranks of an attempt begin, where they share one (R9):
// under the rules of ssm. It stands in the log of rank 0's state, and the first
// for an attempt counts: who comes to the same attempt later begins with that, too.
// What its ranks save from then on are generations in their own logs as ever (R6);
// docs/design/008 says how all of it becomes one folder.
type Begun struct {
	Job     string `json:"job"`
	Place   int    `json:"place"` // as in Restored
	Attempt int    `json:"attempt"`
	Agent   string `json:"agent"`
	// Own are the folders in the state that belong to one rank each, by rank. None
	// of a state that was stored with drover put: nobody writes it.
	Own []string `json:"own,omitempty"`
	// State is the digest of a list of files; empty: an empty folder.
	State store.Digest `json:"state,omitempty"`
	Bytes int64        `json:"bytes,omitempty"`
}

func (b Begun) order() Restored { return Restored{Place: b.Place, Attempt: b.Attempt} }

func (s Saved) order() Restored { return Restored{Place: s.Place, Attempt: s.Attempt} }

// equal says of two writers' orders that neither is before the other.
func (r Restored) equal(o Restored) bool { return !r.before(o) && !o.before(r) }

// Shared is the state of a task in the parts that it is made of.
type Shared struct {
	// Begun is what the newest attempt that shared its state began with; nil when
	// there is none, or jobs whose ranks had a state each have saved since.
	Begun *Begun
	// Saved are the newest complete generations since, by rank.
	Saved map[int]Saved
}

// Copies calls back with each rank that has saved, in order: the list of its copy
// ("" is an empty folder) and the folder in it that is its own ("" is none). base is
// the list of what all of them began with.
func (s Shared) Copies(each func(rank int, own string, list store.Digest)) (base store.Digest) {
	var own []string
	if s.Begun != nil {
		base, own = s.Begun.State, s.Begun.Own
	}
	for _, rank := range slices.Sorted(maps.Keys(s.Saved)) {
		folder := ""
		if rank < len(own) {
			folder = own[rank]
		}
		each(rank, folder, s.Saved[rank].State)
	}
	return base
}

// since leaves out what was saved before a place.
func (s Shared) since(place int) Shared {
	if s.Begun != nil && s.Begun.Place < place {
		return Shared{}
	}
	s.Saved = maps.Clone(s.Saved)
	maps.DeleteFunc(s.Saved, func(_ int, saved Saved) bool { return saved.Place < place })
	return s
}

// begun lists those that count, oldest first: each is of a later attempt than the
// one before it.
func begun(entries []Entry) (all []Begun) {
	for _, e := range entries {
		if e.Begun != nil && (len(all) == 0 || all[len(all)-1].order().before(e.Begun.order())) {
			all = append(all, *e.Begun)
		}
	}
	return all
}

// stateLogs reads the logs of all ranks of a task; rank 0's is always there. Which
// ranks there are is said in that one, whatever a listing knows (L6); the listing is
// for those that never shared their state.
func (w World) stateLogs(ctx context.Context, p job.Path, by string) (map[int]*Log, error) {
	logs := map[int]*Log{0: w.openLog(stateDir(p, 0), by)}
	if err := logs[0].Read(ctx); err != nil {
		return nil, err
	}
	for _, b := range begun(logs[0].Entries) {
		for rank := range b.Own {
			if logs[rank] == nil {
				logs[rank] = w.openLog(stateDir(p, rank), by)
			}
		}
	}
	prefix := taskDir(p) + "/state/"
	for o, err := range w.Store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("find state: %w", err)
		}
		if rank, err := strconv.Atoi(firstPart(o.Key[len(prefix):])); err == nil && logs[rank] == nil {
			logs[rank] = w.openLog(stateDir(p, rank), by)
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(logs)) {
		if rank == 0 {
			continue // what came in between was not there when the others were looked for
		}
		if err := logs[rank].Read(ctx); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// shared is the fold of the ranks' logs. What misses a blob is never offered: the
// generation before it is, and at last what the attempt before began with and saved.
func shared(logs map[int]*Log, complete func(Saved) (bool, error)) (s Shared, err error) {
	all := begun(logs[0].Entries)
	for i := len(all) - 1; i >= 0 && s.Begun == nil; i-- {
		ok, err := complete(Saved{State: all[i].State})
		if err != nil {
			return Shared{}, err
		}
		if ok {
			s.Begun = &all[i]
		}
	}
	// Those of jobs by drover's own rules count where they are the newest of all.
	ours := func(s Saved) bool {
		return slices.ContainsFunc(all, func(b Begun) bool { return b.order().equal(s.order()) })
	}
	after := func(o Saved) bool {
		return !ours(o) && (s.Begun == nil || s.Begun.order().before(o.order()))
	}
	own, err := newestOf(logs, complete, after)
	if err != nil || len(own) > 0 || s.Begun == nil {
		return Shared{Saved: own}, err
	}
	s.Saved, err = newestOf(logs, complete, func(o Saved) bool { return s.Begun.order().equal(o.order()) })
	return s, err
}

// newestOf finds each rank's newest complete generation among those that are meant.
func newestOf(logs map[int]*Log, complete func(Saved) (bool, error), meant func(Saved) bool) (map[int]Saved, error) {
	found := map[int]Saved{}
	for rank, l := range logs {
		for _, n := range slices.Backward(generations(l.Entries)) {
			s := *l.Entries[n].Saved
			if !meant(s) {
				continue
			}
			ok, err := complete(s)
			if err != nil {
				return nil, err
			}
			if ok {
				found[rank] = s
				break
			}
		}
	}
	return found, nil
}

// Shared reads a task's state, all ranks' together, as it is now. complete is asked
// about lists of states alone. Of a task whose ranks never shared one it is the zero
// Shared, and costs one log.
func (w World) Shared(ctx context.Context, p job.Path, complete func(Saved) (bool, error)) (Shared, error) {
	first := w.openLog(stateDir(p, 0), "")
	if err := first.Read(ctx); err != nil || len(begun(first.Entries)) == 0 {
		return Shared{}, err
	}
	logs, err := w.stateLogs(ctx, p, "")
	if err != nil {
		return Shared{}, err
	}
	return shared(logs, stateAlone(complete))
}

// stateAlone asks about the state of a generation: its checkpoints and files are its
// rank's own, and what they miss takes nothing from the others.
func stateAlone(complete func(Saved) (bool, error)) func(Saved) (bool, error) {
	return func(s Saved) (bool, error) {
		s.Checkpoints, s.Files = "", ""
		return complete(s)
	}
}

// Begin agrees with the other ranks of an attempt on the state that they all begin
// with, and returns it. The first who comes makes it, of what there is from place
// since on: unite stores the list and gives its digest and bytes; it may be called
// several times. b says who asks. ErrFenced when a later attempt has begun.
//
// Each rank has taken its own log over before (Restore), so nothing that an older
// attempt still writes can be told from what was in time: it is not the newest.
func (w World) Begin(ctx context.Context, p job.Path, b Begun, since int, complete func(Saved) (bool, error), unite func(Shared) (store.Digest, int64, error)) (Begun, error) {
	first := w.openLog(stateDir(p, 0), b.Agent)
	for {
		if err := first.Read(ctx); err != nil {
			return b, err
		}
		if all := begun(first.Entries); len(all) > 0 {
			switch last := all[len(all)-1]; {
			case last.order().equal(b.order()):
				return last, nil
			case b.order().before(last.order()):
				return b, ErrFenced
			}
		}
		logs, err := w.stateLogs(ctx, p, b.Agent)
		if err != nil {
			return b, err
		}
		if len(logs[0].Entries) > len(first.Entries) {
			continue // somebody else was here
		}
		logs[0] = first
		s, err := shared(logs, stateAlone(complete))
		if err != nil {
			return b, err
		}
		if b.State, b.Bytes, err = unite(s.since(since)); err != nil {
			return b, err
		}
		if mine, err := first.Append(ctx, Entry{Begun: &b}); err != nil || mine {
			return b, err
		}
	}
}

// PutShared makes a list of files the state that the next job begins with, between
// two jobs. ErrFenced when one has begun since it looked.
func (w World) PutShared(ctx context.Context, p job.Path, by string, list store.Digest, bytes int64) error {
	task, err := w.Task(ctx, p)
	if err != nil {
		return err
	}
	b := Begun{Job: task.Newest(), Place: -1, Attempt: 1, Agent: by, State: list, Bytes: bytes}
	if place, ok := task.PlaceOf(b.Job); ok {
		b.Place = place
	}
	l := w.openLog(stateDir(p, 0), by)
	if err := l.Read(ctx); err != nil {
		return err
	}
	if all := begun(l.Entries); len(all) > 0 {
		last := all[len(all)-1]
		if last.Place > b.Place {
			return ErrFenced
		}
		if last.Place == b.Place {
			b.Attempt = last.Attempt + 1
		}
	}
	mine, err := l.Append(ctx, Entry{Begun: &b})
	if err == nil && !mine {
		return ErrFenced
	}
	return err
}
