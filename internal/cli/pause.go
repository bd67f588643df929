package cli

import (
	"github.com/spf13/cobra"
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
