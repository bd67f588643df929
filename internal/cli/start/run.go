package start

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
)

// Run is drover run.
type Run struct{ *app.App }

// NewRun returns a Run of an invocation.
func NewRun(a *app.App) Run { return Run{a} }

// programStarter is what the verbs run, process and shell share.
type programStarter struct{ *app.App }

func newProgramStarter(a *app.App) programStarter { return programStarter{a} }

// Command returns the verb's command, with its flags.
func (a Run) Command() *cobra.Command {
	c := &cobra.Command{Use: "run [flags] SCRIPT|PROGRAM|JOB.yaml [its arguments]",
		Short: "Run a script or program and follow it; again: attach, resume or skip", Args: cobra.ArbitraryArgs}
	s := NewSpecReader(a.App).startFlags(c)
	s.programFlags(c)
	c.Flags().BoolVar(&s.process, "process", false, "as a processing job: the same as drover process")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.App).startProgram(cmd, s, job.Run, args)
	}
	return c
}

// startProgram is the verbs run, process and shell.
func (a programStarter) startProgram(cmd *cobra.Command, s *startFlags, verb job.Verb, args []string) error {
	ctx := cmd.Context()
	spec, err := NewSpecReader(a.App).readSpec(cmd, s, verb, args)
	if err != nil {
		return err
	}
	if spec.Verb == job.Map {
		return NewMap(a.App).startMap(cmd, s, &mapFlags{}, spec)
	}
	if err := a.CheckOutput(ctx, spec.Output); err != nil {
		return err
	}
	if err := NewSubmitter(a.App).waitForJobs(ctx, s); err != nil {
		return err
	}
	if err := a.GiveStdin(s.detach); err != nil {
		return err
	}
	c, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	p, err := NewPlanner(a.App).MakePlan(ctx, func(ctx context.Context) (*drover.Plan, error) {
		return c.Plan(ctx, spec, drover.PlanOptions{Force: s.force})
	})
	if err != nil {
		return err
	}
	NewSubmitter(a.App).NoteFlagsAfterScript(cmd, spec)
	if i, ok := secret.FindArgument(spec.Args); ok {
		a.Note("note: argument %d looks like a secret: it is stored with the job, and other users of the machine can see it; --secret NAME keeps one out", i+1)
	}
	if s.plan {
		return NewPlanner(a.App).showPlan(p)
	}
	NewPlanner(a.App).PrintPlan(p)
	j, err := NewSubmitter(a.App).SubmitPlan(ctx, p)
	if err != nil {
		return err
	}
	err = NewSubmitter(a.App).FollowSubmitted(ctx, p, j, spec.Output, s.detach)
	a.NoteUnread(!s.detach && p.Properties.Stdin && p.Spec.Nodes == 1)
	return follow.NewNotifier(a.App).NotifyEnd(ctx, j, err)
}
