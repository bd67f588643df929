package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func TestARemovalThatIsRefusedSaysWhy(t *testing.T) {
	d := newDesk(t)
	first := d.submit(nil)
	d.write(first, opened(1, protocol.First), ended(1, job.Succeeded))
	second := d.submit(nil)
	d.write(second, opened(1, protocol.First), ended(1, job.Succeeded))
	task, err := tasks.ReadTask(t.Context(), d.World, second.Path())
	d.check(err)
	place, _ := task.PlaceOf(second.ID)
	live := d.submit(nil)
	d.write(live, opened(1, protocol.First))
	task, err = tasks.ReadTask(t.Context(), d.World, live.Path())
	d.check(err)
	lives, _ := task.PlaceOf(live.ID)
	never := job.Path{Project: "demo", Task: "digits", Job: "never"}
	for _, row := range []struct {
		err        error
		kind       fault.Kind
		text, hint string
	}{
		{removal.RemoveJob(t.Context(), d.World, never, 0, tasks.Place{}, "gc"), fault.Missing, "remove job never: it was never submitted", ""},
		{removal.RemoveJob(t.Context(), d.World, first.Path(), 1, tasks.Place{}, "gc"), fault.Invalid, "remove job " + first.ID + ": it was submitted again", "Look again: drover gc."},
		{removal.RemoveJob(t.Context(), d.World, first.Path(), 0, tasks.Place{Job: second.ID, Place: place - 1}, "gc"), fault.Invalid,
			"remove job " + first.ID + ": job " + second.ID + ", which stood for it, is gone or was submitted again", "Look again: drover gc."},
		{removal.RemoveJob(t.Context(), d.World, live.Path(), lives, tasks.Place{}, "gc"), fault.Invalid, "remove job " + live.ID + ": it has not ended", "End it first: drover cancel " + live.ID + "."},
		{removal.RemoveUnfinished(t.Context(), d.World, first.Path(), first.Short, "gc"), fault.Invalid, "remove submit of job " + first.ID + ": it has finished", ""},
	} {
		if row.err == nil || row.err.Error() != row.text || fault.Hint(row.err) != row.hint || fault.KindOf(row.err) != row.kind {
			t.Errorf("kind %v, %v\n%s\nwant %s\n%s", fault.KindOf(row.err), row.err, fault.Hint(row.err), row.text, row.hint)
		}
	}
}

func TestARecordThatCannotBeReadSaysToKeepIt(t *testing.T) {
	var j job.Job
	err := protocol.Decode([]byte(`{"v":1,"spec":`), &j, &j.V, "demo/digits/7f3k/job.json")
	if err == nil || !strings.HasPrefix(err.Error(), "read demo/digits/7f3k/job.json: ") || !errors.Is(err, protocol.ErrUnreadable) ||
		fault.Hint(err) != "Keep the store as it is and report this." || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestAListOfBlobsTakesDigestsAlone(t *testing.T) {
	if _, err := removal.PackDigests([]store.Digest{"ABC"}); err == nil || err.Error() != `list blobs: "ABC" is not a digest` || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}
