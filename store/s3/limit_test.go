package s3

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/drover-run/drover/store/storetest"
)

// load asks for a while as fast as it is let, and says how many requests a
// second the server was sent, and how many of all it refused.
func load(t *testing.T, l *limiter, clock *storetest.Clock, seconds int, refuses func(inSecond int) bool) (rate, refused float64) {
	start := clock.Boot()
	sent, no, in, second := 0, 0, 0, clock.Boot()/time.Second
	for clock.Boot()-start < time.Duration(seconds)*time.Second {
		_ = l.wait(t.Context())
		_ = clock.Sleep(t.Context(), time.Millisecond) // 1,000 a second at most
		if now := clock.Boot() / time.Second; now != second {
			second, in = now, 0
		}
		in++
		slow := refuses(in)
		l.answered(slow)
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
