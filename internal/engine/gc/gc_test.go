package gc

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/programs"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// ward is a store in virtual time with jobs in it that no agent works on: what gc
// decides by is all in the logs.
type ward struct {
	*Remover
	t      *testing.T
	clock  *storetest.Clock
	bucket *storemem.Bucket
}

func newWard(t *testing.T) *ward {
	w := &ward{t: t, clock: &storetest.Clock{}}
	w.bucket = storemem.At(w.clock)
	world := protocol.World{Store: store.New(w.bucket, store.Options{Clock: w.clock}), Rand: roomRand{newRoom(1)},
		Gone: func(protocol.Host) (bool, bool) { return false, false }}
	w.Remover = &Remover{World: world, By: "gc", Cache: t.TempDir()}
	return w
}

func (w *ward) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) pass(d time.Duration) { w.check(w.clock.Sleep(w.t.Context(), d)) }

// job submits one and sees it to its end; state Pending leaves it alone. Its code is
// its own, and so is its model.
func (w *ward) job(task string, state job.State, change ...func(*job.Job)) job.Job {
	w.t.Helper()
	ctx := w.t.Context()
	spec, err := job.Spec{Project: "demo", Task: task, Program: "train.py"}.Normal()
	w.check(err)
	j := job.Job{V: job.Format, Spec: spec, At: w.clock.Now()}
	w.check(tasks.NameJob(ctx, w.World, &j))
	code, _, err := w.World.Store.PutBlob(ctx, strings.NewReader("code of "+j.ID))
	w.check(err)
	j.Code.Blob = string(code)
	for _, c := range change {
		c(&j)
	}
	_, mine, err := tasks.SubmitJob(ctx, w.World, j, "cli")
	if w.check(err); !mine {
		w.t.Fatalf("task %s has a live job", task)
	}
	if state != job.Pending {
		w.end(j, state)
	}
	return j
}

// end plays the agent of a job.
func (w *ward) end(j job.Job, state job.State) {
	w.t.Helper()
	ctx := w.t.Context()
	m := runagent.NewMember(w.World, j, "1-0-"+j.ID, protocol.Join{})
	m.Ready()
	_, err := m.Poll(ctx)
	w.check(err)
	m.Started()
	exit := protocol.Exit{Verdict: protocol.Done}
	if state == job.Failed {
		exit = protocol.Exit{Verdict: protocol.Broke, Code: 1}
	}
	list, _, err := folder{[]byte("model of " + j.ID)}.put(ctx, w.World.Store)
	w.check(err)
	exit.Outputs = map[string]store.Digest{"model": list}
	w.check(m.Ended(ctx, exit))
	_, err = m.Poll(ctx)
	w.check(err)
	w.check(m.Leave(ctx))
}

func (w *ward) leftovers(o Options) Garbage {
	w.t.Helper()
	g, err := w.Leftovers(w.t.Context(), o)
	w.check(err)
	return g
}

func (w *ward) collect(o Options) Freed {
	w.t.Helper()
	f, err := w.Collect(w.t.Context(), w.leftovers(o), nil)
	w.check(err)
	return f
}

// get is what a person's get reads; empty when all of it is there.
func (w *ward) get(j job.Job) string {
	rep, err := views.ReadReport(w.t.Context(), w.World, j.Path())
	if err != nil {
		return err.Error()
	}
	if err := readBlob(w.t.Context(), w.World.Store, store.Digest(rep.Job.Code.Blob)); err != nil {
		return err.Error()
	}
	for _, e := range rep.Run.Exits {
		if err := read(w.t.Context(), w.World.Store, e.Outputs["model"]); err != nil {
			return err.Error()
		}
	}
	return ""
}

// objects counts what the store holds.
func (w *ward) objects(prefix string) (n int) {
	for _, err := range w.World.Store.List(w.t.Context(), prefix) {
		w.check(err)
		n++
	}
	return n
}

// says is what a gc would do, as lines.
func says(items []Leftover) (lines []string) {
	for _, l := range items {
		lines = append(lines, l.Kind+" "+l.Name+": "+l.Why)
	}
	return lines
}

