package drover

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/engine/figures"
	"github.com/drover-run/drover/internal/items/manifest"
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

// Forecast says what a sample of p's items came to, once it has ended, and how long
// all of them will take.
func (p *Plan) Forecast(ctx context.Context, pilot *Job) (Pilot, error) {
	s, err := pilot.Status(ctx)
	if err != nil {
		return Pilot{}, err
	}
	r := figures.Pilot{Pilot: Pilot{V: 1, Job: s.ID, Items: s.Items.Items, Of: p.Items.Count, Tally: s.Items}}
	var all []ItemResult
	for it, err := range pilot.Results(ctx, ResultOptions{}) {
		if err != nil {
			return r.Pilot, fmt.Errorf("read pilot %s: %w", s.ID, err)
		}
		if it.Code != nil {
			all = append(all, it)
		}
	}
	r.MeasureItems(s.Submitted, s.Ended, all)
	cores := 0 // that all workers share
	if p.Properties.Attached {
		cores = p.Offer.Cores
	}
	r.Forecast = r.Extrapolate(p.Items.Count, engine.Slots(&p.plan)*max(1, p.Spec.Workers), cores)
	asked := p.Cost.After(r.Forecast.Seconds / time.Minute.Seconds())
	r.Forecast.Writes, r.Forecast.Lists, r.Forecast.Reads, r.Forecast.Dollars = asked.Writes, asked.Lists, asked.Reads, float64(p.Cost.Of(asked))
	return r.Pilot, nil
}
