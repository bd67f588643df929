package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-run/drover/fault"
)

// CopyAgain is why a copy ends at Ctrl-C.
var CopyAgain = fault.New(fault.Interrupted, "Run it again: it continues where it stopped.", "interrupted")

// UntilTold ends ctx, for why, at Ctrl-C or SIGTERM; the second time it ends drover.
func UntilTold(ctx context.Context, why error) (_ context.Context, over func()) {
	ctx, end := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			end(why)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		end(nil)
	}
}

// NothingStarted is why a command ends at Ctrl-C before anything began.
var NothingStarted = fault.New(fault.Interrupted, "", "interrupted: nothing has started")
