package look

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Events is drover events.
type Events struct{ *app.App }

// NewEvents returns an Events of an invocation.
func NewEvents(a *app.App) Events { return Events{a} }

// Command returns the verb's command, with its flags.
func (a Events) Command() *cobra.Command {
	follow := false
	c := &cobra.Command{Use: "events [JOB]", Short: "What happened, in order", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.FindJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		enc := terminal.NewJSON(a.Out)
		show := func(e job.Event) error {
			if a.Settings.JSON {
				return enc.Encode(e)
			}
			kind := e.Kind
			if kind == "settled" {
				kind = "ended"
			}
			_, err := fmt.Fprintf(a.Out, "%s  %-9s  %s\n", e.Time.Local().Format("15:04:05.000"), kind, terminal.PlainText(e.Text))
			return err
		}
		if !follow {
			events, err := j.Events(cmd.Context())
			for _, e := range events {
				if err := show(e); err != nil {
					return err
				}
			}
			return err
		}
		for e, err := range j.Watch(cmd.Context()) {
			if err != nil {
				return err
			}
			if err := show(e); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}
