package plot

import (
	"context"

	"github.com/drover-run/drover/drover"
)

// What a job measured, by short names: plots speak of nothing else.
type (
	Series    = drover.Series
	Point     = drover.Point
	NodeUsage = drover.NodeUsage
	Sample    = drover.Sample
	GPUSample = drover.GPUSample
)

// Measures reads what a job has measured so far.
func Measures(ctx context.Context, j *drover.Job, o drover.MetricOptions) ([]Series, []NodeUsage, error) {
	all, err := j.Metrics(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	used, err := j.Usage(ctx, o)
	return all, used, err
}
