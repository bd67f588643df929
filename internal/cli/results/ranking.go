package results

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// topFlags choose the best of a map's results.
type topFlags struct {
	n         int
	by        string
	ascending bool
}

func (t *topFlags) addFlags(f *pflag.FlagSet) {
	f.IntVar(&t.n, "top", 0, "only so many, those with the largest number in --by first")
	f.StringVar(&t.by, "by", "", "a field of results that are JSON objects (acc, eval.f1), or a name printed with a number (acc=0.91)")
	f.BoolVar(&t.ascending, "asc", false, "the smallest numbers first")
}

// checkFlags refuses one of them without the other.
func (t *topFlags) checkFlags(f *pflag.FlagSet) error {
	switch {
	case f.Changed("top") && t.n < 1:
		return fault.New(fault.Invalid, "Say how many: `--top 5 --by acc`.", "read --top: %d is not a number of results", t.n)
	case t.n > 0 && t.by == "":
		return fault.New(fault.Invalid, fmt.Sprintf("Name a number that is in the results: `--top %d --by acc`.", t.n), "read command line: --top without --by")
	case t.n == 0 && (t.by != "" || t.ascending):
		return fault.New(fault.Invalid, "Say how many: `--top 5 --by acc`.", "read command line: --by and --asc are for --top")
	}
	return nil
}

// printTopResults prints the first of an order, and says how many are not in it.
func (a Results) printTopResults(ctx context.Context, j *drover.Job, o topFlags, asCSV bool, out io.Writer) error {
	r, err := j.Top(ctx, drover.TopOptions{N: o.n, By: o.by, Ascending: o.ascending})
	if err != nil {
		return err
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	m := cutMarks{id: rec.Short, inText: asCSV}
	ranked := m.markCut(func(yield func(drover.ItemResult, error) bool) {
		for _, it := range r.Top {
			if !yield(it.ItemResult, nil) {
				return
			}
		}
	})
	switch {
	case a.Settings.JSON:
		for range ranked { // to count those that are cut
		}
		enc := terminal.NewJSON(out).PlainHTML()
		for _, it := range r.Top {
			if err := enc.Encode(it); err != nil {
				return err
			}
		}
	case asCSV:
		names, err := j.Fields(ctx)
		if err != nil {
			return err
		}
		if err := csvResults(out, names, ranked); err != nil {
			return err
		}
	default:
		if err := a.printTopTable(out, o.by, r); err != nil {
			return err
		}
	}
	m.noteCut(a.App)
	var others []string
	if r.Without > 0 {
		others = append(others, terminal.Count(r.Without, "result")+" without a number "+terminal.PlainText(o.by))
	}
	if r.Open > 0 {
		others = append(others, terminal.Count(r.Open, "item")+" not succeeded")
	}
	if len(others) > 0 {
		a.Note("left out: %s", strings.Join(others, ", "))
	}
	return nil
}

func (a Results) printTopTable(out io.Writer, by string, r drover.Ranking) error {
	by = terminal.PlainText(strings.ToUpper(by))
	last, width := 0, len(by)
	for _, it := range r.Top {
		last, width = max(last, it.Item), max(width, len(numberWord(it.Number)))
	}
	t := a.newItemTable(out, last)
	line := func(number, value, took string) string {
		return fmt.Sprintf("%*s  %*s  %7s  ", t.number, number, width, value, took)
	}
	if err := t.printLine(line("ITEM", by, "TIME"), "VALUE", "RESULT"); err != nil {
		return err
	}
	for _, it := range r.Top {
		if err := t.printLine(line(strconv.Itoa(it.Item), numberWord(it.Number), tookWord(it.Try)), it.Value, resultWord(it.ItemResult)); err != nil {
			return err
		}
	}
	return nil
}

func numberWord(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
