package ledger

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// ids makes a reader of randomness from which these ids are drawn, one after
// the other: ten bytes each, given as the sixteen letters they become.
func ids(wanted ...string) io.Reader {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789"
	var b []byte
	for _, id := range wanted {
		bits, n := uint64(0), 0
		for _, r := range id {
			bits, n = bits<<5|uint64(strings.IndexRune(letters, r)), n+5
			for n >= 8 {
				n -= 8
				b = append(b, byte(bits>>n))
			}
		}
	}
	return bytes.NewReader(b)
}

func TestShortIdsGrowWhileAnotherJobHasThem(t *testing.T) {
	d := newDesk(t)
	d.Rand = ids("abcdefghijkmnpqr", "abcdefghzzzzzzzz", "abcdezzzzzzzzzzz", "bbbbbbbbbbbbbbbb", "abcdefghijkmnpqs")
	var got []string
	for i := range 5 {
		j := job.Job{Spec: job.Spec{Project: "demo", Task: "t" + string(rune('0'+i))}}
		d.check(tasks.NameJob(t.Context(), d.World, &j))
		got = append(got, j.Short)
		if !strings.HasPrefix(j.ID, j.Short) || len(j.ID) != 16 {
			t.Errorf("job %s is called %s", j.ID, j.Short)
		}
	}
	if diff := cmp.Diff([]string{"abcd", "abcde", "abcdez", "bbbb", "abcdef"}, got); diff != "" {
		t.Errorf("short ids (-want +got):\n%s", diff)
	}
}

func TestAnIdThatIsTakenWholeIsRefused(t *testing.T) {
	d := newDesk(t)
	const id = "abcdefghijkmnpqr"
	for n := job.MinShort; n <= len(id); n++ {
		d.create(protocol.IDKey(id[:n]), job.Path{Project: "p", Task: "t", Job: id[:n]})
	}
	d.Rand = ids(id)
	j := job.Job{Spec: job.Spec{Project: "demo", Task: "digits"}}
	if err := tasks.NameJob(t.Context(), d.World, &j); err == nil {
		t.Errorf("a job was called %s beside one of that name", j.Short)
	}
}

func TestFindReadsWhatPeopleType(t *testing.T) {
	d := newDesk(t)
	d.Rand = ids("abcdefghijkmnpqr", "abcdezzzzzzzzzzz", "bbbbbbbbbbbbbbbb", "bbcccccccccccccc")
	full := map[string]string{} // short id -> job
	for range 4 {
		j := job.Job{Spec: job.Spec{Project: "demo", Task: "digits"}}
		d.check(tasks.NameJob(t.Context(), d.World, &j))
		full[j.Short] = j.ID
	}
	missing, ambiguous := store.ErrNotExist, tasks.ErrAmbiguous
	for _, row := range []struct {
		typed, job string
		err        error
	}{
		{"abcd", full["abcd"], nil}, // a short id, whole: not the longer one that begins so
		{"abcde", full["abcde"], nil},
		{"bbbb", full["bbbb"], nil},
		{"bbb", full["bbbb"], nil},
		{"bbc", full["bbcc"], nil},
		{full["abcd"], full["abcd"], nil},
		{full["abcde"], full["abcde"], nil},
		{full["abcd"][:7], full["abcd"], nil},
		{full["abcde"][:9], full["abcde"], nil},
		{"a", "", ambiguous},
		{"bb", "", ambiguous},
		{"c", "", missing},
		{"abcc", "", missing},
		{"abcdd", "", missing},
		{"bbbbbbbbbbbbbbbc", "", missing},
	} {
		p, err := tasks.FindJob(t.Context(), d.World, row.typed)
		if !errors.Is(err, row.err) || err == nil && p != (job.Path{Project: "demo", Task: "digits", Job: row.job}) {
			t.Errorf("%s finds %v (%v), want %s (%v)", row.typed, p, err, row.job, row.err)
		}
	}
}

