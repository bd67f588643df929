package plot

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/drover-run/drover/internal/cli/terminal"
)

// Track is what became of one name on one node, over all attempts that count.
type Track struct {
	Name   string
	Node   int
	Points []Point
}

// trackLabel tells the nodes apart as logs do, where there are several.
func (m Track) trackLabel(several bool) string {
	name := terminal.PlainText(m.Name)
	if several {
		name += " [" + Figure(float64(m.Node)) + "]"
	}
	return name
}

// MergeAttempts puts the attempts of each metric together: one that went on from a
// checkpoint takes the place of the steps that it did once more.
func MergeAttempts(all []Series) []Track {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Attempt, b.Attempt))
	})
	var out []Track
	for _, s := range all {
		if len(s.Points) == 0 {
			continue
		}
		last := len(out) - 1
		if last < 0 || out[last].Name != s.Name || out[last].Node != s.Node {
			out = append(out, Track{s.Name, s.Node, s.Points})
			continue
		}
		m := &out[last]
		kept := m.Points
		if s.Points[0].Counted { // it counted from 1 again, whatever it went on from
			m.Points = slices.Concat(kept, moved(s.Points, kept[len(kept)-1].Step))
			continue
		}
		if stepped(m.Points) && stepped(s.Points) {
			i := slices.IndexFunc(kept, func(p Point) bool { return p.Step >= s.Points[0].Step })
			if i >= 0 {
				kept = kept[:i]
			}
		}
		m.Points = slices.Concat(kept, s.Points)
	}
	return out
}

// moved are points with their steps counted from another one on.
func moved(points []Point, from int64) []Point {
	points = slices.Clone(points)
	for i := range points {
		points[i].Step += from
	}
	return points
}

// stepped says whether points can stand over their steps: there are some, and
// they never go back, as those of a program that counts anew in each epoch do.
func stepped(points []Point) bool {
	return len(points) > 0 && points[len(points)-1].Step > 0 &&
		slices.IsSortedFunc(points, func(a, b Point) int { return cmp.Compare(a.Step, b.Step) })
}

// kinds of metrics, in the order in which people look at them.
const (
	aLoss = iota
	aScore
	aThing
	aCounter // where the program is, how fast: no plot unless asked for
)

var kindWords = []struct {
	kind  int
	words []string
}{
	{aLoss, []string{"loss", "perplexity", "ppl", "nll", "error", "err", "mae", "mse", "rmse", "wer", "cer", "bpc"}},
	{aCounter, []string{"epoch", "epochs", "step", "steps", "iter", "iters", "iteration", "lr", "learning", "rate", "time", "sec", "second", "seconds", "ms", "runtime", "eta", "samples", "throughput", "it", "total", "flos"}},
	{aScore, []string{"acc", "accuracy", "f1", "auc", "score", "bleu", "rouge", "iou", "map", "reward", "return", "r2", "precision", "recall", "dice"}},
}

// kindOf is what a metric's name says that it is.
func kindOf(name string) int {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, k := range kindWords {
		if slices.ContainsFunc(words, func(w string) bool {
			return slices.Contains(k.words, w) || k.kind == aLoss && strings.HasSuffix(w, "loss")
		}) {
			return k.kind
		}
	}
	return aThing
}

