package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func TestARemovedJobLeavesItsPlaceAndItsName(t *testing.T) {
	d := newDesk(t)
	j := d.submit(func(j *job.Job) { j.Since, j.StateSince = 3, 2 })
	d.write(j, opened(1, First), ended(1, job.Failed))
	d.check(d.Beat(t.Context(), j.Path(), Beat{Agent: "1-0-a"}))
	d.check(d.Remove(t.Context(), j.Path(), 0, Place{}, "gc"))
	if diff := cmp.Diff([]string{"demo/digits/log/00000000", "demo/digits/log/00000001", "demo/digits/log/00000002", idKey(j.Short)}, d.keys("")); diff != "" {
		t.Errorf("what stays (-want +got):\n%s", diff)
	}
	task, err := d.Task(t.Context(), j.Path())
	d.check(err)
	want := Task{Jobs: []Place{{j.ID, 0}}, Gone: map[string]Removed{j.ID: {Job: j.ID, State: job.Failed, Since: 3, StateSince: 2}}}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Errorf("the task (-want +got):\n%s", diff)
	}
	p, err := d.Find(t.Context(), j.Short)
	if d.check(err); p != j.Path() {
		t.Errorf("found %v", p)
	}
	_, err = d.Look(t.Context(), p)
	if !errors.Is(err, ErrRemoved) || !errors.Is(err, store.ErrNotExist) || !strings.HasPrefix(err.Error(), "read job "+j.ID+": job was removed: ") {
		t.Errorf("looked at: %v", err)
	}
	if all, err := d.All(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("it is listed: %v (%v)", all, err)
	}
	// What somebody slow writes is swept by whoever calls again; nothing else is said.
	d.check(d.Beat(t.Context(), j.Path(), Beat{Agent: "1-0-a"}))
	d.check(d.Remove(t.Context(), j.Path(), 0, Place{}, "gc-2"))
	if keys := d.keys(taskDir(j.Path())); len(keys) != 3 {
		t.Errorf("after a second removal: %s", keys)
	}
}

func TestTheNextJobBeginsAfterARemovedSuccess(t *testing.T) {
	d := newDesk(t)
	for range 2 {
		j := d.submit(func(j *job.Job) { j.Since = 0 })
		d.write(j, opened(1, First), ended(1, job.Succeeded))
		task, err := d.Task(t.Context(), j.Path())
		d.check(err)
		place, _ := task.PlaceOf(j.ID)
		d.check(d.Remove(t.Context(), j.Path(), place, Place{}, "gc"))
		task, err = d.Task(t.Context(), j.Path())
		d.check(err)
		if r := task.Gone[j.ID]; r.Since != place+1 || r.State != job.Succeeded {
			t.Errorf("at place %d: %+v", place, r)
		}
	}
}

func TestWhatIsNotRemoved(t *testing.T) {
	d := newDesk(t)
	live := d.submit(nil)
	d.write(live, opened(1, First))
	before := d.keys("")
	if err := d.Remove(t.Context(), live.Path(), 0, Place{}, "gc"); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("a live job: %v", err)
	}
	if err := d.Abandon(t.Context(), live.Path(), live.Short, "gc"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a live job, as a submit that never finished: %v", err)
	}
	if err := d.Remove(t.Context(), job.Path{Project: "demo", Task: "digits", Job: "never"}, 0, Place{}, "gc"); fault.KindOf(err) != fault.Missing {
		t.Errorf("a job that never was: %v", err)
	}
	if diff := cmp.Diff(before, d.keys("")); diff != "" {
		t.Errorf("something was changed (-before +after):\n%s", diff)
	}
	// Of two that stand for each other one stays.
	d.write(live, ended(1, job.Succeeded))
	second := d.submit(nil)
	d.write(second, opened(1, First), ended(1, job.Succeeded))
	task, err := d.Task(t.Context(), second.Path())
	d.check(err)
	place, _ := task.PlaceOf(second.ID)
	if err := d.Remove(t.Context(), live.Path(), 1, Place{}, "gc-2"); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("a job that is not at its place: %v", err)
	}
	if err := d.Remove(t.Context(), live.Path(), 0, Place{second.ID, place - 1}, "gc-2"); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("the newest success, for one that has come back since: %v", err)
	}
	// A map that was chosen, and has come back and ended since, stays.
	twice := d.mapJob(2, 2, nil)
	chosen := len(d.keys(taskDir(twice.Path())+"/log/")) - 1
	tally := &job.Tally{Items: 2, Failed: 2}
	d.write(twice, Entry{Settled: &Settled{State: job.Failed, Tally: tally}})
	d.check(d.Close(t.Context(), twice.Path(), "cli"))
	_, _, err = d.Reopen(t.Context(), twice, "cli", Round{Again: &Reopened{}})
	d.check(err)
	task, err = d.Task(t.Context(), twice.Path())
	d.check(err)
	again, _ := task.PlaceOf(twice.ID)
	d.write(twice, Entry{Settled: &Settled{State: job.Failed, Tally: tally, Place: again}})
	if err := d.Remove(t.Context(), twice.Path(), chosen, Place{}, "gc-3"); fault.KindOf(err) != fault.Invalid || again == chosen {
		t.Errorf("a map that was chosen at place %d and is at %d: %v", chosen, again, err)
	}
	d.check(d.Close(t.Context(), twice.Path(), "cli"))
	d.check(d.Remove(t.Context(), second.Path(), place, Place{}, "gc-1"))
	if err := d.Remove(t.Context(), live.Path(), 0, Place{second.ID, place}, "gc-2"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("the newest success: %v", err)
	}
}