func TestASecondSubmitOfALiveTaskLosesAndLeavesNothing(t *testing.T) {
	d := newDesk(t)
	first := d.submit(nil)
	before := d.keys("")
	second := job.Job{V: job.Format, Spec: first.Spec}
	d.check(tasks.NameJob(t.Context(), d.World, &second))
	live, mine, err := tasks.SubmitJob(t.Context(), d.World, second, "cli-2")
	if d.check(err); mine || live != first.ID {
		t.Errorf("mine %t, and %s is live", mine, live)
	}
	if diff := cmp.Diff(before, d.keys("")); diff != "" {
		t.Errorf("what the loser left (-before +after):\n%s", diff)
	}
	// Asked again, the winner is told the same.
	if live, mine, err = tasks.SubmitJob(t.Context(), d.World, first, "cli-1"); !mine || live != first.ID || err != nil {
		t.Errorf("the winner asked again: mine %t, %s, %v", mine, live, err)
	}
}

func TestASubmitAfterTheEndClosesTheJobBefore(t *testing.T) {
	d := newDesk(t)
	first := d.submit(nil)
	d.write(first, opened(1, protocol.First))
	d.check(tasks.CloseJob(t.Context(), d.World, first.Path(), "anyone")) // it has not settled: left alone
	d.write(first, ended(1, job.Succeeded))
	second := d.submit(nil)
	task, err := tasks.ReadTask(t.Context(), d.World, first.Path())
	d.check(err)
	want := tasks.Task{Live: second.ID, Jobs: []tasks.Place{{Job: first.ID, Place: 0}, {Job: second.ID, Place: 2}}}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Errorf("the task (-want +got):\n%s", diff)
	}
	d.write(second, cancelled1, ended(0, job.Cancelled))
	for range 2 {
		d.check(tasks.CloseJob(t.Context(), d.World, second.Path(), "anyone"))
	}
	d.check(tasks.CloseJob(t.Context(), d.World, first.Path(), "somebody slow"))
	log := d.keys("demo/digits/log/")
	if task, err = tasks.ReadTask(t.Context(), d.World, first.Path()); err != nil || task.Live != "" || len(log) != 4 {
		t.Errorf("%s is live, %d entries (%v)", task.Live, len(log), err)
	}
}

func TestACancelStandsOrSaysThatItCameTooLate(t *testing.T) {
	for _, row := range []struct {
		name    string
		entries []protocol.JobEntry
		stands  bool
		writes  bool
	}{
		{"nobody works on it", nil, true, true},
		{"it runs", []protocol.JobEntry{opened(1, protocol.First)}, true, true},
		{"somebody cancelled it before", []protocol.JobEntry{opened(1, protocol.First), cancelled1}, true, false},
		{"it was cancelled and is over", []protocol.JobEntry{cancelled1, ended(0, job.Cancelled)}, true, false},
		{"it is failing", []protocol.JobEntry{opened(1, protocol.First), failing1}, false, false},
		{"it has succeeded", []protocol.JobEntry{opened(1, protocol.First), ended(1, job.Succeeded)}, false, false},
	} {
		d := newDesk(t)
		j := d.submit(nil)
		d.write(j, row.entries...)
		stands, err := control.CancelJob(t.Context(), d.World, j.Path(), "cli-9", "wrong data")
		if d.check(err); stands != row.stands {
			t.Errorf("%s: stands %t", row.name, stands)
		}
		rep, err := views.ReadReport(t.Context(), d.World, j.Path())
		d.check(err)
		wrote := slices.ContainsFunc(rep.Log, func(e protocol.JobEntry) bool {
			return e.Cancelled != nil && e.By == "cli-9" && e.Cancelled.Reason == "wrong data"
		})
		if wrote != row.writes {
			t.Errorf("%s: wrote %t", row.name, wrote)
		}
	}
	d := newDesk(t)
	j := d.submit(nil)
	d.check(d.Store.Delete(t.Context(), protocol.JobKey(j.Path())))
	if _, err := control.CancelJob(t.Context(), d.World, j.Path(), "cli-9", ""); !errors.Is(err, liveness.ErrRemoved) {
		t.Errorf("the cancel of a removed job: %v", err)
	}
}

