package line

import (
	"bytes"
	"iter"

	"github.com/drover-run/drover/internal/record"
)

// Tail gives the last n of lines, in their order; the newest ones when several
// writers printed them. It holds the text of n lines of each writer. Errors are
// passed on at once.
func Tail(lines iter.Seq2[Line, error], n int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		rings := map[record.Origin]*lastLines{}
		var order []*lastLines
		for l, err := range lines {
			if err != nil {
				if !yield(Line{}, err) {
					return
				}
				continue
			}
			at := record.Origin{Attempt: l.Attempt, Rank: l.Rank, Writer: l.Writer}
			r := rings[at]
			if r == nil {
				r = &lastLines{}
				rings[at] = r
				order = append(order, r)
			}
			r.addLine(l, n)
		}
		// From the ends backwards, the newest first: a clock that was set back
		// does not hide what its writer said last.
		for range n {
			var newest *lastLines
			for _, r := range order {
				if r.chosen < len(r.lines) && (newest == nil || !r.lastUnchosen().Time.Before(newest.lastUnchosen().Time)) {
					newest = r
				}
			}
			if newest == nil {
				break
			}
			newest.chosen++
		}
		for _, r := range order {
			for i := range r.chosen {
				if !yield(*r.lineAt(len(r.lines) - r.chosen + i), nil) {
					return
				}
			}
		}
	}
}

// lastLines holds the last lines of a writer.
type lastLines struct {
	lines  []Line
	oldest int // where in lines
	chosen int // how many of the last ones are wanted
}

func (r *lastLines) addLine(l Line, most int) {
	l.Text = bytes.Clone(l.Text) // else it holds the whole block it lies in
	switch {
	case most <= 0:
	case len(r.lines) < most:
		r.lines = append(r.lines, l)
	default:
		r.lines[r.oldest] = l
		r.oldest = (r.oldest + 1) % most
	}
}

// lineAt gives the i-th line, 0 being the oldest; end the last that was not chosen.
func (r *lastLines) lineAt(i int) *Line { return &r.lines[(r.oldest+i)%len(r.lines)] }

func (r *lastLines) lastUnchosen() *Line { return r.lineAt(len(r.lines) - 1 - r.chosen) }
