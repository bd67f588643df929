package driver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/job/where"
)

// asked counts what it is asked for, and answers with err.
type asked struct {
	Driver
	times int
	err   error
}

func (a *asked) Offer(context.Context, Needs) (Offer, error) {
	a.times++
	return Offer{Cores: a.times}, a.err
}

func TestAnOfferIsKeptForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		d := KeepOffers(a)
		needs := func(zone string) Needs {
			e, err := where.Parse("zone == " + zone)
			if err != nil {
				t.Fatal(err)
			}
			return Needs{Agents: 2, Labels: map[string]string{"a": "1", "b": "2"}, Where: e, Args: []string{"x"}}
		}
		expect := func(n Needs, want int, when string) {
			t.Helper()
			if o, err := d.Offer(t.Context(), n); err != nil || o.Cores != want {
				t.Errorf("%s: answer %d, %v; want answer %d", when, o.Cores, err, want)
			}
		}
		expect(needs("a"), 1, "first")
		expect(needs("a"), 1, "again")
		expect(needs("b"), 2, "other needs")
		expect(needs("a"), 1, "the first needs again")
		time.Sleep(offerTime)
		expect(needs("a"), 3, "half a minute later")
		a.err = errors.New("no network")
		if _, err := d.Offer(t.Context(), needs("c")); err == nil {
			t.Error("an error is lost")
		}
		a.err = nil
		expect(needs("c"), 5, "after an error")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Offer(ctx, needs("c")); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
	})
}
