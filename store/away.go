package store

import (
	"context"
	"sync"
	"time"
)

// Away says for how long the bucket has done nothing, though something is asked of
// it, and what came back last instead: nil if nothing came at all. It is 0 while the
// bucket answers or nothing is asked. Requests that wait for it go on by themselves when it is
// back; Away is for telling the user.
//
// Blobs may be large: to send or to open one counts from its first bad answer on.
func (s *Store) Away() (length time.Duration, last error) {
	c := &s.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == 0 {
		return 0, nil
	}
	return s.clock.Boot() - c.met, c.last
}

// Mind calls away once the bucket has been away for least, and back when it is not any
// more, with how long it was; until ctx is done. Time in which
// this process or its machine was stopped is unknown, and does not count.
func (s *Store) Mind(ctx context.Context, least time.Duration, away func(length time.Duration, last error), back func(length time.Duration)) {
	begun := time.Duration(-1)                        // by Boot
	looked, since := s.clock.Boot(), time.Duration(0) // without a pause
	for s.clock.Sleep(ctx, glance) == nil {
		length, last := s.Away()
		now := s.clock.Boot()
		if now-looked > longGlance {
			since = now
		}
		looked = now
		if begun < 0 {
			length = min(length, now-since)
		}
		switch {
		case begun < 0 && length >= least:
			begun = now - length
			away(length, last)
		case begun >= 0 && length < least:
			back(now - length - begun)
			begun = -1
		}
	}
}

const (
	// glance is how often Mind looks.
	glance = time.Second
	// longGlance is how long it takes for that only where it was stopped itself.
	longGlance = 4 * glance
)

// contact is when a bucket last did what it was asked.
type contact struct {
	mu     sync.Mutex
	asking int           // requests that are waited for
	met    time.Duration // when one was last done; or when the first of these was asked
	last   error         // answer since
}

// asked is one request, with all its tries.
type asked struct {
	s      *Store
	counts bool
}

func (s *Store) beginRequest(large bool) *asked {
	a := &asked{s: s}
	if !large {
		s.contact.mu.Lock()
		defer s.contact.mu.Unlock()
		a.countWaiting()
	}
	return a
}

// countWaiting takes a into those that are waited for. Its caller holds the lock.
func (a *asked) countWaiting() {
	c := &a.s.contact
	if c.asking == 0 {
		c.met, c.last = a.s.clock.Boot(), nil
	}
	c.asking++
	a.counts = true
}

// recordAnswer takes in what a try came to.
func (a *asked) recordAnswer(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the answer may be our own
	}
	c := &a.s.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	if !mayRetry(err) {
		c.met, c.last = a.s.clock.Boot(), nil
		return
	}
	if !a.counts {
		a.countWaiting()
	}
	c.last = err
}

func (a *asked) endRequest() {
	c := &a.s.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.counts {
		c.asking--
	}
}