// Fifty jobs of three tasks with a live one: what stays can be got afterwards.
func TestAfterGCEachKeptJobIsThere(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	jobs, failed := map[string][]job.Job{}, map[string]bool{}
	for i := range 49 {
		task := fmt.Sprint("t", i%3)
		state := job.Succeeded
		if i%5 == 4 {
			state = job.Failed
		}
		j := w.job(task, state)
		jobs[task], failed[j.ID] = append(jobs[task], j), state == job.Failed
	}
	live := w.job("t1", job.Pending)
	w.pass(2 * time.Hour)

	if g := w.leftovers(Options{}); len(g.Items) > 0 {
		t.Errorf("without a word something goes: %q", says(g.Items))
	}
	before := w.objects("")
	g := w.leftovers(Options{Keep: 2})
	if n := w.objects(""); n != before {
		t.Errorf("a dry run has changed the store: %d objects, then %d", before, n)
	}
	freed, err := w.Collect(t.Context(), g, nil)
	w.check(err)
	if freed.Bytes != g.Bytes || freed.Bytes == 0 || len(freed.Kept) > 0 {
		t.Errorf("%d bytes were said, %d freed; kept %q", g.Bytes, freed.Bytes, says(freed.Kept))
	}
	gone := 0
	for task, all := range jobs {
		newest := len(all) - 1 // success
		for failed[all[newest].ID] {
			newest--
		}
		for i, j := range all {
			why, stays := w.get(j), i >= len(all)-2 || i == newest
			if stays != (why == "") {
				t.Errorf("%s, job %d of %d: %q", task, i+1, len(all), why)
			}
			if !stays {
				gone++
				if !strings.Contains(why, "job was removed") {
					t.Errorf("of a removed job is said: %s", why)
				}
			}
		}
	}
	if gone < 40 {
		t.Errorf("only %d jobs went", gone)
	}
	w.end(live, job.Succeeded)
	if why := w.get(live); why != "" {
		t.Errorf("the live job: %s", why)
	}
	if g := w.leftovers(Options{MinAge: time.Nanosecond}); len(g.Items) > 0 {
		t.Errorf("something is left: %q", says(g.Items))
	}
}

func TestWhichJobsGo(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	day := 24 * time.Hour
	old := w.job("a", job.Succeeded)
	w.pass(10 * day)
	middle := w.job("a", job.Succeeded)
	w.pass(10 * day)
	failed := w.job("a", job.Failed)
	only := w.job("b", job.Failed)
	live := w.job("c", job.Pending)
	w.pass(10 * day)
	made := w.job("d", job.Succeeded, func(j *job.Job) {
		j.Lineage = map[string]job.Origin{"m": {Job: old.Path().String(), What: "model"}}
	})
	unmade := w.job("d", job.Succeeded)
	name := map[string]string{}
	for n, j := range map[string]job.Job{"old": old, "middle": middle, "failed": failed, "only": only, "live": live, "made": made, "unmade": unmade} {
		name[j.Path().String()] = n
	}
	for _, row := range []struct {
		name string
		o    Options
		goes []string // in any order
		kept []string
	}{
		{"nothing is said", Options{}, nil, nil},
		{"what another was made from stays", Options{Keep: 2, Project: "demo"}, nil, []string{"old: made"}},
		{"what it was made from goes with it; the newest success stays", Options{Keep: 1}, []string{"made", "old"}, nil},
		{"failures go when they are old", Options{Older: 5 * day}, []string{"failed", "only"}, []string{"old: made"}},
		{"both must let it go", Options{Keep: 1, Older: 15 * day}, nil, []string{"old: made"}},
		{"another project's", Options{Keep: 1, Project: "other"}, nil, nil},
		{"by name", Options{Jobs: []job.Path{middle.Path(), live.Path(), old.Path()}}, []string{"middle"}, []string{"live: it has not ended", "old: made"}},
		{"by name, and what was made from it", Options{Jobs: []job.Path{old.Path(), made.Path()}}, []string{"made", "old"}, nil},
		{"by name, the newest success, and the one before it stays", Options{Keep: 1, Jobs: []job.Path{unmade.Path()}}, []string{"unmade"}, []string{"old: made"}},
		{"by name, the newest success", Options{Jobs: []job.Path{unmade.Path()}}, []string{"unmade"}, nil},
	} {
		g := w.leftovers(row.o)
		var goes, kept []string
		for _, l := range g.Items {
			if l.Kind == LeftJob {
				goes = append(goes, name[l.Name])
			}
		}
		for _, l := range g.Kept {
			why := l.Why
			if by, ok := strings.CutSuffix(strings.TrimPrefix(why, "job "), " was made from it"); ok {
				why = name[by]
			}
			kept = append(kept, name[l.Name]+": "+why)
		}
		slices.Sort(goes)
		slices.Sort(kept)
		if diff := cmp.Diff(row.goes, goes); diff != "" {
			t.Errorf("%s: what goes (-want +got):\n%s", row.name, diff)
		}
		if diff := cmp.Diff(row.kept, kept); diff != "" {
			t.Errorf("%s: what is kept (-want +got):\n%s", row.name, diff)
		}
	}
	// A gc that dies between the two leaves no job without its origin.
	g := w.leftovers(Options{Keep: 1})
	var order []string
	for _, l := range g.Items {
		if l.Kind == LeftJob {
			order = append(order, name[l.Name])
		}
	}
	if strings.Index(strings.Join(order, " "), "made") > strings.Index(strings.Join(order, " "), "old") {
		t.Errorf("in this order: %s", order)
	}
}

