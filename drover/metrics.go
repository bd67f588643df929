package drover

import (
	"context"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/metric"
)

// MetricOptions choose metrics and samples. The zero value is all.
type MetricOptions struct {
	Names    []string // of metrics; none: all
	Attempts []int    // none: all
	Nodes    []int    // none: all
}

func (o MetricOptions) recordFilter() record.Filter {
	return record.Filter{Attempts: o.Attempts, Ranks: o.Nodes}
}

// Series is one metric of one node in one attempt, by step and then by time.
type Series struct {
	Name    string  `json:"name"`
	Node    int     `json:"node"`
	Attempt int     `json:"attempt"`
	Points  []Point `json:"points"`
}

// Point is one value of a metric. A value that is no number, or infinite, is a gap.
type Point struct {
	Time  time.Time `json:"time"`
	Step  int64     `json:"step"` // what the program said of its step or epoch
	Value float64   `json:"value"`
	// Counted says that it said nothing: the values of that name are counted from 1.
	Counted bool `json:"counted,omitempty"`
}

// Metrics are the numbers that were found in what the job's programs printed, as
// far as they are stored: of a live job what is some seconds old.
func (j *jobOutput) Metrics(ctx context.Context, o MetricOptions) ([]Series, error) {
	w := j.c.world
	all, err := metric.ReadSeries(record.Read(ctx, w.Store, protocol.MetricsPrefix(j.path), o.recordFilter()))
	if err != nil {
		return nil, err
	}
	var series []Series
	for _, s := range all {
		if len(o.Names) > 0 && !slices.Contains(o.Names, s.Name) {
			continue
		}
		one := Series{Name: s.Name, Node: s.Rank, Attempt: s.Attempt, Points: make([]Point, len(s.Points))}
		for i, p := range s.Points {
			one.Points[i] = Point{Time: p.Time, Step: p.Step, Value: p.Value, Counted: p.Counted}
		}
		series = append(series, one)
	}
	return series, nil
}

// NodeUsage is what one node used in one attempt, in the order of time.
type NodeUsage struct {
	Node    int      `json:"node"`
	Attempt int      `json:"attempt"`
	Samples []Sample `json:"samples"`
}

// Sample is what a node's program used at one moment, or since the sample before
// where it is per second. Network and GPUs are those of the whole machine.
type Sample struct {
	Time        time.Time   `json:"time"`
	CPU         float64     `json:"cpu"`                    // cores in use
	Memory      int64       `json:"memory"`                 // bytes
	MemoryLimit int64       `json:"memory_limit,omitempty"` // bytes; 0: none
	Disk        int64       `json:"disk,omitempty"`         // bytes in the job's folders
	DiskRead    int64       `json:"disk_read,omitempty"`    // bytes per second
	DiskWritten int64       `json:"disk_written,omitempty"` // bytes per second
	NetIn       int64       `json:"net_in,omitempty"`       // bytes per second
	NetOut      int64       `json:"net_out,omitempty"`      // bytes per second
	GPU         []GPUSample `json:"gpu,omitempty"`
}

// GPUSample is what one GPU did.
type GPUSample struct {
	Index       int     `json:"index"`
	Util        float64 `json:"util"`   // percent of the time
	Memory      int64   `json:"memory"` // bytes
	MemoryTotal int64   `json:"memory_total,omitempty"`
	Power       float64 `json:"power,omitempty"` // watts
}

// Usage is what the job's nodes used, a sample every 5 s, as far as it is stored.
func (j *jobOutput) Usage(ctx context.Context, o MetricOptions) ([]NodeUsage, error) {
	var all []NodeUsage
	w := j.c.world
	for s, err := range metric.Samples(record.Read(ctx, w.Store, protocol.UsagePrefix(j.path), o.recordFilter())) {
		if err != nil {
			return all, err
		}
		i := slices.IndexFunc(all, func(u NodeUsage) bool { return u.Node == s.Rank && u.Attempt == s.Attempt })
		if i < 0 {
			i = len(all)
			all = append(all, NodeUsage{Node: s.Rank, Attempt: s.Attempt})
		}
		one := Sample{Time: s.Time, CPU: s.CPU, Memory: s.Memory, MemoryLimit: s.MemoryLimit, Disk: s.Disk,
			DiskRead: s.DiskRead, DiskWritten: s.DiskWritten, NetIn: s.NetIn, NetOut: s.NetOut}
		for _, g := range s.GPU {
			one.GPU = append(one.GPU, GPUSample(g))
		}
		all[i].Samples = append(all[i].Samples, one)
	}
	return all, nil
}
