package driver

import (
	"context"
	"sync"
	"time"

	"github.com/drover-run/drover/fault"
)

// askTime bounds the question to one target: one that does not answer delays no other.
const askTime = 10 * time.Second

// AskAll asks n targets at the same time, each for ten seconds at most, and waits for all. A context that has ended says so as a fault (context.Cause).
func AskAll(ctx context.Context, n int, ask func(ctx context.Context, i int)) {
	askAll(ctx, n, askTime, ask)
}

func askAll(ctx context.Context, n int, long time.Duration, ask func(ctx context.Context, i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, long, fault.New(fault.Lost, "Check the network, or the address.", "it has not answered within %s", long))
			defer cancel()
			ask(ctx, i)
		})
	}
	all.Wait()
}
