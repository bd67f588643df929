package look

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/record/screen"
)

// Why is drover why.
type Why struct{ *app.App }

// NewWhy returns a Why of an invocation.
func NewWhy(a *app.App) Why { return Why{a} }

// Command returns the verb's command, with its flags.
func (a Why) Command() *cobra.Command {
	c := &cobra.Command{Use: "why [JOB]", Short: "Explain why a job failed, waits or stopped, and what would change it", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.FindJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		w, err := j.Why(cmd.Context())
		if err != nil {
			return err
		}
		if a.Settings.JSON {
			return terminal.NewJSON(a.Out).Encode(w)
		}
		fmt.Fprintf(a.Out, "%s %s/%s %s: %s\n", w.ID, w.Project, w.Task, w.State, terminal.PlainText(w.Answer))
		for _, line := range w.Detail {
			fmt.Fprintf(a.Out, "  %s\n", screen.Escape([]byte(line), false))
		}
		if w.Next != "" {
			fmt.Fprintf(a.Out, "Next: %s\n", terminal.PlainText(w.Next))
		}
		return nil
	}
	return c
}
