package cloud_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/cloud"
)

// bubble is the clock of synctest's bubbles.
type bubble struct{ begun time.Time }

func (bubble) Now() time.Time        { return time.Now() }
func (b bubble) Boot() time.Duration { return time.Since(b.begun) }
func (bubble) Sleep(ctx context.Context, d time.Duration) error {
	return cloud.System.Sleep(ctx, d)
}

func TestARequestIsSentAgainUntilItsAnswerIsClear(t *testing.T) {
	unclear, clear := errors.New("busy"), errors.New("no")
	isUnclear := func(err error) bool { return errors.Is(err, unclear) }
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		send := func(last error) func(context.Context) error {
			sent = 0
			return func(context.Context) error {
				if sent++; sent == 4 {
					return last
				}
				return unclear
			}
		}
		clock := bubble{time.Now()}
		for _, last := range []error{nil, clear} {
			if err := cloud.Retry(t.Context(), clock, time.Minute, isUnclear, send(last)); !errors.Is(err, last) || sent != 4 {
				t.Errorf("after %d requests: %v; want %v after 4", sent, err, last)
			}
		}
		err := cloud.Retry(t.Context(), clock, time.Minute, isUnclear, func(context.Context) error { sent++; return unclear })
		if took := clock.Boot(); !errors.Is(err, unclear) || took < 55*time.Second || took > 80*time.Second {
			t.Errorf("a service that stays away is given up after %v: %v", took, err)
		}
		// A request that hangs has the same time in all.
		err = cloud.Retry(t.Context(), clock, time.Minute, func(error) bool { return true }, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that never answers: %v", err)
		}
	})
}

func TestAServiceThatIsAwayIsToldFromARefusal(t *testing.T) {
	why := errors.New("connection refused")
	var err error = &cloud.Away{Doing: "fetch a token", Err: why}
	if err.Error() != "fetch a token: connection refused" || !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestTheMachinesClockEndsASleepWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := cloud.System.Sleep(ctx, time.Hour); !errors.Is(err, stop) {
		t.Error(err)
	}
	if cloud.System.Boot() < 0 || time.Since(cloud.System.Now()) > time.Hour {
		t.Error("it does not tell the time")
	}
	if name := cloud.FirmwareSays("no_such_file"); name != "" {
		t.Errorf("an absent file of the firmware says %q", name)
	}
}
