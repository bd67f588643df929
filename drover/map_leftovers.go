package drover

import (
	"context"

	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/views"
)

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
	rec, err := j.readMapRecord(ctx)
	if err != nil || !mapagent.Few(rec.Spec.Workers) {
		return Leftovers{}, err
	}
	r, err := views.NewMapView(j.c.world, rec).Refresh(ctx)
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
