package plot

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/cli/clitest"
)

func TestPlotsOfCurves(t *testing.T) {
	cs, over := Curves(MergeAttempts(clitest.ATraining(100))[1:2], false) // loss
	if over != "step" {
		t.Errorf("over %s", over)
	}
	under := func(x float64) string { return Figure(math.Round(x)) }
	clitest.CheckScreen(t, "plot-loss", Paper{Width: 60, Height: 8}.Draw(cs, under, nil))
	clitest.CheckScreen(t, "plot-loss-ascii", Paper{Width: 60, Height: 8, Ascii: true}.Draw(cs, under, nil))
	gap := curve{x: []float64{0, 1, 2, 3, 4, 5, 6, 7}, y: []float64{1, 2, 3, math.NaN(), math.Inf(1), 3, 2, 1}}
	clitest.CheckScreen(t, "plot-gap", Paper{Width: 60, Height: 6}.Draw([]curve{gap}, Seconds, nil))
	flat := curve{x: []float64{1, 2, 3}, y: []float64{5, 5, 5}}
	clitest.CheckScreen(t, "plot-flat", Paper{Width: 40, Height: 4}.Draw([]curve{flat}, under, nil))
	one := curve{x: []float64{7}, y: []float64{0.25}}
	clitest.CheckScreen(t, "plot-one-point", Paper{Width: 40, Height: 4}.Draw([]curve{one}, under, nil))
}

func TestAPlotOfWhateverValuesFitsItsPaper(t *testing.T) {
	for name, y := range map[string][]float64{
		"tiny differences far from zero": {1e9, 1e9 + 1e-6, 1e9 + 2e-6},
		"huge":                           {-1e299, 1e299, 0},
		"beyond huge":                    {-math.MaxFloat64, math.MaxFloat64, 1},
		"tiny":                           {1e-300, 2e-300, math.SmallestNonzeroFloat64},
		"negative":                       {-3, -2, -1},
		"zero":                           {0, 0, 0},
		"a gap at each end":              {math.NaN(), 1, math.Inf(-1)},
		"every other":                    {1, math.NaN(), 1},
	} {
		for _, width := range []int{1, 20, 80, 300} {
			for _, p := range []Paper{{Width: width, Height: 5}, {Width: width, Height: 1, Ascii: true}, {Width: width, Height: 5, Colour: true}} {
				lines := p.Draw([]curve{{x: []float64{1, 2, 3}, y: y}, {x: []float64{1, 1, 1e18}, y: y}}, Figure, nil)
				if len(lines) == 0 {
					t.Errorf("%s on %+v: nothing", name, p)
				}
				for _, l := range lines {
					if w := ansi.StringWidth(l); w > max(width, 30) {
						t.Errorf("%s on %+v: %d columns: %q", name, p, w, l)
					}
					if p.Ascii && strings.ContainsFunc(l, func(r rune) bool { return r > unicode.MaxASCII }) {
						t.Errorf("%s on %+v: no ASCII: %q", name, p, l)
					}
				}
			}
		}
	}
	if lines := (Paper{Width: 80, Height: 5}).Draw([]curve{{x: []float64{1}, y: []float64{math.NaN()}}, {}}, Figure, nil); lines != nil {
		t.Errorf("a plot of nothing: %q", lines)
	}
}

