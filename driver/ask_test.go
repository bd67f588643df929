package driver

import (
	"context"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
)

// Targets are asked at the same time, and one that does not answer is left after a while, in words.
func TestTargetsAreAskedAtTheSameTime(t *testing.T) {
	here := make(chan struct{})
	var errs [2]error
	askAll(t.Context(), 2, 10*time.Millisecond, func(ctx context.Context, i int) {
		if i == 0 {
			here <- struct{}{} // both are asked, or this one would wait for ever
		} else {
			<-here
		}
		d := KeepOffers(silent{func() {}})
		_, errs[i] = d.Offer(ctx, Needs{})
	})
	for _, err := range errs {
		if fault.KindOf(err) != fault.Lost || err.Error() != "it has not answered within 10ms" || fault.Hint(err) != "Check the network, or the address." {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	AskAll(ctx, 1, func(ctx context.Context, _ int) {
		d := KeepOffers(silent{cancel})
		if _, err := d.Offer(ctx, Needs{}); err != context.Canceled {
			t.Error(err)
		}
	})
}

// silent is a driver that never answers an Offer.
type silent struct{ stop func() }

func (s silent) Offer(ctx context.Context, _ Needs) (Offer, error) {
	s.stop()
	<-ctx.Done()
	return Offer{}, ctx.Err()
}
func (silent) Start(context.Context, Request) (Handle, error)          { return Handle{}, nil }
func (silent) Status(context.Context, Handle) ([]Member, error)        { return nil, nil }
func (silent) Stop(context.Context, Handle, time.Duration, bool) error { return nil }
func (silent) List(context.Context) ([]Handle, error)                  { return nil, nil }
