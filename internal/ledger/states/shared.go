package states

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Shared is the state of a task in the parts that it is made of.
type Shared struct {
	// Begun is what the newest attempt that shared its state began with; nil when
	// there is none, or jobs with a state for each rank have saved since.
	Begun *protocol.Begun
	// Saved are the newest complete generations since, by rank.
	Saved map[int]protocol.Saved
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

// savedSince leaves out what was saved before a place.
func (s Shared) savedSince(place int) Shared {
	if s.Begun != nil && s.Begun.Submission < place {
		return Shared{}
	}
	s.Saved = maps.Clone(s.Saved)
	maps.DeleteFunc(s.Saved, func(_ int, saved protocol.Saved) bool { return saved.Submission < place })
	return s
}

// FoldBegun lists those that count, oldest first: each is of a later attempt than the
// one before it.
func FoldBegun(entries []protocol.StateEntry) (all []protocol.Begun) {
	for _, e := range entries {
		if e.Begun != nil && (len(all) == 0 || all[len(all)-1].Order().Before(e.Begun.Order())) {
			all = append(all, *e.Begun)
		}
	}
	return all
}

// readStateLogs reads the logs of all ranks of a task; rank 0's is always there. Which
// ranks there are is said in that one, whatever a listing knows (L6); the listing is
// for those that never shared their state.
func readStateLogs(ctx context.Context, w protocol.World, p job.Path, by string) (map[int]*protocol.Log[protocol.StateEntry], error) {
	logs := map[int]*protocol.Log[protocol.StateEntry]{0: w.StateLog(p, 0, by)}
	if err := logs[0].Read(ctx); err != nil {
		return nil, err
	}
	for _, b := range FoldBegun(logs[0].Entries) {
		for rank := range b.Own {
			if logs[rank] == nil {
				logs[rank] = w.StateLog(p, rank, by)
			}
		}
	}
	prefix := protocol.TaskDir(p) + "/state/"
	for o, err := range w.Store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("find state: %w", err)
		}
		if rank, err := strconv.Atoi(protocol.FirstPart(o.Key[len(prefix):])); err == nil && logs[rank] == nil {
			logs[rank] = w.StateLog(p, rank, by)
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

// foldShared is the fold of the ranks' logs. What misses a blob is never offered: the
// generation before it is, and at last what the attempt before began with and saved.
func foldShared(logs map[int]*protocol.Log[protocol.StateEntry], complete func(protocol.Saved) (bool, error)) (s Shared, err error) {
	all := FoldBegun(logs[0].Entries)
	for i := len(all) - 1; i >= 0 && s.Begun == nil; i-- {
		ok, err := complete(protocol.Saved{State: all[i].State})
		if err != nil {
			return Shared{}, err
		}
		if ok {
			s.Begun = &all[i]
		}
	}
	// Those of jobs by drover's own rules count where they are the newest of all.
	ours := func(s protocol.Saved) bool {
		return slices.ContainsFunc(all, func(b protocol.Begun) bool { return b.Order().Equal(s.Order()) })
	}
	after := func(o protocol.Saved) bool {
		return !ours(o) && (s.Begun == nil || s.Begun.Order().Before(o.Order()))
	}
	own, err := newestOf(logs, complete, after)
	if err != nil || len(own) > 0 || s.Begun == nil {
		return Shared{Saved: own}, err
	}
	s.Saved, err = newestOf(logs, complete, func(o protocol.Saved) bool { return s.Begun.Order().Equal(o.Order()) })
	return s, err
}

// newestOf finds each rank's newest complete generation among those that are meant.
func newestOf(logs map[int]*protocol.Log[protocol.StateEntry], complete func(protocol.Saved) (bool, error), meant func(protocol.Saved) bool) (map[int]protocol.Saved, error) {
	found := map[int]protocol.Saved{}
	for rank, l := range logs {
		for _, n := range slices.Backward(CountedGenerations(l.Entries)) {
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

// ReadShared reads a task's state, all ranks' together, as it is now. complete is asked
// about lists of states alone. Of a task with ranks that never shared one it is the zero
// Shared, and costs one log.
func ReadShared(ctx context.Context, w protocol.World, p job.Path, complete func(protocol.Saved) (bool, error)) (Shared, error) {
	first := w.StateLog(p, 0, "")
	if err := first.Read(ctx); err != nil || len(FoldBegun(first.Entries)) == 0 {
		return Shared{}, err
	}
	logs, err := readStateLogs(ctx, w, p, "")
	if err != nil {
		return Shared{}, err
	}
	return foldShared(logs, stateAlone(complete))
}

// stateAlone asks about the state of a generation: its checkpoints and files are its
// rank's own, and what they miss takes nothing from the others.
func stateAlone(complete func(protocol.Saved) (bool, error)) func(protocol.Saved) (bool, error) {
	return func(s protocol.Saved) (bool, error) {
		s.Checkpoints, s.Files = "", ""
		return complete(s)
	}
}

// BeginShared agrees with the other ranks of an attempt on the state that they all begin
// with, and returns it. The first rank that comes makes it, of what there is from place
// since on: unite stores the list and gives its digest and bytes; it may be called
// several times. b names the caller. ErrFenced when a later attempt has begun.
//
// Each rank has taken its own log over before (Restore), so nothing that an older
// attempt still writes can be told from what was in time: it is not the newest.
func BeginShared(ctx context.Context, w protocol.World, p job.Path, b protocol.Begun, since int, complete func(protocol.Saved) (bool, error), unite func(Shared) (store.Digest, int64, error)) (protocol.Begun, error) {
	first := w.StateLog(p, 0, b.Agent)
	for {
		if err := first.Read(ctx); err != nil {
			return b, err
		}
		if all := FoldBegun(first.Entries); len(all) > 0 {
			switch last := all[len(all)-1]; {
			case last.Order().Equal(b.Order()):
				return last, nil
			case b.Order().Before(last.Order()):
				return b, ErrFenced
			}
		}
		logs, err := readStateLogs(ctx, w, p, b.Agent)
		if err != nil {
			return b, err
		}
		if len(logs[0].Entries) > len(first.Entries) {
			continue // another was here
		}
		logs[0] = first
		s, err := foldShared(logs, stateAlone(complete))
		if err != nil {
			return b, err
		}
		if b.State, b.Bytes, err = unite(s.savedSince(since)); err != nil {
			return b, err
		}
		if mine, err := first.Append(ctx, protocol.StateEntry{Begun: &b}); err != nil || mine {
			return b, err
		}
	}
}

// PutShared makes a list of files the state that the next job begins with, between
// two jobs. ErrFenced when one has begun since it looked.
func PutShared(ctx context.Context, w protocol.World, p job.Path, by string, list store.Digest, bytes int64) error {
	task, err := tasks.ReadTask(ctx, w, p)
	if err != nil {
		return err
	}
	b := protocol.Begun{Job: task.Newest(), Submission: -1, Attempt: 1, Agent: by, State: list, Bytes: bytes}
	if place, ok := task.PlaceOf(b.Job); ok {
		b.Submission = place
	}
	l := w.StateLog(p, 0, by)
	if err := l.Read(ctx); err != nil {
		return err
	}
	if all := FoldBegun(l.Entries); len(all) > 0 {
		last := all[len(all)-1]
		if last.Submission > b.Submission {
			return ErrFenced
		}
		if last.Submission == b.Submission {
			b.Attempt = last.Attempt + 1
		}
	}
	mine, err := l.Append(ctx, protocol.StateEntry{Begun: &b})
	if err == nil && !mine {
		return ErrFenced
	}
	return err
}
