package places

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// setupFlags are what up and down share.
type setupFlags struct {
	yes, plan bool
	args      []string
}

func (a Target) addSetupFlags(c *cobra.Command, f *setupFlags, planHelp string) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do it without a question")
	c.Flags().BoolVar(&f.plan, "plan", false, planHelp)
	c.Flags().StringArrayVar(&f.args, "target-arg", nil, "option of the target's own, such as subnets=subnet-1; NAME=@FILE gives the text of a file; may be repeated")
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
}

func (a Target) upCommand() *cobra.Command {
	var f setupFlags
	c := &cobra.Command{Use: "up NAME", Short: "Make what a target stands on in an account or cluster: roles, queues, networks", Args: app.Exactly(1)}
	a.addSetupFlags(c, &f, "show each piece, and the request that would make it; change nothing")
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.setUp(cmd.Context(), args[0], f) }
	return c
}

// DownCommand returns the command that takes a set-up away.
func (a Target) DownCommand() *cobra.Command {
	var f setupFlags
	c := &cobra.Command{Use: "down NAME", Short: "Stop all agents of a target, and take away what target up has made for it", Args: app.Exactly(1)}
	a.addSetupFlags(c, &f, "show what would be stopped and taken away; change nothing")
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.takeDown(cmd.Context(), args[0], f) }
	return c
}

// openSetup finds a target's set-up for the project of this folder.
func (a Target) openSetup(ctx context.Context, name string, f setupFlags) (*drover.TargetSetup, []driver.Piece, error) {
	a.Settings.On = name // its own store
	conf, err := a.ReadConfig()
	if err == nil {
		err = conf.MayTarget(name)
	}
	if err != nil {
		return nil, nil, err
	}
	typed, err := app.ReadArgFiles(f.args)
	if err != nil {
		return nil, nil, err
	}
	project, err := a.ProjectName()
	if err != nil {
		return nil, nil, err
	}
	c, err := a.OpenClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.Setup(name, project, typed)
	if err != nil {
		return nil, nil, err
	}
	pieces, err := s.Pieces(ctx)
	return s, pieces, err
}

func (a Target) setUp(ctx context.Context, name string, f setupFlags) error {
	s, pieces, err := a.openSetup(ctx, name, f)
	if err != nil {
		return err
	}
	missing := inState(pieces, driver.PieceMissing)
	foreign := inState(pieces, driver.PieceForeign)
	if len(pieces) == 0 {
		return s.Make(ctx, nil) // which refuses
	}
	if a.Settings.JSON {
		if err := terminal.NewJSON(a.Out).Encode(pieces); err != nil {
			return err
		}
	} else if err := a.printPieces(pieces, true); err != nil {
		return err
	}
	switch {
	case f.plan:
		return nil
	case len(missing) == 0 && len(foreign) == 0:
		a.Note("target %s is set up: nothing is missing", name)
		return nil
	case len(foreign) == 0:
		a.Note("%s will be made", countPieces(len(missing)))
		if err := a.Confirm(f.yes, "setting up", ""); err != nil {
			return err
		}
	}
	if err := s.Make(ctx, func(p driver.Piece) { a.Note("made %s %s", p.Kind, p.Name) }); err != nil {
		return err
	}
	a.Note("target %s is set up   try it: drover target test %s", name, name)
	return nil
}

func (a Target) takeDown(ctx context.Context, name string, f setupFlags) error {
	s, pieces, err := a.openSetup(ctx, name, f)
	if err != nil {
		return err
	}
	held, silent := s.Placements(ctx)
	there := inState(pieces, driver.PieceThere)
	if a.Settings.JSON {
		if err := terminal.NewJSON(a.Out).Encode(pieces); err != nil {
			return err
		}
	} else if len(pieces) > 0 {
		if err := a.printPieces(pieces, false); err != nil {
			return err
		}
	}
	for _, h := range held {
		a.Note("agents of job %s, placement %d, will be stopped", h.Job, h.Placement)
	}
	if f.plan || len(there) == 0 && len(held) == 0 {
		if silent == nil && !f.plan {
			a.Note("target %s: nothing is left to take away", name)
		}
		return silent
	}
	if len(there) > 0 {
		a.Note("%s will be taken away", countPieces(len(there)))
	}
	if err := a.ConfirmRemoval(f.yes, ""); err != nil {
		return err
	}
	if err := s.Remove(ctx, func(p driver.Piece) { a.Note("took away %s %s", p.Kind, p.Name) }); err != nil {
		return err
	}
	a.Note("target %s is taken away; the store is as it was", name)
	return nil
}

func inState(all []driver.Piece, s driver.PieceState) (some []driver.Piece) {
	for _, p := range all {
		if p.State == s {
			some = append(some, p)
		}
	}
	return some
}

func countPieces(n int) string {
	if n == 1 {
		return "1 piece"
	}
	return fmt.Sprintf("%d pieces", n)
}

// printPieces shows every piece, and below it the request that would make it.
func (a Target) printPieces(pieces []driver.Piece, requests bool) error {
	t := terminal.NewTable(a.Out, "PIECE", "NAME", "IS", "IDLE, PER HOUR")
	for _, p := range pieces {
		state, idle := string(p.State), p.Idle
		if p.Why != "" {
			state += ": " + p.Why
		}
		if idle == "" {
			idle = "nothing"
		}
		t.Row(p.Kind, p.Name, state, idle)
	}
	if err := t.Flush(); err != nil || !requests {
		return err
	}
	for _, p := range inState(pieces, driver.PieceMissing) {
		fmt.Fprintf(a.Out, "\n%s %s:\n    %s\n", p.Kind, p.Name, strings.ReplaceAll(strings.TrimSpace(p.Request), "\n", "\n    "))
	}
	return nil
}
