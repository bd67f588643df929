package terminal

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func TestTextsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0.0s", 840 * time.Millisecond: "0.8s", 12 * time.Second: "12s", 59*time.Second + 999*time.Millisecond: "59s",
		time.Minute: "1m00s", 4*time.Minute + 12*time.Second: "4m12s", 3*time.Hour + 5*time.Minute: "3h05m", 47*time.Hour + 59*time.Minute: "47h59m", 52 * time.Hour: "2d4h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{-1: "0 B", 999: "999 B", 82854982: "83 MB", math.MaxInt64: "9.2 EB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files", 12345: "12,345 files"} {
		if got := Count(n, "file"); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := PlainText("a\nb\x1b[31mred\x07"); strings.ContainsAny(got, "\x1b\x07\n") || !strings.Contains(got, "red") {
		t.Errorf("a terminal would obey %q", got)
	}
	var out bytes.Buffer
	table := NewTable(&out, "JOB", "NOTE")
	table.Row("7fk2", "two\nlines")
	table.Row("x", "")
	if err := table.Flush(); err != nil || out.String() != "JOB   NOTE\n7fk2  two lines\nx\n" {
		t.Errorf("%v: %q", err, out.String())
	}
}
