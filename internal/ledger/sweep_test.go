package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// blob stores a content.
func (d *desk) blob(text string) store.Digest {
	d.t.Helper()
	digest, _, err := d.Store.PutBlob(d.t.Context(), strings.NewReader(text))
	d.check(err)
	return digest
}

// sweep begins one.
func (d *desk) sweep(self protocol.Host, of ...store.Digest) *removal.Sweeper {
	d.t.Helper()
	s, err := removal.BeginSweep(d.t.Context(), d.World, "gc", self, of, 20*time.Second)
	d.check(err)
	return s
}

// saver begins to watch gc.
func (d *desk) saver() *removal.Sweeps {
	d.t.Helper()
	s, err := removal.ReadSweeps(d.t.Context(), d.World)
	d.check(err)
	return s
}

func these(digests ...store.Digest) func() ([]store.Digest, error) {
	return func() ([]store.Digest, error) { return digests, nil }
}

func TestASaverWithoutGCAsksOnce(t *testing.T) {
	d := newDesk(t)
	d.check(d.sweep(protocol.Host{}, d.blob("old")).End(t.Context())) // one of long ago
	s := d.saver()
	for range 2 {
		err := s.Assure(t.Context(), func() ([]store.Digest, error) { return nil, errors.New("asked what for") }, nil)
		d.check(err)
	}
}

// E7: a blob that was there when a saver looked is deleted, and the saver has named it by then.
func TestASaverStoresAgainWhatAGCTook(t *testing.T) {
	d := newDesk(t)
	kept, taken := d.blob("kept"), d.blob("taken")
	s := d.saver()
	gc := d.sweep(protocol.Host{}, taken)
	d.check(d.Store.Delete(t.Context(), "blobs/"+string(taken)))
	d.check(gc.End(t.Context()))
	var again []store.Digest
	d.check(s.Assure(t.Context(), these(kept, taken), func(_ context.Context, gone []store.Digest) error {
		again = append(again, gone...)
		d.blob("taken")
		return nil
	}))
	if diff := cmp.Diff([]store.Digest{taken}, again); diff != "" {
		t.Errorf("stored again (-want +got):\n%s", diff)
	}
	if keys := d.keys(protocol.SweepDir + "/lists/"); len(keys) > 0 {
		t.Errorf("its list stays: %s", keys)
	}
	// A caller that cannot store it again is told.
	d.check(d.Store.Delete(t.Context(), "blobs/"+string(taken)))
	d.check(d.sweep(protocol.Host{}).End(t.Context()))
	if err := s.Assure(t.Context(), these(taken), func(context.Context, []store.Digest) error { return nil }); !errors.Is(err, removal.ErrSwept) {
		t.Errorf("with nothing stored: %v", err)
	}
}

// A saver with a list of what it has sent learns what gc took in between.
func TestASaverWhoBelievesALaterLookIsTold(t *testing.T) {
	d := newDesk(t)
	mine := d.blob("mine")
	looks := func(s *removal.Sweeps) (looked bool) {
		d.check(s.Assure(t.Context(), func() ([]store.Digest, error) { looked = true; return []store.Digest{mine}, nil },
			func(context.Context, []store.Digest) error { d.blob("mine"); return nil }))
		return looked
	}
	first := d.saver()
	if first.Since(0); looks(first) {
		t.Error("it looked, and no gc has ever been")
	}
	d.check(d.sweep(protocol.Host{}, mine).End(t.Context()))
	d.check(d.Store.Delete(t.Context(), "blobs/"+string(mine)))
	second := d.saver()
	if looks(second) {
		t.Error("it looked for what it never believed")
	}
	second.Since(first.At())
	if !looks(second) {
		t.Error("it did not look")
	}
	if has, err := d.Store.HasBlob(t.Context(), mine); err != nil || !has {
		t.Errorf("it is there: %t (%v)", has, err)
	}
	third := d.saver()
	if third.Since(second.At()); looks(third) {
		t.Error("it looked, and nothing has happened since")
	}
	if third.Since(99); !looks(third) {
		t.Error("it believed what was said of another store")
	}
}

func TestHowLongASaverWaitsForAGC(t *testing.T) {
	const bound = 20*time.Second + removal.SweepMargin
	for _, row := range []struct {
		name   string
		self   protocol.Host
		mine   bool // the gc may take what the saver names
		want   time.Duration
		atMost time.Duration
	}{
		{"it takes other things", protocol.Host{}, false, 0, 0},
		{"it has died on this machine", protocol.Host{Boot: "here", PID: 7}, true, 0, 0},
		{"it is silent, elsewhere", protocol.Host{Boot: "there", PID: 7}, true, bound, bound + 2*removal.SweepPoll},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newDesk(t)
			d.gone[7] = true
			mine, other := d.blob("mine"), d.blob("other")
			s := d.saver()
			doomed := other
			if row.mine {
				doomed = mine
			}
			d.sweep(row.self, doomed)
			began := d.clock.Boot()
			d.check(s.Assure(t.Context(), these(mine), nil))
			if took := d.clock.Boot() - began; took < row.want || took > row.atMost {
				t.Errorf("it took %s, want %s", took, row.want)
			}
		})
	}
}

