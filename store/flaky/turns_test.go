package flaky_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/drover-run/drover/store"
)

// turns is a simulation in which one actor runs at a time, until it sleeps; the
// next is the one that wakes first, by draw among equals. So a seed is a run.
type turns struct {
	r       *rand.Rand
	now     time.Duration
	waiting []turn
	back    chan struct{} // the actor that ran sleeps or has ended
}

type turn struct {
	at   time.Duration
	wake chan struct{}
}

var _ store.Clock = (*turns)(nil)

func (s *turns) Now() time.Time      { return time.Unix(0, 0).Add(s.now) }
func (s *turns) Boot() time.Duration { return s.now }

func (s *turns) Sleep(ctx context.Context, d time.Duration) error {
	t := turn{at: s.now + d, wake: make(chan struct{})}
	s.waiting = append(s.waiting, t)
	s.back <- struct{}{}
	<-t.wake
	return context.Cause(ctx)
}

// run gives turns until all actors have ended.
func (s *turns) run(actors ...func()) {
	s.back = make(chan struct{})
	for _, actor := range actors {
		t := turn{wake: make(chan struct{})}
		s.waiting = append(s.waiting, t)
		go func() {
			<-t.wake
			actor()
			s.back <- struct{}{}
		}()
	}
	for len(s.waiting) > 0 {
		next, same := 0, 1
		for i, t := range s.waiting[1:] {
			switch first := s.waiting[next].at; {
			case t.at < first:
				next, same = i+1, 1
			case t.at == first:
				if same++; s.r.IntN(same) == 0 {
					next = i + 1
				}
			}
		}
		t := s.waiting[next]
		s.waiting = append(s.waiting[:next], s.waiting[next+1:]...)
		s.now = t.at
		t.wake <- struct{}{}
		<-s.back
	}
}
