package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func TestARemovedJobLeavesItsPlaceAndItsName(t *testing.T) {
	d := newDesk(t)
	j := d.submit(func(j *job.Job) { j.Since, j.StateSince = 3, 2 })
	d.write(j, opened(1, protocol.First), ended(1, job.Failed))
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), protocol.Heartbeat{Agent: "1-0-a"}))
	d.check(removal.RemoveJob(t.Context(), d.World, j.Path(), 0, tasks.Place{}, "gc"))
	if diff := cmp.Diff([]string{"demo/digits/log/00000000", "demo/digits/log/00000001", "demo/digits/log/00000002", protocol.IDKey(j.Short)}, d.keys("")); diff != "" {
		t.Errorf("what stays (-want +got):\n%s", diff)
	}
	task, err := tasks.ReadTask(t.Context(), d.World, j.Path())
	d.check(err)
	want := tasks.Task{Jobs: []tasks.Place{{Job: j.ID, Place: 0}}, Gone: map[string]protocol.Removed{j.ID: {Job: j.ID, State: job.Failed, Since: 3, StateSince: 2}}}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Errorf("the task (-want +got):\n%s", diff)
	}
	p, err := tasks.FindJob(t.Context(), d.World, j.Short)
	if d.check(err); p != j.Path() {
		t.Errorf("found %v", p)
	}
	_, err = views.ReadReport(t.Context(), d.World, p)
	if !errors.Is(err, liveness.ErrRemoved) || !errors.Is(err, store.ErrNotExist) || !strings.HasPrefix(err.Error(), "read job "+j.ID+": job was removed: ") {
		t.Errorf("looked at: %v", err)
	}
	if all, err := views.ListJobs(t.Context(), d.World, ""); err != nil || len(all) > 0 {
		t.Errorf("it is listed: %v (%v)", all, err)
	}
	// What a slow writer writes is swept by the next call; nothing else is said.
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), protocol.Heartbeat{Agent: "1-0-a"}))
	d.check(removal.RemoveJob(t.Context(), d.World, j.Path(), 0, tasks.Place{}, "gc-2"))
	if keys := d.keys(protocol.TaskDir(j.Path())); len(keys) != 3 {
		t.Errorf("after a second removal: %s", keys)
	}
}

func TestTheNextJobBeginsAfterARemovedSuccess(t *testing.T) {
	d := newDesk(t)
	for range 2 {
		j := d.submit(func(j *job.Job) { j.Since = 0 })
		d.write(j, opened(1, protocol.First), ended(1, job.Succeeded))
		task, err := tasks.ReadTask(t.Context(), d.World, j.Path())
		d.check(err)
		place, _ := task.PlaceOf(j.ID)
		d.check(removal.RemoveJob(t.Context(), d.World, j.Path(), place, tasks.Place{}, "gc"))
		task, err = tasks.ReadTask(t.Context(), d.World, j.Path())
		d.check(err)
		if r := task.Gone[j.ID]; r.Since != place+1 || r.State != job.Succeeded {
			t.Errorf("at place %d: %+v", place, r)
		}
	}
}

func TestWhatIsNotRemoved(t *testing.T) {
	d := newDesk(t)
	live := d.submit(nil)
	d.write(live, opened(1, protocol.First))
	before := d.keys("")
	if err := removal.RemoveJob(t.Context(), d.World, live.Path(), 0, tasks.Place{}, "gc"); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("a live job: %v", err)
	}
	if err := removal.RemoveUnfinished(t.Context(), d.World, live.Path(), live.Short, "gc"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a live job, as a submit that never finished: %v", err)
	}
	if err := removal.RemoveJob(t.Context(), d.World, job.Path{Project: "demo", Task: "digits", Job: "never"}, 0, tasks.Place{}, "gc"); fault.KindOf(err) != fault.Missing {
		t.Errorf("a job that never was: %v", err)
	}
	if diff := cmp.Diff(before, d.keys("")); diff != "" {
		t.Errorf("something was changed (-before +after):\n%s", diff)
	}
	// Of two that stand for each other one stays.
	d.write(live, ended(1, job.Succeeded))
	second := d.submit(nil)
	d.write(second, opened(1, protocol.First), ended(1, job.Succeeded))
	task, err := tasks.ReadTask(t.Context(), d.World, second.Path())
	d.check(err)
	place, _ := task.PlaceOf(second.ID)
	if err := removal.RemoveJob(t.Context(), d.World, live.Path(), 1, tasks.Place{}, "gc-2"); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("a job that is not at its place: %v", err)
	}
	if err := removal.RemoveJob(t.Context(), d.World, live.Path(), 0, tasks.Place{Job: second.ID, Place: place - 1}, "gc-2"); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("the newest success, for one that has come back since: %v", err)
	}
	// A map that was chosen, and has come back and ended since, stays.
	twice := d.mapJob(2, 2, nil)
	chosen := len(d.keys(protocol.TaskDir(twice.Path())+"/log/")) - 1
	tally := &job.Tally{Items: 2, Failed: 2}
	d.write(twice, protocol.JobEntry{Settled: &protocol.Settled{State: job.Failed, Tally: tally}})
	d.check(tasks.CloseJob(t.Context(), d.World, twice.Path(), "cli"))
	_, _, err = control.ReopenMap(t.Context(), d.World, twice, "cli", control.Round{Again: &protocol.Reopened{}})
	d.check(err)
	task, err = tasks.ReadTask(t.Context(), d.World, twice.Path())
	d.check(err)
	again, _ := task.PlaceOf(twice.ID)
	d.write(twice, protocol.JobEntry{Settled: &protocol.Settled{State: job.Failed, Tally: tally, Submission: again}})
	if err := removal.RemoveJob(t.Context(), d.World, twice.Path(), chosen, tasks.Place{}, "gc-3"); fault.KindOf(err) != fault.Invalid || again == chosen {
		t.Errorf("a map that was chosen at place %d and is at %d: %v", chosen, again, err)
	}
	d.check(tasks.CloseJob(t.Context(), d.World, twice.Path(), "cli"))
	d.check(removal.RemoveJob(t.Context(), d.World, second.Path(), place, tasks.Place{}, "gc-1"))
	if err := removal.RemoveJob(t.Context(), d.World, live.Path(), 0, tasks.Place{Job: second.ID, Place: place}, "gc-2"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("the newest success: %v", err)
	}
}