// A list that is gone while its sweep is open could hold anything.
func TestASweepWithoutItsListIsWaitedFor(t *testing.T) {
	d := newDesk(t)
	s := d.saver()
	gc := d.sweep(protocol.Host{}, d.blob("other"))
	d.check(d.Store.Delete(t.Context(), gc.List))
	began := d.clock.Boot()
	d.check(s.Assure(t.Context(), these(d.blob("mine")), nil))
	if took := d.clock.Boot() - began; took < 20*time.Second {
		t.Errorf("waited for %s", took)
	}
}

// A sweep that a saver found open may go on after the saver has made sure of other blobs.
func TestASweepThatGoesOnIsLookedForAgain(t *testing.T) {
	d := newDesk(t)
	first, second := d.blob("first"), d.blob("second")
	s := d.saver()
	gc := d.sweep(protocol.Host{}, second)
	d.check(s.Assure(t.Context(), these(first), nil))
	d.check(d.Store.Delete(t.Context(), "blobs/"+string(second)))
	d.check(gc.End(t.Context()))
	stored := false
	d.check(s.Assure(t.Context(), these(second), func(context.Context, []store.Digest) error {
		stored = true
		d.blob("second")
		return nil
	}))
	if !stored {
		t.Error("the second save did not look")
	}
}

func TestOneGCSweepsAtATime(t *testing.T) {
	d := newDesk(t)
	first := d.sweep(protocol.Host{Boot: "there"}, d.blob("a"))
	began := d.clock.Boot()
	second := d.sweep(protocol.Host{Boot: "here", PID: 1}, d.blob("b"))
	if took := d.clock.Boot() - began; took < 20*time.Second+removal.SweepMargin {
		t.Errorf("the second began after %s", took)
	}
	if first.Open() || !second.Open() {
		t.Errorf("open: %t and %t", first.Open(), second.Open())
	}
	d.check(first.End(t.Context())) // too late to say anything
	if n, _, open := removal.LastSweep(second.Log.Entries); n != second.N || !open {
		t.Errorf("the second is open: %t", open)
	}
	d.gone[1] = true // it has died: no process waits
	began = d.clock.Boot()
	d.check(d.sweep(protocol.Host{}).End(t.Context()))
	if d.clock.Boot() != began {
		t.Errorf("the third waited for %s", d.clock.Boot()-began)
	}
}

// The sweep that was waited for ends, and a third gc is quicker with the next one.
func TestAGCWaitsForTheOneThatWasQuicker(t *testing.T) {
	d := newDesk(t)
	first := d.sweep(protocol.Host{Boot: "there", PID: 7}, d.blob("a"))
	quick := false
	d.World.Gone = func(h protocol.Host) (bool, bool) {
		if h.PID == 7 && !quick {
			quick = true
			writeTo(d, d.SweepLog("test"), protocol.SweepEntry{Swept: &protocol.Swept{N: first.N}}, protocol.SweepEntry{Sweep: &protocol.Sweep{For: 20 * time.Second, Host: protocol.Host{Boot: "there", PID: 8}}})
		}
		return false, false
	}
	began := d.clock.Boot()
	d.sweep(protocol.Host{}, d.blob("b"))
	if took := d.clock.Boot() - began; !quick || took < 20*time.Second+removal.SweepMargin {
		t.Errorf("it began after %s", took)
	}
}

func TestASweepsListIsSearched(t *testing.T) {
	var all []store.Digest
	for i := range 100 {
		all = append(all, store.Digest(fmt.Sprintf("%064x", i*7919)))
	}
	list, err := removal.PackDigests(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if !removal.Listed(list, d) {
			t.Errorf("%s is not found", d)
		}
	}
	for _, d := range []store.Digest{store.Digest(fmt.Sprintf("%064x", 1)), store.Digest(strings.Repeat("f", 64)), "x"} {
		if removal.Listed(list, d) {
			t.Errorf("%s is found", d)
		}
	}
	if _, err := removal.PackDigests([]store.Digest{"abc"}); err == nil {
		t.Error("a digest of three letters was taken")
	}
}

