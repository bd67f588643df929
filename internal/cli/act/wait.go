// Package act has the verbs for jobs that are there: wait, resume, pause, cancel, retry and
// attach. What they mean for a job is package drover's. Proved by the scripts of these
// verbs.
package act

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/job"
)

// Wait is drover wait.
type Wait struct{ *app.App }

// NewWait returns a Wait of an invocation.
func NewWait(a *app.App) Wait { return Wait{a} }

// Command returns the verb's command, with its flags.
func (a Wait) Command() *cobra.Command {
	timeout := ""
	c := &cobra.Command{Use: "wait [JOB]", Short: "Wait until a job has ended; the exit status is the job's", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	c.Flags().StringVar(&timeout, "timeout", "", "wait no longer than this (exit status 124)")
	a.AddNotifyFlag(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.FindJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		limit := job.Duration(0)
		if timeout != "" {
			if limit, err = job.ParseDuration(timeout); err != nil {
				return err
			}
		}
		return follow.NewNotifier(a.App).NotifyEnd(cmd.Context(), j, a.waitForEnd(cmd, j, time.Duration(limit)))
	}
	return c
}

// waitForEnd only looks: unlike resume it asks for no agents. A job that is
// interrupted would be waited for in vain, so it is said.
func (a Wait) waitForEnd(cmd *cobra.Command, j *drover.Job, limit time.Duration) error {
	s, err := j.Until(cmd.Context(), limit)
	if err != nil {
		return err
	}
	switch {
	case s.State.Settled():
		return follow.NewFollower(a.App).ReportEnd(cmd.Context(), j, s, "")
	case s.State == job.Interrupted:
		return fault.New(fault.Interrupted, "Continue it: `drover resume "+s.ID+"`.", "wait for job %s: it is interrupted, and no agent works on it", s.ID)
	}
	return fault.New(fault.TimedOut, "It is still running; `drover logs -f "+s.ID+"` follows it.", "wait for job %s: still %s", s.ID, s.State)
}