// ByInterest sorts metrics: losses first, and of a kind the plain name before
// val_name; nodes of one name stay together.
func ByInterest(metrics []Track) {
	slices.SortStableFunc(metrics, func(a, b Track) int {
		return cmp.Or(cmp.Compare(kindOf(a.Name), kindOf(b.Name)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
}

// Bounds are the least and greatest number; ok is false when there is none.
func (m Track) Bounds() (lo, hi Point, ok bool) {
	for _, p := range m.Points {
		if !finite(p.Value) {
			continue
		}
		if !ok || p.Value < lo.Value {
			lo = p
		}
		if !ok || p.Value > hi.Value {
			hi = p
		}
		ok = true
	}
	return lo, hi, ok
}

// shares says whether two metrics are seen well over one axis. Losses are
// compared with losses even where one of them hardly moves.
func shares(a, b Track) bool {
	alo, ahi, aok := a.Bounds()
	blo, bhi, bok := b.Bounds()
	if !aok || !bok {
		return false
	}
	reach := func(lo, hi float64) float64 { return max(hi-lo, math.Abs(hi+lo)/20, 1e-12) }
	limit := 5.0
	if kindOf(a.Name) == kindOf(b.Name) && kindOf(a.Name) != aThing {
		limit = 50
	}
	both := max(ahi.Value, bhi.Value) - min(alo.Value, blo.Value)
	return both <= limit*min(reach(alo.Value, ahi.Value), reach(blo.Value, bhi.Value))
}

// Plots shares metrics out to plots, in their order.
func Plots(metrics []Track) (out [][]Track) {
next:
	for _, m := range metrics {
		for i, p := range out {
			fits := func(other Track) bool { return m.Name == other.Name || shares(m, other) }
			if len(p) < len(Strokes) && !slices.ContainsFunc(p, func(o Track) bool { return !fits(o) }) {
				out[i] = append(p, m)
				continue next
			}
		}
		out = append(out, []Track{m})
	}
	return out
}

// fewPlots is the number of plots when none are named: they fill a screen.
const fewPlots = 2

// Interesting are the plots to show when no metric was named, and the names of
// those that are not in them.
func Interesting(metrics []Track) (shown [][]Track, others []string) {
	metrics = WithoutSettings(metrics)
	ByInterest(metrics)
	first := slices.Clone(metrics)
	if slices.ContainsFunc(first, Track.hasChanges) {
		first = slices.DeleteFunc(first, func(m Track) bool { return !m.hasChanges() })
	}
	if n := slices.IndexFunc(first, func(m Track) bool { return kindOf(m.Name) == aCounter }); n > 0 {
		first = first[:n]
	}
	// Of many nodes the first ones: a plot of 64 lines shows none of them.
	seen := map[string]int{}
	first = slices.DeleteFunc(first, func(m Track) bool { seen[m.Name]++; return seen[m.Name] > len(Strokes) })
	shown = Plots(first)
	shown = shown[:min(len(shown), fewPlots)]
	there := map[string]bool{}
	for _, p := range shown {
		for _, m := range p {
			there[m.Name] = true
		}
	}
	for _, m := range metrics {
		if !there[m.Name] {
			there[m.Name] = true
			others = append(others, m.Name)
		}
	}
	return shown, others
}

// hasChanges says that a metric has more than one value, or one that is no number: that is
// news, too.
func (m Track) hasChanges() bool {
	return slices.ContainsFunc(m.Points, func(p Point) bool { return !finite(p.Value) || p.Value != m.Points[0].Value })
}

// WithoutSettings leaves out what does not change while others do, on any node: a
// configuration that was printed (block_size = 256). A loss or a score that was printed
// once is a result, and a learning rate may stay as it is.
func WithoutSettings(metrics []Track) []Track {
	moves := map[string]bool{}
	for _, m := range metrics {
		if moves[m.Name] = moves[m.Name] || m.hasChanges(); kindOf(m.Name) != aThing {
			moves[m.Name] = true
		}
	}
	if !slices.ContainsFunc(metrics, Track.hasChanges) {
		return metrics
	}
	return slices.DeleteFunc(slices.Clone(metrics), func(m Track) bool { return !moves[m.Name] })
}

// Curves are the metrics of one plot over steps where all have them, else over
// the time since the first of them.
func Curves(metrics []Track, several bool) (out []curve, over string) {
	over = "step"
	var began time.Time
	for _, m := range metrics {
		if !stepped(m.Points) {
			over = "time"
		}
		if t := m.Points[0].Time; began.IsZero() || t.Before(began) {
			began = t
		}
	}
	for _, m := range metrics {
		c := curve{label: m.trackLabel(several)}
		points := m.Points
		if over == "time" {
			points = slices.SortedStableFunc(slices.Values(points), func(a, b Point) int { return a.Time.Compare(b.Time) })
		}
		for _, p := range points {
			x := float64(p.Step)
			if over == "time" {
				x = p.Time.Sub(began).Seconds()
			}
			c.x, c.y = append(c.x, x), append(c.y, p.Value)
		}
		out = append(out, c)
	}
	return out, over
}

// rising says that a loss went up lately: the last fifth of its values lies above
// the fifth before, by more than its noise.
func rising(m Track) bool {
	fifth := len(m.Points) / 5
	if kindOf(m.Name) != aLoss || fifth < 2 {
		return false
	}
	mean := func(points []Point) (sum float64) {
		n := 0.0
		for _, p := range points {
			if finite(p.Value) {
				sum, n = sum+p.Value, n+1
			}
		}
		return sum / n
	}
	lo, hi, _ := m.Bounds()
	end := len(m.Points)
	before, now := mean(m.Points[end-2*fifth:end-fifth]), mean(m.Points[end-fifth:])
	return now-before > (hi.Value-lo.Value)/50
}
