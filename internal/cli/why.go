package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/record"
)

// whyVerb is drover why.
type whyVerb struct{ *app }

func newWhyVerb(a *app) whyVerb { return whyVerb{a} }

func (a whyVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "why [JOB]", Short: "Explain why a job failed, waits or stopped, and what would change it", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.findJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		w, err := whyOf(cmd.Context(), j)
		if err != nil {
			return err
		}
		if a.settings.json {
			return newJSON(a.out).Encode(w)
		}
		fmt.Fprintf(a.out, "%s %s/%s %s: %s\n", w.ID, w.Project, w.Task, w.State, plainText(w.Answer))
		for _, line := range w.Detail {
			fmt.Fprintf(a.out, "  %s\n", record.Escape([]byte(line), false))
		}
		if w.Next != "" {
			fmt.Fprintf(a.out, "Next: %s\n", plainText(w.Next))
		}
		return nil
	}
	return c
}