func TestACensusFindsAllThatIsNamed(t *testing.T) {
	d := newDesk(t)
	ctx := t.Context()
	d.check(removal.RememberTask(ctx, d.World, job.Path{Project: "demo", Task: "byhand"}))
	writeTo(d, d.StateLog(job.Path{Project: "demo", Task: "byhand"}, 3, "test"), protocol.StateEntry{Restored: &protocol.Restored{Submission: -1, Agent: "cli"}},
		protocol.StateEntry{Saved: &protocol.Saved{Submission: -1, Agent: "cli", State: "s1"}}, protocol.StateEntry{Saved: &protocol.Saved{Submission: -1, Agent: "zombie", State: "s2"}},
		protocol.StateEntry{Saved: &protocol.Saved{Submission: -1, Agent: "cli", State: "s3"}})
	j := d.submit(func(j *job.Job) { j.Spec.Nodes = 2 })
	d.write(j, opened(1, protocol.First))
	d.check(removal.NameOutputs(ctx, d.World, j.Path(), 1, 0, "a", map[string]store.Digest{"model": "m0"}))
	d.check(removal.NameOutputs(ctx, d.World, j.Path(), 1, 0, "a", map[string]store.Digest{"model": "m1"}))
	d.exit(j, 1, 1, protocol.Exit{Verdict: protocol.Done, Outputs: map[string]store.Digest{"files": "f", "model": "m2"}})

	c := removal.NewInventory(d.World)
	d.check(c.Look(ctx))
	one := c.Jobs()[0]
	if diff := cmp.Diff([]store.Digest{"m0", "m1", "f", "m2"}, one.Outputs); diff != "" || !one.Live() {
		t.Errorf("live %t, outputs (-want +got):\n%s", one.Live(), diff)
	}
	if diff := cmp.Diff(map[int][]protocol.Saved{3: {{Submission: -1, Agent: "cli", State: "s3"}, {Submission: -1, Agent: "cli", State: "s1"}}}, c.Tasks()[0].Generations); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}

	// A second look finds what was written since: the exit, the end, another job.
	d.exit(j, 1, 0, protocol.Exit{Verdict: protocol.Done, Outputs: map[string]store.Digest{"model": "m3"}})
	d.write(j, ended(1, job.Succeeded))
	second := d.submit(nil)
	third := job.Job{V: job.Format, Spec: second.Spec}
	d.check(tasks.NameJob(ctx, d.World, &third))
	d.check(c.Look(ctx))
	jobs := map[string]*removal.Counted{}
	for _, j := range c.Jobs() {
		jobs[j.Path.Job] = j
	}
	if diff := cmp.Diff([]store.Digest{"m3", "f", "m2"}, jobs[j.ID].Outputs); diff != "" || jobs[j.ID].Settled == nil || jobs[j.ID].Ended.IsZero() {
		t.Errorf("settled %v, outputs (-want +got):\n%s", jobs[j.ID].Settled, diff)
	}
	if s := jobs[second.ID]; !s.Live() || s.Place != 2 {
		t.Errorf("the second job: %+v", s)
	}
	if u := jobs[third.ID]; u.There || u.Submitted || u.Short != third.Short {
		t.Errorf("a job that has but a name: %+v", u)
	}
	d.check(removal.RemoveJob(ctx, d.World, j.Path(), 0, tasks.Place{}, "gc"))
	d.check(c.Look(ctx))
	if !jobs[j.ID].Removed {
		t.Error("a removed job counts")
	}
}

func TestFoldersAreThoseOfJobs(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	d.write(j, opened(1, protocol.First))
	writeTo(d, d.StateLog(j.Path(), 0, "test"), protocol.StateEntry{Restored: &protocol.Restored{}})
	folders, err := removal.ListFolders(t.Context(), d.World, j.Path())
	d.check(err)
	if len(folders) != 1 || folders[0].Job != j.ID || folders[0].Objects != 2 || folders[0].Bytes == 0 || !folders[0].Newest.Equal(d.clock.Now()) {
		t.Errorf("%+v", folders)
	}
}

func TestTheStoresClockLeavesNothing(t *testing.T) {
	d := newDesk(t)
	now, err := removal.StoreTime(t.Context(), d.World)
	if d.check(err); !now.Equal(d.clock.Now()) || len(d.keys("")) > 0 {
		t.Errorf("%s, and it keeps %s", now, d.keys(""))
	}
	gc := d.sweep(protocol.Host{}, d.blob("a"))
	d.pass(25 * time.Hour)
	d.check(removal.RemoveProbes(t.Context(), d.World, d.clock.Now().Add(-26*time.Hour)))
	if keys := d.keys(protocol.SweepDir + "/lists/"); len(keys) != 1 || keys[0] != gc.List {
		t.Errorf("a young list is gone: %s", keys)
	}
	d.check(removal.RemoveProbes(t.Context(), d.World, d.clock.Now().Add(-24*time.Hour)))
	if keys := d.keys(protocol.SweepDir + "/lists/"); len(keys) > 0 {
		t.Errorf("an old list stays: %s", keys)
	}
}

// A map that has settled may be reopened, for what its next round names before that.
func TestACensusLooksAtASettledMapAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(4, 2, nil)
	d.write(j, protocol.JobEntry{Settled: &protocol.Settled{State: job.Failed, Tally: &job.Tally{Items: 4, Failed: 4}}})
	c := removal.NewInventory(d.World)
	d.check(c.Look(ctx))
	d.check(control.NameRound(ctx, d.World, j.Path(), "cli", control.Round{Amend: &protocol.Amended{Code: &protocol.Code{Code: job.Code{Digest: "new", Blob: "b2"}}}}))
	d.check(c.Look(ctx))
	if codes := c.Jobs()[0].Codes; !slices.Contains(codes, "b2") {
		t.Errorf("code that is named: %q", codes)
	}
}
