package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// gcVerb is drover gc.
type gcVerb struct{ *app }

func newGcVerb(a *app) gcVerb { return gcVerb{a} }

func (a gcVerb) command() *cobra.Command {
	dry, yes, keep, older := false, false, 0, ""
	c := &cobra.Command{Use: "gc [JOB ...]", Short: "Find leftovers and remove them; and jobs that have ended, when asked", ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	f := c.Flags()
	f.BoolVar(&dry, "dry-run", false, "say what would go, and stop")
	f.IntVar(&keep, "keep", 0, "let ended jobs go beyond the newest N of their task")
	f.StringVar(&older, "older", "", "let jobs go that ended longer ago, such as 30d")
	f.BoolVarP(&yes, "yes", "y", false, "remove without asking")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		o := drover.GCOptions{Keep: keep, Project: a.settings.project}
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
			j, err := a.findJob(ctx, []string{ref})
			if err != nil {
				return err
			}
			o.Jobs = append(o.Jobs, j)
		}
		cl, err := a.openClient(ctx)
		if err != nil {
			return err
		}
		return a.removeLeftovers(ctx, cl, o, dry, yes)
	}
	return c
}

// removeLeftovers shows what may go, asks, and removes it.
func (a gcVerb) removeLeftovers(ctx context.Context, c *drover.Client, o drover.GCOptions, dry, yes bool) error {
	g, err := c.Leftovers(ctx, o)
	if err != nil {
		return err
	}
	if a.settings.json && dry {
		return newJSON(a.out).Encode(g.Garbage)
	}
	if !a.settings.json {
		if err := a.printGarbage(g); err != nil {
			return err
		}
	}
	if dry || len(g.Items) == 0 {
		return nil
	}
	if err := a.confirmRemoval(yes, fmt.Sprintf("%s, %s, are removed for good.", count(len(g.Items), "thing"), size(g.Bytes))); err != nil {
		return err
	}
	freed, err := g.Collect(ctx)
	if err != nil {
		return err
	}
	if a.settings.json {
		return newJSON(a.out).Encode(freed)
	}
	a.note("removed %s, %s", count(len(freed.Items), "thing"), size(freed.Bytes))
	for _, k := range freed.Kept {
		a.note("kept %s %s: %s", k.Kind, k.Name, k.Why)
	}
	return nil
}

func (a gcVerb) printGarbage(g *drover.Garbage) error {
	for _, n := range g.Notes {
		a.note("note: %s", plainText(n))
	}
	if len(g.Items) == 0 {
		a.note("nothing to remove")
	} else {
		t := newTable(a.out, "WHAT", "NAME", "SIZE", "WHY")
		for _, l := range g.Items {
			t.row(l.Kind, l.Name, size(l.Bytes), l.Why)
		}
		if err := t.flush(); err != nil {
			return err
		}
		a.note("%s, %s", count(len(g.Items), "thing"), size(g.Bytes))
	}
	for _, k := range g.Kept {
		a.note("stays: %s %s: %s", k.Kind, k.Name, k.Why)
	}
	return nil
}

// removeJobsOfTask removes the jobs of a task that have ended.
func (a gcVerb) removeJobsOfTask(ctx context.Context, c *drover.Client, project, task string, yes bool) error {
	all, err := c.Jobs(ctx, project)
	if _, err = unreadable(err); err != nil {
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
