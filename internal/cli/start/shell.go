package start

import (
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/job"
)

// shellVerb is drover shell.
type shellVerb struct{ *app.App }

func NewShellVerb(a *app.App) shellVerb { return shellVerb{a} }

func (a shellVerb) Command() *cobra.Command {
	c := &cobra.Command{Use: "shell [flags] 'command line'", Short: "Run one shell command line", Args: cobra.ArbitraryArgs}
	s := NewSpecReader(a.App).startFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.App).startProgram(cmd, s, job.Shell, args)
	}
	return c
}
