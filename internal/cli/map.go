package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// mapVerb is drover map.
type mapVerb struct{ *app }

func newMapVerb(a *app) mapVerb { return mapVerb{a} }

func (a mapVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "map [flags] [--] PROGRAM [arguments with {}] [::: ITEMS ...]",
		Short: "Run a program for each of many items; again: the failed and the new ones", Args: cobra.ArbitraryArgs}
	s, m := newSpecReader(a.app).mapFlags(c)
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
		spec, err := newSpecReader(a.app).readMapSpec(cmd, s, m, args)
		if err != nil {
			return err
		}
		return a.startMap(cmd, s, m, spec)
	}
	return c
}

// startMap is drover map, and drover run of a job file that says verb: map.
func (a mapVerb) startMap(cmd *cobra.Command, s *startFlags, m *mapFlags, spec job.Spec) error {
	ctx := cmd.Context()
	if err := m.trial.check(cmd, s); err != nil {
		return err
	}
	if a.keepOrder && s.detach {
		return fault.New(fault.Invalid, "Leave one of them out; drover logs prints what items printed, later.", "read command line: both --keep-order and --detach")
	}
	if err := a.checkOutput(cmd.Context(), spec.Output); err != nil {
		return err
	}
	stdin := io.Reader(a.in)
	if m.lists != nil {
		stdin = m.lists
	} else if spec.From == "-" && a.in != nil && term.IsTerminal(int(a.in.Fd())) {
		return fault.New(fault.Invalid, "Pipe them in: seq 100 | drover map --from - ...; or name a file.", "read items from standard input: it is a terminal")
	}
	c, err := a.openClient(ctx)
	if err != nil {
		return err
	}
	if err := newSubmitter(a.app).waitForJobs(ctx, s); err != nil {
		return err
	}
	p, err := newPlanner(a.app).makePlan(ctx, func(ctx context.Context) (*drover.Plan, error) {
		return c.PlanMap(ctx, drover.MapSpec{Spec: spec, Stdin: stdin}, s.force)
	})
	if err != nil {
		return err
	}
	defer p.Close()
	newSubmitter(a.app).noteFlagsAfterScript(cmd, spec)
	if i, ok := job.SuspiciousArg(spec.Args); ok {
		a.note("note: argument %d looks like a secret: it is stored with the job, and other users of the machine can see it; --secret NAME keeps one out", i+1)
	}
	if n := p.Items.Gone; a.keepOrder && n > 0 && (p.Action == "attach" || p.Action == "resume" || p.Action == "reopen" || p.Action == "skip") {
		return fault.New(fault.Invalid, "Add --force to run these items in a new job, or -t NAME for a task of their own.",
			"print items in order: the job that this continues has %s that this command does not name", count(n, "other item"))
	}
	if s.plan {
		return newPlanner(a.app).showPlan(p)
	}
	if m.trial.drill {
		if err := p.Drillable(); err != nil {
			return err
		}
	}
	newPlanner(a.app).printPlan(p)
	if done, err := newTrial(a.app).runTrial(ctx, s, m.trial, p); done || err != nil {
		return err
	}
	j, err := newSubmitter(a.app).submitPlan(ctx, p)
	if err != nil {
		return err
	}
	return newNotifier(a.app).notifyEnd(ctx, j, newSubmitter(a.app).followSubmitted(ctx, p, j, spec.Output, s.detach))
}
