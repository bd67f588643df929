package figures

import (
	"math"
	"slices"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// Pilot is what a sample of a map's items came to.
type Pilot struct {
	report.Pilot
	steady    float64 // Mean without what the machine did to the shortest items
	deviation float64 // of an item's seconds
	start     float64 // seconds until the first item began
	end       float64 // seconds after the last one
}

// MeasureItems takes the figures of the items of a job with these times. A try that failed and was followed by another
// is not read: it is taken to be as long as the last.
func (r *Pilot) MeasureItems(submitted, ended time.Time, all []report.ItemResult) {
	if len(all) == 0 {
		return
	}
	first, last := ended, submitted
	r.Least = math.Inf(1)
	n := float64(len(all))
	var walls []float64
	for _, it := range all {
		tries := float64(it.Failures)
		if it.State == job.ItemSucceeded {
			tries++
		}
		wall := it.Seconds * max(1, tries)
		r.Mean += wall / n
		r.CPU += it.CPU * max(1, tries) / n
		r.Least, r.Most, r.MaxRSS = min(r.Least, wall), max(r.Most, wall), max(r.MaxRSS, it.MaxRSS)
		walls = append(walls, wall)
		if began := it.Ended.Add(-time.Duration(it.Seconds * float64(time.Second))); began.Before(first) {
			first = began
		}
		if it.Ended.After(last) {
			last = it.Ended
		}
	}
	r.steady, r.deviation = spread(calmed(walls))
	r.start, r.end = max(0, first.Sub(submitted).Seconds()), max(0, ended.Sub(last).Seconds())
}

// calmed cuts off what a busy machine does to items of a few milliseconds: each
// waits for a core now and then, for longer than it runs, and 20 of them do not show
// how seldom. Of many, the wait of one is another's run.
func calmed(walls []float64) []float64 {
	sorted := slices.Sorted(slices.Values(walls))
	most := sorted[len(sorted)*3/4]
	if sorted[len(sorted)/2] > shortItem || most > longWait {
		return walls
	}
	for i, w := range walls {
		if w < longWait {
			walls[i] = min(w, most)
		}
	}
	return walls
}

// spread is the mean and the deviation.
func spread(walls []float64) (mean, deviation float64) {
	n := float64(len(walls))
	for _, w := range walls {
		mean += w / n
	}
	for _, w := range walls {
		deviation += (w - mean) * (w - mean) / max(1, n-1)
	}
	return mean, math.Sqrt(deviation)
}

const (
	// shortItem is an item that takes about as long as to wait for a core, and
	// longWait is longer than one waits for it, in seconds.
	shortItem = 5e-3
	longWait  = 25e-3
	// ownWall is what lies between two items in a slot, and ownCPU what drover itself
	// spends on an item beside its program, in seconds. A job of many thousand items
	// of 1 ms each came to so much (bench, map-pilot); in a pilot of 20 neither can be
	// seen, and of items that take longer neither matters.
	ownWall = 200e-6
	ownCPU  = 150e-6
	// sure is how many standard errors Low and High are away: 19 of 20 lie between.
	sure = 2
)

// Extrapolate says how long so many items take, so many at once. What cannot be
// had twice bounds it three ways: the slots, the cores (of which items may use
// more together than there are, and did not while only some of them ran), and the
// longest item.
func (r *Pilot) Extrapolate(count, slots, cores int) report.Forecast {
	slots = max(1, min(slots, count))
	work := func(mean float64) float64 {
		n := float64(count)
		t := n * (mean + ownWall) / float64(slots)
		if cores > 0 && r.CPU > 0 {
			t = max(t, n*(r.CPU+ownCPU)/float64(cores))
		}
		return max(t, r.Most) + r.start + r.end
	}
	off := 0.0
	if seen := r.Tally.Items - r.Tally.Open(); seen > 0 && count > seen {
		off = sure * r.deviation / math.Sqrt(float64(seen))
	}
	return report.Forecast{Seconds: work(r.steady), Low: work(max(r.steady-off, r.Least)), High: work(min(r.steady+off, r.Most)), Slots: slots}
}
