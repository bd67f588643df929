package output

import (
	"context"
	"slices"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/metric"
	"github.com/drover-run/drover/report"
)

func metricFilter(o report.MetricOptions) record.Filter {
	return record.Filter{Attempts: o.Attempts, Ranks: o.Nodes}
}

// Metrics are the numbers that were found in what the job's programs printed, as
// far as they are stored: of a live job what is some seconds old.
func (x Reader) Metrics(ctx context.Context, o report.MetricOptions) ([]report.Series, error) {
	w := x.session.World
	all, err := metric.ReadSeries(record.Read(ctx, w.Store, protocol.MetricsPrefix(x.path), metricFilter(o)))
	if err != nil {
		return nil, err
	}
	var series []report.Series
	for _, s := range all {
		if len(o.Names) > 0 && !slices.Contains(o.Names, s.Name) {
			continue
		}
		one := report.Series{Name: s.Name, Node: s.Rank, Attempt: s.Attempt, Points: make([]report.Point, len(s.Points))}
		for i, p := range s.Points {
			one.Points[i] = report.Point{Time: p.Time, Step: p.Step, Value: p.Value, Counted: p.Counted}
		}
		series = append(series, one)
	}
	return series, nil
}

// Usage is what the job's nodes used, a sample every 5 s, as far as it is stored.
func (x Reader) Usage(ctx context.Context, o report.MetricOptions) ([]report.NodeUsage, error) {
	var all []report.NodeUsage
	w := x.session.World
	for s, err := range metric.Samples(record.Read(ctx, w.Store, protocol.UsagePrefix(x.path), metricFilter(o))) {
		if err != nil {
			return all, err
		}
		i := slices.IndexFunc(all, func(u report.NodeUsage) bool { return u.Node == s.Rank && u.Attempt == s.Attempt })
		if i < 0 {
			i = len(all)
			all = append(all, report.NodeUsage{Node: s.Rank, Attempt: s.Attempt})
		}
		one := report.Sample{Time: s.Time, CPU: s.CPU, Memory: s.Memory, MemoryLimit: s.MemoryLimit, Disk: s.Disk,
			DiskRead: s.DiskRead, DiskWritten: s.DiskWritten, NetIn: s.NetIn, NetOut: s.NetOut}
		for _, g := range s.GPU {
			one.GPU = append(one.GPU, report.GPUSample(g))
		}
		all[i].Samples = append(all[i].Samples, one)
	}
	return all, nil
}
