package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// A store that answers is never away, however long no request was made; one that does
// nothing is, from the first request on, whether it says something or not.
func TestAwayIsHowLongNothingWasDone(t *testing.T) {
	for name, c := range map[string]struct {
		answers []answer // before it answers again
		mute    time.Duration
		want    time.Duration // after 10 s
		last    string
	}{
		"it answers":           {want: 0},
		"nothing comes back":   {mute: time.Minute, want: 10 * time.Second},
		"all is refused":       {answers: refusals(50), want: 10 * time.Second, last: "too fast"},
		"refused, then silent": {answers: refusals(1), mute: time.Minute, want: 10 * time.Second, last: "too fast"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &mute{scripted: &scripted{Bucket: mem.New(), answers: c.answers}, length: c.mute}
				s := store.New(b, store.Options{Clock: bubble{}})
				time.Sleep(time.Hour)
				done := make(chan error, 1)
				go func() { done <- s.Put(t.Context(), "k", []byte("v")) }()
				time.Sleep(10*time.Second + time.Nanosecond)
				if reached := c.want == 0; s.Reached() != reached {
					t.Errorf("reached: %t, want %t", !reached, reached)
				}
				length, last := s.Away()
				if length.Round(time.Second) != c.want || last == nil && c.last != "" || last != nil && !strings.Contains(last.Error(), c.last) {
					t.Errorf("away for %v, %v; want %v, %q", length, last, c.want, c.last)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				if length, last := s.Away(); length != 0 || last != nil || !s.Reached() {
					t.Errorf("it is back, and away for %v, %v", length, last)
				}
			})
		})
	}
}

// A large blob that is on its way says nothing of the store; one that is refused does.
func TestALargeBlobOnItsWayIsNoStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &mute{scripted: &scripted{Bucket: mem.New()}, length: time.Minute}
		s := store.New(b, store.Options{Clock: bubble{}})
		done := make(chan error, 1)
		go func() { _, _, err := s.PutBlob(t.Context(), strings.NewReader("a large blob")); done <- err }()
		time.Sleep(30 * time.Second)
		if length, _ := s.Away(); length != 0 {
			t.Errorf("away for %v", length)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := store.New(&scripted{Bucket: mem.New(), answers: refusals(50)}, store.Options{Clock: bubble{}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, _, err := s.PutBlob(ctx, strings.NewReader("a large blob")); done <- err }()
		time.Sleep(10 * time.Second)
		if length, last := s.Away(); length.Round(time.Second) != 10*time.Second || last == nil {
			t.Errorf("away for %v, %v", length, last)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if length, _ := s.Away(); length != 0 {
			t.Errorf("nobody asks, and it is away for %v", length)
		}
	})
}

// It is said once, and once more when it is over.
func TestMindTellsOfEachAbsenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &mute{scripted: &scripted{Bucket: mem.New()}, length: 2*time.Minute - 300*time.Millisecond} // between two glances
		s := store.New(b, store.Options{Clock: bubble{}})
		ctx, stop := context.WithCancel(t.Context())
		var told []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Mind(ctx, 10*time.Second,
				func(length time.Duration, last error) {
					told = append(told, fmt.Sprint("away ", length.Round(time.Second), last))
				},
				func(length time.Duration) { told = append(told, fmt.Sprint("back after ", length.Round(time.Second))) })
		}()
		if err := s.Put(ctx, "k", []byte("v")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour) // no request is made
		stop()
		<-done
		if diff := cmp.Diff([]string{"away 10s <nil>", "back after 2m0s"}, told); diff != "" {
			t.Error(diff)
		}
	})
}

// A process that was stopped in the middle of a request, or with its machine, knows
// nothing of the store in that time.
func TestMindDoesNotCountWhatItSlept(t *testing.T) {
	for name, c := range map[string]struct {
		mute time.Duration
		want []string
	}{
		"it answers then":     {5 * time.Second, nil},
		"it is away for long": {time.Minute, []string{"away 10s", "back"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := &napping{}
				s := store.New(&mute{scripted: &scripted{Bucket: mem.New()}, length: c.mute}, store.Options{Clock: clock})
				ctx, stop := context.WithCancel(t.Context())
				var told []string
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.Mind(ctx, 10*time.Second, func(length time.Duration, _ error) {
						told = append(told, fmt.Sprint("away ", length.Round(time.Second)))
					},
						func(time.Duration) { told = append(told, "back") })
				}()
				time.AfterFunc(2500*time.Millisecond, func() { clock.slept.Store(int64(time.Minute)) })
				if err := s.Put(ctx, "k", []byte("v")); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				stop()
				<-done
				if diff := cmp.Diff(c.want, told); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// napping is the clock of a machine that was stopped for a while.
type napping struct {
	bubble
	slept atomic.Int64
}

func (n *napping) Boot() time.Duration { return n.bubble.Boot() + time.Duration(n.slept.Load()) }

func refusals(n int) (all []answer) {
	for range n {
		all = append(all, answer{err: fmt.Errorf("too fast: %w", store.ErrBusy)})
	}
	return all
}

// mute gives the first request no answer at all for a while.
type mute struct {
	*scripted
	length time.Duration
}

func (m *mute) wait(ctx context.Context) {
	_ = bubble{}.Sleep(ctx, m.length)
	m.length = 0
}

func (m *mute) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	m.wait(ctx)
	return m.scripted.Create(ctx, key, body)
}

func (m *mute) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	err := m.scripted.Put(ctx, key, body)
	if err == nil {
		m.wait(ctx)
	}
	return err
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
