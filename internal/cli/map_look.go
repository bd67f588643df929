package cli

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// listed is a map as a list of jobs shows it; many is false of other jobs.
func listed(ctx context.Context, j *drover.Job) (s drover.MapStatus, many bool, err error) {
	if many, err = isMap(ctx, j); err != nil || !many {
		return s, many, err
	}
	s, err = j.MapStatus(ctx)
	return s, true, err
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

// bringItemsOf is drover get of a map.
func (a bringer) bringItemsOf(ctx context.Context, j *drover.Job, s drover.Status, output string) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	if len(rec.Spec.Out) == 0 {
		return fault.New(fault.Invalid, "drover results "+s.ID+" shows what items printed.", "get outputs of job %s: no --out said what its items leave", s.ID)
	}
	return a.bringInto(ctx, output, func(ctx context.Context, folder string) error {
		got, err := j.GetItemsWith(ctx, folder, drover.GetOptions{Overwrite: a.overwrite})
		if err == nil {
			a.note("%s %s/%s %s", s.ID, s.Project, s.Task, strings.ToLower(string(s.State)))
			a.printGotItems(got, output)
			err = leftOutputs(got)
		}
		return err
	})
}

// printItemLogs is drover logs of a map: what one item printed, byte for byte, or the
// lines of all, with prefix each after its item's number.
func (a logsVerb) printItemLogs(ctx context.Context, j *drover.Job, l logFlags, o drover.LogOptions, re *regexp.Regexp) error {
	switch {
	case l.search != "":
		return a.printAllItemLines(l, j.ItemSearch(ctx, l.item, o, re, l.around, l.around))
	case l.item == 0 || l.prefix || a.settings.json || o.Tail > 0 || l.stamps:
		return a.printAllItemLines(l, j.ItemLines(ctx, l.item, o))
	}
	p := &printer{out: a.out, err: a.err, filters: map[source]filter{}}
	defer p.finish(all)
	for out, err := range j.ItemLogs(ctx, l.item, o) {
		if err != nil {
			return err
		}
		if err := p.print(out.Output); closed(err) {
			return nil
		} else if err != nil {
			return fault.Wrap(err, fault.Full, "", "print output")
		}
	}
	return nil
}

// printAllItemLines prints lines of items. Who looked for some and finds none has exit
// status 1.
func (a logsVerb) printAllItemLines(l logFlags, lines iter.Seq2[drover.ItemLine, error]) error {
	out := newPage(a.out)
	found, err := a.printItemLines(out, l, lines)
	if e := out.Close(); err == nil && e != nil {
		err = fault.Wrap(e, fault.Full, "", "print output")
	}
	switch {
	case closed(err):
		return nil
	case err == nil && l.search != "" && !found:
		return status(fault.ExitItems) // as grep
	}
	return err
}

func (a logsVerb) printItemLines(out *page, l logFlags, lines iter.Seq2[drover.ItemLine, error]) (found bool, err error) {
	enc := newJSON(out)
	printed := false
	var text []byte
	for line, err := range lines {
		if err != nil {
			return found, err
		}
		found = found || line.Match
		if a.settings.json {
			err = enc.Encode(line)
		} else {
			if text = text[:0]; line.Apart && l.around > 0 && printed {
				text = append(text, "--\n"...)
			}
			text = appendShown(l.appendHead(text, &line), line.Text, l.search != "" || isTerminal(a.out))
			_, err = out.Write(append(text, '\n'))
		}
		if printed = true; err != nil {
			return found, fault.Wrap(err, fault.Full, "", "print output")
		}
	}
	return found, nil
}

// checkItem refuses flags that mean nothing for a job, and gives whether the
// output is that of items.
func checkItem(ctx context.Context, cmd *cobra.Command, j *drover.Job, l logFlags) (many bool, err error) {
	if many, err = isMap(ctx, j); err != nil {
		return many, err
	}
	asked := cmd.Flags().Changed("item")
	switch {
	case !many && (asked || l.prefix):
		return many, fault.New(fault.Invalid, "Leave --item and --prefix out.", "read output of one item: job %s is not a map", j.Path().Job)
	case asked && l.item < 1:
		return many, fault.New(fault.Invalid, "Items are numbered from 1.", "read --item: %d", l.item)
	case many && len(l.nodes) > 0:
		return many, fault.New(fault.Invalid, "Use --item.", "read --node: job %s is a map, which has items and no nodes", j.Path().Job)
	}
	return many && l.source != "agent" && !l.agent, nil
}

// whyOf explains a job of either kind.
func whyOf(ctx context.Context, j *drover.Job) (drover.Reason, error) {
	many, err := isMap(ctx, j)
	switch {
	case err != nil:
		return drover.Reason{}, err
	case many:
		return j.WhyMap(ctx)
	}
	return j.Why(ctx)
}
