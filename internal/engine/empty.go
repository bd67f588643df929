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

// emptyGrace is how long agents have to store what they have: that of a Ctrl-C. emptyLook is how
// often the placements are looked at meanwhile.
const emptyGrace, emptyLook = 30 * time.Second, time.Second

// EmptyTarget stops every agent of a target and waits until nothing is left of them. Jobs of this
// store are interrupted first, so that commands that follow them place no agents anew. Where a
// place of the target does not answer, the others are emptied: the error says so.
func (e *Engine) EmptyTarget(ctx context.Context, d driver.Driver) error {
	held, silent := d.List(ctx)
	interrupts, among := errgroup.WithContext(ctx)
	for _, h := range held {
		interrupts.Go(func() error {
			if p, err := tasks.FindJob(among, e.World, h.Job); err == nil { // others are of another store
				return e.Interrupt(among, p, emptyGrace)
			}
			return nil
		})
	}
	if err := interrupts.Wait(); err != nil {
		return err
	}
	for range 10 * int(emptyGrace/emptyLook) {
		for _, h := range held { // also again: a target may take away what has ended only now
			if err := d.Stop(ctx, h, emptyGrace, true); err != nil {
				return err
			}
		}
		all, err := d.List(ctx)
		if err != nil && silent == nil {
			return err
		}
		for _, h := range all {
			if !slices.Contains(held, h) && slices.ContainsFunc(held, func(o driver.Handle) bool { return o.Job == h.Job }) {
				return fault.New(fault.Lost, "End that command, and type this one again.", "empty the target: a command that follows job %s has placed agents anew", h.Job)
			}
		}
		if !slices.ContainsFunc(all, func(h driver.Handle) bool { return slices.Contains(held, h) }) {
			return silent
		}
		if err := e.World.Clock().Sleep(ctx, emptyLook); err != nil {
			return err
		}
	}
	return fault.New(fault.Lost, "Type the command again.", "empty the target: agents are still ending")
}
