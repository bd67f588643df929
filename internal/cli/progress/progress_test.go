package progress

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/job"
)

func TestTheProgressBlockFitsItsTerminal(t *testing.T) {
	views := []ProgressView{
		{S: clitest.Looked(job.Running, job.Tally{Items: 1_000_000, Succeeded: 616_150, Failed: 613}, func(s *drover.Status) { s.Running, s.Workers, s.Retried = 96, 12, 1204 }),
			Rate: 831.2, last: "item 997: exit status 1: cannot identify image file"},
		{S: clitest.Looked(job.Starting, job.Tally{Items: 12}, func(s *drover.Status) { s.Doing = []string{"preparing: building environment"} })},
		{S: clitest.Looked(job.Pending, job.Tally{Items: 1}, func(s *drover.Status) { s.Workers = 0 })},
		{S: clitest.Looked(job.Running, job.Tally{Items: 999, Succeeded: 998}, func(s *drover.Status) { s.Running = 3 }), Rate: 0.01},
		{S: clitest.Looked(job.Running, job.Tally{Items: 40_000, Succeeded: 3, Quarantined: 1}, func(s *drover.Status) { s.Paused = true }), Rate: 2},
		{S: clitest.Looked(job.Running, job.Tally{Items: 3_000_000, Succeeded: 100}, nil), Rate: 0.0001, last: "item 7: exit status 1: \x1b[31mred\nand more"},
		{S: clitest.Looked(job.Cancelled, job.Tally{Items: 5, Succeeded: 3, Cancelled: 2}, nil)},
	}
	for _, width := range []int{100, 80, 40, 10} {
		var lines []string
		for _, v := range views {
			v.Width, v.Paint = width, clitest.Unpainted
			block := v.Block()
			if len(block) > 4 {
				t.Errorf("width %d: %d lines", width, len(block))
			}
			for _, l := range block {
				if ansi.StringWidth(l) >= width {
					t.Errorf("width %d: %q is %d wide", width, l, ansi.StringWidth(l))
				}
			}
			lines = append(append(lines, block...), "")
		}
		clitest.CheckScreen(t, fmt.Sprintf("map-progress-%d", width), lines)
	}
}

func TestWithoutATerminalProgressIsALineNowAndThen(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{Out: &out, Paint: clitest.Unpainted, Size: func() (int, bool) { return 0, false }}
	show := func(after time.Duration, done int) {
		p.Show(clitest.Looked(job.Running, job.Tally{Items: 1000, Succeeded: done}, func(s *drover.Status) { s.Time = clitest.At.Add(after) }), "")
	}
	show(0, 0)
	show(500*time.Millisecond, 200) // too soon
	show(2*time.Second, 200)        // 20 %
	show(3*time.Second, 290)        // 9 % more
	show(4*time.Second, 300)        // 10 %
	show(13*time.Second, 310)       // 9 s later
	show(14*time.Second, 310)       // 10 s later
	show(30*time.Second, 310)       // its rate has changed
	for i := range 1000 {           // nothing else happens
		show(31*time.Second+time.Duration(i)*time.Millisecond, 310)
	}
	want := `3xw8  20.0%  200 succeeded, 800 left  100 items/s  ETA 8.0s (14:34)
3xw8  30.0%  300 succeeded, 700 left  75.0 items/s  ETA 9.3s (14:34)
3xw8  31.0%  310 succeeded, 690 left  22.1 items/s  ETA 31s (14:35)
3xw8  31.0%  310 succeeded, 690 left  10.3 items/s  ETA 1m06s (14:35)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	out.Reset()
	p.Quiet = true
	if show(time.Hour, 900); out.Len() > 0 {
		t.Errorf("quiet: %q", out.String())
	}
}

func TestOnATerminalProgressIsRewrittenInPlace(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{Out: &out, Paint: clitest.Unpainted, Size: func() (int, bool) { return 80, true }}
	s := clitest.Looked(job.Running, job.Tally{Items: 10, Succeeded: 1}, nil)
	p.Show(s, "item 3: exit status 1")
	if strings.Contains(out.String(), "A\r") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("first: %q", out.String())
	}
	out.Reset()
	p.Show(s, "")
	if !strings.HasPrefix(out.String(), "\x1b[2A\r") || strings.Count(out.String(), "\n") != 1 || !strings.HasSuffix(out.String(), "\x1b[J") {
		t.Errorf("second: %q", out.String())
	}
	out.Reset()
	p.Clear()
	p.Clear()
	if out.String() != "\x1b[1A\r\x1b[J" {
		t.Errorf("clear: %q", out.String())
	}
}

func TestTheRateIsThatOfTheLastMinute(t *testing.T) {
	var p Pace
	if p.Rate() != 0 {
		t.Error("a rate of nothing")
	}
	p.Note(clitest.At, 100)
	p.Note(clitest.At.Add(500*time.Millisecond), 200)
	if p.Rate() != 0 {
		t.Errorf("after half a second it is %g", p.Rate())
	}
	for i := 1; i <= 600; i++ { // 10 a second for 5 minutes, then 2
		n := 200 + 5*i
		if i > 300 {
			n = 200 + 5*300 + (i - 300)
		}
		p.Note(clitest.At.Add(time.Duration(i)*500*time.Millisecond), n)
	}
	if r := p.Rate(); r < 1.99 || r > 2.01 || len(p.marks) > 130 {
		t.Errorf("rate %g of %d marks", r, len(p.marks))
	}
	p.Note(clitest.At.Add(time.Hour), 10)
	if p.Rate() != 0 || len(p.marks) != 1 {
		t.Errorf("after a reopen %g", p.Rate())
	}
}

func TestCountsOfItemsAddUp(t *testing.T) {
	number := regexp.MustCompile(`[0-9,]+`)
	for _, s := range []drover.Status{
		clitest.Looked(job.Running, job.Tally{Items: 10}, func(s *drover.Status) { s.Running = 12 }), // a heartbeat that is late
		clitest.Looked(job.Running, job.Tally{Items: 10, Succeeded: 4, Failed: 1, Quarantined: 1, Cancelled: 1}, func(s *drover.Status) { s.Running = 2 }),
		clitest.Looked(job.Succeeded, job.Tally{Items: 10, Succeeded: 10}, nil),
		clitest.Looked(job.Pending, job.Tally{}, nil),
	} {
		sum := 0
		for _, word := range Counts(s) {
			var n int
			if _, err := fmt.Sscan(number.FindString(word), &n); err != nil || n <= 0 {
				t.Errorf("%q", word)
			}
			sum += n
		}
		if sum != s.Items.Items {
			t.Errorf("%q add up to %d, want %d", Counts(s), sum, s.Items.Items)
		}
		if p := Percent(s.Items); p < 0 || p > 100 || p == 100 && s.Items.Open() > 0 {
			t.Errorf("%v: %g %%", s.Items, p)
		}
	}
	if p := Percent(job.Tally{Items: 1_000_000, Succeeded: 999_999}); p != 99.9 {
		t.Errorf("one is left, and it is %g %%", p)
	}
}