func TestColumnsAreMeansWithLinesBetweenAndGaps(t *testing.T) {
	nan := math.NaN()
	for name, row := range map[string]struct {
		c    curve
		want []float64
	}{
		"one each":           {curve{x: []float64{0, 1, 2, 3}, y: []float64{1, 2, 3, 4}}, []float64{1, 2, 3, 4, 4}},
		"two in a column":    {curve{x: []float64{0, 0, 1, 2, 3}, y: []float64{1, 3, 2, 3, 4}}, []float64{2, 2, 3, 4, 4}},
		"a line between":     {curve{x: []float64{0, 3}, y: []float64{1, 4}}, []float64{1, 2, 3, 4, 4}},
		"a gap":              {curve{x: []float64{0, 1, 3}, y: []float64{1, nan, 4}}, []float64{1, nan, nan, 4, 4}},
		"NaN beside a value": {curve{x: []float64{0, 0, 1, 2, 3}, y: []float64{1, nan, 2, 3, 4}}, []float64{1, 2, 3, 4, 4}},
		"begins late":        {curve{x: []float64{2, 3}, y: []float64{1, 2}}, []float64{nan, nan, 1, 2, 2}},
		"ends early":         {curve{x: []float64{0, 1}, y: []float64{1, 2}}, []float64{1, 2, nan, nan, nan}},
	} {
		if diff := cmp.Diff(fmt.Sprint(row.want), fmt.Sprint(row.c.columnMeans(0, 3, 4))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFiguresForPeople(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", -2: "-2", 0.31: "0.31", 0.3416: "0.3416", 2.83219: "2.832", 1810: "1810", 12345.678: "12346", 1e-5: "1e-05", 123456789: "123456789",
		1.5e9 + 0.5: "1.5e+09", 0.001: "0.001", 100: "100", 1e20: "1e+20", 99.95: "99.95", math.Inf(1): "+Inf",
	} {
		if got := Figure(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
	if got := Figure(math.NaN()); got != "NaN" {
		t.Errorf("NaN is %s", got)
	}
	for want, row := range map[string][3]float64{"2.8": {0.32, 2.83, 10}, "2500": {2000, 2500, 10}, "1e-08": {0, 1e-8, 4}, "-0.5": {-0.5, 0.5, 4}} {
		v := row[1]
		if want[0] == '-' {
			v = row[0]
		}
		if got := axisFigures(row[0], row[1], row[2])(v); got != want {
			t.Errorf("%g between %g and %g is %s, want %s", v, row[0], row[1], got, want)
		}
	}
}

func TestSmallBarsKeepThePeak(t *testing.T) {
	p, nan := Paper{}, math.NaN()
	for _, row := range []struct {
		values []float64
		n      int
		top    float64
		want   string
	}{
		{nil, 5, 1, ""},
		{[]float64{0, 0.5, 1}, 5, 1, "▁▅█"},
		{[]float64{0, 0, 0, 9, 0, 0, 0, 0}, 4, 9, "▁█▁▁"},
		{[]float64{1, nan, 1}, 3, 1, "█ █"},
		{[]float64{1, 2}, 2, 0, "▁▁"},
		{[]float64{-1, 5}, 2, 1, "▁█"},
	} {
		if got := p.Spark(row.values, row.n, row.top); got != row.want {
			t.Errorf("%v in %d: %q, want %q", row.values, row.n, got, row.want)
		}
	}
	if got := p.Trend([]float64{7, 6, 5}, 3); got != "█▅▁" {
		t.Errorf("trend %q", got)
	}
	if got := (Paper{Ascii: true}).Trend([]float64{7, 6, 5}, 3); got != "#=_" {
		t.Errorf("plain trend %q", got)
	}
	for part, want := range map[float64]string{0: "░░░░", 1: "██░░", 5: "████", -1: "░░░░", nan: "░░░░"} {
		if got := p.Bar(part, 2, 4); got != want {
			t.Errorf("%g of 2: %q, want %q", part, got, want)
		}
	}
}

func TestAnAttemptTakesThePlaceOfStepsDoneAgain(t *testing.T) {
	got := MergeAttempts([]Series{
		clitest.SeriesOf("loss", 0, 2, clitest.PointsFrom(3, 30, 40)),
		clitest.SeriesOf("loss", 1, 1, clitest.PointsFrom(1, 7)),
		clitest.SeriesOf("loss", 0, 1, clitest.PointsFrom(1, 1, 2, 3)),
		clitest.SeriesOf("acc", 0, 1, nil),
	})
	want := []Track{{"loss", 0, slicesConcat(clitest.PointsFrom(1, 1, 2), clitest.PointsFrom(3, 30, 40))}, {"loss", 1, clitest.PointsFrom(1, 7)}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Track{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Without steps nothing says what was done again.
	timed := func(n int) (out []Point) {
		for i := range n {
			out = append(out, Point{Time: clitest.Noon.Add(time.Duration(i) * time.Second), Value: float64(i)})
		}
		return out
	}
	if got := MergeAttempts([]Series{clitest.SeriesOf("x", 0, 1, timed(3)), clitest.SeriesOf("x", 0, 2, timed(2))}); len(got) != 1 || len(got[0].Points) != 5 {
		t.Errorf("%+v", got)
	}
	if _, over := Curves([]Track{{"x", 0, timed(3)}, {"y", 0, clitest.PointsFrom(1, 1, 2)}}, false); over != "time" {
		t.Errorf("a plot of which one has steps is over %s", over)
	}
}

func slicesConcat(a, b []Point) []Point { return append(append([]Point(nil), a...), b...) }

func TestWhatIsPlottedWhenNobodySays(t *testing.T) {
	names := func(plots [][]Track) (out []string) {
		for _, p := range plots {
			var names []string
			for _, m := range p {
				names = append(names, m.trackLabel(true))
			}
			out = append(out, strings.Join(names, "+"))
		}
		return out
	}
	of := func(name string, node int, values ...float64) Series {
		return clitest.SeriesOf(name, node, 1, clitest.PointsFrom(1, values...))
	}
	for name, row := range map[string]struct {
		all    []Series
		shown  []string
		others []string
	}{
		"a training":             {clitest.ATraining(50), []string{"loss [0]+val_loss [0]+accuracy [0]"}, []string{"lr"}},
		"counters alone":         {[]Series{of("epoch", 0, 1, 2), of("lr", 0, 1e-5, 1e-6)}, []string{"lr [0]", "epoch [0]"}, nil},
		"far apart":              {[]Series{of("a", 0, 1, 2), of("b", 0, 1000, 2000), of("c", 0, 1e6, 2e6)}, []string{"a [0]", "b [0]"}, []string{"c"}},
		"nodes":                  {[]Series{of("loss", 0, 1, 2), of("loss", 1, 1, 2), of("loss", 2, 1, 2), of("loss", 3, 1, 2), of("loss", 4, 1, 2)}, []string{"loss [0]+loss [1]+loss [2]+loss [3]"}, nil},
		"a loss that is no more": {[]Series{of("loss", 0, math.NaN(), math.NaN()), of("acc", 0, 0.1, 0.9)}, []string{"loss [0]", "acc [0]"}, nil},
		"settings":               {[]Series{of("block_size", 0, 256), of("n_embd", 0, 384, 384), of("loss", 0, 4, 3), of("beta2", 0, 0.99), of("acc", 0, 0.5), of("speed", 0, 1, 2)}, []string{"loss [0]+speed [0]"}, []string{"acc"}},
		"settings alone":         {[]Series{of("block_size", 0, 256), of("n_embd", 0, 384, 384)}, []string{"n_embd [0]+block_size [0]"}, nil},
		"of one node of two":     {[]Series{of("gain", 0, 7, 7), of("gain", 1, 7, 8)}, []string{"gain [1]"}, nil},
		"nothing":                {nil, nil, nil},
	} {
		shown, others := Interesting(MergeAttempts(row.all))
		if diff := cmp.Diff(row.shown, names(shown)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(row.others, others); diff != "" {
			t.Errorf("%s, others (-want +got):\n%s", name, diff)
		}
	}
	for name, want := range map[string]int{"loss": aLoss, "eval/loss": aLoss, "train_loss": aLoss, "valloss": aLoss, "Perplexity": aLoss, "eval_accuracy": aScore, "learning_rate": aCounter, "epoch": aCounter, "samples_per_second": aCounter, "speed": aThing, "capacity": aThing} {
		if got := kindOf(name); got != want {
			t.Errorf("%s is of kind %d, want %d", name, got, want)
		}
	}
	if !rising(Track{"val_loss", 0, clitest.PointsFrom(1, 9, 5, 4, 3, 3, 3, 3, 3, 4, 5)}) || rising(Track{"loss", 0, clitest.PointsFrom(1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)}) || rising(Track{"loss", 0, nil}) {
		t.Error("a loss that rises is not told from one that falls")
	}
}
