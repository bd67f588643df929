// Package look has the verbs that show jobs: status, logs, events, why and metrics.
// They change nothing. Proved by golden screens and by the scripts of these verbs.
package look

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Status is drover status: the list of jobs, or one in full.
type Status struct{ *app.App }

// NewStatus returns a Status of an invocation.
func NewStatus(a *app.App) Status { return Status{a} }

// Command returns the verb's command, with its flags.
func (a Status) Command() *cobra.Command {
	all, watch := false, false
	var tags []string
	c := &cobra.Command{Use: "status [JOB]", Aliases: []string{"ps", "ls"}, Short: "Jobs and their progress; one job in full with an id",
		Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	c.Flags().BoolVarP(&all, "all", "a", false, "all jobs, not the newest 20")
	c.Flags().StringArrayVar(&tags, "tag", nil, "only jobs with this label: KEY=VALUE or KEY; may be repeated")
	c.Flags().BoolVar(&watch, "watch", false, "show it again every second until every job shown has ended; with a job, the exit status is that job's")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case watch:
			return NewWatcher(a.App).watchStatus(cmd, args, all, tags)
		case len(args) == 1:
			return a.printOneJob(cmd.Context(), args)
		}
		return a.printJobs(cmd.Context(), all, tags)
	}
	return c
}

// printJobs prints the list, and says at last which jobs cannot be read.
func (a Status) printJobs(ctx context.Context, all bool, tags []string) error {
	jobs, most, err := a.newOverview(ctx, all)
	if err != nil {
		return err
	}
	list, left, err := rows(ctx, jobs, most, tags)
	bad, err := summary.Unreadable(err)
	switch {
	case err != nil:
		return err
	case a.Settings.JSON:
		err = terminal.NewJSON(a.Out).Encode(append([]drover.Status{}, list...)) // none is [], not null
	case len(list) > 0 || bad == nil:
		err = a.printRows(list, left, tags)
	}
	return cmp.Or(err, bad)
}

// newOverview looks at the jobs of the project, and says how many a list has; 0: all.
func (a Status) newOverview(ctx context.Context, all bool) (*drover.Overview, int, error) {
	c, err := a.OpenClient(ctx)
	if err != nil {
		return nil, 0, err
	}
	if all {
		return c.Overview(a.Settings.Project), 0, nil
	}
	return c.Overview(a.Settings.Project), summary.Newest, nil
}

// printRows prints jobs as a table; left is how many older ones there are.
func (a Status) printRows(list []drover.Status, left int, tags []string) error {
	if len(list) == 0 && len(tags) > 0 {
		a.Note("no job with the tag %s", strings.Join(tags, " and "))
		return nil
	}
	if len(list) == 0 {
		a.Note("no jobs yet   start one: drover run train.py")
		return nil
	}
	t := terminal.NewTable(a.Out, "JOB", "TASK", "STATE", "ATTEMPT", "AGE", "TIME", "NOTE")
	for _, s := range list {
		t.Row(s.ID, s.Project+"/"+s.Task, s.State.Symbol()+" "+strings.ToLower(string(s.State)), terminal.Number(float64(s.Attempt)),
			terminal.Span(time.Since(s.Submitted)), summary.RunTime(s), noteOf(s))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if left > 0 {
		a.Note("%s more: drover status -a", terminal.Count(left, "job"))
	}
	return nil
}

// noteOf is a job's reason; of a map, how its items stand.
func noteOf(s drover.Status) string {
	if s.MapStatus != nil {
		return strings.Join(progress.Counts(s), ", ")
	}
	return s.Reason
}

// rows are the newest jobs with these labels, at most so many; left is how many were
// not looked at.
func rows(ctx context.Context, jobs *drover.Overview, most int, tags []string) (list []drover.Status, left int, err error) {
	return jobs.Look(ctx, func(s drover.Status) bool { return tagged(s, tags) }, most)
}

// tagged says whether a job has all of these labels, written KEY=VALUE or KEY.
func tagged(s drover.Status, tags []string) bool {
	for _, t := range tags {
		key, value, exact := strings.Cut(t, "=")
		if v, ok := s.Tags[key]; !ok || exact && v != value {
			return false
		}
	}
	return true
}

func (a Status) printOneJob(ctx context.Context, args []string) error {
	j, s, err := a.JobAndStatus(ctx, args)
	if err != nil {
		return err
	}
	rec, err := j.Spec(ctx)
	switch {
	case err != nil:
		return err
	case rec.Spec.Verb == job.Map:
		return a.printOneMap(ctx, j)
	case a.Settings.JSON:
		return terminal.NewJSON(a.Out).Encode(s)
	}
	a.printRunStatus(s, rec.Spec)
	return nil
}

func (a Status) printRunStatus(s drover.Status, spec job.Spec) {
	p := func(key, format string, args ...any) {
		fmt.Fprintf(a.Out, "  %-10s %s\n", key, terminal.PlainText(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(a.Out, "%s %s/%s %s %s\n", s.ID, s.Project, s.Task, s.State.Symbol(), s.State)
	if s.Reason != "" {
		p("reason", "%s", s.Reason)
	}
	if s.Message != "" {
		p("message", "%s", s.Message)
	}
	p("command", "%s", strings.Join(s.Command, " "))
	if line := summary.NodesLine(spec); line != "" {
		p("nodes", "%s", line)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		p("tag", "%s=%s", k, s.Tags[k])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lineage)) {
		if s.Lineage[name].Short == "" { // a state that was there before a job
			p("input", "%s: %s of task %s", name, s.Lineage[name].What, s.Lineage[name].Job)
			continue
		}
		p("input", "%s: %s of job %s (%s)", name, s.Lineage[name].What, s.Lineage[name].Short, s.Lineage[name].Job)
	}
	if l := summary.LimitsLine(spec); l != "" {
		p("limits", "%s", l)
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
	p("attempt", "%d (%s, %s)", s.Attempt, terminal.Count(s.Interruptions, "interruption"), terminal.Count(s.Failures, "failure"))
	if s.Code != nil {
		p("exit", "%d", *s.Code)
	}
	for _, n := range s.Nodes {
		line := terminal.OrElse(summary.NodeWords[n.State], n.State)
		if n.Host != "" {
			line += " on " + n.Host
		}
		if n.MaxRSS > 0 {
			line += fmt.Sprintf(", %.1fs of processor time, %s of memory", n.CPU, terminal.Size(max(n.Peak, n.MaxRSS)))
		}
		if n.Saved > 0 {
			line += fmt.Sprintf(", %s saved", terminal.Count(n.Saved, "checkpoint"))
		}
		p(fmt.Sprintf("node %d", n.Rank), "%s", line)
		for _, note := range n.Notes {
			p("", "note: %s", note)
		}
	}
}
