// Package plot draws numbers that a job has measured, as text: curves, bars and small
// lines, in colour or in ASCII. It chooses what is worth a plot, and decides nothing else.
// Proved by golden screens.
package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/guptarohit/asciigraph"

	"github.com/drover-run/drover/internal/cli/terminal"
)

// Paper is what a plot is drawn on. A pipe gets plain ASCII in 80 columns, so
// that it survives a mail, a ticket or a machine without fonts.
type Paper struct {
	Width, Height int
	Colour, Ascii bool
}

// curve is one line of a plot: values over steps or seconds, x rising. A value
// that is no number is a gap.
type curve struct {
	label string
	x, y  []float64
}

// Stroke is how one curve is drawn. No two look alike without their colours.
type Stroke struct {
	chars  asciigraph.CharSet
	plain  string // on paper that has ASCII alone
	colour asciigraph.AnsiColor
	code   string // the same colour, for the legend
}

// Strokes are what curves of one plot are drawn with, in their order.
var Strokes = []Stroke{
	{asciigraph.DefaultCharSet, "*", asciigraph.Teal, "36"},
	{asciigraph.CharSet{Horizontal: "═", VerticalLine: "║", ArcDownRight: "╔", ArcDownLeft: "╗", ArcUpRight: "╚", ArcUpLeft: "╝", StartCap: "═", EndCap: "═"}, "+", asciigraph.Olive, "33"},
	{asciigraph.CharSet{Horizontal: "┄", VerticalLine: "┆", ArcDownRight: "┌", ArcDownLeft: "┐", ArcUpRight: "└", ArcUpLeft: "┘", StartCap: "┄", EndCap: "┄"}, "o", asciigraph.Purple, "35"},
	{asciigraph.CreateCharSet("•"), "x", asciigraph.Green, "32"},
}

// strokeMark is what a stroke looks like beside its name.
func (p Paper) strokeMark(i int) string {
	s := Strokes[i%len(Strokes)]
	if p.Ascii {
		return s.plain
	}
	return p.Paint(s.code, s.chars.Horizontal)
}