// A submit that slept longer than any does finds that it never was.
func TestAnAbandonedSubmitNeverFinishes(t *testing.T) {
	d := newDesk(t)
	j := job.Job{V: 1, Spec: job.Spec{Project: "demo", Task: "digits", Nodes: 1}}
	d.check(d.NameJob(t.Context(), &j))
	d.check(d.Propose(t.Context(), j))
	d.check(d.Abandon(t.Context(), j.Path(), j.Short, "gc"))
	_, mine, err := d.Submit(t.Context(), j, "cli")
	if mine || err == nil || err.Error() != "submit job "+j.Short+": it took so long that gc has removed it" || fault.KindOf(err) != fault.Lost || fault.Hint(err) != "Run it again." {
		t.Errorf("mine %t: %v", mine, err)
	}
	d.writeTo(taskDir(j.Path())+"/log", Entry{Submitted: &Submitted{Job: j.ID}}) // as an old drover may
	task, err := d.Task(t.Context(), j.Path())
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
	d.write(first, opened(1, First), ended(1, job.Succeeded))
	second := d.submit(nil)
	live, mine, err := d.Submit(t.Context(), first, "cli-1") // as if it had slept since its entry
	if d.check(err); !mine || live != first.ID {
		t.Errorf("mine %t, live %s", mine, live)
	}
	for _, j := range []job.Job{first, second} {
		if _, err := d.Look(t.Context(), j.Path()); err != nil {
			t.Errorf("job %s: %v", j.ID, err)
		}
	}
}

func TestATasksFoldRemovesOnlyWhatHasEnded(t *testing.T) {
	submitted := func(id string) Entry { return Entry{Submitted: &Submitted{Job: id}} }
	closed := func(id string) Entry { return Entry{Closed: &Closed{Job: id}} }
	removed := func(id string, since int) Entry { return Entry{Removed: &Removed{Job: id, Since: since}} }
	for _, row := range []struct {
		name    string
		entries []Entry
		want    Task
	}{
		{"a live job", []Entry{submitted("a"), removed("a", 1)}, Task{Jobs: []Place{{"a", 0}}, Live: "a"}},
		{"an ended one, beside a live one", []Entry{submitted("a"), closed("a"), submitted("b"), removed("a", 1)},
			Task{Jobs: []Place{{"a", 0}, {"b", 2}}, Live: "b", Gone: map[string]Removed{"a": {Job: "a", Since: 1}}}},
		{"twice: the first counts", []Entry{submitted("a"), closed("a"), removed("a", 1), removed("a", 9)},
			Task{Jobs: []Place{{"a", 0}}, Gone: map[string]Removed{"a": {Job: "a", Since: 1}}}},
		{"before it was submitted", []Entry{removed("a", 0), submitted("a"), submitted("b")},
			Task{Jobs: []Place{{"b", 2}}, Live: "b", Gone: map[string]Removed{"a": {Job: "a"}}}},
	} {
		if diff := cmp.Diff(row.want, foldTask(row.entries)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}
