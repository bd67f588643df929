package drover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

func TestASampleIsAMapOfItsOwn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	spec := job.Spec{Project: "demo", Task: "work", Named: true, Program: "true", Args: []string{"{}"}, On: mem.Name,
		Items: job.Items{From: "1-1000", Slots: 3, Workers: 2, MaxFails: "1"}}
	p, err := d.planMap(ctx, MapSpec{Spec: spec})
	d.check(err)
	defer p.Close()
	s, numbers, err := p.Sample(ctx, "pilot", 3)
	d.check(err)
	defer s.Close()
	if diff := cmp.Diff([]int{1, 500, 1000}, numbers); diff != "" {
		t.Error(diff)
	}
	j, err := s.Submit(ctx)
	d.check(err)
	rec, err := j.Spec(ctx)
	if d.check(err); rec.Spec.Task != "work-pilot" || rec.Spec.MaxFails != "" || rec.Spec.Slots != 3 {
		t.Errorf("%+v", rec.Spec)
	}
	// A second one finds the first live.
	if _, _, err := p.Sample(ctx, "pilot", 3); err == nil {
		t.Error("a live pilot was passed over")
	}
	d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result { return tried(try, "out\n", 0) })
	var got []string
	for _, r := range d.results(j) {
		got = append(got, fmt.Sprint(r.Item, " ", r.Value))
	}
	if diff := cmp.Diff([]string{"1 1", "2 500", "3 1000"}, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	r, err := p.Forecast(ctx, j)
	if d.check(err); r.Items != 3 || r.Of != 1000 || r.Forecast.Slots != 6 || r.Mean != 1.5 || r.MaxRSS != 4096 || r.Forecast.Writes < p.Cost.Requests.Writes || r.Forecast.Dollars <= 0 {
		t.Errorf("%+v", r)
	}
	// The whole is submitted from the same plan, and the next pilot is a new job.
	whole, err := p.Submit(ctx)
	d.check(err)
	if rec, err := whole.Spec(ctx); err != nil || rec.Spec.Task != "work" || rec.Manifest.Count != 1000 {
		t.Errorf("%+v: %v", rec.Manifest, err)
	}
	again, _, err := p.Sample(ctx, "pilot", 3)
	if d.check(err); again.Action != "start" {
		t.Errorf("a pilot that has ended is gone on with: %s", again.Action)
	}
	d.check(again.Close())
}

func TestAClosedPlanHasNoSample(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p, err := d.planMap(t.Context(), MapSpec{Spec: job.Spec{Project: "demo", Program: "true", On: mem.Name}, Values: []string{"a", "b"}})
	d.check(err)
	d.check(p.Close())
	if _, _, err := p.Sample(t.Context(), "pilot", 1); err == nil {
		t.Error("it has one")
	}
}

func TestAPlansInputIsItsOwn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	spec := job.Spec{Project: "demo", Program: "true", On: mem.Name, Items: job.Items{From: "-"}}
	p, err := d.planMap(t.Context(), MapSpec{Spec: spec, Stdin: strings.NewReader("a\nb\n")})
	d.check(err)
	defer p.Close()
	if p.Items.Count != 2 || d.engine.Caller.Stdin != nil {
		t.Errorf("%d items; later plans would read %v", p.Items.Count, d.engine.Caller.Stdin)
	}
}
