package look

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

func (a Status) printMeasuredJSON(m summary.Measured) error {
	return terminal.NewJSON(a.Out).Encode(m)
}

// printFigures are the lines of a map's status that sum its items up.
func (a Status) printFigures(f drover.Figures, advice *drover.Advice) {
	p := func(key, text string) { fmt.Fprintf(a.Out, "  %-10s %s\n", key, terminal.PlainText(text)) }
	for i, g := range f.Groups {
		if i == 2*summary.FirstGroups {
			p("", "and "+terminal.Count(len(f.Groups)-i, "more way")+" to fail")
			break
		}
		p(map[bool]string{true: "failed"}[i == 0], summary.GroupLine(g))
	}
	for _, line := range summary.FigureLines(plot.Paper{}, f) {
		p(line[0], line[1])
	}
	if advice != nil {
		text := advice.Text
		what, rest, _ := strings.Cut(text, ": --")
		p("advice", what+":")
		p("", "--"+rest)
	}
}

func (a Status) printOneMap(ctx context.Context, j *drover.Job) error {
	s, err := j.Status(ctx)
	if err != nil {
		return err
	}
	f, m, err := summary.Measure(ctx, j, s)
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		return a.printMeasuredJSON(m)
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	a.printMapStatus(m, f, rec.Spec)
	return nil
}

func (a Status) printMapStatus(m summary.Measured, f drover.Figures, spec job.Spec) {
	s := m.Status
	p := func(key, format string, args ...any) {
		fmt.Fprintf(a.Out, "  %-10s %s\n", key, terminal.PlainText(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(a.Out, "%s %s/%s %s %s\n", s.ID, s.Project, s.Task, s.State.Symbol(), s.State)
	if s.Reason != "" {
		p("reason", "%s", s.Reason)
	}
	p("items", "%.1f%% of %s: %s", progress.Percent(s.Items), terminal.Comma(s.Items.Items), strings.Join(progress.Counts(s), ", "))
	if s.Retried > 0 {
		p("", "%s tried again", terminal.Comma(s.Retried))
	}
	a.printFigures(f, m.Advice)
	if s.Paused {
		p("paused", "%s; %s", summary.PausedSince(s), summary.LastOnes(s))
		p("", "continue: drover resume %s", s.ID)
	}
	p("command", "%s", strings.Join(s.Command, " "))
	for i, c := range s.Codes {
		p(map[bool]string{true: "code"}[i == 0], "%.8s since %s, %s", c.Digest, c.Since.Local().Format(time.DateTime), terminal.Count(c.Files, "file"))
	}
	p("from", "%s", summary.From(spec.From))
	p("runs", "%s", summary.SlotsLine(spec))
	for _, out := range spec.Out {
		p("output", "%s", out)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		p("tag", "%s=%s", k, s.Tags[k])
	}
	if s.Image != "" {
		p("image", "%s", s.Image)
	}
	if line := summary.CodeLine(s); line != "" {
		p("code", "%s", line)
	}
	p("submitted", "%s by %s on %s", s.Submitted.Local().Format(time.DateTime), s.User, s.Host)
	if !s.Started.IsZero() {
		p("started", "%s, %s", s.Started.Local().Format(time.DateTime), summary.RunTime(s))
	}
	if !s.State.Settled() {
		p("workers", "%s of %s, %s", terminal.Comma(s.Workers), terminal.Comma(spec.Workers), terminal.Count(s.Slots, "slot"))
		for _, what := range s.Doing {
			p("", "%s", what)
		}
	}
	if s.Code != nil {
		p("exit", "%d", *s.Code)
	}
}
