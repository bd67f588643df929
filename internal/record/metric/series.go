package metric

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/drover-run/drover/internal/record"
)

// Series is the points of one metric, of one writer: an attempt's at a rank, or
// an item's. They are sorted by step, and by time where steps are the same.
type Series struct {
	Name          string
	Attempt, Rank int
	Writer        string
	Item          uint64
	Points        []Point
}

// maxSaid is how many errors ReadSeries tells.
const maxSaid = 10

// ReadSeries reads metrics from frames; those of other streams are left out. The
// series are sorted by name, rank, item and attempt, so those that continue each
// other are neighbours. With an error, which tells at most ten, comes all that
// could be read.
func ReadSeries(frames iter.Seq2[record.Frame, error]) ([]Series, error) {
	type key struct {
		record.Source
		name string
	}
	found := map[key]*Series{}
	var all []*Series
	var errs []error
	for f, err := range frames {
		at := record.Origin{Attempt: f.Attempt, Rank: f.Rank, Writer: f.Writer}
		var points []Point
		if err == nil && f.Stream == record.Metric {
			if points, err = Points(f); err != nil {
				err = fmt.Errorf("read metrics of %s: %w", at, err)
			}
		}
		if err != nil && len(errs) < maxSaid {
			errs = append(errs, err)
		}
		for _, p := range points {
			k := key{record.Source{Origin: at, Item: f.Item, Stream: record.Metric}, p.Name}
			s := found[k]
			if s == nil {
				s = &Series{Name: p.Name, Attempt: f.Attempt, Rank: f.Rank, Writer: f.Writer, Item: f.Item}
				found[k] = s
				all = append(all, s)
			}
			s.Points = append(s.Points, p)
		}
	}
	sorted := make([]Series, len(all))
	for i, s := range all {
		slices.SortStableFunc(s.Points, func(a, b Point) int {
			return cmp.Or(cmp.Compare(a.Step, b.Step), a.Time.Compare(b.Time))
		})
		sorted[i] = *s
	}
	slices.SortStableFunc(sorted, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Item, b.Item),
			cmp.Compare(a.Attempt, b.Attempt), a.Points[0].Time.Compare(b.Points[0].Time))
	})
	return sorted, errors.Join(errs...)
}

// Joined makes one series of those that continue each other: a later attempt
// takes the place of what an earlier one had from its first step on, and counted
// steps go on where the earlier attempt's ended. all is as ReadSeries gives it,
// and is not changed.
func Joined(all []Series) []Series {
	var joined []Series
	for _, s := range all {
		if len(s.Points) == 0 {
			continue
		}
		if n := len(joined) - 1; n >= 0 && joined[n].Name == s.Name && joined[n].Rank == s.Rank && joined[n].Item == s.Item {
			points := continued(joined[n].Points, s.Points)
			joined[n] = s
			joined[n].Points = points
			continue
		}
		s.Points = slices.Clone(s.Points)
		joined = append(joined, s)
	}
	return joined
}

// continued appends the later points to the earlier ones, which it may change.
func continued(earlier, later []Point) []Point {
	first := later[0]
	if first.Counted {
		last := earlier[len(earlier)-1].Step
		for _, p := range later {
			p.Step += last
			earlier = append(earlier, p)
		}
		return earlier
	}
	keep, _ := slices.BinarySearchFunc(earlier, first.Step, func(p Point, step int64) int { return cmp.Compare(p.Step, step) })
	return append(earlier[:keep], later...)
}

// Thin gives at most n of points for a plot: the first and the last one, and of
// each stretch between the lowest and the highest, so that no spike is lost. A
// stretch of nothing but gaps gives one of them. points are not changed.
func Thin(points []Point, n int) []Point {
	switch {
	case n <= 0:
		return nil
	case len(points) <= n:
		return slices.Clone(points)
	case n == 1:
		return []Point{points[len(points)-1]}
	}
	thin := append(make([]Point, 0, n), points[0])
	inner := points[1 : len(points)-1]
	stretches := (n - 2) / 2
	for i := range stretches {
		stretch := inner[len(inner)*i/stretches : len(inner)*(i+1)/stretches]
		low, high := extremes(stretch)
		thin = append(thin, stretch[min(low, high)])
		if low != high {
			thin = append(thin, stretch[max(low, high)])
		}
	}
	return append(thin, points[len(points)-1])
}

// extremes are where the lowest and the highest values stand; both are 0 where
// all are gaps.
func extremes(points []Point) (low, high int) {
	none := true
	for i, p := range points {
		switch {
		case p.Gap():
		case none:
			low, high, none = i, i, false
		case p.Value < points[low].Value:
			low = i
		case p.Value > points[high].Value:
			high = i
		}
	}
	return low, high
}
