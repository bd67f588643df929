package cli

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

// track is what became of one name on one node, over all attempts that count.
type track struct {
	name   string
	node   int
	points []point
}

// label tells the nodes apart as logs do, where there are several.
func (m track) label(several bool) string {
	name := plainText(m.name)
	if several {
		name += " [" + figure(float64(m.node)) + "]"
	}
	return name
}

// mergeAttempts puts the attempts of each metric together: one that went on from a
// checkpoint takes the place of the steps that it did once more.
func mergeAttempts(all []series) []track {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b series) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Attempt, b.Attempt))
	})
	var out []track
	for _, s := range all {
		if len(s.Points) == 0 {
			continue
		}
		last := len(out) - 1
		if last < 0 || out[last].name != s.Name || out[last].node != s.Node {
			out = append(out, track{s.Name, s.Node, s.Points})
			continue
		}
		m := &out[last]
		kept := m.points
		if s.Points[0].Counted { // it counted from 1 again, whatever it went on from
			m.points = slices.Concat(kept, moved(s.Points, kept[len(kept)-1].Step))
			continue
		}
		if stepped(m.points) && stepped(s.Points) {
			i := slices.IndexFunc(kept, func(p point) bool { return p.Step >= s.Points[0].Step })
			if i >= 0 {
				kept = kept[:i]
			}
		}
		m.points = slices.Concat(kept, s.Points)
	}
	return out
}

// moved are points whose steps are counted from another one on.
func moved(points []point, from int64) []point {
	points = slices.Clone(points)
	for i := range points {
		points[i].Step += from
	}
	return points
}

// stepped says whether points can stand over their steps: there are some, and
// they never go back, as those of a program that counts anew in each epoch do.
func stepped(points []point) bool {
	return len(points) > 0 && points[len(points)-1].Step > 0 &&
		slices.IsSortedFunc(points, func(a, b point) int { return cmp.Compare(a.Step, b.Step) })
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

// byInterest sorts metrics: losses first, and of a kind the plain name before
// val_name; nodes of one name stay together.
func byInterest(metrics []track) {
	slices.SortStableFunc(metrics, func(a, b track) int {
		return cmp.Or(cmp.Compare(kindOf(a.name), kindOf(b.name)), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name), cmp.Compare(a.node, b.node))
	})
}

// bounds are the least and greatest number; ok is false when there is none.
func (m track) bounds() (lo, hi point, ok bool) {
	for _, p := range m.points {
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
func shares(a, b track) bool {
	alo, ahi, aok := a.bounds()
	blo, bhi, bok := b.bounds()
	if !aok || !bok {
		return false
	}
	reach := func(lo, hi float64) float64 { return max(hi-lo, math.Abs(hi+lo)/20, 1e-12) }
	limit := 5.0
	if kindOf(a.name) == kindOf(b.name) && kindOf(a.name) != aThing {
		limit = 50
	}
	both := max(ahi.Value, bhi.Value) - min(alo.Value, blo.Value)
	return both <= limit*min(reach(alo.Value, ahi.Value), reach(blo.Value, bhi.Value))
}

// plots shares metrics out to plots, in their order.
func plots(metrics []track) (out [][]track) {
next:
	for _, m := range metrics {
		for i, p := range out {
			fits := func(other track) bool { return m.name == other.name || shares(m, other) }
			if len(p) < len(strokes) && !slices.ContainsFunc(p, func(o track) bool { return !fits(o) }) {
				out[i] = append(p, m)
				continue next
			}
		}
		out = append(out, []track{m})
	}
	return out
}

// fewPlots is what is shown when nobody said what: a screen, with its legends.
const fewPlots = 2

// interesting are the plots to show when no metric was named, and the names of
// those that are not in them.
func interesting(metrics []track) (shown [][]track, others []string) {
	metrics = withoutSettings(metrics)
	byInterest(metrics)
	first := slices.Clone(metrics)
	if slices.ContainsFunc(first, track.changes) {
		first = slices.DeleteFunc(first, func(m track) bool { return !m.changes() })
	}
	if n := slices.IndexFunc(first, func(m track) bool { return kindOf(m.name) == aCounter }); n > 0 {
		first = first[:n]
	}
	// Of many nodes the first ones: a plot of 64 lines shows none of them.
	seen := map[string]int{}
	first = slices.DeleteFunc(first, func(m track) bool { seen[m.name]++; return seen[m.name] > len(strokes) })
	shown = plots(first)
	shown = shown[:min(len(shown), fewPlots)]
	there := map[string]bool{}
	for _, p := range shown {
		for _, m := range p {
			there[m.name] = true
		}
	}
	for _, m := range metrics {
		if !there[m.name] {
			there[m.name] = true
			others = append(others, m.name)
		}
	}
	return shown, others
}

// changes says that a metric has more than one value, or one that is no number: that is
// news, too.
func (m track) changes() bool {
	return slices.ContainsFunc(m.points, func(p point) bool { return !finite(p.Value) || p.Value != m.points[0].Value })
}

// withoutSettings leaves out what does not change while others do, on any node: a
// configuration that was printed (block_size = 256). A loss or a score that was printed
// once is a result, and a learning rate may stay as it is.
func withoutSettings(metrics []track) []track {
	moves := map[string]bool{}
	for _, m := range metrics {
		if moves[m.name] = moves[m.name] || m.changes(); kindOf(m.name) != aThing {
			moves[m.name] = true
		}
	}
	if !slices.ContainsFunc(metrics, track.changes) {
		return metrics
	}
	return slices.DeleteFunc(slices.Clone(metrics), func(m track) bool { return !moves[m.name] })
}

// curves are the metrics of one plot over steps where all have them, else over
// the time since the first of them.
func curves(metrics []track, several bool) (out []curve, over string) {
	over = "step"
	var began time.Time
	for _, m := range metrics {
		if !stepped(m.points) {
			over = "time"
		}
		if t := m.points[0].Time; began.IsZero() || t.Before(began) {
			began = t
		}
	}
	for _, m := range metrics {
		c := curve{label: m.label(several)}
		points := m.points
		if over == "time" {
			points = slices.SortedStableFunc(slices.Values(points), func(a, b point) int { return a.Time.Compare(b.Time) })
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
func rising(m track) bool {
	fifth := len(m.points) / 5
	if kindOf(m.name) != aLoss || fifth < 2 {
		return false
	}
	mean := func(points []point) (sum float64) {
		n := 0.0
		for _, p := range points {
			if finite(p.Value) {
				sum, n = sum+p.Value, n+1
			}
		}
		return sum / n
	}
	lo, hi, _ := m.bounds()
	end := len(m.points)
	before, now := mean(m.points[end-2*fifth:end-fifth]), mean(m.points[end-fifth:])
	return now-before > (hi.Value-lo.Value)/50
}
