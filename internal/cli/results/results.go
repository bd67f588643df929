// Package results has the verbs that show what a map has done: results, items and verify.
// They change nothing. Proved by golden screens and by the scripts of these verbs.
package results

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Results is drover results.
type Results struct{ *app.App }

// NewResults returns a Results of an invocation.
func NewResults(a *app.App) Results { return Results{a} }

// Command returns the verb's command, with its flags.
func (a Results) Command() *cobra.Command {
	asCSV := false
	var top topFlags
	c := &cobra.Command{Use: "results [JOB]", Short: "What a map's items came to, in the order of the items", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	c.Flags().BoolVar(&asCSV, "csv", false, "print CSV; where results are JSON objects, each of their fields is a column")
	c.Flags().Lookup("json").Usage = "print a JSON object a line"
	top.addFlags(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if asCSV && a.Settings.JSON {
			return fault.New(fault.Invalid, "Leave one of them out.", "read command line: both --csv and --json")
		}
		if err := top.checkFlags(cmd.Flags()); err != nil {
			return err
		}
		j, err := a.FindJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(a.EscapedOutput(), 64<<10)
		switch {
		case top.n > 0:
			return ended(a.printTopResults(cmd.Context(), j, top, asCSV, out), out)
		case a.Settings.JSON || asCSV:
			return ended(a.printAllResults(cmd.Context(), j, asCSV, out), out)
		}
		return a.printResultTable(cmd.Context(), j, out)
	}
	return c
}

// printAllResults prints all results with all that their items printed. Where that is not to
// be had, or too long, a mark stands in its place.
func (a Results) printAllResults(ctx context.Context, j *drover.Job, asCSV bool, out io.Writer) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	m := cutMarks{id: rec.Short, inText: asCSV}
	results := m.markCut(j.Results(ctx, drover.ResultOptions{Whole: true}))
	if !asCSV {
		err = jsonResults(out, results)
	} else {
		var names []string
		if names, err = j.Fields(ctx); err == nil {
			err = csvResults(out, names, results)
		}
	}
	m.noteCut(a.App)
	return err
}

// cutMarks finds the results of which something is left out.
type cutMarks struct {
	id     string // the job's
	inText bool   // the mark stands in the output; else stdout_cut is one
	cut    int
	first  int // item
}

