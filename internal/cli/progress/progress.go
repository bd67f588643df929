// Package progress shows how far a map is, as a block that is rewritten in a terminal and
// as a line now and then elsewhere, and that its store does not answer.
// It reads no store. Proved by golden screens.
package progress

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Pace is how fast items end: from the marks of the last minute.
type Pace struct{ marks []mark }

type mark struct {
	at    time.Time
	ended int
}

const (
	paceSpan  = time.Minute
	paceLeast = time.Second // of a shorter time the figure would jump about
)

// Note takes in how many had ended at a time.
func (p *Pace) Note(at time.Time, ended int) {
	if n := len(p.marks); n > 0 && ended < p.marks[n-1].ended {
		p.marks = nil // items were reopened
	}
	p.marks = append(p.marks, mark{at, ended})
	old := 0
	for old < len(p.marks)-2 && at.Sub(p.marks[old+1].at) >= paceSpan {
		old++
	}
	p.marks = p.marks[old:]
}

// Rate is items in a second; 0 while it is not known.
func (p *Pace) Rate() float64 {
	if len(p.marks) == 0 {
		return 0
	}
	first, last := p.marks[0], p.marks[len(p.marks)-1]
	took := last.at.Sub(first.at)
	if took < paceLeast {
		return 0
	}
	return float64(last.ended-first.ended) / took.Seconds()
}

// ProgressView is what a progress block shows.
type ProgressView struct {
	S     drover.Status
	Rate  float64
	last  string // of the items that failed, the newest: what it said last
	away  string // how it stands with the store
	Width int
	Paint func(job.State, string) string
}

// maxLeft is how long a map may seem to take before that is not said.
const maxLeft = 100 * 24 * time.Hour

// timeLeft is how long it takes at that rate; 0 while that is not known.
func (v ProgressView) timeLeft() time.Duration {
	if v.Rate <= 0 {
		return 0
	}
	seconds := float64(v.S.Items.Open()) / v.Rate
	if seconds > maxLeft.Seconds() {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

func rateWords(rate float64) string {
	switch {
	case rate >= 100:
		return terminal.Comma(int(rate+0.5)) + " items/s"
	case rate >= 0.5:
		return fmt.Sprintf("%.1f items/s", rate)
	case rate >= 0.01:
		return fmt.Sprintf("%.1f items/min", rate*60)
	case rate > 0:
		return fmt.Sprintf("%.1f items/h", rate*3600)
	}
	return ""
}

// Percent is how many of the items have ended, in tenths that never round up.
func Percent(t job.Tally) float64 {
	if t.Items == 0 {
		return 0
	}
	return float64((t.Items-t.Open())*1000/t.Items) / 10
}

// Counts are the items by how they stand; those that are none are left out.
func Counts(s drover.Status) []string {
	t := s.Items
	running := min(s.Running, t.Open())
	var words []string
	for _, part := range []struct {
		n    int
		what string
	}{{t.Succeeded, "succeeded"}, {t.Failed, "failed"}, {t.Quarantined, "quarantined"}, {t.Cancelled, "cancelled"},
		{running, "running"}, {t.Open() - running, "left"}} {
		if part.n > 0 {
			words = append(words, terminal.Comma(part.n)+" "+part.what)
		}
	}
	return words
}

// Block is at most five lines, none wider than the terminal.
func (v ProgressView) Block() []string {
	s := v.S
	head := fmt.Sprintf("%s %s", v.Paint(s.State, s.State.Symbol()), s.ID)
	tail := fmt.Sprintf("%5.1f%%   %s", Percent(s.Items), strings.Join(Counts(s), " · "))
	if room := v.Width - ansi.StringWidth(head) - ansi.StringWidth(tail) - 5; room >= 8 {
		head += "  " + bar(Percent(s.Items), min(room, 32))
	}
	lines := []string{head + "  " + tail}
	if facts := v.Facts(); len(facts) > 0 {
		lines = append(lines, "       "+strings.Join(facts, "   "))
	}
	for _, more := range []string{v.last, v.away} {
		if more != "" {
			lines = append(lines, "       "+terminal.PlainText(more))
		}
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], max(v.Width-1, 1), "…")
	}
	return lines
}

