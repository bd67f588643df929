// Package sagemaker is drover ssm: the command lines of simple-sagemaker, carried out with
// its words, its exit statuses and its folders. The tool's grammar is package ssm's.
// Proved by the scripts ssm_*.
package sagemaker

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/data"
	"github.com/drover-run/drover/internal/cli/manual"
	"github.com/drover-run/drover/internal/cli/ssm"
	"github.com/drover-run/drover/internal/cli/start"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
)

// Verb is drover ssm: command lines of simple-sagemaker.
type Verb struct {
	*app.App
	ssm *commandLine
}

// NewVerb returns the verb for an invocation.
func NewVerb(a *app.App) Verb { return Verb{a, &commandLine{}} }

// commandLine is one command line of simple-sagemaker's, while it is carried out.
type commandLine struct {
	ssm.Command
	project, task string // as names that drover takes
}

// Command returns the verb's command, with its flags.
func (a Verb) Command() *cobra.Command {
	c := &cobra.Command{Use: "ssm run|shell|process|data ...", Short: "simple-sagemaker's command lines, unchanged",
		Args: cobra.ArbitraryArgs, DisableFlagParsing: true, ValidArgs: []string{"run", "shell", "process", "data"}}
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.runCommandLine(cmd.Context(), args) }
	return c
}

// PrintHelp is drover help ssm, or of one of its verbs.
func (a Verb) PrintHelp(words []string) error {
	verb := ssm.Verb("")
	if len(words) > 0 {
		if verb = ssm.Verb(words[0]); !slices.Contains(ssm.Verbs, verb) || len(words) > 1 {
			return fault.New(fault.Invalid, "Its verbs are run, shell, process and data.", "read command line: ssm has no verb %s", strings.Join(words, " "))
		}
	}
	fmt.Fprint(a.Out, ssm.Help(verb))
	if verb == "" {
		fmt.Fprintf(a.Out, "\nExamples\n%s\n", manual.Examples["ssm"])
	}
	return nil
}

// runCommandLine is drover ssm. Its exit statuses are simple-sagemaker's: 1 for a job that
// failed, whatever its program gave, and 2 for a command line that is wrong.
func (a Verb) runCommandLine(ctx context.Context, args []string) error {
	c, err := ssm.Read(args, os.LookupEnv)
	a.ssm.Command = c
	a.Grammar = &app.Grammar{Hint: ssm.InWords, ExitStatus: ssmStatus, Skipped: a.reportSkipped, Bring: a.bringParts}
	if err != nil {
		return err
	}
	if c.Help && c.Verb == "" {
		return a.PrintHelp(nil)
	}
	if c.Help {
		return a.PrintHelp([]string{string(c.Verb)})
	}
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if err := c.Check(there); err != nil {
		return err
	}
	for _, n := range c.Notes {
		a.Note("note: %s", terminal.PlainText(n))
	}
	a.ssm.project, a.ssm.task = validName(a.App, "project", c.Project), validName(a.App, "task", c.Task)
	if err := NewSpecs(a.App, a.ssm.project, a.ssm.task).UseBucket(c); err != nil {
		return err
	}
	if err := a.CheckOutput(ctx, c.Output); err != nil {
		return err
	}
	if c.Verb == ssm.Data {
		return a.runData(ctx, c)
	}
	return a.startJob(ctx, c)
}

// ssmStatus is the exit status for a job that did not succeed: 1 whatever its program
// gave, and else what drover gives when no program has failed.
func ssmStatus(st drover.Status) app.Status {
	ours := *st.Code == fault.ExitDrover || *st.Code == fault.ExitInterrupted
	if ours && !slices.ContainsFunc(st.Nodes, func(n drover.Node) bool { return n.State == "failed" }) {
		return app.Status(*st.Code)
	}
	return app.Status(1)
}

// startJob submits the job that a command line asks for, and follows it.
func (a Verb) startJob(ctx context.Context, c ssm.Command) error {
	spec, err := NewSpecs(a.App, a.ssm.project, a.ssm.task).JobSpec(c)
	if err != nil {
		return err
	}
	cl, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	p, err := start.NewPlanner(a.App).MakePlan(ctx, func(ctx context.Context) (*drover.Plan, error) {
		return cl.Plan(ctx, spec, drover.PlanOptions{Force: c.Force})
	})
	if err != nil {
		return err
	}
	a.noteWithoutEffect(c, p)
	start.NewPlanner(a.App).PrintPlan(p)
	if p.Action == "skip" && c.CleanState {
		// The tool clears before it looks whether there is anything to do.
		if err := data.NewData(a.App).ClearData(ctx, cl, spec.Project, spec.Task, "state", true); err != nil {
			return err
		}
	}
	j, err := start.NewSubmitter(a.App).SubmitPlan(ctx, p)
	if err != nil {
		return err
	}
	return start.NewSubmitter(a.App).FollowSubmitted(ctx, p, j, spec.Output, false)
}

// noteWithoutEffect says what of the command line means nothing where the job runs.
func (a Verb) noteWithoutEffect(c ssm.Command, p *drover.Plan) {
	if aws := withoutEffect(c); len(aws) > 0 && p.Properties.SSM {
		a.Note("note: these have no effect, as images that are built lie beside the set-up: %s", strings.Join(aws, ", "))
	}
	if aws := c.OnlyAWS(); len(aws) > 0 && !p.Properties.SSM {
		a.Note("note: these have an effect only on SageMaker: %s", strings.Join(aws, ", "))
	}
	if box := p.Spec.Container; box.Set() && !p.Properties.Containers {
		var of []string
		if box.Framework != "" {
			of = append(of, "-f "+c.Framework+" (the framework of the environment is used)")
		}
		if box.Dockerfile != "" {
			of = append(of, "--df")
		}
		a.Note("note: these have no effect on a target without images: %s", strings.Join(of, ", "))
	}
	if line := hyperparameterLine(c); line != "" {
		a.Note("%s", line)
	}
	if i, ok := secret.FindArgument(p.Spec.Args); ok {
		a.Note("note: argument %d looks like a secret: it is stored with the job, and other users of the machine can see it", i+1)
	}
}

// hyperparameterLine shows all of them, so that no mistyped flag is swallowed.
func hyperparameterLine(c ssm.Command) string {
	if len(c.Hyperparameters) == 0 {
		return ""
	}
	var words []string
	for _, h := range c.Hyperparameters {
		if h.Bare {
			words = append(words, h.Name)
		} else {
			words = append(words, fmt.Sprintf("%s=%s", h.Name, terminal.PlainText(h.Value)))
		}
	}
	if c.Verb == ssm.Process {
		return "note: processing jobs have no hyperparameters: ignored: " + strings.Join(words, ", ") + "; words for the program come after \"--\""
	}
	return "hyperparameters: " + strings.Join(words, ", ")
}

// validName makes a name that drover takes of one that the tool does, letter for letter:
// were some left out or cut off, two tasks would be one, and the second be skipped.
func validName(a *app.App, what, typed string) string {
	if job.ValidName(what, typed) == nil {
		return typed
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r == '_':
			return '-'
		}
		return r
	}, typed)
	if job.ValidName(what, name) != nil {
		return typed // refused later, by name
	}
	a.Note("note: %s %s is %s here", what, typed, name)
	return name
}
