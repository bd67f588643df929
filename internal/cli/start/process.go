package start

import (
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/job"
)

// Process is drover process.
type Process struct{ *app.App }

// NewProcess returns a Process of an invocation.
func NewProcess(a *app.App) Process { return Process{a} }

// Command returns the verb's command, with its flags.
func (a Process) Command() *cobra.Command {
	c := &cobra.Command{Use: "process [flags] SCRIPT|PROGRAM [its arguments]",
		Short: "Run a script as a SageMaker processing job: /opt/ml/processing", Args: cobra.ArbitraryArgs}
	s := NewSpecReader(a.App).startFlags(c)
	s.programFlags(c)
	f := c.Flags()
	o := optionFlags{f}
	o.textFlag(&s.entrypoint, "Entrypoint")
	o.listFlag(&s.results, "Results")
	f.Lookup("input").Usage = "data the program reads: PATH, NAME=PATH or NAME=PATH:FOLDER; may be repeated"
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return newProgramStarter(a.App).startProgram(cmd, s, job.Process, args)
	}
	return c
}
