package start

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
)

// Map is drover map.
type Map struct{ *app.App }

// NewMap returns a Map of an invocation.
func NewMap(a *app.App) Map { return Map{a} }

// Command returns the verb's command, with its flags.
func (a Map) Command() *cobra.Command {
	c := &cobra.Command{Use: "map [flags] [--] PROGRAM [arguments with {}] [::: ITEMS ...]",
		Short: "Run a program for each of many items; again: the failed and the new ones", Args: cobra.ArbitraryArgs}
	s, m := NewSpecReader(a.App).MapFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		args, lists, err := cutLists(args)
		if err != nil {
			return err
		}
		if lists != nil {
			if m.from != "" || m.format != "" {
				return fault.New(fault.Invalid, "Leave one of them out.", "read command line: both ::: and --from or --format")
			}
			l, err := mapOfLists(args, lists, m)
			if err != nil {
				return err
			}
			args, m.out, m.from, m.format, m.lists = l.command, l.out, "-", l.format, l.lines
		}
		spec, err := NewSpecReader(a.App).ReadMapSpec(cmd, s, m, args)
		if err != nil {
			return err
		}
		return a.startMap(cmd, s, m, spec)
	}
	return c
}

// startMap is drover map, and drover run of a job file that says verb: map.
func (a Map) startMap(cmd *cobra.Command, s *startFlags, m *mapFlags, spec job.Spec) error {
	ctx := cmd.Context()
	if err := m.trial.checkFlags(cmd, s); err != nil {
		return err
	}
	if a.KeepOrder && s.detach {
		return fault.New(fault.Invalid, "Leave one of them out; `drover logs` prints what items printed, later.", "read command line: both --keep-order and --detach")
	}
	if err := a.CheckOutput(cmd.Context(), spec.Output); err != nil {
		return err
	}
	stdin := io.Reader(a.In)
	if m.lists != nil {
		stdin = m.lists
	} else if spec.From == "-" && a.In != nil && term.IsTerminal(int(a.In.Fd())) {
		return fault.New(fault.Invalid, "Pipe them in: `seq 100 | drover map --from - ...`; or name a file.", "read items from standard input: it is a terminal")
	}
	c, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	if err := NewSubmitter(a.App).waitForJobs(ctx, s); err != nil {
		return err
	}
	p, err := NewPlanner(a.App).MakePlan(ctx, func(ctx context.Context) (*drover.Plan, error) {
		return c.Plan(ctx, spec, drover.PlanOptions{Force: s.force, Stdin: stdin})
	})
	if err != nil {
		return err
	}
	defer p.Close()
	NewSubmitter(a.App).NoteFlagsAfterScript(cmd, spec)
	if i, ok := secret.FindArgument(spec.Args); ok {
		a.Note("note: argument %d looks like a secret: it is stored with the job, and other users of the machine can see it; --secret NAME keeps one out", i+1)
	}
	if n := p.Items.Gone; a.KeepOrder && n > 0 && (p.Action == "attach" || p.Action == "resume" || p.Action == "reopen" || p.Action == "skip") {
		return fault.New(fault.Invalid, "Add `--force` to run these items in a new job, or `-t NAME` for a task of their own.",
			"print items in order: the job that this continues has %s that this command does not name", terminal.Count(n, "other item"))
	}
	if s.plan {
		return NewPlanner(a.App).showPlan(p)
	}
	if m.trial.drill {
		if err := p.Drillable(); err != nil {
			return err
		}
	}
	NewPlanner(a.App).PrintPlan(p)
	if done, err := newTrial(a.App).runTrial(ctx, s, m.trial, p); done || err != nil {
		return err
	}
	j, err := NewSubmitter(a.App).SubmitPlan(ctx, p)
	if err != nil {
		return err
	}
	return follow.NewNotifier(a.App).NotifyEnd(ctx, j, NewSubmitter(a.App).FollowSubmitted(ctx, p, j, spec.Output, s.detach))
}
