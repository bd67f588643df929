package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// task is what the task's log says of this job.
type task struct {
	places  []int        // numbers of the `submitted` that count: the job's first place, and later ones (T2)
	closed  []int        // by place: number of the `closed` that ended it; -1: none yet
	record  store.Digest // of job.json, by the first of them; "": it names none
	removed bool
	broken  bool // the log could not be read to its end
}

// wasResubmitted says whether the job was submitted once more, at this place.
func (t task) wasResubmitted(place int) bool {
	return len(t.places) > 1 && slices.Contains(t.places[1:], place)
}

// foldTaskLog folds the task's log (T1): a second `submitted` of a live task does not
// count, nor a `closed` of a job that is not the live one.
func (v *verifier) foldTaskLog(ctx context.Context) error {
	v.task = task{}
	dir := v.p.Project + "/" + v.p.Task + "/log"
	last, err := v.lastSequence(ctx, "task", dir)
	if err != nil {
		return err
	}
	live := ""
	gone := map[string]bool{}
	whole, err := readEntries(ctx, v, "task", dir, last, func(n int, e protocol.TaskEntry, foreign bool) error {
		facts := count(e.Submitted != nil, e.Closed != nil, e.Removed != nil, e.Beside != nil)
		nameless := e.Submitted != nil && e.Submitted.Job == "" || e.Closed != nil && e.Closed.Job == "" || e.Removed != nil && e.Removed.Job == ""
		if foreign || facts != 1 || nameless {
			v.addFinding(RuleEntry, report.VerifyNote{Log: "task", Entry: n, By: e.By, Why: "it holds a fact that does not belong in a task's log"})
			return nil
		}
		v.foldTaskEntry(n, e, &live, gone)
		return nil
	})
	v.task.broken = !whole
	return err
}

func (v *verifier) foldTaskEntry(n int, e protocol.TaskEntry, live *string, gone map[string]bool) {
	note := func(why string, args ...any) {
		v.addNote(report.VerifyNote{Log: "task", Entry: n, By: e.By, Why: fmt.Sprintf(why, args...)})
	}
	t, id := &v.task, v.p.Job
	switch {
	case e.Submitted != nil && *live != "":
		note("it submits job %s, and job %s was live", e.Submitted.Job, *live)
	case e.Submitted != nil && gone[e.Submitted.Job]:
		note("it submits job %s, which was removed", e.Submitted.Job)
	case e.Submitted != nil:
		*live = e.Submitted.Job
		if *live == id && len(t.places) == 0 {
			t.record = e.Submitted.Record
		}
		if *live == id {
			t.places, t.closed = append(t.places, n), append(t.closed, -1)
		}
	case e.Closed != nil && e.Closed.Job != *live:
		note("it closes job %s, which was not the live one", e.Closed.Job)
	case e.Closed != nil:
		if *live == id {
			t.closed[len(t.closed)-1] = n
		}
		*live = ""
	case e.Beside != nil && *live == "":
		note("it gives settings the task %s, and no job was live", e.Beside.Task)
	case e.Beside != nil:
	case e.Removed.Job == *live:
		note("it removes job %s, which was live", e.Removed.Job)
	default:
		gone[e.Removed.Job] = true
		t.removed = t.removed || e.Removed.Job == id
	}
}

// readTaskAgain brings it up to date, after another log was read that speaks of it.
// What there is to say of it was said.
func (v *verifier) readTaskAgain(ctx context.Context) error {
	was := v.r
	err := v.foldTaskLog(ctx)
	v.r = was
	return err
}

// checkTask sees that the task's log closed the job only where the job's own had
// settled for that (T1), which speaks says. That log was read after the task's.
func (v *verifier) checkTask(speaks func(place int) bool) {
	if v.task.broken {
		return
	}
	for i, place := range v.task.places {
		if v.task.closed[i] < 0 {
			continue
		}
		said := place
		if i == 0 {
			said = 0 // the first round is said to be of place 0
		}
		if !speaks(said) {
			v.addFinding(RuleTask, report.VerifyNote{Log: "task", Entry: v.task.closed[i], Why: "it records the end of the job, and the job's own log does not say that it has ended"})
		}
	}
}

// count is how many are true.
func count(facts ...bool) (n int) {
	for _, f := range facts {
		if f {
			n++
		}
	}
	return n
}
