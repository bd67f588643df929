package store

import (
	"context"
	"time"
)

// Clock is time as the ledger, the agent and the engine see it, so that a
// simulation can drive the real code in virtual time.
type Clock interface {
	// Now is the wall clock: for people and for records, never for a decision.
	Now() time.Time
	// Boot is the time since some fixed point, and includes the time for which the machine
	// sleeps: every lease and every interval is measured with it (rule D2 of docs/protocol.md).
	Boot() time.Duration
	// Sleep blocks for d, or until ctx is done, and then returns its cause.
	Sleep(ctx context.Context, d time.Duration) error
}

// System is the machine's own clock.
var System Clock = systemClock{}

type systemClock struct{}

func (systemClock) Now() time.Time      { return time.Now() }
func (systemClock) Boot() time.Duration { return boot() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