// Between the look and the deed a job is made from one that was to go. That it would
// go as well, by now, is no reason: no user was told so.
func TestWhatAJobWasMadeFromSinceStays(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	origin := w.job("a", job.Succeeded)
	w.job("a", job.Succeeded)
	w.pass(2 * time.Hour)
	g := w.leftovers(Options{Keep: 1})
	made := w.job("d", job.Succeeded, func(j *job.Job) {
		j.Lineage = map[string]job.Origin{"m": {Job: origin.Path().String(), What: "model"}}
	})
	w.job("d", job.Succeeded)
	freed, err := w.Collect(t.Context(), g, nil)
	w.check(err)
	if len(freed.Items) > 0 || len(freed.Kept) != 1 || freed.Kept[0].Why != "it has been used since" {
		t.Errorf("removed %q, kept %q", says(freed.Items), says(freed.Kept))
	}
	if why := w.get(origin) + w.get(made); why != "" {
		t.Error(why)
	}
	// Asked anew, both are named, and go.
	if freed = w.collect(Options{Keep: 1}); len(freed.Items) != 3 || w.get(origin) == "" || w.get(made) == "" {
		t.Errorf("removed %q", says(freed.Items))
	}
}

// One gc is about to remove a job, for there is a newer success, and what that job
// was made from, for it goes with it. Another removes the newer success, by name: the
// job stays after all, and so must all that it was made from, however far back.
func TestWhatAJobWasMadeFromStaysWhenItsRemovalIsRefused(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	from := func(origin job.Job) func(*job.Job) {
		return func(j *job.Job) {
			j.Lineage = map[string]job.Origin{"m": {Job: origin.Path().String(), What: "model"}}
		}
	}
	first := w.job("a", job.Succeeded)
	w.job("a", job.Succeeded)
	second := w.job("b", job.Succeeded, from(first))
	w.job("b", job.Succeeded)
	made := w.job("c", job.Succeeded, from(second))
	newest := w.job("c", job.Succeeded)
	w.pass(2 * time.Hour)

	g := w.leftovers(Options{Keep: 1})
	var other Freed
	world := w.World
	world.Store = store.New(before{w.bucket, func(key string) {
		if other.V == 0 && strings.HasPrefix(key, "demo/c/log/") {
			other = w.collect(Options{Jobs: []job.Path{newest.Path()}})
		}
	}}, store.Options{Clock: w.clock})
	freed, err := (&Remover{World: world, By: w.By, Cache: w.Cache}).Collect(t.Context(), g, nil)
	w.check(err)
	if len(other.Items) == 0 || other.Items[0].Name != newest.Path().String() {
		t.Fatalf("the other gc has removed %q, want %s", says(other.Items), newest.ID)
	}
	if len(freed.Items) > 0 || len(freed.Kept) != 3 {
		t.Errorf("removed %q, kept %q; want all three kept", says(freed.Items), says(freed.Kept))
	}
	for _, j := range []job.Job{first, second, made} {
		if why := w.get(j); why != "" {
			t.Errorf("job of task %s: %s", j.Spec.Task, why)
		}
	}
}

