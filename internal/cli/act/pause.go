package act

import (
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/summary"
)

// Pause is drover pause.
type Pause struct{ *app.App }

// NewPause returns a Pause of an invocation.
func NewPause(a *app.App) Pause { return Pause{a} }

// Command returns the verb's command, with its flags.
func (a Pause) Command() *cobra.Command {
	reason := ""
	c := &cobra.Command{Use: "pause [JOB]", Short: "Let a map begin no more items until drover resume", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	c.Flags().StringVar(&reason, "reason", "", "reason, which is recorded")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.FindJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		s, err := j.Pause(cmd.Context(), reason)
		if err != nil {
			return err
		}
		a.Note("%s %s paused: %s   continue: drover resume %s", a.PaintState(s.State, s.State.Symbol()), s.ID, summary.LastOnes(s), s.ID)
		return nil
	}
	return c
}
