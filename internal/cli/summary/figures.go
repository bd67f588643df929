package summary

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Measured is a map's status with what its items used and how they failed, as JSON.
type Measured struct {
	drover.Status
	Use    *useOfItems    `json:"use,omitempty"`
	Failed []drover.Group `json:"failed_groups,omitempty"`
	Advice *drover.Advice `json:"advice,omitempty"`
}

type useOfItems struct {
	Seconds SpreadJSON `json:"seconds"`
	CPU     SpreadJSON `json:"cpu_seconds"`
	Memory  SpreadJSON `json:"max_rss_bytes"`
}

// SpreadJSON is a figure of all items for programs.
type SpreadJSON struct {
	Items     int          `json:"items"`
	Mean      float64      `json:"mean"`
	P50       float64      `json:"p50"`
	P95       float64      `json:"p95"`
	Max       float64      `json:"max"`
	MaxItem   int          `json:"max_item,omitempty"`
	Histogram []drover.Bar `json:"histogram,omitempty"`
}

// HistogramBars is as wide as fits beside its ends on a narrow screen.
const HistogramBars = 24

func newSpreadJSON(s drover.Spread) SpreadJSON {
	return SpreadJSON{Items: s.Count, Mean: s.Sum / max(float64(s.Count), 1), P50: s.Quantile(0.5), P95: s.Quantile(0.95), Max: s.Max, MaxItem: s.MaxItem, Histogram: s.Histogram(HistogramBars)}
}

// Measure looks at what a map's items have come to; nothing while none has ended.
func Measure(ctx context.Context, j *drover.Job, s drover.Status) (f drover.Figures, m Measured, err error) {
	m.Status = s
	if s.Items.Succeeded+s.Items.Failed+s.Items.Quarantined == 0 {
		return f, m, nil
	}
	if f, err = j.Figures(ctx); err != nil {
		return f, m, err
	}
	if f.Seconds.Count > 0 {
		m.Use = &useOfItems{newSpreadJSON(f.Seconds), newSpreadJSON(f.CPU), newSpreadJSON(f.Memory)}
	}
	m.Failed = f.Groups
	m.Advice, err = j.Advice(ctx, f)
	return f, m, err
}

// FigureLines are what items used, each line with its key.
func FigureLines(p plot.Paper, f drover.Figures) (lines [][2]string) {
	if f.Seconds.Count == 0 {
		return nil
	}
	add := func(key string, s drover.Spread, words func(float64) string) {
		if s.Count == 0 {
			return
		}
		text := words(s.Max)
		if s.Min < s.Max {
			text = fmt.Sprintf("p50 %s   p95 %s   max %s (item %d)", words(s.Quantile(0.5)), words(s.Quantile(0.95)), words(s.Max), s.MaxItem)
		} else if s.Count > 1 {
			text += " each"
		}
		lines = append(lines, [2]string{key, text})
	}
	add("time", f.Seconds, terminal.Briefly)
	if bars := f.Seconds.Histogram(HistogramBars); len(bars) > 1 {
		heights := make([]float64, len(bars))
		for i, b := range bars {
			heights[i] = float64(b.Items)
			if b.Items == 0 {
				heights[i] = math.NaN()
			}
		}
		least := terminal.Briefly(f.Seconds.Min)
		lines = append(lines, [2]string{"", least + " " + p.Spark(heights, len(heights), plot.Peak(heights)) + " " + terminal.Briefly(f.Seconds.Max)})
	}
	add("processor", f.CPU, terminal.Briefly)
	add("memory", f.Memory, func(v float64) string { return job.Bytes(v).Words() })
	return lines
}

// FirstGroups is how many ways to fail the end of a map names.
const FirstGroups = 5

// GroupLine is "602 items: cannot identify image file '...' (exit status 3), such as item 997".
func GroupLine(g drover.Group) string {
	if g.Items == 1 {
		return fmt.Sprintf("item %d: %s", g.First, g.Words())
	}
	return fmt.Sprintf("%s: %s, such as item %d", terminal.Count(g.Items, "item"), g.Words(), g.First)
}

const (
	WatchEvery = time.Second
	// WatchIdle is how many reads in a row may find no agent at work before that is
	// reported: between two attempts none is for a moment.
	WatchIdle = 10
	// FiguresShare is how many times longer than reading what all items used we wait
	// until it is read anew: of the chunks that are open that costs.
	FiguresShare = 20
)
