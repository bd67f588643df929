package s3

import (
	"context"
	"sync"
	"time"

	"github.com/drover-run/drover/store"
)

// A limiter asks an overloaded server less often. There is no limit until many
// answers of a window are "slow down"; then as many requests are let through as
// the server has served in it, a little less, and each calm window more, until
// the limit is no limit any more.
//
// A few refusals among many answers change nothing: S3 gives them while it
// splits a prefix, and a server that refuses one request in twenty at random
// would otherwise be asked ever more slowly. Those are sent again by package
// store, with full jitter.
type limiter struct {
	clock store.Clock

	mu           sync.Mutex
	rate         float64 // requests a second; 0: no limit
	ready        time.Duration
	begun        time.Duration // of the window
	served, slow int           // answers in it
	queued       int           // requests in it that had to wait
}

const (
	window   = time.Second
	tooMany  = 0.15 // of the answers: above it the server is asked less
	fewest   = 20   // answers in a window that say something
	slowest  = 2    // requests a second, also for a server that refuses all
	calmGain = 1.3  // for a window with few refusals
)

func newLimiter(c store.Clock) *limiter { return &limiter{clock: c, begun: c.Boot()} }

// wait blocks until a request may be sent, or returns ctx's cause.
func (l *limiter) wait(ctx context.Context) error {
	l.mu.Lock()
	if l.rate == 0 {
		l.mu.Unlock()
		return nil
	}
	now := l.clock.Boot()
	// At most a tenth of a second's requests at once.
	l.ready = max(l.ready, now-window/10) + time.Duration(float64(time.Second)/l.rate)
	pause := l.ready - now
	if pause > 0 {
		l.queued++
	}
	l.mu.Unlock()
	if pause <= 0 {
		return nil
	}
	return l.clock.Sleep(ctx, pause)
}

// answered counts an answer and, at a window's end, sets the rate anew.
func (l *limiter) answered(slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slow {
		l.slow++
	} else {
		l.served++
	}
	age := l.clock.Boot() - l.begun
	all := l.served + l.slow
	// A burst of refusals is heard before the window is over.
	burst := all >= 4*fewest && float64(l.slow) > 0.5*float64(all) && age >= window/10
	if age < window && !burst {
		return
	}
	switch {
	case l.slow > 0 && (all >= fewest || l.rate > 0) && float64(l.slow) > tooMany*float64(all):
		l.rate = max(slowest, 0.9*float64(l.served)/age.Seconds())
	case l.rate > 0 && l.queued == 0:
		l.rate = 0 // nobody waits: it limits nothing
	case l.rate > 0:
		l.rate *= calmGain
	}
	l.begun += age
	l.served, l.slow, l.queued = 0, 0, 0
}
