package drover

import (
	"context"
	"fmt"
	"iter"

	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// MapLook looks at a map again and again, reading only what is new. Not for
// concurrent use.
type MapLook struct {
	j *Job
	v *views.MapView
}

// LookAtMap makes one. It reads nothing of the items yet.
func (j *Job) LookAtMap(ctx context.Context) (*MapLook, error) {
	v, _, err := j.newMapView(ctx)
	if err != nil {
		return nil, err
	}
	return &MapLook{j, v}, nil
}

// Status looks. It changes nothing.
func (l *MapLook) Status(ctx context.Context) (MapStatus, error) {
	r, err := l.v.Refresh(ctx)
	if err != nil {
		return MapStatus{}, fmt.Errorf("read job %s: %w", l.j.path.Job, err)
	}
	return mapStatus(l.j.path, l.v, r, l.j.c.world.Store.Clock().Now()), nil
}

// MapStatus looks at a map once. It changes nothing.
func (j *jobRef) MapStatus(ctx context.Context) (MapStatus, error) {
	l, err := j.wholeJob().LookAtMap(ctx)
	if err != nil {
		return MapStatus{}, err
	}
	return l.Status(ctx)
}

// WatchMap gives how a map stands, at once and whenever that has changed, and ends when
// it has settled, when it has no agents any more, or when ctx does. Each look reads only
// what is new.
func (j *Job) WatchMap(ctx context.Context) iter.Seq2[MapStatus, error] {
	return func(yield func(MapStatus, error) bool) {
		l, err := j.LookAtMap(ctx)
		if err != nil {
			yield(MapStatus{}, err)
			return
		}
		clock := j.c.world.Store.Clock()
		var last MapStatus
		for idle := 0; idle <= idleLooks; {
			s, err := l.Status(ctx)
			if err != nil {
				yield(MapStatus{}, err)
				return
			}
			if idle++; s.State != job.Interrupted {
				idle = 0
			}
			if (last.V == 0 || !s.looksTheSame(last)) && !yield(s, nil) || s.State.Settled() {
				return
			}
			last = s
			if err := clock.Sleep(ctx, 4*j.c.pollInterval()); err != nil {
				yield(MapStatus{}, err)
				return
			}
		}
	}
}

// Leftovers are what a map's items did to files that are not brought home.
type Leftovers struct {
	Lost      int    // files that items left in their working folders
	LostFirst string // one of them
	Changed   int    // files of the user's own that changed while items had them as links
	// ChangedFirst is one of them.
	ChangedFirst string
}

// Leftovers are those of the round that ran last, as far as its agents have told. Where
// there are very many agents they are not asked.
func (j *Job) Leftovers(ctx context.Context) (Leftovers, error) {
	v, rec, err := j.newMapView(ctx)
	if err != nil || !mapagent.Few(rec.Spec.Workers) {
		return Leftovers{}, err
	}
	r, err := v.Refresh(ctx)
	if err != nil {
		return Leftovers{}, err
	}
	since := rec.At
	for _, e := range r.Log {
		if e.Reopened != nil {
			since = e.At
		}
	}
	made, err := views.ReadLeftovers(ctx, j.c.world, j.path, since)
	return Leftovers(made), err
}
