package ledger

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// A command line that slept between its submit and its first look asks for agents of a
// job that was cancelled and removed meanwhile: for no more than one placement, and then
// it says what became of the job. What it wrote the next gc takes.
func TestAJobRemovedBeforeTheFirstLookIsNotFollowed(t *testing.T) {
	for _, row := range []struct {
		many  bool
		slept time.Duration
	}{{false, 0}, {false, time.Hour}, {true, 0}, {true, time.Hour}} {
		d := newDesk(t)
		var j job.Job
		var k interface {
			Poll(context.Context, []attached.Machine) (attached.Watch, error)
		}
		if row.many {
			j = d.mapJob(4, 2, nil)
			k = attached.NewMapKeeper(d.World, j, "cli-1")
		} else {
			j = d.submit(nil)
			run := attached.NewKeeper(d.World, j, "cli-1")
			run.Far = true
			k = run
		}

		other := *d
		other.Store = store.New(d.bucket, store.Options{Clock: d.clock})
		_, err := control.CancelJob(t.Context(), other.World, j.Path(), "cli-2", "by hand")
		d.check(err)
		other.write(j, ended(0, job.Cancelled))
		d.check(removal.RemoveJob(t.Context(), other.World, j.Path(), 0, tasks.Place{}, "gc"))

		d.pass(row.slept)
		var rows []attached.Machine
		placements, last := 0, error(nil)
		for range 100 {
			var w attached.Watch
			if w, last = k.Poll(t.Context(), rows); last != nil {
				break
			}
			if w.Settled != nil {
				t.Errorf("%+v: it says that the job has ended: %+v", row, w.Settled)
				break
			}
			if w.Start { // its agents find no job, write nothing and leave
				placements++
				rows = append(rows, attached.Machine{Placement: w.Placed.Placement})
			}
			d.pass(time.Second)
		}
		if fault.KindOf(last) != fault.Missing || !strings.HasPrefix(last.Error(), "follow job "+j.ID+": ") || fault.Hint(last) != "Run it again." || placements > 1 {
			t.Errorf("%+v: %d placements, then %v", row, placements, last)
		}
		d.check(removal.RemoveJob(t.Context(), other.World, j.Path(), 0, tasks.Place{}, "gc-2"))
		if left := d.keys(protocol.JobDir(j.Path())); len(left) > 0 {
			t.Errorf("%+v: after another gc there is %s", row, left)
		}
	}
}