// markCut gives results with a mark in those that are cut.
func (m *cutMarks) markCut(results resultSeq) resultSeq {
	return func(yield func(drover.ItemResult, error) bool) {
		for r, err := range results {
			if r.Cut {
				if m.cut++; m.cut == 1 {
					m.first = r.Item
				}
				if m.inText {
					r.Stdout = cutText(m.id, r)
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// noteCut says how many are cut, and where the rest is.
func (m *cutMarks) noteCut(a *app.App) {
	if m.cut > 0 {
		a.Note("note: the output of %s is cut, as it is longer than %s or not all stored: drover logs %s --item %d", terminal.Count(m.cut, "item"), terminal.Size(drover.MaxStdout), m.id, m.first)
	}
}

// cutText is an output that is cut, with a mark where something is left out.
func cutText(id string, r drover.ItemResult) string {
	left := r.StdoutBytes - int64(len(r.Stdout)+len(r.Tail))
	return fmt.Sprintf("%s\n[drover: %s bytes are left out here: drover logs %s --item %d]\n%s", r.Stdout, terminal.Comma(int(left)), id, r.Item, r.Tail)
}

// ended flushes what was printed; a closed pipe is no error.
func ended(err error, out *bufio.Writer) error {
	if e := out.Flush(); err == nil {
		err = e
	}
	if terminal.Closed(err) {
		return nil
	}
	return err
}

type resultSeq = func(yield func(drover.ItemResult, error) bool)

func jsonResults(out io.Writer, results resultSeq) error {
	enc := terminal.NewJSON(out).PlainHTML()
	for r, err := range results {
		if err != nil {
			return err
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func codeWord(code *int, none string) string {
	if code == nil {
		return none
	}
	return strconv.Itoa(*code)
}

func secondsWord(t drover.Try, none string) string {
	if t.Code == nil {
		return none
	}
	return strconv.FormatFloat(t.Seconds, 'f', 3, 64)
}

func outputNames(t drover.Try) (names []string) {
	for _, f := range t.Outputs {
		names = append(names, f.Name)
	}
	return names
}

// ItemTable prints items for people, each as it comes: its columns are wide enough
// for the last number, and the last column is cut where the terminal ends.
type ItemTable struct {
	out          io.Writer
	number, cell int // widths
	width        int // of the terminal; 0: there is none, nothing is cut
}

func (a Results) newItemTable(out io.Writer, items int) ItemTable {
	t := ItemTable{out: out, number: max(4, len(strconv.Itoa(items))), cell: 40}
	if f, ok := a.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.width = 80
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			t.width = w
		}
		t.cell = min(max((t.width-t.number-30)/2, 8), 40)
	}
	return t
}

// printRow prints one; value is cut to its column.
func (t ItemTable) printRow(number, state, code, took, value, rest string) error {
	return t.printLine(fmt.Sprintf("%*s  %-13s  %6s  %7s  ", t.number, number, state, code, took), value, rest)
}

// printLine prints a row behind its first columns.
func (t ItemTable) printLine(line, value, rest string) error {
	value = ansi.Truncate(terminal.PlainText(value), t.cell, "…")
	if rest != "" {
		value += strings.Repeat(" ", max(t.cell-ansi.StringWidth(value), 0)) + "  " + terminal.PlainText(rest)
	}
	line += value
	if t.width > 0 {
		line = ansi.Truncate(line, t.width, "…")
	}
	_, err := fmt.Fprintln(t.out, strings.TrimRight(line, " "))
	return err
}

func (a Results) printResultTable(ctx context.Context, j *drover.Job, out *bufio.Writer) error {
	s, err := j.Status(ctx)
	if err != nil {
		return err
	}
	t := a.newItemTable(out, s.Items.Items)
	if err := t.printRow("ITEM", "STATE", "STATUS", "TIME", "VALUE", "RESULT"); err != nil {
		return ended(err, out)
	}
	for r, err := range j.Results(ctx, drover.ResultOptions{}) {
		if err == nil {
			err = t.printRow(strconv.Itoa(r.Item), itemState(r.State), codeWord(r.Code, "-"), tookWord(r.Try), r.Value, resultWord(r))
		}
		if err != nil {
			return ended(err, out)
		}
	}
	return ended(nil, out)
}

func tookWord(t drover.Try) string {
	if t.Code == nil {
		return "-"
	}
	return terminal.Span(time.Duration(t.Seconds * float64(time.Second)))
}

// longestWord is how much of a line a table shows, in bytes.
const longestWord = 2 << 10

// resultWord is what an item came to, in a few words: its outputs, else the first
// line that it printed, else why it failed.
func resultWord(r drover.ItemResult) string {
	switch {
	case r.State != job.ItemSucceeded && r.State != job.ItemPending && r.State != job.ItemLeased:
		return itemWhy(r)
	case len(r.Outputs) > 0:
		return strings.Join(outputNames(r.Try), " ")
	}
	text := strings.TrimRight(r.Stdout, "\r\n")
	line, more, _ := strings.Cut(text, "\n")
	if more != "" || r.Tail != "" || len(line) > longestWord {
		line = strings.ToValidUTF8(line[:min(len(line), longestWord)], "") + " …"
	}
	return line
}

// itemState is a state as sign and word.
func itemState(s job.ItemState) string {
	sign := map[job.ItemState]string{job.ItemSucceeded: "✓", job.ItemFailed: "✗", job.ItemQuarantined: "✗", job.ItemCancelled: "–", job.ItemLeased: "●"}[s]
	if sign == "" {
		sign = "◌"
	}
	return sign + " " + StateWord(s)
}

// StateWord is a state as a user reads it: what the ledger calls leased is running on a
// worker, or next there.
func StateWord(s job.ItemState) string {
	if s == job.ItemLeased {
		return "on a worker"
	}
	return strings.ToLower(string(s))
}

// ParseStates reads --state.
func ParseStates(typed []string) (states []job.ItemState, err error) {
	var names []string
	for _, s := range job.ItemStates {
		names = append(names, strings.ToLower(string(s)))
	}
	for _, word := range typed {
		s := job.ItemState(strings.ToUpper(word))
		if !slices.Contains(job.ItemStates, s) {
			hint := "Use " + strings.Join(names, ", ") + "."
			if near := fault.Nearest(strings.ToLower(word), names); near != "" {
				hint = "Did you mean " + near + "?"
			}
			return nil, fault.New(fault.Invalid, hint, "read --state: %q is not an item state", word)
		}
		states = append(states, s)
	}
	return states, nil
}
