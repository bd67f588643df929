package agent

import (
	"context"
	"time"
)

// awayLeast is after how long it is said that the store is away: all that follows from
// it, other agents that take the work over, comes later than that.
const awayLeast = 30 * time.Second

// superviseStore has it said, for a person that asks why nothing goes on here, that the agent
// waits for its store. The agent waits on its own: what runs goes on, and what it
// leaves is kept until it can be stored.
func (a *agent) superviseStore(ctx context.Context) (end func()) {
	ctx, quit := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.World.Store.Mind(ctx, awayLeast,
			func(length time.Duration, last error) {
				a.Log.Warn("store not reachable: trying again", "for", length.Round(time.Second), "last", last)
			},
			func(length time.Duration) { a.Log.Warn("store back", "after", length.Round(time.Second)) })
	}()
	return func() { quit(); <-done }
}
