package cli

import (
	"context"

	"github.com/drover-run/drover/drover"
)

// What a job measured, by short names: plots speak of nothing else.
type (
	series    = drover.Series
	point     = drover.Point
	nodeUsage = drover.NodeUsage
	sample    = drover.Sample
	gpuSample = drover.GPUSample
)

// measures reads what a job has measured so far.
func measures(ctx context.Context, j *drover.Job, o drover.MetricOptions) ([]series, []nodeUsage, error) {
	all, err := j.Metrics(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	used, err := j.Usage(ctx, o)
	return all, used, err
}
