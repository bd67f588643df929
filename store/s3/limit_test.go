package s3

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/store/storetest"
)

// load asks for a while as fast as it is let, and says how many requests a
// second the server was sent, and how many of all it refused.
func load(t *testing.T, l *limiter, clock *storetest.Clock, seconds int, refuses func(inSecond int) bool) (rate, refused float64) {
	start := clock.Boot()
	sent, no, in, second := 0, 0, 0, clock.Boot()/time.Second
	for clock.Boot()-start < time.Duration(seconds)*time.Second {
		_ = l.waitForRoom(t.Context())
		_ = clock.Sleep(t.Context(), time.Millisecond) // 1,000 a second at most
		if now := clock.Boot() / time.Second; now != second {
			second, in = now, 0
		}
		in++
		slow := refuses(in)
		l.countAnswer(slow)
		sent++
		if slow {
			no++
		}
	}
	return float64(sent) / float64(seconds), float64(no) / float64(sent)
}

func TestAnOverloadedServerIsAskedAsOftenAsItCan(t *testing.T) {
	clock := &storetest.Clock{}
	l := newLimiter(clock)
	if rate, _ := load(t, l, clock, 5, func(int) bool { return false }); rate < 990 {
		t.Errorf("without refusals %.0f a second", rate)
	}
	rate, refused := load(t, l, clock, 60, func(in int) bool { return in > 100 })
	if rate < 60 || rate > 160 || refused > 0.3 {
		t.Errorf("of a server for 100 a second %.0f are asked, %.0f %% in vain", rate, 100*refused)
	}
	load(t, l, clock, 30, func(int) bool { return false })
	if rate, _ := load(t, l, clock, 5, func(int) bool { return false }); rate < 990 {
		t.Errorf("half a minute after the last refusal %.0f a second", rate)
	}
}

func TestFewRefusalsAtRandomSlowNothing(t *testing.T) {
	clock := &storetest.Clock{}
	r := rand.New(rand.NewPCG(1, 2))
	if rate, _ := load(t, newLimiter(clock), clock, 60, func(int) bool { return r.IntN(20) == 0 }); rate < 950 {
		t.Errorf("5 %% of refusals leave %.0f a second", rate)
	}
}

func TestAServerThatRefusesAllIsStillAsked(t *testing.T) {
	clock := &storetest.Clock{}
	l := newLimiter(clock)
	load(t, l, clock, 60, func(int) bool { return true })
	if rate, _ := load(t, l, clock, 20, func(int) bool { return true }); rate < 1 || rate > 10 {
		t.Errorf("%.1f a second", rate)
	}
}

// Forty agents, each with a limiter of its own and eight requests at once, ask a
// server that knows nothing of them but how many come in a second.
func TestAgentsInAStormNeitherHammerNorStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents, hands, can = 40, 8, 300
		s := &server{can: can}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range agents {
			l := newLimiter(bubble{})
			for range hands {
				all.Go(func() { s.use(ctx, l) })
			}
		}
		// They want all that it can, and more: 40 x 8 x 1 / 20 ms = 16,000 a second.
		s.spell(20 * time.Second)
		served, refused := s.spell(30 * time.Second)
		t.Logf("overloaded: %.0f served and %.0f refused a second", served, refused)
		if served < 0.75*can || refused > 0.6*can {
			t.Errorf("of %d a second %.0f are served and %.0f refused", can, served, refused)
		}
		s.set(0)
		s.spell(10 * time.Second)
		_, refused = s.spell(50 * time.Second)
		t.Logf("in the storm: %.0f refused a second", refused)
		if refused > 2.5*agents {
			t.Errorf("a server that serves nobody is asked %.0f times a second", refused)
		}
		s.set(1e9)
		s.spell(10 * time.Second)
		served, _ = s.spell(10 * time.Second)
		t.Logf("10 s after it: %.0f served a second", served)
		if served < 0.9*agents*hands*50 {
			t.Errorf("the storm is over for 10 s, and %.0f a second are served", served)
		}
		stop()
		all.Wait()
	})
}

// server serves so many requests in each second.
type server struct {
	mu              sync.Mutex
	can, in         int
	second          int64
	served, refused int
}

func (s *server) set(can int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.can = can
}

// spell lets time pass, and says what was done a second.
func (s *server) spell(length time.Duration) (served, refused float64) {
	s.mu.Lock()
	s.served, s.refused = 0, 0
	s.mu.Unlock()
	time.Sleep(length)
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.served) / length.Seconds(), float64(s.refused) / length.Seconds()
}

func (s *server) slow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now().Unix(); now != s.second {
		s.second, s.in = now, 0
	}
	if s.in++; s.in > s.can {
		s.refused++
		return true
	}
	s.served++
	return false
}

// use asks again and again, as package store does: after a refusal with full jitter.
func (s *server) use(ctx context.Context, l *limiter) {
	for tries := 0; ctx.Err() == nil; {
		if l.waitForRoom(ctx) != nil {
			return
		}
		_ = l.clock.Sleep(ctx, 20*time.Millisecond)
		slow := s.slow()
		l.countAnswer(slow)
		if tries++; !slow {
			tries = 0
			continue
		}
		_ = l.clock.Sleep(ctx, rand.N(min(50*time.Millisecond<<min(tries, 7), 5*time.Second)))
	}
}

// A line of requests that was drawn up in the storm is gone with it.
func TestWhoWaitedInTheStormGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(bubble{})
		l.rate = slowest
		var all sync.WaitGroup
		for range 200 { // 100 s at this rate
			all.Go(func() { _ = l.waitForRoom(t.Context()) })
		}
		time.Sleep(time.Second)
		l.mu.Lock()
		l.rate = 0
		l.mu.Unlock()
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took > window {
			t.Errorf("they went %v after the limit had", took)
		}
	})
}

// bubble is the time of synctest.
type bubble struct{}

func (bubble) Now() time.Time      { return time.Now() }
func (bubble) Boot() time.Duration { return time.Duration(time.Now().UnixNano()) }
func (bubble) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
