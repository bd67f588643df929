package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// pauseVerb is drover pause.
type pauseVerb struct{ *app }

func newPauseVerb(a *app) pauseVerb { return pauseVerb{a} }

func (a pauseVerb) command() *cobra.Command {
	reason := ""
	c := &cobra.Command{Use: "pause [JOB]", Short: "Let a map begin no more items until drover resume", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	c.Flags().StringVar(&reason, "reason", "", "reason, which is recorded")
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.findJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		s, err := j.Pause(cmd.Context(), reason)
		if err != nil {
			return err
		}
		a.note("%s %s paused: %s   continue: drover resume %s", a.paintState(s.State, s.State.Symbol()), s.ID, lastOnes(s), s.ID)
		return nil
	}
	return c
}

// lastOnes is "2 items run on to their end, 88 are left".
func lastOnes(s drover.MapStatus) string {
	running := min(s.Running, s.Items.Open())
	left := s.Items.Open() - running
	verb := map[bool]string{true: "is", false: "are"}[left == 1]
	switch running {
	case 0:
		return fmt.Sprintf("nothing runs, %s %s left", comma(left), verb)
	case 1:
		return fmt.Sprintf("1 item runs to its end, %s %s left", comma(left), verb)
	}
	return fmt.Sprintf("%s items run to their end, %s %s left", comma(running), comma(left), verb)
}

// resumePausedMap ends the pause of a map that drover resume goes on with.
func (a resumeVerb) resumePausedMap(ctx context.Context, j *drover.Job, s drover.Status) error {
	if many, err := isMap(ctx, j); err != nil || !many || s.State != job.Paused {
		return err
	}
	if err := j.Continue(ctx); err != nil {
		return err
	}
	a.note("%s goes on", s.ID)
	return nil
}

// cancelJob is drover cancel of one job.
func (a cancelVerb) cancelJob(ctx context.Context, ref, why string, drain bool) error {
	j, err := a.findJob(ctx, []string{ref})
	if err != nil {
		return err
	}
	stands := false
	if drain {
		stands, err = j.Drain(ctx, why, func(s drover.MapStatus) {
			a.note("%s %s starts no more items: %s   at once: drover cancel %s", a.paintState(job.Cancelled, job.Running.Symbol()), s.ID, drained(s), s.ID)
		})
	} else {
		stands, err = j.Stop(ctx, why)
	}
	if err != nil {
		return err
	}
	s, err := j.Status(ctx)
	if err != nil {
		return err
	}
	if !stands {
		a.note("%s had already ended: %s", s.ID, s.State)
		return nil
	}
	a.note("%s %s cancelled%s", a.paintState(s.State, s.State.Symbol()), s.ID, a.drainedTally(ctx, j, drain))
	return nil
}

// drained is what a drain waits for.
func drained(s drover.MapStatus) string {
	switch running := min(s.Running, s.Items.Open()); running {
	case 0:
		return "nothing runs"
	case 1:
		return "1 running item may finish"
	default:
		return fmt.Sprintf("%s running items may finish", comma(running))
	}
}

// drainedTally is how a map stands that was drained: what it was waited for.
func (a cancelVerb) drainedTally(ctx context.Context, j *drover.Job, drain bool) string {
	if !drain {
		return ""
	}
	s, err := j.MapStatus(ctx)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": %s succeeded, %s failed, %s did not run", comma(s.Items.Succeeded), comma(s.Items.Failed+s.Items.Quarantined), comma(s.Items.Cancelled))
}

// pausedSince is "by ann at 2026-11-22 05:11:07: lunch".
func pausedSince(s drover.MapStatus) string {
	text := ""
	if s.PausedBy != "" {
		text = "by " + s.PausedBy + " "
	}
	text += "at " + s.PausedAt.Local().Format(time.DateTime)
	if s.PausedWhy != "" {
		text += ": " + s.PausedWhy
	}
	return text
}