func TestSubmitsThatNeverFinishedGo(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	submit := func() job.Job {
		j := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "digits", Nodes: 1}}
		w.check(tasks.NameJob(t.Context(), w.World, &j))
		code, _, err := w.World.Store.PutBlob(t.Context(), strings.NewReader("code of "+j.ID))
		w.check(err)
		j.Code.Blob = string(code)
		w.check(tasks.ProposeJob(t.Context(), w.World, j))
		return j
	}
	submit()
	nameless := submit()
	w.check(w.World.Store.Delete(t.Context(), "ids/"+nameless.Short)) // as a withdrawal that was cut short
	named := job.Job{Spec: job.Spec{Project: "demo", Task: "other"}}
	w.check(tasks.NameJob(t.Context(), w.World, &named))
	w.pass(DefaultMinAge + time.Second)
	young := submit()
	slow := submit()
	g := w.leftovers(Options{})
	if len(g.Items) != 4 || g.Items[3].Count != 2 {
		t.Errorf("%q", says(g.Items))
	}
	if _, err := w.Collect(t.Context(), g, nil); err != nil {
		t.Fatal(err)
	}
	if _, mine, err := tasks.SubmitJob(t.Context(), w.World, young, "cli"); err != nil || !mine {
		t.Errorf("the young one: mine %t, %v", mine, err)
	}
	// One that finishes between the look and the deed stays.
	w.end(young, job.Succeeded)
	w.pass(DefaultMinAge + time.Second)
	g = w.leftovers(Options{})
	if _, mine, err := tasks.SubmitJob(t.Context(), w.World, slow, "cli"); err != nil || !mine {
		t.Fatalf("the slow one: mine %t, %v", mine, err)
	}
	freed, err := w.Collect(t.Context(), g, nil)
	w.check(err)
	if len(freed.Items) > 0 || len(freed.Kept) != 1 || freed.Kept[0].Why != "it was submitted since" || w.get(slow) != "" {
		t.Errorf("removed %q, kept %q; the job: %s", says(freed.Items), says(freed.Kept), w.get(slow))
	}
}

// How old a submit is says the store's clock. One that is young by it stays, though this
// machine's clock, which is fast, had it listed.
func TestASubmitThatIsYoungByTheStoresClockStays(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	fast := &storetest.Clock{}
	w.check(fast.Sleep(t.Context(), 2*DefaultMinAge))
	w.World.Store = store.New(w.bucket, store.Options{Clock: fast})
	w.Remover = &Remover{World: w.World, By: w.By, Cache: w.Cache}
	j := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "digits", Nodes: 1}}
	w.check(tasks.NameJob(t.Context(), w.World, &j))
	w.check(tasks.ProposeJob(t.Context(), w.World, j))
	g := w.leftovers(Options{})
	if len(g.Items) != 1 || g.Items[0].Kind != LeftSubmit {
		t.Fatalf("listed are %q", says(g.Items))
	}
	freed, err := w.Collect(t.Context(), g, nil)
	w.check(err)
	if len(freed.Items) > 0 || len(freed.Kept) != 1 {
		t.Errorf("removed %q, kept %q", says(freed.Items), says(freed.Kept))
	}
	if _, mine, err := tasks.SubmitJob(t.Context(), w.World, j, "cli"); err != nil || !mine {
		t.Errorf("it is submitted: %t, %v", mine, err)
	}
}

// The newest whole generation of a rank stays, whatever becomes of its job.
func TestStateOutlivesItsJob(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	ctx := t.Context()
	first := w.job("digits", job.Succeeded)
	var lists, files []store.Digest
	for i := range 3 {
		list, _, err := folder{fmt.Appendf(nil, "state %d", i)}.put(ctx, w.World.Store)
		w.check(err)
		lists = append(lists, list)
		list, _, err = folder{fmt.Appendf(nil, "files %d", i)}.put(ctx, w.World.Store)
		w.check(err)
		files = append(files, list)
	}
	gens, _, err := states.RestoreState(ctx, w.World, first.Path(), 0, protocol.Restored{Job: first.ID, Attempt: 1, Agent: "a"}, 0, nil)
	w.check(err)
	points, _, err := folder{[]byte("a checkpoint")}.put(ctx, w.World.Store)
	w.check(err)
	for i, list := range lists {
		w.check(gens.Save(ctx, protocol.Saved{State: list, Files: files[i], Checkpoints: points}))
	}
	w.check(w.World.Store.Delete(ctx, "blobs/"+string(files[2]))) // torn: the one before counts
	w.pass(2 * time.Hour)
	w.collect(Options{Jobs: []job.Path{first.Path()}})
	for _, list := range []store.Digest{lists[1], files[1]} {
		if err := read(ctx, w.World.Store, list); err != nil {
			t.Errorf("the newest whole generation: %v", err)
		}
	}
	for _, list := range []store.Digest{lists[0], files[0]} {
		if err := read(ctx, w.World.Store, list); err == nil {
			t.Error("an older generation is still there")
		}
	}
	if err := read(ctx, w.World.Store, points); err != nil {
		t.Errorf("its checkpoints: %v", err)
	}
	// Lists and contents of the one that counts, with its checkpoints, and the state of the torn one.
	if n := w.objects("blobs/"); n != 8 {
		t.Errorf("%d blobs are left", n)
	}
}

