package data

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// GC is drover gc.
type GC struct{ *app.App }

// NewGC returns a GC of an invocation.
func NewGC(a *app.App) GC { return GC{a} }

// Command returns the verb's command, with its flags.
func (a GC) Command() *cobra.Command {
	dry, yes, keep, older := false, false, 0, ""
	c := &cobra.Command{Use: "gc [JOB ...]", Short: "Find leftovers and remove them; and jobs that have ended, when asked", ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	f := c.Flags()
	f.BoolVar(&dry, "dry-run", false, "say what would go, and stop")
	f.IntVar(&keep, "keep", 0, "let ended jobs go beyond the newest N of their task")
	f.StringVar(&older, "older", "", "let jobs go that ended longer ago, such as 30d")
	f.BoolVarP(&yes, "yes", "y", false, "remove without asking")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		o := drover.GCOptions{Keep: keep, Project: a.Settings.Project}
		if cmd.Flags().Changed("keep") && keep < 1 {
			return fault.New(fault.Invalid, "Use 1 or more; name jobs to remove them all.", "read --keep: %d", keep)
		}
		if older != "" {
			d, err := job.ParseDuration(older)
			if err != nil {
				return err
			}
			o.Older = time.Duration(d)
		}
		for _, ref := range args {
			j, err := a.FindJob(ctx, []string{ref})
			if err != nil {
				return err
			}
			o.Jobs = append(o.Jobs, j)
		}
		cl, err := a.OpenClient(ctx)
		if err != nil {
			return err
		}
		return a.removeLeftovers(ctx, cl, o, dry, yes)
	}
	return c
}

// removeLeftovers shows what may go, asks, and removes it.
func (a GC) removeLeftovers(ctx context.Context, c *drover.Client, o drover.GCOptions, dry, yes bool) error {
	g, err := c.Leftovers(ctx, o)
	if err != nil {
		return err
	}
	if a.Settings.JSON && dry {
		return terminal.NewJSON(a.Out).Encode(g)
	}
	if !a.Settings.JSON {
		if err := a.printGarbage(g); err != nil {
			return err
		}
	}
	if dry || len(g.Items) == 0 {
		return nil
	}
	if err := a.ConfirmRemoval(yes, fmt.Sprintf("%s, %s, are removed for good.", terminal.Count(len(g.Items), "thing"), terminal.Size(g.Bytes))); err != nil {
		return err
	}
	freed, err := g.Collect(ctx)
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		return terminal.NewJSON(a.Out).Encode(freed)
	}
	a.Note("removed %s, %s", terminal.Count(len(freed.Items), "thing"), terminal.Size(freed.Bytes))
	for _, k := range freed.Kept {
		a.Note("kept %s %s: %s", k.Kind, k.Name, k.Why)
	}
	return nil
}

func (a GC) printGarbage(g *drover.Garbage) error {
	for _, n := range g.Notes {
		a.Note("note: %s", terminal.PlainText(n))
	}
	if len(g.Items) == 0 {
		a.Note("nothing to remove")
	} else {
		t := terminal.NewTable(a.Out, "WHAT", "NAME", "SIZE", "WHY")
		for _, l := range g.Items {
			t.Row(l.Kind, l.Name, terminal.Size(l.Bytes), l.Why)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		a.Note("%s, %s", terminal.Count(len(g.Items), "thing"), terminal.Size(g.Bytes))
	}
	for _, k := range g.Kept {
		a.Note("stays: %s %s: %s", k.Kind, k.Name, k.Why)
	}
	return nil
}

// removeJobsOfTask removes the jobs of a task that have ended.
func (a GC) removeJobsOfTask(ctx context.Context, c *drover.Client, project, task string, yes bool) error {
	all, err := c.Jobs(ctx, project)
	if _, err = summary.Unreadable(err); err != nil {
		return err
	}
	o := drover.GCOptions{Project: project}
	for _, j := range all {
		if j.Path().Task == task {
			o.Jobs = append(o.Jobs, j)
		}
	}
	return a.removeLeftovers(ctx, c, o, false, yes)
}
