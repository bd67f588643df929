package agent

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/fault"
)

// Some engines send SIGTERM to all processes of a machine at once: to the agent, to
// its program, to whatever it has started. What ends by that has not failed. It may be
// seen to have ended a little before the agent itself hears of the signal.

// strikeTime is longer than an engine takes to signal all processes of a machine.
const strikeTime = 250 * time.Millisecond

// hitByStopSignal says whether what has ended may have ended by such a signal; badly says that
// it has ended with a failure, which is worth waiting a moment for.
func (a *agent) hitByStopSignal(badly bool) bool {
	if a.Machine.Struck == nil {
		return false
	}
	wait := time.Duration(0)
	if badly {
		wait = strikeTime
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-a.Machine.Struck:
		return true
	case <-late.C:
		select {
		case <-a.Machine.Struck:
			return true
		default:
			return false
		}
	}
}

// leaveAfterSignal waits for the notice that explains the signal, and leaves.
func (a *agent) leaveAfterSignal(ctx context.Context, drop context.CancelCauseFunc) (int, error) {
	select {
	case n := <-a.Machine.Notice:
		drop(errors.New(n.Why))
		return a.saveAndLeave(ctx, n)
	case n := <-a.notice:
		drop(errors.New(n.Why))
		return a.saveAndLeave(ctx, n)
	case <-ctx.Done():
		return fault.ExitDrover, context.Cause(ctx)
	}
}
