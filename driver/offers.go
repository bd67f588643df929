package driver

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// offerTime is how long an Offer is kept. A command asks for one several times in the seconds
// between its plan and its first agents; what a target has changes more slowly.
const offerTime = 30 * time.Second

// KeepOffers returns d with Offers that are kept for 30 seconds, for the same Needs. An error is
// not kept. Target.Open makes every driver so.
func KeepOffers(d Driver) Driver { return keepOffers(d, true) }

// keepOffers is KeepOffers for a target that keeps machines, or refuses to.
func keepOffers(d Driver, keeps bool) Driver {
	return &offerKeeper{Driver: d, keeps: keeps, kept: map[string]keptOffer{}}
}

type offerKeeper struct {
	Driver
	keeps bool // Properties.Keeps

	mu   sync.Mutex
	kept map[string]keptOffer // by the text of the Needs
}

type keptOffer struct {
	Offer
	until time.Time
}

func (k *offerKeeper) Offer(ctx context.Context, n Needs) (Offer, error) {
	if ctx.Err() != nil {
		return Offer{}, context.Cause(ctx)
	}
	if n.Keep > 0 && !k.keeps {
		return Offer{Reason: "the target keeps no machines for a next job", Hint: "Leave out `--keep-warm`."}, nil
	}
	key := fmt.Sprintf("%+v", n)
	k.mu.Lock()
	o, ok := k.kept[key]
	k.mu.Unlock()
	if ok && time.Now().Before(o.until) {
		return o.Offer, nil
	}
	fresh, err := k.Driver.Offer(ctx, n)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // which says more than that of a request that was cut off
	}
	if err != nil {
		return fresh, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[key] = keptOffer{fresh, time.Now().Add(offerTime)}
	return fresh, nil
}
