package start

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// waitForJobs waits for the jobs that --after names, and refuses to go on after one that did not
// succeed. The command line itself waits, also with --detach: until they have succeeded
// nothing is planned or submitted, so what they leave can be an input, and the code is that
// of the moment when it starts. With --plan nothing is waited for.
func (a Submitter) waitForJobs(ctx context.Context, s *startFlags) error {
	within, over := app.UntilTold(ctx, app.NothingStarted)
	defer over()
	err := a.waitForEachJob(within, s)
	if told := context.Cause(within); told != nil && ctx.Err() == nil {
		return told
	}
	return err
}

func (a Submitter) waitForEachJob(ctx context.Context, s *startFlags) error {
	for _, ref := range s.after {
		j, st, err := a.JobAndStatus(ctx, []string{ref})
		if err != nil {
			return err
		}
		if !st.State.Settled() && !s.plan {
			a.Note("waiting for job %s (%s/%s), which is %s; nothing has been submitted yet", st.ID, st.Project, st.Task, strings.ToLower(string(st.State)))
			if st, err = j.Until(ctx, 0); err != nil {
				return err
			}
		}
		switch {
		case s.plan || st.State == job.Succeeded:
		case st.State == job.Interrupted:
			return fault.New(fault.Interrupted, "Continue it, then type this again: `drover resume "+st.ID+"`.", "wait for job %s: it is interrupted, and no agent works on it", st.ID)
		default:
			return fault.New(fault.Failed, "`drover why "+st.ID+"` explains it; leave out `--after` to run all the same.", "start after job %s: it has %s", st.ID, strings.ToLower(string(st.State)))
		}
	}
	return nil
}

// Submitter submits a plan, and follows the job or skips it.
type Submitter struct{ *app.App }

// NewSubmitter returns a Submitter of an invocation.
func NewSubmitter(a *app.App) Submitter { return Submitter{a} }

// SubmitPlan carries a plan out as far as a job, and shows how far the files of its items and
// inputs are on their way, as of any copy. Ctrl-C before anything has started leaves no
// job; a second one ends drover.
func (a Submitter) SubmitPlan(ctx context.Context, p *drover.Plan) (*drover.Job, error) {
	show := bring.NewBringer(a.App).NewCopyLine()
	var sent drover.CopyProgress
	var began, ended time.Time
	p.Watch = func(what drover.Sending, now drover.CopyProgress) {
		if show.Tell(now); what == drover.SendingItems {
			if sent, ended = now, time.Now(); began.IsZero() {
				began = ended
			}
		}
	}
	within, over := app.UntilTold(ctx, app.NothingStarted)
	defer over()
	j, err := p.Submit(within)
	show.End()
	if told := context.Cause(within); told != nil && ctx.Err() == nil {
		return nil, a.undoSubmit(ctx, p, j, err, told)
	}
	if n := sent.Files + sent.Same; n > 0 && err == nil {
		a.Note("  stored   %s of items, %s, in %s", terminal.Count(int(n), "file"), terminal.Size(sent.Bytes+sent.SameBytes), terminal.Span(ended.Sub(began)))
	}
	return j, err
}

// undoSubmit is a Ctrl-C while p was submitted, which gave j or an error. A job that this
// command has made is cancelled; one that was there stays as it is.
func (a Submitter) undoSubmit(ctx context.Context, p *drover.Plan, j *drover.Job, err, told error) error {
	if err != nil {
		return told
	}
	if p.Action == "start" || p.Action == "replace" {
		if _, err := j.Stop(ctx, "Ctrl-C"); err != nil {
			return err
		}
		return told
	}
	st, err := j.BriefStatus(ctx)
	if err != nil {
		return err
	}
	return fault.Wrap(told, fault.Interrupted, "Continue it: `drover resume "+st.ID+"`.", "continue job %s", st.ID)
}

// FollowSubmitted follows a submitted job, or says where it is.
func (a Submitter) FollowSubmitted(ctx context.Context, p *drover.Plan, j *drover.Job, output string, detach bool) error {
	if p.Action == "skip" {
		st, err := j.BriefStatus(ctx)
		if err != nil {
			return err
		}
		if a.Grammar != nil {
			return a.Grammar.Skipped(ctx, j, st, output)
		}
		settled := make(chan struct{})
		close(settled)
		printed, hush := follow.NewMapFollower(a.App).PrintItems(ctx, j, settled)
		defer hush()
		if err := <-printed; err != nil {
			return err
		}
		a.Note("%s %s/%s %s", a.PaintState(job.Succeeded, job.Succeeded.Symbol()), st.Project, st.Task, p.Note)
		return follow.NewFollower(a.App).BringOutputs(ctx, j, st, output)
	}
	NewPlanner(a.App).printPlanNote(p)
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
	if a.Joined = p.Action == "attach"; !detach {
		return follow.NewFollower(a.App).FollowJob(ctx, j, rec.Short, output, p.Properties.Attached, since)
	}
	if err := j.Start(ctx); err != nil {
		return err
	}
	if a.Quiet {
		fmt.Fprintln(a.Out, rec.Short)
		return nil
	}
	a.Note("%s started   follow: drover logs -f %s   stop: drover cancel %s", rec.Short, rec.Short, rec.Short)
	return nil
}

// NoteFlagsAfterScript says where a drover flag went that was typed after the script.
func (a Submitter) NoteFlagsAfterScript(cmd *cobra.Command, spec job.Spec) {
	var seen []string
	for _, arg := range spec.Args {
		name, _, _ := strings.Cut(arg, "=")
		long, ok := strings.CutPrefix(name, "--")
		if !ok || long == "" {
			continue
		}
		if f := cmd.Flags().Lookup(long); f != nil && f.Name == long && !slices.Contains(seen, name) {
			seen = append(seen, name)
		}
	}
	if len(seen) > 0 && spec.Verb != job.Shell {
		a.Note("note: %s went to %s: drover's own flags come before the script", strings.Join(seen, ", "), spec.Program)
	}
}
