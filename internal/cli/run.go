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

// shellVerb is drover shell.
type shellVerb struct{ *app }

func newShellVerb(a *app) shellVerb { return shellVerb{a} }

// processVerb is drover process.
type processVerb struct{ *app }

func newProcessVerb(a *app) processVerb { return processVerb{a} }

// runVerb is drover run.
type runVerb struct{ *app }

func newRunVerb(a *app) runVerb { return runVerb{a} }

// programStarter is what the verbs run, process and shell share.
type programStarter struct{ *app }

func newProgramStarter(a *app) programStarter { return programStarter{a} }

// submitter submits a plan, and follows the job or skips it.
type submitter struct{ *app }

func newSubmitter(a *app) submitter { return submitter{a} }

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

func (a processVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "process [flags] SCRIPT|PROGRAM [its arguments]",
		Short: "Run a script as a SageMaker processing job: /opt/ml/processing", Args: cobra.ArbitraryArgs}
	s := newSpecReader(a.app).startFlags(c)
	s.programFlags(c)
	f := c.Flags()
	f.StringVar(&s.entrypoint, "entrypoint", "", "words put before the script, such as 'bash -e' (default: what its name says)")
	f.StringArrayVar(&s.results, "result", nil, "folder that comes back: NAME=FOLDER; may be repeated (default: output=/opt/ml/processing/output)")
	f.Lookup("input").Usage = "data the program reads: PATH, NAME=PATH or NAME=PATH:FOLDER; may be repeated"
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.app).startProgram(cmd, s, job.Process, args)
	}
	return c
}

func (a shellVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "shell [flags] 'command line'", Short: "Run one shell command line", Args: cobra.ArbitraryArgs}
	s := newSpecReader(a.app).startFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.app).startProgram(cmd, s, job.Shell, args)
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

// submitPlan carries a plan out as far as a job, and shows how far the files of its items and
// inputs are on their way, as of any copy. Ctrl-C before anything has started leaves no
// job; a second one ends drover.
func (a submitter) submitPlan(ctx context.Context, p *drover.Plan) (*drover.Job, error) {
	show := newBringer(a.app).newCopyLine()
	var sent drover.CopyProgress
	var began, ended time.Time
	p.Watch = func(what drover.Sending, now drover.CopyProgress) {
		if show.tell(now); what == drover.SendingItems {
			if sent, ended = now, time.Now(); began.IsZero() {
				began = ended
			}
		}
	}
	within, over := untilTold(ctx, nothingStarted)
	defer over()
	j, err := p.Submit(within)
	show.end()
	if told := context.Cause(within); told != nil && ctx.Err() == nil {
		return nil, a.undoSubmit(ctx, p, j, err, told)
	}
	if n := sent.Files + sent.Same; n > 0 && err == nil {
		a.note("  stored   %s of items, %s, in %s", count(int(n), "file"), size(sent.Bytes+sent.SameBytes), span(ended.Sub(began)))
	}
	return j, err
}

var nothingStarted = fault.New(fault.Interrupted, "", "interrupted: nothing has started")

// longPlan is how long a plan takes before a line says what is going on.
const longPlan = 3 * time.Second

// planPatience is how long a plan that Ctrl-C has ended may take to clear up. One that
// reads a pipe does not hear of it.
const planPatience = time.Second

// makePlan gives what plan makes, unless Ctrl-C comes first.
func (a planner) makePlan(ctx context.Context, plan func(ctx context.Context) (*drover.Plan, error)) (*drover.Plan, error) {
	within, over := untilTold(ctx, nothingStarted)
	defer over()
	p, err := a.awaitPlan(within, plan)
	if told := context.Cause(within); told != nil && ctx.Err() == nil {
		return nil, told
	}
	return p, err
}

// awaitPlan waits for plan, and says what takes long. It does not wait for one that goes
// on although ctx has ended.
func (a planner) awaitPlan(ctx context.Context, plan func(ctx context.Context) (*drover.Plan, error)) (*drover.Plan, error) {
	type result struct {
		p   *drover.Plan
		err error
	}
	done := make(chan result, 1)
	go func() {
		p, err := plan(ctx)
		done <- result{p, err}
	}()
	long := time.NewTimer(longPlan)
	defer long.Stop()
	for {
		select {
		case r := <-done:
			return r.p, r.err
		case <-long.C:
			a.note("planning: still looking at the files here and at what the store has of this task (Ctrl-C: nothing has started)")
		case <-ctx.Done():
			select {
			case <-done:
			case <-time.After(planPatience):
			}
			return nil, context.Cause(ctx)
		}
	}
}

// undoSubmit is a Ctrl-C while p was submitted, which gave j or an error. A job that this
// command has made is cancelled; one that was there stays as it is.
func (a submitter) undoSubmit(ctx context.Context, p *drover.Plan, j *drover.Job, err, told error) error {
	if err != nil {
		return told
	}
	if p.Action == "start" || p.Action == "replace" {
		if _, err := j.Stop(ctx, "Ctrl-C"); err != nil {
			return err
		}
		return told
	}
	st, err := j.Status(ctx)
	if err != nil {
		return err
	}
	return fault.Wrap(told, fault.Interrupted, "Continue it: drover resume "+st.ID+".", "continue job %s", st.ID)
}

// followSubmitted follows a submitted job, or says where it is.
func (a submitter) followSubmitted(ctx context.Context, p *drover.Plan, j *drover.Job, output string, detach bool) error {
	if p.Action == "skip" {
		st, err := j.Status(ctx)
		if err != nil {
			return err
		}
		if a.grammar != nil {
			return a.grammar.skipped(ctx, j, st, output)
		}
		settled := make(chan struct{})
		close(settled)
		printed, hush := newMapFollower(a.app).printItems(ctx, j, settled)
		defer hush()
		if err := <-printed; err != nil {
			return err
		}
		a.note("%s %s/%s %s", a.paintState(job.Succeeded, job.Succeeded.Symbol()), st.Project, st.Task, p.Note)
		return newFollower(a.app).bringOutputs(ctx, j, st, output)
	}
	newPlanner(a.app).printPlanNote(p)
	// What an attached job has printed is shown from its beginning; what is gone
	// on with has been seen.
	var since time.Time
	if p.Action == "resume" {
		since = time.Now()
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	if a.joined = p.Action == "attach"; !detach {
		return newFollower(a.app).followJob(ctx, j, rec.Short, output, p.Offer.Attached, since)
	}
	if err := j.Start(ctx); err != nil {
		return err
	}
	if a.quiet {
		fmt.Fprintln(a.out, rec.Short)
		return nil
	}
	a.note("%s started   follow: drover logs -f %s   stop: drover cancel %s", rec.Short, rec.Short, rec.Short)
	return nil
}
