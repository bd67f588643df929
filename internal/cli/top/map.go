package top

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// topMap is one look at a map.
type topMap struct {
	s       drover.Status
	rate    float64
	figures drover.Figures // some seconds old while it runs
}

// topMapLook looks at a map again and again.
type topMapLook struct {
	mu      sync.Mutex // a look that takes long is not begun twice
	j       *drover.Job
	look    *drover.View
	speed   progress.Pace
	figures drover.Figures
	again   time.Time // when figures are read anew
}

func newTopMapLook(ctx context.Context, j *drover.Job) (*topMapLook, error) {
	look, err := j.View(ctx)
	return &topMapLook{j: j, look: look}, err
}

func (l *topMapLook) readMap(ctx context.Context) (*topMap, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.look.Status(ctx)
	if err != nil {
		return nil, err
	}
	l.speed.Note(s.Time, s.Items.Items-s.Items.Open())
	if begin := time.Now(); begin.After(l.again) || s.State.Settled() {
		if l.figures, _, err = summary.Measure(ctx, l.j, s); err != nil {
			return nil, err
		}
		l.again = time.Now().Add(summary.FiguresShare * time.Since(begin))
	}
	return &topMap{s: s, rate: l.speed.Rate(), figures: l.figures}, nil
}

// mapScreen is the screen of a map: how far it is, its agents and their items, how
// items fail, and what the newest print.
func (s topState) mapScreen() []string {
	m := s.job.many
	j := m.s
	head := fmt.Sprintf("%s %s/%s  ", s.open, terminal.PlainText(j.Project), terminal.PlainText(j.Task))
	lines := []string{s.Paint("1", head) + s.stateWord(j.State, 0+len([]rune(j.State.Symbol()))+1+len(j.State)) + s.headingEnd()}
	v := progress.ProgressView{S: m.s, Rate: m.rate, Width: s.Width, Paint: func(_ job.State, text string) string { return text }}
	lines = append(lines, s.progressBar(v))
	rest := s.Height - 1 - len(lines) // the last line is for the keys
	if facts := v.Facts(); rest >= 6 && len(facts) > 0 && !j.State.Settled() {
		lines, rest = append(lines, "  "+strings.Join(facts, "   ")), rest-1
	}
	used := summary.FigureLines(s.Paper, m.figures)
	for i, l := range used {
		if rest < 8 {
			break
		}
		text := fmt.Sprintf("  %-10s %s", l[0], l[1])
		lines, rest = append(lines, s.Cut(text, s.Width)), rest-1
		if i == 1 && rest < 14 {
			break // the time of items is what people look at
		}
	}
	if !j.State.Settled() {
		lines = append(lines, s.firstLines(s.agentLines(), max(rest/4, 1))...)
	}
	if failed := s.failedLines(); len(failed) > 0 && s.Height-1-len(lines) >= 4 {
		lines = append(lines, s.titleRule("failed"))
		lines = append(lines, s.firstLines(failed, max(rest/4, 1))...)
	}
	if s.Height-1-len(lines) >= 3 {
		lines = append(lines, s.titleRule(s.logTitle()))
	}
	return append(lines, s.logLines(s.Height-1-len(lines))...)
}

// progressBar is how far a map is.
func (s topState) progressBar(v progress.ProgressView) string {
	tail := fmt.Sprintf("%.1f%% of %s   %s", progress.Percent(v.S.Items), terminal.Comma(v.S.Items.Items), strings.Join(progress.Counts(v.S), " · "))
	room := min(s.Width-len([]rune(tail))-6, 32)
	if room < 6 {
		return "  " + tail
	}
	return "  " + s.Bar(progress.Percent(v.S.Items), 100, room) + "  " + tail
}

// firstLines are the first n lines, and how many are not among them.
func (s topState) firstLines(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	if n == 1 {
		return lines[:1]
	}
	return append(lines[:n-1:n-1], fmt.Sprintf("  and %s more", terminal.Comma(len(lines)-n+1)))
}

// agentLines are the agents of a map, with their slots and the items that they hold.
func (s topState) agentLines() (lines []string) {
	for _, w := range s.job.many.s.Agents {
		text := "  " + s.Pad(terminal.PlainText(w.Host), 12) + " " + s.Pad(w.State, 9) + " "
		switch {
		case w.Slots > 0 && w.Running > 0:
			text += s.Bar(float64(w.Running), float64(w.Slots), 8) + fmt.Sprintf(" %d of %s", w.Running, terminal.Count(w.Slots, "slot"))
		case w.Doing != "":
			text += terminal.PlainText(w.Doing)
		case w.Slots > 0:
			text += s.Bar(0, 1, 8) + fmt.Sprintf(" 0 of %s", terminal.Count(w.Slots, "slot"))
		}
		if len(w.Items) > 0 {
			text += "   at items " + rangesWord(w.Items)
		}
		if w.Recorded > 0 {
			text += "   " + terminal.Comma(w.Recorded) + " done"
		}
		if w.Failed > 0 {
			text += ", " + terminal.Comma(w.Failed) + " failed"
		}
		lines = append(lines, strings.TrimRight(text, " "))
	}
	if len(lines) == 0 {
		lines = append(lines, "  no worker has started yet")
	}
	return lines
}

// rangesWord is "1-4,096 and 8,193-9,000"; of many the first two.
func rangesWord(ranges [][2]int) string {
	var words []string
	for i, r := range ranges {
		if i == 2 {
			words = append(words, "more")
			break
		}
		word := terminal.Comma(r[0])
		if r[1] > r[0] {
			word += "-" + terminal.Comma(r[1])
		}
		words = append(words, word)
	}
	return strings.Join(words, " and ")
}

// failedLines are the newest failures that were seen, then the ways to fail.
func (s topState) failedLines() (lines []string) {
	m := s.job.many
	for i := len(m.s.Newest) - 1; i >= max(len(m.s.Newest)-3, 0) && !m.s.State.Settled(); i-- {
		f := m.s.Newest[i]
		lines = append(lines, "  "+f.Ended.Local().Format(time.TimeOnly)+"  "+terminal.PlainText(follow.FailedLine(f)))
	}
	for _, g := range m.figures.Groups {
		lines = append(lines, "  "+terminal.PlainText(summary.GroupLine(g)))
	}
	return lines
}
