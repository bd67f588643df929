package metric

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store/mem"
)

// numbers makes points of a name, one each apart, with their index as value.
func numbers(name string, n int, apart time.Duration) []Point {
	points := make([]Point, n)
	for i := range points {
		points[i] = Point{Time: recordtest.BubbleStart.Add(time.Duration(i) * apart), Name: name, Value: float64(i), Step: int64(i + 1)}
	}
	return points
}

func storedSeries(t testing.TB, d *recordtest.Store) []Series {
	t.Helper()
	all, err := ReadSeries(record.Read(t.Context(), d, recordtest.Prefix, record.Filter{}))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func closed(t testing.TB, m *MetricWriter) {
	t.Helper()
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPointsComeBackAsTheyWere(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	odd := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, 0.1 + 0.2, -1e-7, 123456789.123}
	steps := []int64{0, 1, -5, math.MaxInt64, math.MinInt64, 1 << 40}
	d := recordtest.NewStore(mem.New())
	type of struct {
		name    string
		attempt int
		item    uint64
	}
	want := map[of][]Point{}
	for attempt := range 3 {
		m := NewMetricWriter(newWriter(t, d, attempt, 0, fmt.Sprintf("w%d", attempt)))
		for range 300 {
			item := uint64(r.IntN(3))
			var points []Point
			for range r.IntN(6) {
				p := Point{Name: []string{"loss", "val/acc@1", "é"}[r.IntN(3)], Value: odd[r.IntN(len(odd))], Step: steps[r.IntN(len(steps))],
					Time: recordtest.BubbleStart.Add(time.Duration(r.IntN(1e7)) * time.Millisecond), Counted: r.IntN(2) == 0}
				points = append(points, p)
				k := of{p.Name, attempt, item}
				want[k] = append(want[k], p)
			}
			m.Add(item, points)
		}
		closed(t, m)
	}
	got := map[of][]Point{}
	for _, s := range storedSeries(t, d) {
		got[of{s.Name, s.Attempt, s.Item}] = s.Points
	}
	for k, points := range want {
		slices.SortStableFunc(points, func(a, b Point) int {
			if a.Step != b.Step {
				return map[bool]int{true: -1, false: 1}[a.Step < b.Step]
			}
			return a.Time.Compare(b.Time)
		})
		if diff := cmp.Diff(points, got[k], equalNaN); diff != "" {
			t.Errorf("%v (-want +got):\n%.1000s", k, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d series of %d", len(got), len(want))
	}
}

func TestAMillionStepsStaySmall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	d := recordtest.NewStore(mem.New())
	m := NewMetricWriter(newWriter(t, d, 1, 0, "a"))
	const steps = 1_000_000
	for i := range int64(steps) { // 100 a second: three hours
		at := recordtest.BubbleStart.Add(time.Duration(i*10_000+r.Int64N(3000)) * time.Microsecond)
		loss := math.Round(1e4*(2/math.Log(float64(i+3))+0.1*r.Float64())) / 1e4
		m.Add(0, []Point{{at, "loss", loss, i, false}, {at, "acc", math.Round(1e4*r.Float64()) / 1e4, i, false}})
	}
	closed(t, m)
	size, points := 0, 0
	for o, err := range d.List(t.Context(), recordtest.Prefix+"/") {
		if err != nil {
			t.Fatal(err)
		}
		size += int(o.Size)
	}
	for _, s := range storedSeries(t, d) {
		points += len(s.Points)
		if first, last := s.Points[0].Step, s.Points[len(s.Points)-1].Step; first != 0 || last != steps-1 {
			t.Errorf("%s: from step %d to %d", s.Name, first, last)
		}
		gap := int64(0)
		for i := range s.Points[1:] {
			gap = max(gap, s.Points[i+1].Step-s.Points[i].Step)
		}
		if gap > steps/10_000 {
			t.Errorf("%s: %d steps without a point", s.Name, gap)
		}
	}
	t.Logf("%d points in %d bytes: %.1f a point", points, size, float64(size)/float64(points))
	if points > 2*100_000 || size > 8*points {
		t.Errorf("%d points take %d bytes", points, size)
	}
}

func TestOnlyWhatComesTooFastIsThinned(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	m := NewMetricWriter(newWriter(t, d, 1, 0, "a"))
	slow := numbers("slow", 5000, spacing)
	burst := numbers("burst", dense+150, time.Millisecond)
	m.Add(0, slow)
	m.Add(0, burst)
	m.Add(0, []Point{{Time: recordtest.BubbleStart.Add(time.Minute), Name: "burst", Step: 1e6}, {Time: recordtest.BubbleStart.Add(time.Minute + 1), Name: "burst", Step: 1e6 + 1}})
	closed(t, m)
	got := storedSeries(t, d)
	if len(got) != 2 || len(got[1].Points) != len(slow) {
		t.Fatalf("%d series; slow points were left out", len(got))
	}
	var steps []int64
	for _, p := range got[0].Points {
		if p.Step > dense {
			steps = append(steps, p.Step)
		}
	}
	// 100 ms after the last dense one; the last one before the pause; both
	// of the end.
	if diff := cmp.Diff([]int64{dense + 100, dense + 150, 1e6, 1e6 + 1}, steps); diff != "" {
		t.Error(diff)
	}
}

func TestTheLastPointOfABurstIsKeptWithoutAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		w := newWriter(t, d, 1, 0, "a")
		w.Hurry(true)
		m := NewMetricWriter(w)
		m.Add(0, numbers("x", dense+10, time.Millisecond))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := storedSeries(t, d); len(got) != 1 || got[0].Points[len(got[0].Points)-1].Step != dense+10 {
			t.Errorf("the newest point is not stored after 10 s: %d series", len(got))
		}
		closed(t, m)
	})
}

