package figures

import (
	"math"
	"testing"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// ran is a pilot with items that took so many seconds, one after the other, half a second
// after it was submitted; its end took a quarter of a second.
func ran(cpu float64, walls ...float64) Pilot {
	submitted := time.Unix(1_700_000_000, 0)
	at := submitted.Add(time.Second / 2)
	var all []report.ItemResult
	code := 0
	for i, w := range walls {
		at = at.Add(time.Duration(w * float64(time.Second)))
		all = append(all, report.ItemResult{Item: i + 1, State: job.ItemSucceeded, Try: report.Try{Code: &code, Seconds: w, CPU: cpu, MaxRSS: int64(i), Ended: at}})
	}
	r := Pilot{Pilot: report.Pilot{Items: len(walls), Tally: job.Tally{Items: len(walls), Succeeded: len(walls)}}}
	r.MeasureItems(submitted, at.Add(time.Second/4), all)
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
		f := row.pilot.Extrapolate(row.count, row.slots, row.cores)
		if math.Abs(f.Seconds/row.want-1) > 0.01 || f.Low > f.Seconds+1e-9 || f.High < f.Seconds-1e-9 {
			t.Errorf("%s: %+v, want %g", row.name, f, row.want)
		}
	}
}

func TestAForecastOfUnevenItemsSaysHowFarItMayBeOff(t *testing.T) {
	even, uneven := ran(0, 1, 1, 1, 1), ran(0, 0.1, 0.1, 0.1, 3.7)
	if f := even.Extrapolate(1000, 1, 1); f.High-f.Low > 1e-6*f.Seconds {
		t.Errorf("even: %+v", f)
	}
	f := uneven.Extrapolate(1000, 1, 1)
	if f.Low > f.Seconds/5 || f.High < f.Seconds*3/2 {
		t.Errorf("uneven: %+v", f)
	}
	if f := uneven.Extrapolate(4, 1, 1); f.Low != f.High {
		t.Errorf("there is no more than was run: %+v", f)
	}
}

func TestTriesThatFailedCountAsWell(t *testing.T) {
	code := 1
	var r Pilot
	at := time.Unix(1_700_000_000, 0)
	r.MeasureItems(at, at.Add(time.Minute), []report.ItemResult{
		{State: job.ItemFailed, Failures: 3, Try: report.Try{Code: &code, Seconds: 2, Ended: at}},
		{State: job.ItemSucceeded, Failures: 1, Try: report.Try{Code: &code, Seconds: 1, Ended: at}},
	})
	if r.Mean != 4 || r.Least != 2 || r.Most != 6 {
		t.Errorf("%+v", r)
	}
}
