package cli

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// measured is a map's status with what its items used and how they failed, as JSON.
type measured struct {
	drover.MapStatus
	Use    *useOfItems    `json:"use,omitempty"`
	Failed []drover.Group `json:"failed_groups,omitempty"`
	Advice *drover.Advice `json:"advice,omitempty"`
}

type useOfItems struct {
	Seconds spreadJSON `json:"seconds"`
	CPU     spreadJSON `json:"cpu_seconds"`
	Memory  spreadJSON `json:"max_rss_bytes"`
}

// spreadJSON is a figure of all items for programs.
type spreadJSON struct {
	Items     int          `json:"items"`
	Mean      float64      `json:"mean"`
	P50       float64      `json:"p50"`
	P95       float64      `json:"p95"`
	Max       float64      `json:"max"`
	MaxItem   int          `json:"max_item,omitempty"`
	Histogram []drover.Bar `json:"histogram,omitempty"`
}

// histogramBars is as wide as fits beside its ends on a narrow screen.
const histogramBars = 24

func newSpreadJSON(s drover.Spread) spreadJSON {
	return spreadJSON{Items: s.Count, Mean: s.Sum / max(float64(s.Count), 1), P50: s.Quantile(0.5), P95: s.Quantile(0.95), Max: s.Max, MaxItem: s.MaxItem, Histogram: s.Histogram(histogramBars)}
}

// measure looks at what a map's items have come to; nothing while none has ended.
func measure(ctx context.Context, j *drover.Job, s drover.MapStatus) (f drover.Figures, m measured, err error) {
	m.MapStatus = s
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

// figureLines are what items used, each line with its key.
func figureLines(p paper, f drover.Figures) (lines [][2]string) {
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
	add("time", f.Seconds, briefly)
	if bars := f.Seconds.Histogram(histogramBars); len(bars) > 1 {
		heights := make([]float64, len(bars))
		for i, b := range bars {
			heights[i] = float64(b.Items)
			if b.Items == 0 {
				heights[i] = math.NaN()
			}
		}
		least := briefly(f.Seconds.Min)
		lines = append(lines, [2]string{"", least + " " + p.spark(heights, len(heights), peak(heights)) + " " + briefly(f.Seconds.Max)})
	}
	add("processor", f.CPU, briefly)
	add("memory", f.Memory, func(v float64) string { return job.Bytes(v).Words() })
	return lines
}

// firstGroups is how many ways to fail the end of a map names.
const firstGroups = 5

// groupLine is "602 items: cannot identify image file '...' (exit status 3), such as item 997".
func groupLine(g drover.Group) string {
	if g.Items == 1 {
		return fmt.Sprintf("item %d: %s", g.First, g.Words())
	}
	return fmt.Sprintf("%s: %s, such as item %d", count(g.Items, "item"), g.Words(), g.First)
}

const (
	watchEvery = time.Second
	// watchIdle is how many looks in a row nobody may work before that is said: for a
	// moment it is so between two attempts.
	watchIdle = 10
	// figuresShare is how many times longer than reading what all items used we wait
	// until it is read anew: of the chunks that are open that costs.
	figuresShare = 20
)
