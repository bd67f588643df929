package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/store"
)

// connection sends the requests of a bucket, corrects its own region, credentials and clock as
// the answers say, and translates errors. All parts of the package that use the bucket share it.
type connection struct {
	place
	clock    store.Clock
	patience time.Duration
	passFile string
	account  *amazon.Account
	limit    *limiter

	client  atomic.Pointer[client]
	turning sync.Mutex // held while the region is found

	unsigned atomic.Bool // no credentials were found, and requests are sent without

	met   atomic.Bool  // the server has answered
	wrote atomic.Bool  // a write has succeeded
	tried atomic.Int64 // the clock.Boot at which tries without an answer began; 0: none

	damaged atomic.Int64 // how many bodies in a row arrived with other bytes than were sent
}

// expectedOwner is sent with every request, or not at all.
func (c *connection) expectedOwner() *string { return some(c.given.Owner) }

// some is text as the SDK takes it: none is nil.
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// sendRequest sends one request, and again where the server answers that it belongs to another
// region, that the credentials have ended, that this machine's clock is wrong, or, to a caller
// that has written before, that it is denied: in all these cases nothing was done. Every
// other error is translated and returned.
func (c *connection) sendRequest(ctx context.Context, doing string, write bool, send func(context.Context, *client) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for turns := 0; ; turns++ {
		if err := c.limit.waitForRoom(ctx); err != nil {
			return err
		}
		now := c.client.Load()
		err := send(ctx, now)
		a := hear(err)
		c.limit.countAnswer(a.Throttled())
		if a.Status != 0 || err == nil {
			c.met.Store(true)
		}
		if err == nil {
			if write { // what was read is judged at its end
				c.damaged.Store(0)
				c.wrote.Store(true)
			}
			return nil
		}
		if turns < 2 && (c.mendRequest(ctx, now, a) || write && c.isHastyDenial(a)) {
			continue
		}
		return c.wrapRefusal(ctx, doing, a, write)
	}
}

// pauseBeforeTry waits before a try that follows another, with full jitter.
func (c *connection) pauseBeforeTry(ctx context.Context, try int) error {
	step := min(50*time.Millisecond<<min(try, 7), 5*time.Second)
	return c.clock.Sleep(ctx, rand.N(step))
}

// retryUnclear calls f until its result is neither busy nor unclear, at most tries times.
func (c *connection) retryUnclear(ctx context.Context, tries int, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == nil || try+1 == tries || !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrUnclear) {
			return err
		}
		if stop := c.pauseBeforeTry(ctx, try); stop != nil {
			return fmt.Errorf("%w (last answer: %w)", stop, err)
		}
	}
}
