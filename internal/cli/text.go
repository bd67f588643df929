package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
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

func dash(s string) string { return orElse(s, "-") }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// short is a value on a line.
func short(text string) string {
	const most = 60
	text = plainText(strings.TrimSpace(text))
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return orElse(text, "nothing")
}

// briefly is a number of seconds for people, also where items take milliseconds.
func briefly(seconds float64) string {
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
	return span(time.Duration(seconds * float64(time.Second)))
}

// brief is span for what may be far below a second: 3ms, 0.8s.
func brief(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", seconds*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", seconds*1000)
	}
	return span(d)
}

func number(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%g", n)
}

func memory(n int64) string {
	if n == 0 {
		return "-"
	}
	return job.Bytes(n).Words()
}

func coreWords(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%g cores", n)
}