func TestARemovedJobIsNotFollowed(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	d.check(d.Store.Delete(t.Context(), protocol.JobKey(j.Path())))
	if o, err := runagent.NewMember(d.World, j, "1-0-a", protocol.Join{}).Poll(t.Context()); err != nil || o.Do != runagent.Leave {
		t.Errorf("an agent of a removed job: order %d, %v", o.Do, err)
	}
	if _, err := attached.NewKeeper(d.World, j, "cli").Poll(t.Context(), nil); fault.KindOf(err) != fault.Missing || fault.Hint(err) == "" {
		t.Errorf("an engine of a removed job: %v", err)
	}
	if log := d.keys(protocol.JobDir(j.Path())); len(log) != 0 {
		t.Errorf("they wrote %s", log)
	}
}

// What a submit left that was cut off before the task's log named it is no job.
func TestAJobThatWasNeverSubmittedIsNone(t *testing.T) {
	d := newDesk(t)
	j := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "digits", Nodes: 1}}
	d.check(tasks.NameJob(t.Context(), d.World, &j))
	for range 2 {
		if _, err := views.ReadReport(t.Context(), d.World, j.Path()); !errors.Is(err, store.ErrNotExist) {
			t.Errorf("looked at: %v", err)
		}
		if stands, err := control.CancelJob(t.Context(), d.World, j.Path(), "cli", ""); stands || err == nil {
			t.Errorf("cancelled: %t, %v", stands, err)
		}
		if _, _, err := d.Store.CreateOnce(t.Context(), protocol.JobKey(j.Path()), protocol.Encode(j)); err != nil { // and now with its job.json
			t.Fatal(err)
		}
	}
	if log := d.keys(protocol.JobDir(j.Path()) + "/log/"); len(log) != 0 {
		t.Errorf("its log holds %s", log)
	}
}

// The task's log names the digest of job.json (T1a): what was changed since is not run, and
// a map that was changed gets no other round.
func TestAJobThatWasChangedSinceItWasSubmittedIsNotLoaded(t *testing.T) {
	d := newDesk(t)
	j := d.submit(func(j *job.Job) {
		j.Spec.Verb, j.ChunkSize, j.Manifest = job.Map, 1, job.Manifest{Count: 2, From: 1, To: 2, Step: 1}
	})
	other := d.World
	fresh := func() { other.Store = store.New(d.bucket, store.Options{Clock: d.clock}) } // a process that remembers nothing
	fresh()
	if got, err := tasks.LoadAccepted(t.Context(), other, j.Path()); err != nil || got.ID != j.ID {
		t.Fatalf("as it was submitted: %v, %v", got.ID, err)
	}
	changed := bytes.Replace(protocol.Encode(j), []byte("train.py"), []byte("other.py"), 1)
	d.check(d.bucket.Put(t.Context(), protocol.JobKey(j.Path()), bytes.NewReader(changed)))
	fresh()
	if _, err := tasks.LoadJob(t.Context(), other, j.Path()); err != nil {
		t.Errorf("it cannot be looked at: %v", err)
	}
	got, err := tasks.LoadAccepted(t.Context(), other, j.Path())
	if !errors.Is(err, protocol.ErrUnreadable) || got.ID != "" || fault.Hint(err) == "" {
		t.Errorf("changed: %v, %v", got.Spec.Program, err)
	}
	if _, ok, err := control.ReopenMap(t.Context(), other, j, "cli-2", control.Round{Again: &protocol.Reopened{}}); ok || !errors.Is(err, protocol.ErrUnreadable) {
		t.Errorf("reopened: %v, %v", ok, err)
	}
}

