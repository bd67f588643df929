package drover

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// ran is a pilot with items that took so many seconds, one after the other, half a second
// after it was submitted; its end took a quarter of a second.
func ran(cpu float64, walls ...float64) Pilot {
	s := Status{MapStatus: &MapStatus{Items: job.Tally{Items: len(walls), Succeeded: len(walls)}}}
	s.Submitted = time.Unix(1_700_000_000, 0)
	at := s.Submitted.Add(time.Second / 2)
	var all []ItemResult
	code := 0
	for i, w := range walls {
		at = at.Add(time.Duration(w * float64(time.Second)))
		all = append(all, ItemResult{Item: i + 1, State: job.ItemSucceeded, Try: Try{Code: &code, Seconds: w, CPU: cpu, MaxRSS: int64(i), Ended: at}})
	}
	s.Ended = at.Add(time.Second / 4)
	r := Pilot{Items: len(walls), Tally: s.Items}
	r.measureItems(s, all)
	return r
}

func TestAForecastIsBoundBySlotsCoresAndTheLongestItem(t *testing.T) {
	for _, row := range []struct {
		name                string
		pilot               Pilot
		count, slots, cores int
		want                float64
	}{
		{"slots", ran(0, 1, 1, 1), 1000, 10, 2, 100.75},
		{"cores", ran(1, 1, 1, 1), 1000, 10, 2, 500.75},
		{"cores that are not known", ran(1, 1, 1, 1), 1000, 10, 0, 100.75},
		{"the longest", ran(0, 1, 1, 9), 10, 10, 2, 9.75},
		{"fewer items than slots", ran(0, 1, 1, 1), 4, 10, 2, 1.75},
		{"tiny ones", ran(1e-3, 1e-3, 1e-3), 100_000, 4, 2, 100_000*(1e-3+ownCPU)/2 + 0.75},
		{"tiny ones, of which some waited", ran(0, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 20e-3), 100_000, 1, 0, 100_000*(1e-3+ownWall) + 0.75},
		{"tiny ones, of which some are not", ran(0, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 0.993), 100_000, 1, 0, 100_000*(0.125+ownWall) + 0.75},
		{"two kinds of short ones", ran(0, 1e-3, 1e-3, 1e-3, 39e-3, 1e-3, 39e-3, 1e-3, 39e-3), 100_000, 1, 0, 100_000*(15.25e-3+ownWall) + 0.75},
		{"tiny ones that use nothing", ran(0, 1e-4, 1e-4), 100_000, 1, 2, 100_000*(1e-4+ownWall) + 0.75},
	} {
		f := row.pilot.extrapolate(row.count, row.slots, row.cores)
		if math.Abs(f.Seconds/row.want-1) > 0.01 || f.Low > f.Seconds+1e-9 || f.High < f.Seconds-1e-9 {
			t.Errorf("%s: %+v, want %g", row.name, f, row.want)
		}
	}
}

func TestAForecastOfUnevenItemsSaysHowFarItMayBeOff(t *testing.T) {
	even, uneven := ran(0, 1, 1, 1, 1), ran(0, 0.1, 0.1, 0.1, 3.7)
	if f := even.extrapolate(1000, 1, 1); f.High-f.Low > 1e-6*f.Seconds {
		t.Errorf("even: %+v", f)
	}
	f := uneven.extrapolate(1000, 1, 1)
	if f.Low > f.Seconds/5 || f.High < f.Seconds*3/2 {
		t.Errorf("uneven: %+v", f)
	}
	if f := uneven.extrapolate(4, 1, 1); f.Low != f.High {
		t.Errorf("there is no more than was run: %+v", f)
	}
}

func TestTriesThatFailedCountAsWell(t *testing.T) {
	code := 1
	s := Status{MapStatus: &MapStatus{Items: job.Tally{Items: 2, Succeeded: 1, Failed: 1}}}
	var r Pilot
	at := time.Unix(1_700_000_000, 0)
	s.Submitted, s.Ended = at, at.Add(time.Minute)
	r.measureItems(s, []ItemResult{
		{State: job.ItemFailed, Failures: 3, Try: Try{Code: &code, Seconds: 2, Ended: at}},
		{State: job.ItemSucceeded, Failures: 1, Try: Try{Code: &code, Seconds: 1, Ended: at}},
	})
	if r.Mean != 4 || r.Least != 2 || r.Most != 6 {
		t.Errorf("%+v", r)
	}
}

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