func TestABlockedStoreHoldsNobodyUpWithMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		open := make(chan struct{})
		d.BeforeCreate = func(context.Context, string) error { <-open; return nil }
		m := NewMetricWriter(newWriter(t, d, 1, 0, "a"))
		added := 0
		for m.Dropped() == 0 && added < 10_000_000 { // must end
			m.Add(0, numbers(fmt.Sprintf("m%d", added), dense, 0))
			added += dense
		}
		if m.w.PendingBytes() > 2*(record.MaxPending+2*record.FrameRoom) {
			t.Errorf("%d bytes are held", m.w.PendingBytes())
		}
		for RecordSample(m.w, Sample{GPU: make([]GPUSample, maxGPUs)}) {
			added++
		}
		close(open)
		closed(t, m)
		kept := 0
		for _, s := range storedSeries(t, d) {
			kept += len(s.Points)
		}
		if kept+m.Dropped() != added || RecordSample(m.w, Sample{}) {
			t.Errorf("%d kept and %d dropped of %d", kept, m.Dropped(), added)
		}
	})
}

func TestManyItemsAreForgottenAndNotLost(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	m := NewMetricWriter(newWriter(t, d, 1, 0, "a"))
	const items = maxSeries + 100
	for item := range uint64(items) {
		m.Add(item+1, numbers("x", 2, 0))
		if len(m.series) > maxSeries {
			t.Fatalf("%d series are remembered", len(m.series))
		}
	}
	m.Add(0, []Point{{Name: "", Time: recordtest.BubbleStart}, {Name: "a b", Time: recordtest.BubbleStart}, {Name: "=a", Time: recordtest.BubbleStart}, {Name: strings.Repeat("x", maxName+1), Time: recordtest.BubbleStart}})
	closed(t, m)
	if got := storedSeries(t, d); len(got) != items || len(got[0].Points) != 2 {
		t.Errorf("%d series of %d", len(got), items)
	}
}

func series(attempt int, counted bool, steps ...int64) Series {
	s := Series{Name: "x", Attempt: attempt, Writer: fmt.Sprintf("w%d", attempt)}
	for _, step := range steps {
		s.Points = append(s.Points, Point{Name: "x", Time: recordtest.BubbleStart, Step: step, Value: float64(attempt), Counted: counted})
	}
	return s
}

