package engine

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/tasks"
)

const (
	emptyGrace = 30 * time.Second // for agents to store what they have: that of a Ctrl-C
	emptyLook  = time.Second      // how often the placements are looked at meanwhile
)

// EmptyTarget stops every agent of a target, of any project, and waits until nothing is left of
// them. Jobs of this store are interrupted first, so that commands that follow them place no agents
// anew. Where a place of the target does not answer, the others are emptied: the error says so.
func (e *Engine) EmptyTarget(ctx context.Context, d driver.Driver) error {
	held, silent := d.List(ctx)
	interrupts, among := errgroup.WithContext(ctx)
	for _, h := range held {
		interrupts.Go(func() error {
			p, err := tasks.FindJob(among, e.World, h.Job)
			if err != nil {
				return nil // of another store: its agents are stopped below
			}
			return e.Interrupt(among, p, emptyGrace)
		})
	}
	if err := interrupts.Wait(); err != nil {
		return err
	}
	left := held
	for range 10 * int(emptyGrace/emptyLook) {
		for _, h := range left { // also again: a target may take away what has ended only now
			if err := d.Stop(ctx, h, emptyGrace, true); err != nil {
				return err
			}
		}
		all, err := d.List(ctx)
		if err != nil && silent == nil {
			return err
		}
		left = slices.DeleteFunc(all, func(h driver.Handle) bool { return !slices.Contains(held, h) })
		if len(left) == 0 {
			return silent
		}
		if err := e.World.Clock().Sleep(ctx, emptyLook); err != nil {
			return err
		}
	}
	return fault.New(fault.Lost, "Type the command again.", "empty the target: agents are still ending")
}
