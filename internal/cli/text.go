package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/drover-run/drover/internal/record"
)

// table prints columns for people.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = plainText(c)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t table) flush() error { return t.w.Flush() }

// plainText makes text from a program or a person harmless in a terminal.
func plainText(s string) string {
	return strings.ReplaceAll(string(record.Escape([]byte(s), false)), "\n", " ")
}

// escapedOutput is where text is printed that holds words of programs and is not escaped yet, such
// as CSV: standard output as it is, or on a terminal with its control sequences escaped.
func (a *app) escapedOutput() io.Writer {
	if !isTerminal(a.out) {
		return a.out
	}
	return &escapedWriter{to: a.out, escaper: record.Escaper{Colour: true}}
}

type escapedWriter struct {
	to      io.Writer
	escaper record.Escaper
}

func (w *escapedWriter) Write(b []byte) (int, error) {
	if _, err := w.to.Write(w.escaper.Next(nil, b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// span is a length of time for people: 0.8s, 12s, 4m12s, 3h05m, 2d4h.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

func size(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

// processes is "1 process", "12 processes".
func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return comma(n) + " processes"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return comma(n) + " " + noun + "s"
}

// comma is a whole number for people: 1,000,000.
func comma(n int) string { return humanize.Comma(int64(n)) }
