package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/drover-run/drover/store"
)

// Clock is virtual time for one actor, or for many that need not wait for each
// other: Sleep moves it forward and returns at once. It begins on 1 January 2026.
type Clock struct {
	mu   sync.Mutex
	boot time.Duration
}

var _ store.Clock = (*Clock)(nil)

// Now is the virtual wall clock.
func (c *Clock) Now() time.Time {
	return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).Add(c.Boot())
}

// Boot is the virtual time since the clock was made.
func (c *Clock) Boot() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.boot
}

// Sleep moves the clock forward by d, unless ctx is done: then it returns its cause.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boot += d
	return nil
}
