package sagemaker

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/data"
	"github.com/drover-run/drover/internal/cli/ssm"
	"github.com/drover-run/drover/job"
)

// reportSkipped is a task that is completed: nothing runs, and what was asked for is
// brought. The line is the tool's own, on stdout as it prints it: scripts look for it.
func (a Verb) reportSkipped(ctx context.Context, j *drover.Job, st drover.Status, output string) error {
	fmt.Fprintf(a.Out, "===== Task %s is already completed by %s =====\n", a.ssm.Command.Task, st.ID)
	if output == "" {
		return nil
	}
	return a.bringParts(ctx, j, st, output)
}

// bringParts downloads what the tool does: the logs, and of model, output and state
// those that were asked for.
func (a Verb) bringParts(ctx context.Context, j *drover.Job, st drover.Status, output string) error {
	c := a.ssm.Command
	if output == "" {
		if st.State == job.Succeeded || st.State == job.Failed {
			a.Note("  logs: ssm data -p %s -t %s -o out   (--download_model, --download_output, --download_state)", a.ssm.project, a.ssm.task)
		}
		return nil
	}
	parts := []string{"logs"}
	if c.TakeModel {
		parts = append(parts, "model")
	}
	if c.TakeOutputs {
		parts = append(parts, "output")
	}
	got, err := j.Get(ctx, output, drover.GetOptions{Parts: parts})
	if err != nil {
		return err
	}
	var state drover.GotState
	if c.TakeState {
		cl, err := a.OpenClient(ctx)
		if err != nil {
			return err
		}
		if state, err = cl.GetState(ctx, st.Project, st.Task, filepath.Join(output, "state"), drover.GetOptions{}); err != nil {
			return err
		}
		got.Parts = append(got.Parts, drover.Part{Name: "state", Files: state.Files, Bytes: state.Bytes})
	}
	bring.NewBringer(a.App).PrintGot(got, output)
	bring.NewBringer(a.App).PrintChanges(bring.ChangesBelow("state", state.Changes))
	return nil
}

// runData is ssm data: clear a task's state, then download what its newest job has
// left.
func (a Verb) runData(ctx context.Context, c ssm.Command) error {
	if len(c.Hyperparameters)+len(c.Words) > 0 {
		words := c.Words
		for _, h := range c.Hyperparameters {
			words = append(words, "--"+h.Name)
		}
		a.Note("note: ssm data ignores %s", strings.Join(words, " "))
	}
	cl, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	if c.CleanState {
		if err := data.NewData(a.App).ClearData(ctx, cl, a.ssm.project, a.ssm.task, "state", true); err != nil {
			return err
		}
	}
	if c.Output == "" {
		if !c.CleanState {
			a.Note("nothing to do: -o FOLDER downloads, --cs clears the state")
		}
		return nil
	}
	d, err := cl.Data(ctx, a.ssm.project, a.ssm.task)
	if err != nil {
		return err
	}
	if d.Newest == "" {
		return fault.New(fault.Missing, "Run it first: `ssm run -p "+a.ssm.project+" -t "+a.ssm.task+" -e SCRIPT`.", "download data of task %s: it has had no job", c.Task)
	}
	j, err := cl.Find(ctx, d.Newest, a.ssm.project)
	if err != nil {
		return err
	}
	st, err := j.BriefStatus(ctx)
	if err != nil {
		return err
	}
	if st.State != job.Succeeded {
		a.Note("note: the newest job of task %s, %s, is not completed: it is %s", c.Task, st.ID, strings.ToLower(string(st.State)))
	}
	return a.bringParts(ctx, j, st, c.Output)
}