func TestHalfBuiltAndIdleEnvironmentsGo(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	half := filepath.Join(w.Cache, "envs", "0123456789ab")
	w.check(os.MkdirAll(half, 0o755))
	w.check(os.WriteFile(filepath.Join(half, "pip"), []byte("half"), 0o644))
	g := w.leftovers(Options{})
	if diff := cmp.Diff([]string{"environment 0123456789ab: it is half built, and no command is building it"}, says(g.Items)); diff != "" || g.Bytes != 4 {
		t.Fatalf("%d bytes, (-want +got):\n%s", g.Bytes, diff)
	}
	if _, err := w.Collect(t.Context(), g, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("it is still there")
	}
}

// A program for machines of a target goes once no placement was started with it for 90 days; one
// that was stored anew between look and removal stays.
func TestProgramsThatNobodyUsesGo(t *testing.T) {
	w := newWard(t)
	put := func(name string) {
		w.check(w.World.Store.PutFile(t.Context(), programs.Prefix+name, strings.NewReader("a program")))
	}
	put("old")
	put("renewed")
	w.pass(programs.KeptFor + 48*time.Hour)
	put("young")
	g := w.leftovers(Options{})
	want := []string{"program _programs/old: no agents were started with it for 92 days", "program _programs/renewed: no agents were started with it for 92 days"}
	if diff := cmp.Diff(want, says(g.Items)); diff != "" {
		t.Fatal(diff)
	}
	put("renewed")
	freed, err := w.Collect(t.Context(), g, nil)
	w.check(err)
	if diff := cmp.Diff([]string{"program _programs/renewed: it has been used since"}, says(freed.Kept)); diff != "" || len(freed.Items) != 1 {
		t.Errorf("%s; removed: %q", diff, says(freed.Items))
	}
	if n := w.objects(programs.Prefix); n != 2 {
		t.Errorf("%d programs are left, want 2", n)
	}
}

func TestGarbageOfAnotherMakingIsAFaultOfDrover(t *testing.T) {
	_, err := newWard(t).Collect(t.Context(), Garbage{}, nil)
	if fault.KindOf(err) != fault.Bug || err.Error() != "collect garbage: it was not found by Leftovers" {
		t.Error(err)
	}
}

func TestGarbageAsJSON(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	j := w.job("digits", job.Failed)
	w.job("digits", job.Succeeded)
	w.pass(2 * time.Hour)
	text, err := json.Marshal(w.leftovers(Options{Keep: 1}))
	w.check(err)
	var got struct {
		V     int
		Items []map[string]any
		Bytes int
	}
	w.check(json.Unmarshal(text, &got))
	if got.V != 1 || len(got.Items) != 2 || got.Bytes == 0 {
		t.Fatalf("%s", text)
	}
	delete(got.Items[0], "bytes")
	want := map[string]any{"kind": "job", "name": j.Path().String(), "why": "1 newer job of its task ended"}
	if diff := cmp.Diff(want, got.Items[0]); diff != "" {
		t.Errorf("a job (-want +got):\n%s", diff)
	}
	if got.Items[1]["kind"] != "blobs" || got.Items[1]["name"] != "3 blobs" || got.Items[1]["count"] != 3.0 {
		t.Errorf("its blobs: %v", got.Items[1])
	}
	var empty Garbage
	w.check(json.Unmarshal(text, &empty))
	if _, err := w.Collect(context.Background(), empty, nil); fault.KindOf(err) != fault.Bug {
		t.Errorf("what was read from JSON was collected: %v", err)
	}
}

// Of a list of items' files that misses a part the other parts may name anything, too.
func TestGCTakesNoBlobWhileAListOfItemsFilesMissesAPart(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	ctx := t.Context()
	file, size, err := w.World.Store.PutBlob(ctx, strings.NewReader("a"))
	w.check(err)
	w.job("digits", job.Succeeded, func(j *job.Job) {
		list, _, err := manifest.StoredFiles(t.TempDir(), func(yield func([]manifest.File, error) bool) {
			yield([]manifest.File{{Field: manifest.Whole, Blob: file, Size: size}}, nil)
		})
		w.check(err)
		of, err := list.Put(ctx, w.World.Store, protocol.ItemsPrefix(j.Path()))
		w.check(err)
		w.check(list.Close())
		j.Manifest = job.Manifest{Count: 1, Files: &of}
	})
	for o, err := range w.World.Store.List(ctx, "") {
		if w.check(err); strings.Contains(o.Key, "/part-") {
			w.check(w.World.Store.Delete(ctx, o.Key))
		}
	}
	w.pass(2 * time.Hour)
	if g := w.leftovers(Options{}); len(g.Notes) != 1 || len(g.Kept) != 1 || len(g.blobs) > 0 {
		t.Errorf("%d blobs may go: %q, %q", len(g.blobs), g.Notes, says(g.Kept))
	}
}
