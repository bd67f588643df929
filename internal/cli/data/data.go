// Package data has the verbs for what jobs leave: get, put, data and gc.
// What is copied or removed is decided in package drover. Proved by the scripts of these
// verbs.
package data

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Data is drover data.
type Data struct{ *app.App }

// NewData returns a Data of an invocation.
func NewData(a *app.App) Data { return Data{a} }

// Command returns the verb's command, with its flags.
func (a Data) Command() *cobra.Command {
	output, what, yes := "", "", false
	c := &cobra.Command{Use: "data [TASK]", Short: "Show, download or clear what a task keeps", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	f := c.Flags()
	f.StringVarP(&output, "output", "o", "", "download: folder that receives state/, and model/, output/ and files/ of the newest success")
	f.StringVar(&what, "clear", "", "state: the next job begins with none; jobs: remove all that have ended, with their outputs")
	a.AddOverwriteFlag(f)
	f.BoolVarP(&yes, "yes", "y", false, "clear without asking")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		cl, project, task, err := a.FindTask(ctx, args)
		if err != nil {
			return err
		}
		if what != "" {
			return a.ClearData(ctx, cl, project, task, what, yes)
		}
		d, err := cl.Data(ctx, project, task)
		if err != nil {
			return err
		}
		if output != "" {
			return a.downloadData(ctx, cl, d, output)
		}
		if a.Settings.JSON {
			return terminal.NewJSON(a.Out).Encode(d)
		}
		return a.printData(d)
	}
	return c
}

func (a Data) printData(d drover.Data) error {
	last := "no job yet"
	if d.Newest != "" {
		last = "the newest is " + d.Newest
	}
	fmt.Fprintf(a.Out, "%s/%s   %s, %s\n", d.Project, d.Task, terminal.Count(d.Jobs, "job"), last)
	t := terminal.NewTable(a.Out, "WHAT", "NODE", "FILES", "SIZE", "FROM")
	for _, list := range [][]drover.Kept{d.State, d.Checkpoints, d.Files, d.Outputs} {
		for _, k := range list {
			from := terminal.Dash(k.Job)
			if k.Job != "" {
				from = "job " + k.Job
			}
			t.Row(k.Name, fmt.Sprint(k.Node), fmt.Sprint(k.Files), terminal.Size(k.Bytes), from)
		}
	}
	for _, v := range d.Inputs {
		t.Row("input "+v.Name, "-", fmt.Sprint(v.Files), terminal.Size(v.Bytes), fmt.Sprintf("%s, version %d, %s ago", v.From, v.Versions, terminal.Span(time.Since(v.Stored))))
	}
	return t.Flush()
}

func (a Data) downloadData(ctx context.Context, c *drover.Client, d drover.Data, dir string) error {
	o := drover.GetOptions{Overwrite: a.Overwrite}
	state, err := c.GetState(ctx, d.Project, d.Task, dir+"/state", o)
	if err != nil {
		return err
	}
	a.Note("%-8s %s, %s   %s/state", "state", terminal.Count(state.Files, "file"), terminal.Size(state.Bytes), dir)
	bring.NewBringer(a.App).PrintChanges(bring.ChangesBelow("state", state.Changes))
	if d.Success == "" {
		return nil
	}
	j, err := c.Find(ctx, d.Success, d.Project)
	if err != nil {
		return err
	}
	got, err := j.Get(ctx, dir, o)
	if err != nil {
		return err
	}
	bring.NewBringer(a.App).PrintGot(got, dir)
	return nil
}

// ClearData removes what a task keeps: its state, or all of its ended jobs.
func (a Data) ClearData(ctx context.Context, c *drover.Client, project, task, what string, yes bool) error {
	switch what {
	case "state":
		if err := a.ConfirmRemoval(yes, fmt.Sprintf("The state of %s/%s is emptied.", project, task)); err != nil {
			return err
		}
		d, err := c.Data(ctx, project, task) // first: a task of which nothing but its state was there is gone after it
		if err != nil {
			return err
		}
		if _, err := c.PutState(ctx, project, task, 0, ""); err != nil {
			return err
		}
		for _, k := range d.State {
			if _, err := c.PutState(ctx, project, task, k.Node, ""); err != nil {
				return err
			}
		}
		a.Note("the next job of %s/%s begins with an empty /state", project, task)
		return nil
	case "jobs":
		return NewGC(a.App).removeJobsOfTask(ctx, c, project, task, yes)
	}
	return fault.New(fault.Invalid, "Use `--clear state` or `--clear jobs`.", "read --clear: %q is not something that a task keeps", what)
}
