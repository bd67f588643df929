package cli

import (
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/job"
)

// shellVerb is drover shell.
type shellVerb struct{ *app }

func newShellVerb(a *app) shellVerb { return shellVerb{a} }

func (a shellVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "shell [flags] 'command line'", Short: "Run one shell command line", Args: cobra.ArbitraryArgs}
	s := newSpecReader(a.app).startFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.app).startProgram(cmd, s, job.Shell, args)
	}
	return c
}
