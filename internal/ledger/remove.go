package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Removed says that gc took a job away (E6), and what of it the task's next job
// must still know: the job itself is not there to be asked.
type Removed struct {
	Job   string    `json:"job"`
	State job.State `json:"state,omitempty"` // as it had settled; "" for a submit that never finished
	// Since is the first place whose checkpoints a next job may begin with,
	// StateSince that of /state: as job.Job's.
	Since      int `json:"since,omitempty"`
	StateSince int `json:"state_since,omitempty"`
}

func (t Task) removed(id string) bool {
	_, gone := t.Gone[id]
	return gone
}

// has says whether a job is there and has not come back since it had that place.
func (t Task) has(p Place) bool {
	place, ok := t.PlaceOf(p.Job)
	return ok && place == p.Place && !t.removed(p.Job)
}

// Remove takes a job's objects away, for good. Its task's log says so first, and
// keeps its place; its short id is kept too, so that neither is used again. Then
// goes job.json, without which nobody works on it, and its own log last. It may be
// called again, by anyone: a removal that was cut short is finished, and what
// somebody slow wrote meanwhile is swept.
//
// place is that of the job when it was chosen, and because another of its task that
// lets it go, a newer success, if it names one. Refused as fault.Invalid are a job that
// has not settled, or was submitted again since, and one whose because was removed or
// submitted again: what it was chosen for is not so any more.
func (w World) Remove(ctx context.Context, p job.Path, place int, because Place, by string) error {
	l := w.openLog(taskDir(p)+"/log", by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		t := foldTask(l.Entries)
		if t.removed(p.Job) {
			return w.clear(ctx, p)
		}
		if _, submitted := t.PlaceOf(p.Job); !submitted {
			return fault.New(fault.Missing, "", "remove job %s: it was never submitted", p.Job)
		}
		if !t.has(Place{p.Job, place}) {
			return fault.New(fault.Invalid, "Look again: drover gc.", "remove job %s: it was submitted again", p.Job)
		}
		if t.Live == p.Job {
			closed, err := w.closeIfSettled(ctx, l, p)
			if err != nil {
				return err
			}
			if !closed {
				return fault.New(fault.Invalid, "End it first: drover cancel "+p.Job+".", "remove job %s: it has not ended", p.Job)
			}
			continue
		}
		if because.Job != "" && !t.has(because) {
			return fault.New(fault.Invalid, "Look again: drover gc.", "remove job %s: job %s, which stood for it, is gone or was submitted again", p.Job, because.Job)
		}
		r, err := w.leaves(ctx, p, place)
		if err != nil {
			return err
		}
		if _, err := l.Append(ctx, Entry{Removed: &r}); err != nil {
			return err
		}
	}
}

// Abandon removes what a submit left that never finished, and sees to it that it
// never will. short is the id to give back, "" when there is none: nobody was ever
// told it. A job that was submitted after all is refused as fault.Invalid.
func (w World) Abandon(ctx context.Context, p job.Path, short, by string) error {
	l := w.openLog(taskDir(p)+"/log", by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		t := foldTask(l.Entries)
		if _, submitted := t.PlaceOf(p.Job); submitted {
			return fault.New(fault.Invalid, "", "remove submit of job %s: it has finished", p.Job)
		}
		if t.removed(p.Job) {
			break
		}
		if _, err := l.Append(ctx, Entry{Removed: &Removed{Job: p.Job}}); err != nil {
			return err
		}
	}
	if err := w.clear(ctx, p); err != nil || short == "" {
		return err
	}
	return w.Store.Delete(ctx, idKey(short))
}

// leaves is what stays known of a job.
func (w World) leaves(ctx context.Context, p job.Path, place int) (Removed, error) {
	r := Removed{Job: p.Job}
	j, err := w.Load(ctx, p)
	if errors.Is(err, store.ErrNotExist) { // taken by hand
		return r, nil
	}
	if err != nil {
		return r, err
	}
	l := w.openLog(jobDir(p)+"/log", "")
	if err := l.Read(ctx); err != nil {
		return r, err
	}
	r.Since, r.StateSince = j.Since, j.StateSince
	if s := foldRun(l.Entries).Settled; s != nil {
		if r.State = s.State; s.State == job.Succeeded {
			r.Since = place + 1 // the next one begins with no checkpoints
		}
	}
	return r, nil
}

// clear deletes what a removed job still has.
func (w World) clear(ctx context.Context, p job.Path) error {
	if err := w.Store.Delete(ctx, jobKey(p)); err != nil {
		return fmt.Errorf("remove job: %w", err)
	}
	log := jobDir(p) + "/log/"
	for o, err := range w.Store.List(ctx, jobDir(p)+"/") {
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

// abandoned is a submit's answer when gc took it for one that would never finish.
func abandoned(j job.Job) error {
	return fault.New(fault.Lost, "Run it again.", "submit job %s: it took so long that gc has removed it", j.Short)
}
