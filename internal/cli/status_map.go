package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

func (a statusVerb) printMeasuredJSON(m measured) error { return newJSON(a.out).Encode(m) }

// printFigures are the lines of a map's status that sum its items up.
func (a statusVerb) printFigures(f drover.Figures, advice *drover.Advice) {
	p := func(key, text string) { fmt.Fprintf(a.out, "  %-10s %s\n", key, plainText(text)) }
	for i, g := range f.Groups {
		if i == 2*firstGroups {
			p("", "and "+count(len(f.Groups)-i, "more way")+" to fail")
			break
		}
		p(map[bool]string{true: "failed"}[i == 0], groupLine(g))
	}
	for _, line := range figureLines(paper{}, f) {
		p(line[0], line[1])
	}
	if advice != nil {
		text := advice.Text
		what, rest, _ := strings.Cut(text, ": --")
		p("advice", what+":")
		p("", "--"+rest)
	}
}

func (a statusVerb) printOneMap(ctx context.Context, j *drover.Job) error {
	s, err := j.MapStatus(ctx)
	if err != nil {
		return err
	}
	f, m, err := measure(ctx, j, s)
	if err != nil {
		return err
	}
	if a.settings.json {
		return a.printMeasuredJSON(m)
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	a.printMapStatus(m, f, rec.Spec)
	return nil
}

func (a statusVerb) printMapStatus(m measured, f drover.Figures, spec job.Spec) {
	s := m.MapStatus
	p := func(key, format string, args ...any) {
		fmt.Fprintf(a.out, "  %-10s %s\n", key, plainText(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(a.out, "%s %s/%s %s %s\n", s.ID, s.Project, s.Task, s.State.Symbol(), s.State)
	if s.Reason != "" {
		p("reason", "%s", s.Reason)
	}
	p("items", "%.1f%% of %s: %s", percent(s.Items), comma(s.Items.Items), strings.Join(counts(s), ", "))
	if s.Retried > 0 {
		p("", "%s tried again", comma(s.Retried))
	}
	a.printFigures(f, m.Advice)
	if s.Paused {
		p("paused", "%s; %s", pausedSince(s), lastOnes(s))
		p("", "continue: drover resume %s", s.ID)
	}
	p("command", "%s", strings.Join(s.Command, " "))
	for i, c := range s.Codes {
		p(map[bool]string{true: "code"}[i == 0], "%.8s since %s, %s", c.Digest, c.Since.Local().Format(time.DateTime), count(c.Files, "file"))
	}
	p("from", "%s", from(spec.From))
	p("runs", "%s", slotsLine(spec))
	for _, out := range spec.Out {
		p("output", "%s", out)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		p("tag", "%s=%s", k, s.Tags[k])
	}
	if s.Image != "" {
		p("image", "%s", s.Image)
	}
	if line := codeLine(s.Status); line != "" {
		p("code", "%s", line)
	}
	p("submitted", "%s by %s on %s", s.Submitted.Local().Format(time.DateTime), s.User, s.Host)
	if !s.Started.IsZero() {
		p("started", "%s, %s", s.Started.Local().Format(time.DateTime), runTime(s.Status))
	}
	if !s.State.Settled() {
		p("workers", "%s of %s, %s", comma(s.Workers), comma(spec.Workers), count(s.Slots, "slot"))
		for _, what := range s.Doing {
			p("", "%s", what)
		}
	}
	if s.Code != nil {
		p("exit", "%d", *s.Code)
	}
}
