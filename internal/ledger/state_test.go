package ledger

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// took is an entry by which an attempt takes a rank's state over; kept is a
// generation it saves.
func took(place, attempt int, agent string) protocol.StateEntry {
	return protocol.StateEntry{Restored: &protocol.Restored{Submission: place, Attempt: attempt, Agent: agent}}
}

func kept(place, attempt int, agent string) protocol.StateEntry {
	return protocol.StateEntry{Saved: &protocol.Saved{Submission: place, Attempt: attempt, Agent: agent}}
}

func TestOnlyTheHoldersGenerationsCount(t *testing.T) {
	for _, row := range []struct {
		name    string
		entries []protocol.StateEntry
		counted []int
	}{
		{"nothing", nil, nil},
		{"one writer", []protocol.StateEntry{took(0, 1, "a"), kept(0, 1, "a"), kept(0, 1, "a")}, []int{1, 2}},
		{"saved by nobody", []protocol.StateEntry{kept(0, 1, "a")}, nil},
		{"the older writer is fenced", []protocol.StateEntry{took(0, 1, "a"), kept(0, 1, "a"), took(0, 2, "b"), kept(0, 1, "a"), kept(0, 2, "b")}, []int{1, 4}},
		{"an older one cannot take it back", []protocol.StateEntry{took(0, 2, "b"), took(0, 1, "a"), kept(0, 1, "a"), kept(0, 2, "b")}, []int{3}},
		{"a later job is newer, whatever its attempt", []protocol.StateEntry{took(0, 9, "a"), took(3, 1, "b"), kept(0, 9, "a"), kept(3, 1, "b")}, []int{3}},
		{"another agent of the same attempt is not it", []protocol.StateEntry{took(0, 1, "a"), kept(0, 1, "b")}, nil},
		{"the same attempt twice: the first has it", []protocol.StateEntry{took(0, 1, "a"), took(0, 1, "b"), kept(0, 1, "b"), kept(0, 1, "a")}, []int{3}},
	} {
		if diff := cmp.Diff(row.counted, states.CountedGenerations(row.entries)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestTheNewestCompleteGenerationIsOffered(t *testing.T) {
	entries := []protocol.StateEntry{took(0, 1, "a"), kept(0, 1, "a"), kept(0, 1, "a"), kept(0, 1, "a")}
	for i, d := range []store.Digest{"old", "mid", "new"} {
		entries[i+1].Saved.Checkpoints = d
	}
	broken := errors.New("cannot look")
	for _, row := range []struct {
		name     string
		complete map[store.Digest]bool
		number   int
		want     store.Digest
	}{
		{"all are", map[store.Digest]bool{"old": true, "mid": true, "new": true}, 3, "new"},
		{"the newest misses a blob", map[store.Digest]bool{"old": true, "mid": true}, 2, "mid"},
		{"only the oldest is", map[store.Digest]bool{"old": true}, 1, "old"},
		{"none is", nil, -1, ""},
	} {
		number, s, err := states.NewestGeneration(entries, func(s protocol.Saved) (bool, error) { return row.complete[s.Checkpoints], nil })
		if err != nil || number != row.number || (s == nil) != (row.want == "") || s != nil && s.Checkpoints != row.want {
			t.Errorf("%s: number %d, %v, %v", row.name, number, s, err)
		}
	}
	if _, _, err := states.NewestGeneration(entries, func(protocol.Saved) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("a look that failed: %v", err)
	}
}

// A generation that gc takes between the look at it and the entry that names it is not offered: the agent chooses again.
func TestWhatIsTornOnceItIsNamedIsNotOffered(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits", Job: "j"}
	me := protocol.Restored{Job: "j", Submission: 4, Attempt: 1, Agent: "a"}
	one, _, err := states.RestoreState(t.Context(), d.World, p, 0, me, 0, all)
	d.check(err)
	d.check(one.Save(t.Context(), protocol.Saved{State: "old"}))
	d.check(one.Save(t.Context(), protocol.Saved{State: "new"}))
	var asked []store.Digest
	me.Attempt, me.Agent = 2, "b"
	two, saved, err := states.RestoreState(t.Context(), d.World, p, 0, me, 0, func(s protocol.Saved) (bool, error) {
		asked = append(asked, s.State)
		return s.State == "old" || len(asked) < 2, nil
	})
	if d.check(err); saved == nil || saved.State != "old" || !slices.Equal(asked, []store.Digest{"new", "new", "new", "old", "old"}) {
		t.Errorf("it begins with %+v, and looked at %s", saved, asked)
	}
	if from := states.BeginsWith(two.Log.Entries); from == nil || from.State != "old" {
		t.Errorf("the log says that it begins with %+v", from)
	}
	d.check(two.Save(t.Context(), protocol.Saved{State: "newest"}))
	if from := states.BeginsWith(two.Log.Entries); from != nil {
		t.Errorf("it has saved one of its own, and a gc keeps %+v for it", from)
	}
	s, err := states.ReadState(t.Context(), d.World, p, 0, all)
	if d.check(err); s.State != "newest" {
		t.Errorf("the newest is %+v", s)
	}
}

func all(protocol.Saved) (bool, error) { return true, nil }

func TestStateGoesFromAttemptToAttempt(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits", Job: "j"}
	me := func(place, attempt int, agent string) protocol.Restored {
		return protocol.Restored{Job: "j", Submission: place, Attempt: attempt, Agent: agent}
	}
	one, saved, err := states.RestoreState(t.Context(), d.World, p, 0, me(4, 1, "a"), 0, all)
	if d.check(err); saved != nil {
		t.Fatalf("the first attempt begins with %+v", saved)
	}
	d.check(one.Save(t.Context(), protocol.Saved{Checkpoints: "c1", State: "s1", Bytes: 7}))
	// Asked again by the same agent of the same attempt: it is ours already.
	if _, saved, err = states.RestoreState(t.Context(), d.World, p, 0, me(4, 1, "a"), 0, all); err != nil || saved != nil {
		t.Errorf("asked again: %v, %v", saved, err)
	}
	two, saved, err := states.RestoreState(t.Context(), d.World, p, 0, me(4, 2, "b"), 0, all)
	d.check(err)
	want := &protocol.Saved{Job: "j", Submission: 4, Attempt: 1, Agent: "a", Checkpoints: "c1", State: "s1", Bytes: 7}
	if diff := cmp.Diff(want, saved); diff != "" {
		t.Errorf("the second attempt begins with (-want +got):\n%s", diff)
	}
	if err := one.Save(t.Context(), protocol.Saved{Checkpoints: "late"}); !errors.Is(err, states.ErrFenced) {
		t.Errorf("a writer that was taken over saves: %v", err)
	}
	if _, _, err := states.RestoreState(t.Context(), d.World, p, 0, me(4, 1, "a"), 0, all); !errors.Is(err, states.ErrFenced) {
		t.Errorf("an older attempt takes it back: %v", err)
	}
	if _, _, err := states.RestoreState(t.Context(), d.World, p, 0, me(4, 2, "other"), 0, all); !errors.Is(err, states.ErrFenced) {
		t.Errorf("another agent of that attempt takes it: %v", err)
	}
	d.check(two.Save(t.Context(), protocol.Saved{Checkpoints: "c2", State: "s2"}))
	// Work that ended well keeps its checkpoints to itself; state is for all jobs.
	_, saved, err = states.RestoreState(t.Context(), d.World, p, 0, me(6, 1, "c"), 5, all)
	if d.check(err); saved == nil || saved.Checkpoints != "" || saved.State != "s2" {
		t.Errorf("the job after one that succeeded begins with %+v", saved)
	}
	if saved, err = states.ReadState(t.Context(), d.World, p, 0, all); err != nil || saved.Checkpoints != "c2" {
		t.Errorf("looked at: %v, %v", saved, err)
	}
	// What the last holder left may be saved for it, and what any other left may not.
	for what, left := range map[string]protocol.Restored{"an attempt before": me(4, 2, "b"), "another agent": me(6, 1, "x"), "one that never restored": me(6, 2, "d")} {
		if _, _, err := states.ReopenState(t.Context(), d.World, p, 0, left); !errors.Is(err, states.ErrFenced) {
			t.Errorf("reopened for %s: %v", what, err)
		}
	}
	again, newest, err := states.ReopenState(t.Context(), d.World, p, 0, me(6, 1, "c"))
	if d.check(err); newest == nil || newest.Checkpoints != "c2" {
		t.Fatalf("its newest generation is %+v", newest)
	}
	d.check(again.Save(t.Context(), protocol.Saved{Checkpoints: "c3", Files: "f3"}))
	_, saved, err = states.RestoreState(t.Context(), d.World, p, 0, me(6, 2, "d"), 5, all)
	if d.check(err); saved == nil || saved.Checkpoints != "c3" || saved.Files != "f3" || saved.Agent != "c" {
		t.Errorf("the next attempt begins with %+v", saved)
	}
	if err := again.Save(t.Context(), protocol.Saved{Checkpoints: "late"}); !errors.Is(err, states.ErrFenced) {
		t.Errorf("saved for a dead agent whose state was taken over: %v", err)
	}
	if saved, err = states.ReadState(t.Context(), d.World, p, 1, all); err != nil || saved != nil {
		t.Errorf("another rank has %v, %v", saved, err)
	}
}

// A save that loses its number to a newer attempt does not count, and its writer is told so
// (R6).
func TestASaveThatLosesItsNumberIsFenced(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits", Job: "j"}
	taken := false
	w := d.meddled(meddler{slow: func(key string) {
		if key != protocol.StateDir(p, 0)+"/00000001" || taken {
			return
		}
		taken = true // after the save has read the end of the log
		_, _, err := states.RestoreState(t.Context(), d.World, p, 0, protocol.Restored{Job: "j", Attempt: 2, Agent: "b"}, 0, all)
		d.check(err)
	}})
	one, _, err := states.RestoreState(t.Context(), w, p, 0, protocol.Restored{Job: "j", Attempt: 1, Agent: "a"}, 0, all)
	d.check(err)
	if err := one.Save(t.Context(), protocol.Saved{Checkpoints: "late"}); !taken || !errors.Is(err, states.ErrFenced) {
		t.Errorf("taken over %t; the save says %v", taken, err)
	}
	if saved, err := states.ReadState(t.Context(), d.World, p, 0, all); err != nil || saved != nil {
		t.Errorf("it counts: %v, %v", saved, err)
	}
}
