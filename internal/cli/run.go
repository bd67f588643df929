package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// runVerb is drover run.
type runVerb struct{ *app }

func newRunVerb(a *app) runVerb { return runVerb{a} }

// programStarter is what the verbs run, process and shell share.
type programStarter struct{ *app }

func newProgramStarter(a *app) programStarter { return programStarter{a} }

func (a runVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "run [flags] SCRIPT|PROGRAM|JOB.yaml [its arguments]",
		Short: "Run a script or program and follow it; again: attach, resume or skip", Args: cobra.ArbitraryArgs}
	s := newSpecReader(a.app).startFlags(c)
	s.programFlags(c)
	c.Flags().BoolVar(&s.process, "process", false, "as a processing job: the same as drover process")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.app).startProgram(cmd, s, job.Run, args)
	}
	return c
}

// startProgram is the verbs run, process and shell.
func (a programStarter) startProgram(cmd *cobra.Command, s *startFlags, verb job.Verb, args []string) error {
	ctx := cmd.Context()
	spec, err := newSpecReader(a.app).readSpec(cmd, s, verb, args)
	if err != nil {
		return err
	}
	if spec.Verb == job.Map {
		return newMapVerb(a.app).startMap(cmd, s, &mapFlags{}, spec)
	}
	if err := a.checkOutput(ctx, spec.Output); err != nil {
		return err
	}
	if err := newSubmitter(a.app).waitForJobs(ctx, s); err != nil {
		return err
	}
	if err := a.giveStdin(s.detach); err != nil {
		return err
	}
	c, err := a.openClient(ctx)
	if err != nil {
		return err
	}
	p, err := newPlanner(a.app).makePlan(ctx, func(ctx context.Context) (*drover.Plan, error) { return c.Plan(ctx, spec, s.force) })
	if err != nil {
		return err
	}
	newSubmitter(a.app).noteFlagsAfterScript(cmd, spec)
	if i, ok := job.SuspiciousArg(spec.Args); ok {
		a.note("note: argument %d looks like a secret: it is stored with the job, and other users of the machine can see it; --secret NAME keeps one out", i+1)
	}
	if s.plan {
		return newPlanner(a.app).showPlan(p)
	}
	newPlanner(a.app).printPlan(p)
	j, err := newSubmitter(a.app).submitPlan(ctx, p)
	if err != nil {
		return err
	}
	err = newSubmitter(a.app).followSubmitted(ctx, p, j, spec.Output, s.detach)
	a.noteUnread(!s.detach && p.Offer.Stdin && p.Spec.Nodes == 1)
	return newNotifier(a.app).notifyEnd(ctx, j, err)
}
