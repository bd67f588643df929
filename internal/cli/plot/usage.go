package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/cli/terminal"
)

// UsageSeries turns samples into series, for plots and tables of them.
func UsageSeries(used []NodeUsage) (out []Series) {
	for _, u := range used {
		gpus := 0
		for _, s := range u.Samples {
			gpus = max(gpus, len(s.GPU))
		}
		of := func(name string, value func(Sample) float64) {
			one := Series{Name: name, Node: u.Node, Attempt: u.Attempt}
			for _, s := range u.Samples {
				one.Points = append(one.Points, Point{Time: s.Time, Value: value(s)})
			}
			out = append(out, one)
		}
		of("cpu_cores", func(s Sample) float64 { return s.CPU })
		of("memory_bytes", func(s Sample) float64 { return float64(s.Memory) })
		of("disk_bytes", func(s Sample) float64 { return float64(s.Disk) })
		of("disk_read_bytes_per_s", func(s Sample) float64 { return float64(s.DiskRead) })
		of("disk_written_bytes_per_s", func(s Sample) float64 { return float64(s.DiskWritten) })
		of("net_in_bytes_per_s", func(s Sample) float64 { return float64(s.NetIn) })
		of("net_out_bytes_per_s", func(s Sample) float64 { return float64(s.NetOut) })
		for i := range gpus {
			of(fmt.Sprintf("gpu%d_percent", i), func(s Sample) float64 { return gpuOf(s, i, func(g GPUSample) float64 { return g.Util }) })
			of(fmt.Sprintf("gpu%d_memory_bytes", i), func(s Sample) float64 { return gpuOf(s, i, func(g GPUSample) float64 { return float64(g.Memory) }) })
		}
	}
	return out
}

// Unit writes values of usage: nil for those that are plain numbers.
func Unit(name string, usage bool) func(float64) string {
	switch {
	case usage && strings.HasSuffix(name, "_bytes_per_s"):
		return func(v float64) string { return terminal.Size(int64(v)) + "/s" }
	case usage && strings.HasSuffix(name, "_bytes"):
		return func(v float64) string { return terminal.Size(int64(v)) }
	}
	return nil
}

func gpuOf(s Sample, i int, value func(GPUSample) float64) float64 {
	if i >= len(s.GPU) {
		return math.NaN()
	}
	return value(s.GPU[i])
}

// SparkCells is how long a sparkline is in a line of usage.
const SparkCells = 10

// UsageLines tell what each node uses now and used before: one line a node where
// it fits, attempts one behind the other.
func UsageLines(p Paper, used []NodeUsage) (lines []string) {
	nodes := ByNode(used)
	for _, u := range nodes {
		indent := ""
		if len(nodes) > 1 {
			indent = fmt.Sprintf("node %d  ", u.Node)
		}
		lines = append(lines, p.Flow(indent, usageItems(p, u.Samples))...)
	}
	return lines
}

// ByNode puts the attempts of each node together, in order.
func ByNode(used []NodeUsage) (out []NodeUsage) {
	used = slices.Clone(used)
	slices.SortStableFunc(used, func(a, b NodeUsage) int {
		if a.Node != b.Node {
			return a.Node - b.Node
		}
		return a.Attempt - b.Attempt
	})
	for _, u := range used {
		last := len(out) - 1
		switch {
		case len(u.Samples) == 0:
		case last >= 0 && out[last].Node == u.Node:
			out[last].Attempt, out[last].Samples = u.Attempt, slices.Concat(out[last].Samples, u.Samples)
		default:
			out = append(out, u)
		}
	}
	return out
}

// Sampled are one number of each sample.
func Sampled(samples []Sample, of func(Sample) float64) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = of(s)
	}
	return out
}

// Peak is the greatest number, or 0.
func Peak(values []float64) (top float64) {
	for _, v := range values {
		if finite(v) {
			top = max(top, v)
		}
	}
	return top
}

// usageItems are the gauges of one node that have ever moved.
func usageItems(p Paper, samples []Sample) (items []string) {
	now := samples[len(samples)-1]
	add := func(text string, all []float64, top float64) {
		items = append(items, strings.TrimRight(text+" "+p.Spark(all, SparkCells, top), " "))
	}
	cpu := Sampled(samples, func(s Sample) float64 { return s.CPU })
	add(Cores(now.CPU), cpu, math.Ceil(Peak(cpu)))
	memory := Sampled(samples, func(s Sample) float64 { return float64(s.Memory) })
	add("memory "+OfLimit(now.Memory, now.MemoryLimit), memory, max(float64(now.MemoryLimit), Peak(memory)))
	for _, io := range []struct {
		name string
		rate func(Sample) float64
	}{
		{"disk", func(s Sample) float64 { return float64(s.DiskRead + s.DiskWritten) }},
		{"net", func(s Sample) float64 { return float64(s.NetIn + s.NetOut) }},
	} {
		all := Sampled(samples, io.rate)
		if top := Peak(all); top > 0 {
			add(fmt.Sprintf("%s %s/s", io.name, terminal.Size(int64(all[len(all)-1]))), all, top)
		}
	}
	for i, g := range now.GPU {
		name := "gpu"
		if len(now.GPU) > 1 {
			name = fmt.Sprintf("gpu%d", g.Index)
		}
		util := Sampled(samples, func(s Sample) float64 { return gpuOf(s, i, func(g GPUSample) float64 { return g.Util }) })
		add(fmt.Sprintf("%s %.0f%%", name, g.Util), util, 100)
		memory := Sampled(samples, func(s Sample) float64 { return gpuOf(s, i, func(g GPUSample) float64 { return float64(g.Memory) }) })
		add(name+" mem "+OfLimit(g.Memory, g.MemoryTotal), memory, max(float64(g.MemoryTotal), Peak(memory)))
	}
	return items
}

// Cores is a number of cores in use.
func Cores(n float64) string {
	if !finite(n) {
		return "cpu -"
	}
	return fmt.Sprintf("cpu %.1f", n)
}

// OfLimit is a number of bytes beside its limit.
func OfLimit(n, limit int64) string {
	if limit <= 0 {
		return terminal.Size(n)
	}
	return terminal.Size(n) + " of " + terminal.Size(limit)
}