// A submit that slept longer than any does finds that it never was.
func TestAnAbandonedSubmitNeverFinishes(t *testing.T) {
	d := newDesk(t)
	j := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "digits", Nodes: 1}}
	d.check(tasks.NameJob(t.Context(), d.World, &j))
	d.check(tasks.ProposeJob(t.Context(), d.World, j))
	d.check(removal.RemoveUnfinished(t.Context(), d.World, j.Path(), j.Short, "gc"))
	_, mine, err := tasks.SubmitJob(t.Context(), d.World, j, "cli")
	if mine || err == nil || err.Error() != "submit job "+j.Short+": it took so long that gc has removed it" || fault.KindOf(err) != fault.Lost || fault.Hint(err) != "Run it again." {
		t.Errorf("mine %t: %v", mine, err)
	}
	writeTo(d, d.TaskLog(j.Path(), "test"), protocol.TaskEntry{Submitted: &protocol.Submitted{Job: j.ID}}) // as an old drover may
	task, err := tasks.ReadTask(t.Context(), d.World, j.Path())
	if d.check(err); task.Live != "" || len(task.Jobs) > 0 {
		t.Errorf("it lives: %+v", task)
	}
	if keys := d.keys("ids/"); len(keys) > 0 {
		t.Errorf("its id is kept: %s", keys)
	}
}

// It is told what became of its job, not that it lost a race to the next one.
func TestASubmitThatSleptKeepsItsJob(t *testing.T) {
	d := newDesk(t)
	first := d.submit(nil)
	d.write(first, opened(1, protocol.First), ended(1, job.Succeeded))
	second := d.submit(nil)
	live, mine, err := tasks.SubmitJob(t.Context(), d.World, first, "cli-1") // as if it had slept since its entry
	if d.check(err); !mine || live != first.ID {
		t.Errorf("mine %t, live %s", mine, live)
	}
	for _, j := range []job.Job{first, second} {
		if _, err := views.ReadReport(t.Context(), d.World, j.Path()); err != nil {
			t.Errorf("job %s: %v", j.ID, err)
		}
	}
}

func TestATasksFoldRemovesOnlyWhatHasEnded(t *testing.T) {
	submitted := func(id string) protocol.TaskEntry { return protocol.TaskEntry{Submitted: &protocol.Submitted{Job: id}} }
	closed := func(id string) protocol.TaskEntry { return protocol.TaskEntry{Closed: &protocol.Closed{Job: id}} }
	removed := func(id string, since int) protocol.TaskEntry {
		return protocol.TaskEntry{Removed: &protocol.Removed{Job: id, Since: since}}
	}
	for _, row := range []struct {
		name    string
		entries []protocol.TaskEntry
		want    tasks.Task
	}{
		{"a live job", []protocol.TaskEntry{submitted("a"), removed("a", 1)}, tasks.Task{Jobs: []tasks.Place{{Job: "a", Place: 0}}, Live: "a"}},
		{"an ended one, beside a live one", []protocol.TaskEntry{submitted("a"), closed("a"), submitted("b"), removed("a", 1)},
			tasks.Task{Jobs: []tasks.Place{{Job: "a", Place: 0}, {Job: "b", Place: 2}}, Live: "b", Gone: map[string]protocol.Removed{"a": {Job: "a", Since: 1}}}},
		{"twice: the first counts", []protocol.TaskEntry{submitted("a"), closed("a"), removed("a", 1), removed("a", 9)},
			tasks.Task{Jobs: []tasks.Place{{Job: "a", Place: 0}}, Gone: map[string]protocol.Removed{"a": {Job: "a", Since: 1}}}},
		{"before it was submitted", []protocol.TaskEntry{removed("a", 0), submitted("a"), submitted("b")},
			tasks.Task{Jobs: []tasks.Place{{Job: "b", Place: 2}}, Live: "b", Gone: map[string]protocol.Removed{"a": {Job: "a"}}}},
	} {
		if diff := cmp.Diff(row.want, tasks.FoldTask(row.entries)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}
