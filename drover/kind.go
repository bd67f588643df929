package drover

import (
	"context"

	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// kind is what a run and a map answer each in their own way. Which of them a job is, is asked
// once, by readKind.
type kind interface {
	// explainState is Job.Why.
	explainState(ctx context.Context) (Reason, error)
}

type runKind struct{ j *Job }

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
func (j *Job) readKind(ctx context.Context) (kind, error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		if _, said := j.readReport(ctx); said != nil { // in words for people
			err = said
		}
		return nil, err
	}
	if rec.Spec.Verb != job.Map {
		return runKind{j}, nil
	}
	return mapKind{j: j, rec: rec, view: views.NewMapView(j.c.world, rec)}, nil
}