// Paint colours text, where the paper has colour.
func (p Paper) Paint(code, text string) string {
	if !p.Colour || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// plainAxis are the signs of the axes on paper that has ASCII alone.
var plainAxis = strings.NewReplacer("┤", "|", "┼", "+", "└", "+", "─", "-", "┬", "+", "…", "~")

// huge is beyond any value worth a plot: differences of such values overflow.
const huge = 1e300

func finite(v float64) bool { return !math.IsNaN(v) && math.Abs(v) < huge }

// Draw plots at most as many curves as there are strokes. under names a place on
// the x axis, beside one on the y axis (nil: as a number). There is nothing to
// draw where no value is a number: nil.
func (p Paper) Draw(curves []curve, under, beside func(float64) string) []string {
	x0, x1 := math.Inf(1), math.Inf(-1)
	lo, hi := x0, x1
	for _, c := range curves {
		for i, x := range c.x {
			if finite(c.y[i]) {
				x0, x1 = min(x0, x), max(x1, x)
				lo, hi = min(lo, c.y[i]), max(hi, c.y[i])
			}
		}
	}
	if x0 > x1 {
		return nil
	}
	h := float64(max(p.Height, 2))
	n := p.columnsLeft(lo, hi, h, beside)
	rows := make([][]float64, len(curves))
	lo, hi = math.Inf(1), math.Inf(-1)
	for i, c := range curves {
		rows[i] = c.columnMeans(x0, x1, n)
		for _, v := range rows[i] {
			if finite(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if lo == hi {
		pad := max(math.Abs(lo)/10, 0.1)
		lo, hi = lo-pad, hi+pad
	}
	// The library multiplies values until they are rows: of a small range far from
	// zero that overflows. So it gets rows, and gives values back by name.
	for _, row := range rows {
		for i, v := range row {
			row[i] = (v - lo) / (hi - lo) * h
		}
	}
	if beside == nil {
		beside = axisFigures(lo, hi, h)
	}
	options := []asciigraph.Option{asciigraph.Height(int(h)), asciigraph.LowerBound(0), asciigraph.UpperBound(h),
		asciigraph.YAxisValueFormatter(func(row float64) string { return beside(lo + row/h*(hi-lo)) }),
		asciigraph.SeriesChars(p.charSets()...)}
	if x1 > x0 {
		options = append(options, asciigraph.XAxisRange(x0, x1), asciigraph.XAxisTickCount(max(2, min(5, n/14))), asciigraph.XAxisValueFormatter(under))
	}
	if p.Colour {
		var colours []asciigraph.AnsiColor
		for _, s := range Strokes {
			colours = append(colours, s.colour)
		}
		options = append(options, asciigraph.SeriesColors(colours...))
	}
	text := asciigraph.PlotMany(rows, options...)
	if p.Ascii {
		text = plainAxis.Replace(text)
	}
	return strings.Split(text, "\n")
}

// columnsLeft is how many columns a plot has beside its figures.
func (p Paper) columnsLeft(lo, hi, rows float64, beside func(float64) string) int {
	if beside == nil {
		beside = axisFigures(lo, hi, rows)
	}
	// A blank and the axis at the left; at the right half of the last label.
	const frame = 4 + 6
	return max(p.Width-max(len(beside(lo)), len(beside(hi)))-frame, 8)
}

func (p Paper) charSets() (sets []asciigraph.CharSet) {
	for _, s := range Strokes {
		if p.Ascii {
			s.chars = asciigraph.CreateCharSet(s.plain)
		}
		sets = append(sets, s.chars)
	}
	return sets
}

// columnMeans brings a curve to n columns between x0 and x1: the mean of the values
// that fall into a column, a straight line between two that are apart, and NaN
// before, behind and where a value was no number. There is one column more, as
// the library draws the ways between columns.
func (c curve) columnMeans(x0, x1 float64, n int) []float64 {
	if x1 == x0 {
		n = 1
	}
	out, counts := make([]float64, n+1), make([]float64, n)
	type way struct{ from, to int }
	var ways []way
	last, whole := -1, false
	for i, x := range c.x {
		if !finite(c.y[i]) {
			whole = false
			continue
		}
		at := 0
		if x1 > x0 {
			at = min(max(int(math.Round((x-x0)/(x1-x0)*float64(n-1))), 0), n-1)
		}
		counts[at]++
		out[at] += (c.y[i] - out[at]) / counts[at] // a sum could overflow
		if whole && at > last+1 {
			ways = append(ways, way{last, at})
		}
		last, whole = at, true
	}
	for i, k := range counts {
		if k == 0 {
			out[i] = math.NaN()
		}
	}
	for _, w := range ways {
		for i := w.from + 1; i < w.to; i++ {
			part := float64(i-w.from) / float64(w.to-w.from)
			out[i] = out[w.from] + part*(out[w.to]-out[w.from])
		}
	}
	out[n] = out[n-1]
	return out
}

// axisFigures writes the values of one axis alike, with as many digits as tell its rows apart.
func axisFigures(lo, hi, rows float64) func(float64) string {
	step := max((hi-lo)/rows, math.SmallestNonzeroFloat64)
	digits := max(0, int(math.Ceil(-math.Log10(step)+0.3)))
	format, most := byte('f'), max(math.Abs(lo), math.Abs(hi))
	if digits > 6 || most >= 1e7 {
		format, digits = 'g', 5
	}
	return func(v float64) string {
		if math.Abs(v) < step/1e6 {
			v = 0 // not -0.00
		}
		return strconv.FormatFloat(v, format, digits, 64)
	}
}

// Figure is a value for people: four digits, and no e-05 where none is needed.
func Figure(v float64) string {
	switch a := math.Abs(v); {
	case !finite(v):
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a < 1e15 && v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 1e6 || a < 1e-3:
		return strconv.FormatFloat(v, 'g', 4, 64)
	default:
		digits := max(0, 3-int(math.Floor(math.Log10(a))))
		text := strconv.FormatFloat(v, 'f', digits, 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
}

const (
	sparkLevels      = "▁▂▃▄▅▆▇█"
	plainSparkLevels = "_.-~=+*#"
)

// Spark is a line of small bars between 0 and top, at most n: of more values each
// bar is the highest of its share, so that no peak is lost. What is no number is a blank.
func (p Paper) Spark(values []float64, n int, top float64) string {
	signs := []rune(sparkLevels)
	if p.Ascii {
		signs = []rune(plainSparkLevels)
	}
	n = min(n, len(values))
	var b strings.Builder
	for i := range n {
		peak := math.NaN()
		for _, v := range values[i*len(values)/n : (i+1)*len(values)/n] {
			if finite(v) && !(peak > v) {
				peak = v
			}
		}
		switch {
		case math.IsNaN(peak):
			b.WriteByte(' ')
		case top <= 0:
			b.WriteRune(signs[0])
		default:
			b.WriteRune(signs[min(max(int(peak/top*float64(len(signs))), 0), len(signs)-1)])
		}
	}
	return b.String()
}

// Trend is a spark between the least and the greatest value: the shape of a curve.
func (p Paper) Trend(values []float64, n int) string {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if finite(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	moved := slices.Clone(values)
	for i := range moved {
		moved[i] -= lo
	}
	return p.Spark(moved, n, hi-lo)
}

// Bar is n cells, filled as far as part of whole goes.
func (p Paper) Bar(part, whole float64, n int) string {
	full, empty, filled := "█", "░", 0
	if p.Ascii {
		full, empty = "#", "."
	}
	if whole > 0 && part > 0 {
		filled = min(int(math.Round(part/whole*float64(n))), n)
	}
	return strings.Repeat(full, filled) + strings.Repeat(empty, n-filled)
}

// Flow puts items beside each other, as many as fit on a line.
func (p Paper) Flow(indent string, items []string) (lines []string) {
	line := ""
	for _, item := range items {
		switch {
		case line == "":
			line = indent + item
		case ansi.StringWidth(line)+3+ansi.StringWidth(item) > p.Width:
			lines, line = append(lines, line), indent+item
		default:
			line += "   " + item
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	for i := range lines {
		lines[i] = p.Cut(lines[i], p.Width)
	}
	return lines
}

// Cut shortens a line to columns, not letters: one letter may take two.
func (p Paper) Cut(line string, width int) string {
	tail := "…"
	if p.Ascii {
		tail = "~"
	}
	return ansi.Truncate(line, max(width, 0), tail)
}

// Pad fills a text up to columns, or cuts it.
func (p Paper) Pad(text string, width int) string {
	text = p.Cut(text, width)
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

// Seconds names a place on an axis of time.
func Seconds(v float64) string {
	if v <= 0 {
		return "0s"
	}
	return terminal.Span(time.Duration(v * float64(time.Second)))
}

// Legend tells of each metric its last value and its bounds.
func (p Paper) Legend(plot []Track, several, usage bool) (items []string) {
	say := Figure
	if of := Unit(plot[0].Name, usage); of != nil {
		say = of
	}
	for i, m := range plot {
		last := m.Points[len(m.Points)-1]
		text := p.strokeMark(i) + " " + m.trackLabel(several) + " " + say(last.Value)
		if lo, hi, ok := m.Bounds(); ok && len(m.Points) > 1 {
			at := ""
			if lo.Step > 0 && lo.Step != last.Step {
				at = fmt.Sprintf(" at step %d", lo.Step)
			}
			text += fmt.Sprintf(" (min %s%s, max %s)", say(lo.Value), at, say(hi.Value))
		}
		if rising(m) && p.Ascii {
			text += " rising"
		} else if rising(m) {
			text += " ▲ rising"
		}
		items = append(items, text)
	}
	return items
}
