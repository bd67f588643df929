package drover

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// kind is what a run and a map answer each in their own way. Which of them a job is, is asked
// once, by readKind. A kind may keep what it has read, so that its next answer reads only what
// is new; it is not for concurrent use.
type kind interface {
	// readStatus is Job.Status.
	readStatus(ctx context.Context) (Status, error)
	// explainState is Job.Why.
	explainState(ctx context.Context) (Reason, error)
	// bringOutputs is Job.Get, into an absolute path.
	bringOutputs(ctx context.Context, dir string, o GetOptions) (Got, error)
	// pollInterval is how often the job is read while it lives.
	pollInterval() time.Duration
}

// runKind is a program on one node or several.
type runKind struct{ j *Job }

// mapKind is a program for each of many items.
type mapKind struct {
	j    *Job
	rec  job.Job
	view *views.MapView
}

var (
	_ kind = runKind{}
	_ kind = mapKind{}
)

// readKind reads which kind a job is, from its record.
func (j *jobRef) readKind(ctx context.Context) (kind, error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		if _, said := j.readReport(ctx); said != nil { // in words for people
			err = said
		}
		return nil, err
	}
	return j.kindOf(rec), nil
}

func (j *jobRef) kindOf(rec job.Job) kind {
	if rec.Spec.Verb != job.Map {
		return runKind{j.wholeJob()}
	}
	return mapKind{j: j.wholeJob(), rec: rec, view: views.NewMapView(j.c.world, rec)}
}

func (k runKind) readStatus(ctx context.Context) (Status, error) { return k.j.BriefStatus(ctx) }
func (k runKind) pollInterval() time.Duration                    { return k.j.c.pollInterval() }

func (k mapKind) readStatus(ctx context.Context) (Status, error) {
	r, err := k.view.Refresh(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("read job %s: %w", k.j.path.Job, err)
	}
	return mapStatus(k.j.path, k.view, r, k.j.c.world.Store.Clock().Now()), nil
}

func (k mapKind) pollInterval() time.Duration { return 4 * k.j.c.pollInterval() }

// View reads the state of a job again and again, each time only what is new. Not for
// concurrent use.
type View struct{ kind kind }

// View makes one. It reads nothing of a map's items yet.
func (j *Job) View(ctx context.Context) (*View, error) {
	k, err := j.readKind(ctx)
	if err != nil {
		return nil, err
	}
	return &View{k}, nil
}

// Status returns the job's state now. It changes nothing.
func (v *View) Status(ctx context.Context) (Status, error) { return v.kind.readStatus(ctx) }

// Status returns the job's state, of a map with that of its items. It changes nothing.
func (j *jobRef) Status(ctx context.Context) (Status, error) {
	k, err := j.readKind(ctx)
	if err != nil {
		return Status{}, err
	}
	return k.readStatus(ctx)
}

// BriefStatus is Status without the items of a map: MapStatus is nil, and the store is asked for
// less.
func (j *jobRef) BriefStatus(ctx context.Context) (Status, error) {
	rep, err := j.readReport(ctx)
	if err != nil {
		return Status{}, err
	}
	return status(rep), nil
}

// Statuses gives the job's state, at once and whenever it has changed. It ends when the job has
// settled, when no agent works on it any more, or when ctx does. Each time only what is new is
// read.
func (j *Job) Statuses(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		k, err := j.readKind(ctx)
		if err != nil {
			yield(Status{}, err)
			return
		}
		clock := j.c.world.Store.Clock()
		var last Status
		for idle := 0; idle <= idleLooks; {
			s, err := k.readStatus(ctx)
			if err != nil {
				yield(Status{}, err)
				return
			}
			if idle++; s.State != job.Interrupted {
				idle = 0
			}
			if (last.V == 0 || !s.looksTheSame(last)) && !yield(s, nil) || s.State.Settled() {
				return
			}
			last = s
			if err := clock.Sleep(ctx, k.pollInterval()); err != nil {
				yield(Status{}, err)
				return
			}
		}
	}
}

// Why explains the job's state in a sentence, from what is recorded; of a map with its failed
// items in groups and what to do about each.
func (j *Job) Why(ctx context.Context) (Reason, error) {
	k, err := j.readKind(ctx)
	if err != nil {
		return Reason{}, err
	}
	return k.explainState(ctx)
}
