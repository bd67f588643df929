package removal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// RemoveJob takes a job's objects away, for good. Its task's log says so first, and
// keeps its place; its short id is kept too, so that neither is used again. Then
// goes job.json, without which no agent works on it, and its own log last. It may be
// called again, by any process: a removal that was cut short is finished, and what
// a slow writer wrote meanwhile is swept.
//
// place is that of the job when it was chosen, and because another of its task that
// lets it go, a newer success, if it names one. Refused as fault.Invalid are a job that
// has not settled, or was submitted again since, and one with a because that was removed or
// submitted again: what it was chosen for is not so any more.
func RemoveJob(ctx context.Context, w protocol.World, p job.Path, place int, because tasks.Place, by string) error {
	l := w.TaskLog(p, by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		t := tasks.FoldTask(l.Entries)
		if t.WasRemoved(p.Job) {
			return deleteObjects(ctx, w, p)
		}
		if _, submitted := t.PlaceOf(p.Job); !submitted {
			return fault.New(fault.Missing, "", "remove job %s: it was never submitted", p.Job)
		}
		if !t.StillHas(tasks.Place{Job: p.Job, Place: place}) {
			return fault.New(fault.Invalid, "Look again: `drover gc`.", "remove job %s: it was submitted again", p.Job)
		}
		if t.Live == p.Job {
			closed, err := tasks.CloseIfSettled(ctx, w, l, p)
			if err != nil {
				return err
			}
			if !closed {
				return fault.New(fault.Invalid, "End it first: `drover cancel "+p.Job+"`.", "remove job %s: it has not ended", p.Job)
			}
			continue
		}
		if because.Job != "" && !t.StillHas(because) {
			return fault.New(fault.Invalid, "Look again: `drover gc`.", "remove job %s: job %s, which stood for it, is gone or was submitted again", p.Job, because.Job)
		}
		r, err := removedFacts(ctx, w, p, place)
		if err != nil {
			return err
		}
		if _, err := l.Append(ctx, protocol.TaskEntry{Removed: &r}); err != nil {
			return err
		}
	}
}

// RemoveUnfinished removes what a submit left that never finished, and sees to it that it
// never will. short is the id to give back, "" when there is none: no user was ever
// told it. A job that was submitted after all is refused as fault.Invalid.
func RemoveUnfinished(ctx context.Context, w protocol.World, p job.Path, short, by string) error {
	l := w.TaskLog(p, by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		t := tasks.FoldTask(l.Entries)
		if _, submitted := t.PlaceOf(p.Job); submitted {
			return fault.New(fault.Invalid, "", "remove submit of job %s: it has finished", p.Job)
		}
		if t.WasRemoved(p.Job) {
			break
		}
		if _, err := l.Append(ctx, protocol.TaskEntry{Removed: &protocol.Removed{Job: p.Job}}); err != nil {
			return err
		}
	}
	if err := deleteObjects(ctx, w, p); err != nil || short == "" {
		return err
	}
	return w.Store.Delete(ctx, protocol.IDKey(short))
}

// removedFacts is what stays known of a job.
func removedFacts(ctx context.Context, w protocol.World, p job.Path, place int) (protocol.Removed, error) {
	r := protocol.Removed{Job: p.Job}
	j, err := tasks.LoadJob(ctx, w, p)
	if errors.Is(err, store.ErrNotExist) { // taken by hand
		return r, nil
	}
	if err != nil {
		return r, err
	}
	l := w.JobLog(p, "")
	if err := l.Read(ctx); err != nil {
		return r, err
	}
	r.Since, r.StateSince = j.Since, j.StateSince
	if s := runs.FoldRun(l.Entries).Settled; s != nil {
		if r.State = s.State; s.State == job.Succeeded {
			r.Since = place + 1 // the next one begins with no checkpoints
		}
	}
	return r, nil
}

// deleteObjects deletes what a removed job still has.
func deleteObjects(ctx context.Context, w protocol.World, p job.Path) error {
	if err := w.Store.Delete(ctx, protocol.JobKey(p)); err != nil {
		return fmt.Errorf("remove job: %w", err)
	}
	log := protocol.JobDir(p) + "/log/"
	for o, err := range w.Store.List(ctx, protocol.JobDir(p)+"/") {
		if err == nil && !strings.HasPrefix(o.Key, log) {
			err = w.Store.Delete(ctx, o.Key)
		}
		if err != nil {
			return fmt.Errorf("remove job: %w", err)
		}
	}
	for o, err := range w.Store.List(ctx, log) {
		if err == nil {
			err = w.Store.Delete(ctx, o.Key)
		}
		if err != nil {
			return fmt.Errorf("remove job: %w", err)
		}
	}
	return nil
}
