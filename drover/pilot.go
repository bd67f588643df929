package drover

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/job"
)

// Sample plans a map of n items of p's, spread evenly over all of them, in a task
// of its own: that of p, and what behind it. It gives their numbers in p too; in the
// sample they are 1 to n. It is always a new job. p is as it was, and may be
// submitted later.
func (p *Plan) Sample(ctx context.Context, what string, n int) (*Plan, []int, error) {
	numbers := manifest.Spread(p.Items.Count, n)
	s, err := p.c.engine.Sample(ctx, &p.plan, what, numbers)
	if err != nil {
		return nil, nil, err
	}
	return newPlan(p.c, s), numbers, nil
}

// Pilot is what a sample of a map's items came to, and what follows for all.
type Pilot struct {
	V         int       `json:"v"`
	Job       string    `json:"job"`
	Items     int       `json:"items"` // that were run
	Of        int       `json:"of"`
	Tally     job.Tally `json:"tally"`
	Mean      float64   `json:"seconds_mean"` // of an item, all its tries together
	Least     float64   `json:"seconds_least"`
	Most      float64   `json:"seconds_most"`
	CPU       float64   `json:"cpu_seconds_mean"`
	MaxRSS    int64     `json:"max_rss_bytes"` // of the largest process
	Forecast  Forecast  `json:"forecast"`
	steady    float64   // Mean without what the machine did to the shortest items
	deviation float64   // of an item's seconds
	start     float64   // seconds until the first item began
	end       float64   // seconds after the last one
}

// Forecast is what running all items will take, if they are like those of the pilot.
type Forecast struct {
	Seconds float64 `json:"seconds"`
	// Low and High are what it may be by chance: of 20 items that differ much, the
	// mean is not that of all. They are at most 1 in 20 times passed.
	Low   float64 `json:"seconds_low"`
	High  float64 `json:"seconds_high"`
	Slots int     `json:"slots"` // items at once, on all workers
	// Writes, Lists and Reads are requests to an object store, and Dollars what its
	// maker takes for them.
	Writes  int     `json:"store_writes"`
	Lists   int     `json:"store_lists"`
	Reads   int     `json:"store_reads"`
	Dollars float64 `json:"store_dollars"`
}

// Forecast says what a sample of p's items came to, once it has ended, and how long
// all of them will take.
func (p *Plan) Forecast(ctx context.Context, pilot *Job) (Pilot, error) {
	s, err := pilot.Status(ctx)
	if err != nil {
		return Pilot{}, err
	}
	r := Pilot{V: 1, Job: s.ID, Items: s.Items.Items, Of: p.Items.Count, Tally: s.Items}
	var all []ItemResult
	for it, err := range pilot.Results(ctx, ResultOptions{}) {
		if err != nil {
			return r, fmt.Errorf("read pilot %s: %w", s.ID, err)
		}
		if it.Code != nil {
			all = append(all, it)
		}
	}
	r.measureItems(s, all)
	cores := 0 // that all workers share
	if p.Properties.Attached {
		cores = p.Offer.Cores
	}
	r.Forecast = r.extrapolate(p.Items.Count, engine.Slots(&p.plan)*max(1, p.Spec.Workers), cores)
	asked := p.Cost.After(r.Forecast.Seconds / time.Minute.Seconds())
	r.Forecast.Writes, r.Forecast.Lists, r.Forecast.Reads, r.Forecast.Dollars = asked.Writes, asked.Lists, asked.Reads, float64(p.Cost.Of(asked))
	return r, nil
}

// measureItems takes the items' figures. A try that failed and was followed by another
// is not read: it is taken to be as long as the last.
func (r *Pilot) measureItems(s Status, all []ItemResult) {
	if len(all) == 0 {
		return
	}
	first, last := s.Ended, s.Submitted
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
	r.start, r.end = max(0, first.Sub(s.Submitted).Seconds()), max(0, s.Ended.Sub(last).Seconds())
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

// extrapolate says how long so many items take, so many at once. What cannot be
// had twice bounds it three ways: the slots, the cores (of which items may use
// more together than there are, and did not while only some of them ran), and the
// longest item.
func (r *Pilot) extrapolate(count, slots, cores int) Forecast {
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
	return Forecast{Seconds: work(r.steady), Low: work(max(r.steady-off, r.Least)), High: work(min(r.steady+off, r.Most)), Slots: slots}
}
