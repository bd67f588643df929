package s3

import (
	"context"
	"sync"
	"time"

	"github.com/drover-run/drover/store"
)

// A limiter sends fewer requests to an overloaded server. There is no limit until many
// answers of a window are "slow down". Then it lets through a little less than the server
// has served in that window, and more after each window with few refusals, until no request
// has to wait.
//
// A few refusals among many answers change nothing: S3 gives them while it splits a prefix,
// and a server that refuses one request in twenty at random would otherwise get fewer and
// fewer. Package store sends those again, with full jitter.
type limiter struct {
	clock store.Clock

	mu           sync.Mutex
	rate         float64       // requests a second; 0: no limit
	room         float64       // requests that may be sent now
	filled       time.Duration // when room was last added to
	begun        time.Duration // of the window
	served, slow int           // answers in it
	queued       int           // requests in it that had to wait
	calm         int           // windows in a row that raised the rate
}

const (
	window   = time.Second
	tooMany  = 0.15 // of the answers: above it the server is asked less
	fewest   = 20   // answers in a window that say something
	slowest  = 2    // requests a second, also for a server that refuses all
	calmGain = 1.3  // for a window with few refusals
	moreGain = 0.2  // and more for each one after it: after an overload the server may take a hundred times as much
)

func newLimiter(c store.Clock) *limiter { return &limiter{clock: c, begun: c.Boot()} }

// longestNap is how long a waiting request relies on the rate: the rate may rise a hundredfold
// meanwhile, and hundreds of requests may wait.
const longestNap = window / 4

// waitForRoom blocks until a request may be sent, or returns ctx's cause. A waiting request
// reserves no time, so that it gains when the rate rises.
func (l *limiter) waitForRoom(ctx context.Context) error {
	for waited := false; ; waited = true {
		nap := l.takeRoom(waited)
		if nap == 0 {
			return nil
		}
		if err := l.clock.Sleep(ctx, nap); err != nil {
			return err
		}
	}
}

// takeRoom takes room for a request, or says when to look again.
func (l *limiter) takeRoom(waited bool) (nap time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == 0 {
		return 0
	}
	now := l.clock.Boot()
	// At most a tenth of a second's requests at once.
	l.room = min(l.room+l.rate*(now-l.filled).Seconds(), max(1, l.rate*(window/10).Seconds()))
	l.filled = now
	if l.room >= 1 {
		l.room--
		return 0
	}
	if !waited {
		l.queued++
	}
	return min(longestNap, max(time.Millisecond, time.Duration((1-l.room)/l.rate*float64(time.Second))))
}

// countAnswer counts an answer and, at a window's end, sets the rate anew.
func (l *limiter) countAnswer(slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slow {
		l.slow++
	} else {
		l.served++
	}
	age := l.clock.Boot() - l.begun
	all := l.served + l.slow
	// A burst of refusals counts before the window is over.
	burst := all >= 4*fewest && float64(l.slow) > 0.5*float64(all) && age >= window/10
	if age < window && !burst {
		return
	}
	switch {
	case l.slow > 0 && (all >= fewest || l.rate > 0) && float64(l.slow) > tooMany*float64(all):
		l.rate, l.calm = max(slowest, 0.9*float64(l.served)/age.Seconds()), 0
	case l.rate > 0 && l.queued == 0:
		l.rate, l.calm = 0, 0 // no request waits: it limits nothing
	case l.rate > 0:
		l.rate *= calmGain + moreGain*float64(l.calm)
		l.calm++
	}
	l.begun += age
	l.served, l.slow, l.queued = 0, 0, 0
}
