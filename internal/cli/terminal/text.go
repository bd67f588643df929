package terminal

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/drover-run/drover/internal/record/screen"
	"github.com/drover-run/drover/job"
)

// Table prints columns for people.
type Table struct{ w *tabwriter.Writer }

// NewTable begins a table with a line of headings.
func NewTable(out io.Writer, head ...string) Table {
	t := Table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.Row(head...)
	return t
}

// Row adds a line of cells.
func (t Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = PlainText(c)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// Flush prints the table.
func (t Table) Flush() error { return t.w.Flush() }

// PlainText makes text from a program or a person harmless in a terminal.
func PlainText(s string) string {
	return strings.ReplaceAll(string(screen.Escape([]byte(s), false)), "\n", " ")
}

// EscapedWriter escapes what could act on a terminal.
type EscapedWriter struct {
	To      io.Writer
	Escaper screen.Escaper
}

func (w *EscapedWriter) Write(b []byte) (int, error) {
	if _, err := w.To.Write(w.Escaper.Next(nil, b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Span is a length of time for people: 0.8s, 12s, 4m12s, 3h05m, 2d4h.
func Span(d time.Duration) string {
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

// Size is a number of bytes for people: "1.2 MB".
func Size(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

// Processes is "1 process", "12 processes".
func Processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return Comma(n) + " processes"
}

// Count is a number with its noun: "1 file", "2 files".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Comma(n) + " " + noun + "s"
}

// Comma is a whole number for people: 1,000,000.
func Comma(n int) string { return humanize.Comma(int64(n)) }

// Dash is a text, or "-" for none.
func Dash(s string) string { return OrElse(s, "-") }

// OrElse is a text, or another where it is empty.
func OrElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Digits reports whether a text is a number without sign or point.
func Digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Short is a value on a line.
func Short(text string) string {
	const most = 60
	text = PlainText(strings.TrimSpace(text))
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return OrElse(text, "nothing")
}

// Briefly is a number of seconds for people, also where items take milliseconds.
func Briefly(seconds float64) string {
	switch {
	case seconds <= 0:
		return "0s"
	case seconds < 0.001:
		return fmt.Sprintf("%.0fµs", seconds*1e6)
	case seconds < 0.01:
		return fmt.Sprintf("%.1fms", seconds*1e3)
	case seconds < 1:
		return fmt.Sprintf("%.0fms", seconds*1e3)
	}
	return Span(time.Duration(seconds * float64(time.Second)))
}

// Brief is span for what may be far below a second: 3ms, 0.8s.
func Brief(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", seconds*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", seconds*1000)
	}
	return Span(d)
}

// Number is a count of cores or GPUs as short as it can be, "-" for none.
func Number(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%g", n)
}

// Memory is a number of bytes in binary units, "-" for none.
func Memory(n int64) string {
	if n == 0 {
		return "-"
	}
	return job.Bytes(n).Words()
}

// CoreWords is a number of cores with its noun.
func CoreWords(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%g cores", n)
}
