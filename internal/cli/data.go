package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// dataVerb is drover data.
type dataVerb struct{ *app }

func newDataVerb(a *app) dataVerb { return dataVerb{a} }

// putVerb is drover put.
type putVerb struct{ *app }

func newPutVerb(a *app) putVerb { return putVerb{a} }

func (a dataVerb) command() *cobra.Command {
	output, what, yes := "", "", false
	c := &cobra.Command{Use: "data [TASK]", Short: "Show, download or clear what a task keeps", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	f := c.Flags()
	f.StringVarP(&output, "output", "o", "", "download: folder that receives state/, and model/, output/ and files/ of the newest success")
	f.StringVar(&what, "clear", "", "state: the next job begins with none; jobs: remove all that have ended, with their outputs")
	a.addOverwriteFlag(f)
	f.BoolVarP(&yes, "yes", "y", false, "clear without asking")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		cl, project, task, err := a.findTask(ctx, args)
		if err != nil {
			return err
		}
		if what != "" {
			return a.clearData(ctx, cl, project, task, what, yes)
		}
		d, err := cl.Data(ctx, project, task)
		if err != nil {
			return err
		}
		if output != "" {
			return a.downloadData(ctx, cl, d, output)
		}
		if a.settings.json {
			return newJSON(a.out).Encode(d)
		}
		return a.printData(d)
	}
	return c
}

// findTask is the one that an argument names, "project/task" or a job of it among
// others; that of the newest job when there is none.
func (a *app) findTask(ctx context.Context, args []string) (c *drover.Client, project, task string, err error) {
	if c, err = a.openClient(ctx); err != nil {
		return c, "", "", err
	}
	if project, err = a.projectName(); err != nil {
		return c, "", "", err
	}
	ref := "last"
	if len(args) > 0 {
		ref = args[0]
	}
	j, err := c.Find(ctx, ref, project)
	if err == nil {
		return c, j.Path().Project, j.Path().Task, nil
	}
	if fault.KindOf(err) != fault.Missing || ref == "last" {
		return c, "", "", err
	}
	task = ref // it may have no job yet, only what was put there
	if p, t, ok := strings.Cut(ref, "/"); ok {
		project, task = p, t
	}
	return c, project, task, job.ValidName("task", task)
}

func (a dataVerb) printData(d drover.Data) error {
	last := "no job yet"
	if d.Newest != "" {
		last = "the newest is " + d.Newest
	}
	fmt.Fprintf(a.out, "%s/%s   %s, %s\n", d.Project, d.Task, count(d.Jobs, "job"), last)
	t := newTable(a.out, "WHAT", "NODE", "FILES", "SIZE", "FROM")
	for _, list := range [][]drover.Kept{d.State, d.Checkpoints, d.Files, d.Outputs} {
		for _, k := range list {
			from := dash(k.Job)
			if k.Job != "" {
				from = "job " + k.Job
			}
			t.row(k.Name, fmt.Sprint(k.Node), fmt.Sprint(k.Files), size(k.Bytes), from)
		}
	}
	for _, v := range d.Inputs {
		t.row("input "+v.Name, "-", fmt.Sprint(v.Files), size(v.Bytes), fmt.Sprintf("%s, version %d, %s ago", v.From, v.Versions, span(time.Since(v.Stored))))
	}
	return t.flush()
}

func (a dataVerb) downloadData(ctx context.Context, c *drover.Client, d drover.Data, dir string) error {
	o := drover.GetOptions{Overwrite: a.overwrite}
	state, err := c.GetStateWith(ctx, d.Project, d.Task, dir+"/state", o)
	if err != nil {
		return err
	}
	a.note("%-8s %s, %s   %s/state", "state", count(state.Files, "file"), size(state.Bytes), dir)
	newBringer(a.app).printChanges(changesBelow("state", state.Changes))
	if d.Success == "" {
		return nil
	}
	j, err := c.Find(ctx, d.Success, d.Project)
	if err != nil {
		return err
	}
	got, err := j.GetWith(ctx, dir, o)
	if err != nil {
		return err
	}
	newBringer(a.app).printGot(got, dir)
	return nil
}

func (a dataVerb) clearData(ctx context.Context, c *drover.Client, project, task, what string, yes bool) error {
	switch what {
	case "state":
		if err := a.confirmRemoval(yes, fmt.Sprintf("The state of %s/%s is emptied.", project, task)); err != nil {
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
		a.note("the next job of %s/%s begins with an empty /state", project, task)
		return nil
	case "jobs":
		return newGcVerb(a.app).removeJobsOfTask(ctx, c, project, task, yes)
	}
	return fault.New(fault.Invalid, "Use --clear state or --clear jobs.", "read --clear: %q is not something that a task keeps", what)
}

// confirmRemoval asks before something is taken away for good. Who cannot be asked has to
// say so beforehand.
func (a *app) confirmRemoval(yes bool, what string) error {
	if yes {
		return nil
	}
	if !a.onTerminal() {
		return fault.New(fault.Invalid, "Add -y to go on without a question.", "ask before removing: there is no terminal to ask at")
	}
	fmt.Fprintf(a.err, "%s Go on? [y/N] ", what)
	if answer(a.in) {
		return nil
	}
	return fault.New(fault.Invalid, "", "ask before removing: not confirmed, nothing was changed")
}

func (a putVerb) command() *cobra.Command {
	node := 0
	c := &cobra.Command{Use: "put SOURCE URL | put TASK state FOLDER", Short: "Copy files to a bucket; or make a folder a task's next state", Args: between(2, 3)}
	a.addStoreFlags(c)
	c.Flags().IntVar(&node, "node", 0, "the node whose state it is")
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	var o drover.CopyOptions
	c.Flags().BoolVar(&o.Checksum, "checksum", false, "to a bucket: compare contents also where size and time have not changed")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if drover.IsURL(args[1]) && len(args) == 2 {
			return newBringer(a.app).uploadFolder(cmd.Context(), args[0], args[1], o)
		}
		if drover.IsURL(args[0]) {
			return fault.New(fault.Invalid, "Write drover get "+args[0]+" "+args[1]+": get brings, put sends.", "put: %q is not a file or folder here", args[0])
		}
		if args[1] != "state" || len(args) != 3 {
			return fault.New(fault.Invalid, "Write it as drover put FOLDER s3://bucket/folder, or drover put "+args[0]+" state FOLDER.", "put: %q is not a part of a task that can be put", args[1])
		}
		if info, err := os.Stat(args[2]); err != nil || !info.IsDir() {
			return fault.New(fault.Invalid, "Name a folder.", "put state: %q is not a folder", args[2])
		}
		if node < 0 {
			return fault.New(fault.Invalid, "Use 0 or more.", "read --node: %d", node)
		}
		cl, project, task, err := a.findTask(cmd.Context(), args[:1])
		if err != nil {
			return err
		}
		k, err := cl.PutState(cmd.Context(), project, task, node, args[2])
		if err != nil {
			return err
		}
		a.note("state of %s/%s, node %d: %s, %s", project, task, node, count(k.Files, "file"), size(k.Bytes))
		return nil
	}
	return c
}