func TestALaterAttemptContinues(t *testing.T) {
	for name, c := range map[string]struct {
		all  []Series
		want string
	}{
		"from a checkpoint":  {[]Series{series(1, false, 1, 2, 3, 4, 5), series(2, false, 4, 5, 6)}, "1:1 1:2 1:3 2:4 2:5 2:6"},
		"from the beginning": {[]Series{series(1, false, 1, 2, 3), series(2, false, 1, 2)}, "2:1 2:2"},
		"counted":            {[]Series{series(1, true, 1, 2), series(2, true, 1, 2), series(3, true, 1)}, "1:1 1:2 2:3 2:4 3:5"},
		"one":                {[]Series{series(1, true, 1)}, "1:1"},
		"an empty one":       {[]Series{series(1, false), series(2, false, 7)}, "2:7"},
		"with a hole":        {[]Series{series(1, false, 1), series(2, false, 9)}, "1:1 2:9"},
	} {
		before := fmt.Sprint(c.all)
		joined := Joined(c.all)
		if len(joined) != 1 {
			t.Fatalf("%s: %d series", name, len(joined))
		}
		var got []string
		for _, p := range joined[0].Points {
			got = append(got, fmt.Sprintf("%v:%d", p.Value, p.Step))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
		if fmt.Sprint(c.all) != before {
			t.Errorf("%s: what was given is changed", name)
		}
	}
	other := series(1, false, 1)
	other.Rank = 1
	if got := Joined([]Series{series(1, false, 1), other}); len(got) != 2 {
		t.Errorf("two ranks became %d series", len(got))
	}
}

func TestThinningKeepsSpikesAndEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		points := numbers("x", 1+r.IntN(3000), time.Second)
		for i := range points {
			points[i].Value = r.Float64()
			if r.IntN(5) == 0 {
				points[i].Value = math.NaN()
			}
		}
		high, low := r.IntN(len(points)), r.IntN(len(points))
		points[high].Value = 100
		if low != high {
			points[low].Value = -100
		}
		n := 4 + r.IntN(500)
		thin := Thin(points, n)
		if len(thin) > n || len(thin) < min(len(points), n/2) {
			t.Fatalf("%d of %d points, asked for %d", len(thin), len(points), n)
		}
		for i := range thin[1:] {
			if thin[i].Step >= thin[i+1].Step {
				t.Fatal("out of order, or twice")
			}
		}
		has := func(i int) bool {
			return slices.ContainsFunc(thin, func(p Point) bool { return p.Step == points[i].Step })
		}
		if !has(0) || !has(len(points)-1) || !has(high) || !has(low) {
			t.Fatalf("an end or a spike is lost: %d of %d points", len(thin), len(points))
		}
	}
	ten := numbers("x", 10, 0)
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 3: 2, 4: 4, 10: 10, 11: 10} {
		if got := Thin(ten, n); len(got) != want {
			t.Errorf("thinned to %d: %d points, want %d", n, len(got), want)
		}
	}
}

func TestDamagedMetricsAreSaidAndPassedOver(t *testing.T) {
	var sayings faulttest.Sayings
	t.Cleanup(func() { sayings.Compare(t, "metrics") })
	no := errors.New("no")
	good := record.Frame{Stream: record.Metric, Data: []byte("m1 5\n=x 0 ~1 2.5\n")}
	in := func(yield func(record.Frame, error) bool) {
		_ = yield(good, nil) && yield(record.Frame{Stream: record.Metric, Data: []byte("m2")}, nil) && yield(record.Frame{Stream: record.Stdout, Data: []byte("m")}, nil) && yield(record.Frame{}, no)
	}
	got, err := ReadSeries(in)
	want := []Point{{Time: time.UnixMilli(5).UTC(), Name: "x", Value: 2.5, Step: 1, Counted: true}}
	if !errors.Is(err, no) || !errors.Is(err, record.ErrDamaged) || len(got) != 1 || !cmp.Equal(want, got[0].Points) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "m1", "m1 \n", "m1 x\n", "m1 253402300800000\n", "m1 5\n\n", "m1 5\n=x 0 1 1", "m1 5\n0 0 1 1\n", "m1 5\n=x 0 1\n",
		"m1 5\n=x 0 1 1 1\n", "m1 5\n=x -6 1 1\n", "m1 5\n= 0 1 1\n", "m1 5\n=x 0 1 y\n", "m1 5\n=x 0 z 1\n", "m1 5\n=x 0 1 1\n1 0 1 1\n"} {
		points, err := Points(record.Frame{Stream: record.Metric, Data: []byte(bad)})
		sayings.Error(strconv.Quote(bad), err)
		if !errors.Is(err, record.ErrDamaged) {
			t.Errorf("%q: read as %v, %v", bad, points, err)
		}
	}
}

func FuzzPoints(f *testing.F) {
	f.Add([]byte("m1 1700000000000\n=loss 0 ~1 2.31\n=acc 0 ~1 0.11\n0 250 ~1 nan\n1 -3 5 -inf\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		points, err := Points(record.Frame{Stream: record.Metric, Data: b})
		if err != nil {
			return
		}
		var again batch
		for i := range points {
			again.addPoint(&points[i])
		}
		if len(points) == 0 {
			return
		}
		back, err := Points(record.Frame{Stream: record.Metric, Data: again.text})
		if diff := cmp.Diff(points, back, equalNaN); err != nil || diff != "" {
			t.Fatalf("does not survive a round trip: %v\n%s", err, diff)
		}
	})
}

func newWriter(t testing.TB, s record.Store, attempt, rank int, id string) *record.Writer {
	t.Helper()
	w, err := record.NewWriter(record.Options{Prefix: recordtest.Prefix, Store: s, Attempt: attempt, Rank: rank, ID: id, Clock: recordtest.BubbleClock})
	if err != nil {
		t.Fatal(err)
	}
	return w
}
