package drover

import (
	"context"
	"slices"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/job"
)

// TargetSetup is what a target stands on in an account or cluster, for one project and
// store.
type TargetSetup struct {
	c     *Client
	name  string
	on    driver.Opened
	scope driver.Scope
}

// Setup finds what a target stands on, which may be nothing. args are options of its own.
func (c *Client) Setup(target, project string, args []string) (*TargetSetup, error) {
	on, detail, all := c.setupTarget(target, args)
	d, err := c.engine.Driver(on)
	if err != nil {
		return nil, err
	}
	scope := driver.Scope{Store: c.world.Store.String(), Project: project, Detail: detail, Args: all}
	if c.policy != nil {
		if scope.Rights, err = c.policy(engine.AgentRights(job.Path{Project: project})); err != nil {
			return nil, err
		}
	}
	return &TargetSetup{c, target, d, scope}, nil
}

// Pieces are all that the target stands on, in the order in which they are made.
func (s *TargetSetup) Pieces(ctx context.Context) ([]driver.Piece, error) {
	if s.on.Setup == nil {
		return []driver.Piece{}, nil
	}
	return s.on.Setup.Describe(ctx, s.scope)
}

// Make makes what is missing, and calls made after each piece. A target without pieces is refused.
func (s *TargetSetup) Make(ctx context.Context, made func(driver.Piece)) error {
	if s.on.Setup == nil {
		return fault.New(fault.Invalid, "Use it as it is: `drover run --on "+s.name+" SCRIPT`.", "set up target %s: it stands on nothing that has to be made", s.name)
	}
	return s.on.Setup.Apply(ctx, s.scope, made)
}

// Policy is what a party must be granted there, for an administrator. "": nothing.
func (s *TargetSetup) Policy(whose driver.Party) (string, error) {
	if s.on.Policy == nil {
		return "", nil
	}
	return s.on.Policy(whose, s.scope)
}

// Placements are those that the target still holds, of any project. The error names places of
// the target that did not answer.
func (s *TargetSetup) Placements(ctx context.Context) ([]driver.Handle, error) {
	return s.on.List(ctx)
}

// Remove stops every agent of the target, waits until they are gone, and takes away what the
// set-up has made, calling gone after each piece. The store is not touched: jobs that were
// stopped are interrupted, and go on elsewhere. Where a place of the target does not answer, the
// others are emptied and the set-up stays: the error says so.
func (s *TargetSetup) Remove(ctx context.Context, gone func(driver.Piece)) error {
	if err := s.c.engine.EmptyTarget(ctx, s.on); err != nil || s.on.Setup == nil {
		return err
	}
	return s.on.Setup.Destroy(ctx, s.scope, gone)
}

// setupTarget is what a target's name means, its detail, and the options of both.
func (c *Client) setupTarget(target string, args []string) (on, detail string, all []string) {
	on = target
	if t, ok := c.engine.Targets[target]; ok {
		on, all = t.On, t.Args
	}
	_, detail = job.SplitTarget(on)
	return on, detail, slices.Concat(all, args)
}
