package act

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/job"
)

// Resume is drover resume.
type Resume struct{ *app.App }

// NewResume returns a Resume of an invocation.
func NewResume(a *app.App) Resume { return Resume{a} }

// Command returns the verb's command, with its flags.
func (a Resume) Command() *cobra.Command {
	output, detach := "", false
	c := &cobra.Command{Use: "resume [JOB]", Short: "Put agents back to work on an unfinished job", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	f := c.Flags()
	f.StringVarP(&output, "output", "o", "", "folder, or s3://bucket/folder, that receives the outputs")
	a.AddOverwriteFlag(f)
	f.BoolVar(&detach, "detach", false, "return as soon as it is started")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	a.AddNotifyFlag(f)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmp.Or(follow.NewNotifier(a.App).CheckNotify(detach), a.CheckMayStart()); err != nil {
			return err
		}
		if !detach { // a job that needs none goes on; another one is refused
			if err := a.GiveStdin(false); err != nil {
				return err
			}
		}
		j, s, err := a.JobAndStatus(cmd.Context(), args)
		if err != nil {
			return err
		}
		if s.State.Settled() {
			return fault.New(fault.Invalid, "Run its command again for a new job.", "resume job %s: it has ended, %s", s.ID, s.State)
		}
		if err := a.resumePausedMap(cmd.Context(), j, s); err != nil {
			return err
		}
		if detach {
			return j.Start(cmd.Context())
		}
		attached, err := j.Attached(cmd.Context())
		if err != nil {
			return err
		}
		return follow.NewNotifier(a.App).NotifyEnd(cmd.Context(), j, follow.NewFollower(a.App).FollowJob(cmd.Context(), j, s.ID, output, attached, time.Now()))
	}
	return c
}

// resumePausedMap ends the pause of a map that drover resume goes on with.
func (a Resume) resumePausedMap(ctx context.Context, j *drover.Job, s drover.Status) error {
	if many, err := summary.IsMap(ctx, j); err != nil || !many || s.State != job.Paused {
		return err
	}
	if err := j.Continue(ctx); err != nil {
		return err
	}
	a.Note("%s goes on", s.ID)
	return nil
}
