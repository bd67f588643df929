package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestASpreadIsThatOfAllValuesWithinTwoPercent(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"even":      func() float64 { return dice.Float64() },
		"long tail": func() float64 { return math.Exp(3 * dice.NormFloat64()) },
		"memory":    func() float64 { return 1e6 * (1 + 4000*dice.Float64()) },
		"alike":     func() float64 { return 0.7 },
	} {
		values := make([]float64, 10_000)
		parts := [3]Spread{}
		for i := range values {
			values[i] = draw()
			parts[i%3].AddValue(values[i], i+1)
		}
		var s Spread
		for _, p := range parts {
			s.MergeSpread(p)
		}
		most := slices.Index(values, slices.Max(values)) + 1
		slices.Sort(values)
		for _, share := range []float64{0.01, 0.25, 0.5, 0.95, 0.999, 1} {
			want := values[max(int(math.Ceil(share*1e4)), 1)-1]
			if got := s.Quantile(share); math.Abs(got-want) > 0.02*want {
				t.Errorf("%s: quantile %g is %g, want %g", name, share, got, want)
			}
		}
		if s.Count != 10_000 || s.Min != values[0] || s.Max != values[9999] || s.MaxItem != most {
			t.Errorf("%s: %d values from %g to %g, of item %d", name, s.Count, s.Min, s.Max, s.MaxItem)
		}
		for _, n := range []int{1, 8, 24} {
			sum, last := 0, 0.0
			for _, b := range s.Histogram(n) {
				sum += b.Items
				if b.UpTo <= last {
					t.Errorf("%s: a bar up to %g after %g", name, b.UpTo, last)
				}
				last = b.UpTo
			}
			if sum != 10_000 || last != s.Max || len(s.Histogram(n)) > n {
				t.Errorf("%s: %d bars with %d items up to %g", name, len(s.Histogram(n)), sum, last)
			}
		}
	}
}

func TestASpreadOfNothing(t *testing.T) {
	t.Parallel()
	var s Spread
	s.AddValue(math.NaN(), 1)
	s.AddValue(math.Inf(1), 1)
	s.AddValue(-1, 1)
	if s.Count != 0 || s.Quantile(0.5) != 0 || s.Histogram(8) != nil {
		t.Errorf("%+v", s)
	}
	s.AddValue(0, 7)
	s.AddValue(0, 3)
	if s.Quantile(0.5) != 0 || len(s.Histogram(8)) != 1 || s.MaxItem != 3 {
		t.Errorf("of zeros: %+v", s)
	}
}
