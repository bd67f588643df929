package act

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Cancel is drover cancel.
type Cancel struct{ *app.App }

// NewCancel returns a Cancel of an invocation.
func NewCancel(a *app.App) Cancel { return Cancel{a} }

// Command returns the verb's command, with its flags.
func (a Cancel) Command() *cobra.Command {
	reason, grace, drain := "", "", false
	c := &cobra.Command{Use: "cancel [JOB ...]", Short: "Stop jobs for good", ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	c.Flags().StringVar(&reason, "reason", "", "reason, which is recorded")
	c.Flags().StringVar(&grace, "grace", "", "time that programs have to end, such as 2s, where that is less than the job's own; 0 kills at once")
	c.Flags().BoolVar(&drain, "drain", false, "of maps: items that run may end and are recorded; nothing more begins")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fault.New(fault.Invalid, "Name it: `drover cancel last`.", "cancel: no job named")
		}
		if reason == "" {
			reason = "cancelled by hand"
		}
		within, err := parseGrace(grace, drain)
		if err != nil {
			return err
		}
		for _, ref := range args {
			if err := a.cancelJob(cmd.Context(), ref, reason, drain, within); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

// parseGrace reads --grace; nil: it was not said.
func parseGrace(text string, drain bool) (*time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	d, err := job.ParseDuration(text)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Write it as `--grace 10s`.", "read --grace")
	}
	if drain {
		return nil, fault.New(fault.Invalid, "Leave one of them out.", "read command line: --drain lets what runs end, and --grace ends it")
	}
	within := time.Duration(d)
	return &within, nil
}

// cancelJob is drover cancel of one job.
func (a Cancel) cancelJob(ctx context.Context, ref, why string, drain bool, within *time.Duration) error {
	j, err := a.FindJob(ctx, []string{ref})
	if err != nil {
		return err
	}
	stands := false
	switch {
	case drain:
		stands, err = j.Drain(ctx, why, func(s drover.Status) {
			a.Note("%s %s starts no more items: %s   at once: drover cancel %s", a.PaintState(job.Cancelled, job.Running.Symbol()), s.ID, drained(s), s.ID)
		})
	case within != nil:
		stands, err = j.StopWithin(ctx, why, *within)
	default:
		stands, err = j.Stop(ctx, why)
	}
	if err != nil {
		return err
	}
	s, err := j.BriefStatus(ctx)
	if err != nil {
		return err
	}
	if !stands {
		a.Note("%s had already ended: %s", s.ID, s.State)
		return nil
	}
	a.Note("%s %s cancelled%s", a.PaintState(s.State, s.State.Symbol()), s.ID, a.drainedTally(ctx, j, drain))
	return nil
}

// drained is what a drain waits for.
func drained(s drover.Status) string {
	switch running := min(s.Running, s.Items.Open()); running {
	case 0:
		return "nothing runs"
	case 1:
		return "1 running item may finish"
	default:
		return fmt.Sprintf("%s running items may finish", terminal.Comma(running))
	}
}

// drainedTally is how a map stands that was drained: what it was waited for.
func (a Cancel) drainedTally(ctx context.Context, j *drover.Job, drain bool) string {
	if !drain {
		return ""
	}
	s, err := j.Status(ctx)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": %s succeeded, %s failed, %s did not run", terminal.Comma(s.Items.Succeeded), terminal.Comma(s.Items.Failed+s.Items.Quarantined), terminal.Comma(s.Items.Cancelled))
}
