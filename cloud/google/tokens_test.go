package google

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// clock is moved by Sleep alone.
type clock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *clock) Boot() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Now() time.Time { return time.Unix(0, 0).Add(c.Boot()) }

func (c *clock) Sleep(_ context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	return nil
}

// mint gives out tokens that live for an hour.
type mint struct {
	clock *clock
	life  time.Duration
	mu    sync.Mutex
	made  int
	err   error
}

func (m *mint) find(context.Context) (Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return Token{}, m.err
	}
	m.made++
	return Token{Value: fmt.Sprintf("token-%d", m.made), Expires: m.clock.Now().Add(m.life)}, nil
}

func TestATokenIsReplacedEarly(t *testing.T) {
	clock := &clock{}
	m := &mint{clock: clock, life: time.Hour}
	k := NewTokens(clock, m.find)
	after := func(d time.Duration, want string) {
		t.Helper()
		_ = clock.Sleep(t.Context(), d)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { // of many at once, one looks for the next
				if c, err := k.Get(t.Context()); err != nil || want != "" && c.Value != want {
					t.Errorf("after %v: %q, %v; want %q", d, c.Value, err, want)
				}
			})
		}
		all.Wait()
	}
	after(0, "token-1")
	after(54*time.Minute, "token-1")
	after(90*time.Second, "") // some go on with the first meanwhile
	after(0, "token-2")
	m.err = errors.New("away")
	after(56*time.Minute, "token-2") // it works for three minutes more
	if n := m.made; n != 2 {
		t.Errorf("%d tokens were fetched, want 2", n)
	}
	_ = clock.Sleep(t.Context(), 4*time.Minute)
	if _, err := k.Get(t.Context()); !errors.Is(err, m.err) {
		t.Errorf("without a token that works: %v", err)
	}
}

func TestATokenThatIsNearlyOverIsNotFetchedForEveryRequest(t *testing.T) {
	clock := &clock{}
	m := &mint{clock: clock, life: 4 * time.Minute}
	k := NewTokens(clock, m.find)
	for range 100 {
		if _, err := k.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if m.made != 1 {
		t.Errorf("%d tokens for 100 requests", m.made)
	}
}
