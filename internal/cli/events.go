package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/job"
)

// eventsVerb is drover events.
type eventsVerb struct{ *app }

func newEventsVerb(a *app) eventsVerb { return eventsVerb{a} }

func (a eventsVerb) command() *cobra.Command {
	follow := false
	c := &cobra.Command{Use: "events [JOB]", Short: "What happened, in order", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.findJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		enc := newJSON(a.out)
		show := func(e job.Event) error {
			if a.settings.json {
				return enc.Encode(e)
			}
			_, err := fmt.Fprintf(a.out, "%s  %-9s  %s\n", e.Time.Local().Format("15:04:05.000"), e.Kind, plainText(e.Text))
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
