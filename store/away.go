package store

import (
	"context"
	"sync"
	"time"
)

// Away says for how long requests have been waiting without an answer that counts, and what
// the last answer was: nil if there was none. It is 0 while the bucket answers, or while no
// request waits. Waiting requests go on by themselves once the bucket answers; Away is for
// telling the user.
//
// As blobs may be large, a request that sends or opens one counts only from its first bad
// answer on.
func (s *Store) Away() (length time.Duration, last error) {
	c := &s.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == 0 {
		return 0, nil
	}
	return s.clock.Boot() - c.met, c.last
}

// Reached says whether the bucket has ever answered a request.
func (s *Store) Reached() bool {
	c := &s.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ever
}

// Mind calls away once the bucket has not answered for least, and back once it answers, with
// how long that took; until ctx is done. Time in which this process or its machine was
// stopped does not count, as nothing is known of it.
func (s *Store) Mind(ctx context.Context, least time.Duration, away func(length time.Duration, last error), back func(length time.Duration)) {
	begun := time.Duration(-1)                        // by Boot
	looked, since := s.clock.Boot(), time.Duration(0) // without a pause
	for s.clock.Sleep(ctx, pollEvery) == nil {
		length, last := s.Away()
		now := s.clock.Boot()
		if now-looked > longPoll {
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
	// glance is the time between two looks of Mind.
	pollEvery = time.Second
	// longGlance: if the time between two looks was longer, this process was stopped.
	longPoll = 4 * pollEvery
)

// contact is when a bucket last answered a request.
type contact struct {
	mu     sync.Mutex
	asking int           // requests that wait
	met    time.Duration // when the last one was done; or when the first of those that wait was made
	last   error         // the newest bad answer since
	ever   bool          // it has answered
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

// countWaiting counts a as waiting. Its caller holds the lock.
func (a *asked) countWaiting() {
	c := &a.s.contact
	if c.asking == 0 {
		c.met, c.last = a.s.clock.Boot(), nil
	}
	c.asking++
	a.counts = true
}

// recordAnswer records the result of a try.
func (a *asked) recordAnswer(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the error may be that of ctx, and not the bucket's
	}
	c := &a.s.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	if !mayRetry(err) {
		c.met, c.last, c.ever = a.s.clock.Boot(), nil, true
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