// Facts are the words below the bar: rate, time left, workers.
func (v ProgressView) Facts() []string {
	s := v.S
	var facts []string
	switch {
	case s.Paused:
		facts = append(facts, "paused: drover resume "+s.ID)
	case len(s.Doing) > 0 && s.Running == 0:
		facts = append(facts, terminal.PlainText(s.Doing[0]))
	case s.Items.Open() == 0 && s.State.Settled():
	case s.Items.Open() == 0:
		facts = append(facts, "finishing")
	case s.Workers == 0 && s.Items.Open() == s.Items.Items:
		facts = append(facts, "no worker yet")
	case s.Workers == 0:
		facts = append(facts, "waiting for a worker")
	}
	if r := rateWords(v.Rate); r != "" && s.Items.Open() > 0 {
		facts = append(facts, r)
	}
	if left := v.timeLeft(); left > 0 && !s.Paused {
		facts = append(facts, "ETA "+terminal.Span(left)+" ("+v.endClock(left)+")")
	}
	if s.Workers > 1 {
		facts = append(facts, terminal.Count(s.Workers, "worker"))
	}
	if s.Retried > 0 {
		facts = append(facts, terminal.Comma(s.Retried)+" tried again")
	}
	return facts
}

// endClock is when it will be so far.
func (v ProgressView) endClock(left time.Duration) string {
	at := v.S.Time.Add(left).Local()
	if left > 20*time.Hour {
		return at.Format("Mon 15:04")
	}
	return at.Format("15:04")
}

// plainLine is the same for an output that is no terminal.
func (v ProgressView) plainLine() string {
	words := append([]string{fmt.Sprintf("%s  %.1f%%  %s", v.S.ID, Percent(v.S.Items), strings.Join(Counts(v.S), ", "))}, v.Facts()...)
	return strings.Join(words, "  ")
}

func bar(percent float64, width int) string {
	full := int(percent / 100 * float64(width))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// Progress shows a map while it runs: on a terminal a block that is rewritten in
// place, elsewhere a line from time to time, and nothing at all when quiet.
type Progress struct {
	Out   io.Writer
	Quiet bool
	Size  func() (width int, terminal bool)
	Paint func(job.State, string) string
	Away  *StoreWatch

	pace  Pace
	drawn int // lines of the block that are on the screen
	told  struct {
		at      time.Time
		percent float64
		text    string
		paused  bool
	}
}

// An output that is no terminal gets a line after TellEvery, or after so many percent,
// but never twice within tellLeast.
const (
	TellEvery   = 10 * time.Second
	TellPercent = 10
	tellLeast   = time.Second
)

// Show takes a look in and shows it; last is what a failed item said.
func (p *Progress) Show(s drover.Status, last string) {
	p.pace.Note(s.Time, s.Items.Items-s.Items.Open())
	if p.Quiet {
		return
	}
	width, terminal := p.Size()
	v := ProgressView{S: s, Rate: p.pace.Rate(), last: last, Width: width, Paint: p.Paint}
	if !terminal {
		p.printProgress(v)
		return
	}
	v.away = p.Away.storeLine(true)
	lines := v.Block()
	text := p.backToStart()
	for _, l := range lines {
		text += l + "\x1b[K\n"
	}
	p.drawn = len(lines)
	fmt.Fprint(p.Out, text+"\x1b[J")
}

func (p *Progress) printProgress(v ProgressView) {
	t := &p.told
	if t.at.IsZero() {
		t.at = v.S.Time // what is over at once needs no line
		return
	}
	since, more := v.S.Time.Sub(t.at), Percent(v.S.Items)-t.percent
	if since < TellEvery && (more < TellPercent || since < tellLeast) && v.S.Paused == t.paused {
		return
	}
	text := v.plainLine()
	if text != t.text {
		fmt.Fprintln(p.Out, text)
	}
	t.at, t.percent, t.text, t.paused = v.S.Time, Percent(v.S.Items), text, v.S.Paused
}

// backToStart goes to where the block begins.
func (p *Progress) backToStart() string {
	if p.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r", p.drawn)
}

// Clear takes the block away, for what is printed next.
func (p *Progress) Clear() {
	if p.drawn > 0 {
		fmt.Fprint(p.Out, p.backToStart()+"\x1b[J")
		p.drawn = 0
		p.Away.storeLine(false)
	}
}
