package start

import (
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/job"
)

// Shell is drover shell.
type Shell struct{ *app.App }

// NewShell returns a Shell of an invocation.
func NewShell(a *app.App) Shell { return Shell{a} }

// Command returns the verb's command, with its flags.
func (a Shell) Command() *cobra.Command {
	c := &cobra.Command{Use: "shell [flags] 'command line'", Short: "Run one shell command line", Args: cobra.ArbitraryArgs}
	s := NewSpecReader(a.App).startFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.App).startProgram(cmd, s, job.Shell, args)
	}
	return c
}
