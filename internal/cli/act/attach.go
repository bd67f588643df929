package act

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
)

// Attach is drover attach.
type Attach struct{ *app.App }

// NewAttach returns an Attach of an invocation.
func NewAttach(a *app.App) Attach { return Attach{a} }

// Command returns the verb's command, with its flags.
func (a Attach) Command() *cobra.Command {
	c := &cobra.Command{Use: "attach [JOB [AGENT|RANK]] [-- COMMAND...]", Short: "Open a shell beside a running program, on its machine",
		ValidArgsFunction: a.CompleteJobs,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := len(args[:named(cmd, args)]); n > 2 {
				return fault.New(fault.Invalid, "Write the command after `--`: `drover attach "+args[0]+" -- "+strings.Join(args[1:], " ")+"`.", "read command line: drover attach takes a job and an agent or a rank, not %d words", n)
			}
			return nil
		}}
	a.AddStoreFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		n := named(cmd, args)
		who := ""
		if n == 2 {
			who = args[1]
		}
		return a.attachToAgent(cmd.Context(), args[:min(n, 1)], who, args[n:])
	}
	return c
}

// named is how many words stand before --.
func named(cmd *cobra.Command, args []string) int {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return n
	}
	return len(args)
}

func (a Attach) attachToAgent(ctx context.Context, ref []string, who string, words []string) error {
	j, err := a.FindJob(ctx, ref)
	if err != nil {
		return err
	}
	line, err := j.Beside(ctx, who)
	if err != nil {
		return err
	}
	line = append(line, words...)
	keys := make(chan os.Signal, 1) // Ctrl-C is for what runs there; not ignored, or that would inherit it
	signal.Notify(keys, unix.SIGINT, unix.SIGQUIT)
	defer signal.Stop(keys)
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Stdin, c.Stdout, c.Stderr = a.In, os.Stdout, os.Stderr
	err = c.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended) && ended.ExitCode() >= 0:
		return app.Status(ended.ExitCode())
	case errors.Is(err, exec.ErrNotFound):
		return fault.New(fault.Denied, "Install "+line[0]+" here.", "attach: %s is not on PATH", line[0])
	}
	return fault.Wrap(err, fault.Lost, "", "attach")
}