// A map that is submitted again names the record it was first submitted with, and a job of
// a drover that named none is loaded.
func TestARecordIsNamedOnce(t *testing.T) {
	d := newDesk(t)
	entries := []protocol.TaskEntry{{Submitted: &protocol.Submitted{Job: "a", Record: "first"}}, {Submitted: &protocol.Submitted{Job: "b"}}, {Submitted: &protocol.Submitted{Job: "a", Record: "second"}}}
	for id, want := range map[string]store.Digest{"a": "first", "b": "", "c": ""} {
		if got := tasks.AcceptedRecord(entries, id); got != want {
			t.Errorf("job %s has record %q, want %q", id, got, want)
		}
	}
	j := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "old", Nodes: 1}}
	d.check(tasks.NameJob(t.Context(), d.World, &j))
	d.create(protocol.JobKey(j.Path()), j)
	writeTo(d, d.TaskLog(j.Path(), "test"), protocol.TaskEntry{Submitted: &protocol.Submitted{Job: j.ID}})
	if _, err := tasks.LoadAccepted(t.Context(), d.World, j.Path()); err != nil {
		t.Error(err)
	}
}

// T3: jobs with settings that the task's log gives to another task are not submitted to
// this one, in whatever order they come; and what was said first stands.
func TestSettingsOfAnotherTaskAreNotSubmitted(t *testing.T) {
	ctx := t.Context()
	bucket := mem.New()
	w := protocol.World{Store: store.New(bucket, store.Options{}), Rand: rand.Reader}
	submit := func(key string) (job.Job, string, bool) {
		j := job.Job{V: job.Format, Spec: job.Spec{Project: "p", Task: "t", Verb: job.Run, Program: "a", Nodes: 1}, SettingsKey: key}
		if err := tasks.NameJob(ctx, w, &j); err != nil {
			t.Fatal(err)
		}
		live, mine, err := tasks.SubmitJob(ctx, w, j, "cli-"+key)
		if err != nil {
			t.Fatal(err)
		}
		return j, live, mine
	}
	at := job.Path{Project: "p", Task: "t"}
	if _, ok, err := tasks.PutBeside(ctx, w, at, "cli", "", "k2", "t-2"); ok || err != nil {
		t.Errorf("it was said though no job is live: %v", err)
	}
	one, _, _ := submit("k1")
	if _, ok, err := tasks.PutBeside(ctx, w, at, "cli", "another", "k2", "t-2"); ok || err != nil {
		t.Errorf("it was said of a job that is not live: %v", err)
	}
	for _, name := range []string{"t-2", "t-3"} {
		if got, ok, err := tasks.PutBeside(ctx, w, at, "cli", one.ID, "k2", name); got != "t-2" || !ok || err != nil {
			t.Errorf("the task is %q: %v", got, err)
		}
	}
	p := one.Path()
	p.Job = one.ID
	if _, err := control.CancelJob(ctx, w, p, "cli", "enough"); err != nil {
		t.Fatal(err)
	}
	l := w.JobLog(p, "cli")
	if err := l.Read(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(ctx, protocol.JobEntry{Settled: &protocol.Settled{State: job.Cancelled}}); err != nil {
		t.Fatal(err)
	}
	if j, live, mine := submit("k2"); mine || live != "" {
		t.Errorf("job %s was submitted: %q", j.ID, live)
	}
	w.Store = store.New(bucket, store.Options{}) // of a process that has read nothing: its first try loses its number
	if j, live, mine := submit("k2"); mine || live != "" {
		t.Errorf("job %s was submitted by a process that read the log after it lost a number: %q", j.ID, live)
	}
	if _, _, mine := submit("k3"); !mine {
		t.Error("a job with settings of its own was not submitted")
	}
	if got, ok, err := tasks.PutBeside(ctx, w, at, "cli", one.ID, "k2", "t-4"); got != "t-2" || !ok || err != nil {
		t.Errorf("once another job is live the task is %q: %v", got, err)
	}
	if _, ok, err := tasks.PutBeside(ctx, w, at, "cli", one.ID, "k4", "t-4"); ok || err != nil {
		t.Errorf("it was said of a job that is over: %v", err)
	}
}
