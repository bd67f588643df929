package remote

import (
	"context"
	"time"
)

// stopOrder is an order to stop. A supervisor asks its agent to stop when it reads the order,
// and kills it when the grace has passed since then.
type stopOrder struct {
	V     int           `json:"v"`
	Nonce string        `json:"nonce"`
	Grace time.Duration `json:"grace"` // nanoseconds
}

// order records an order to stop, unless there is one with as little grace. Each order has
// less grace than the one before it, so the newest is the one that ends soonest.
func (p *Placement) order(ctx context.Context, grace time.Duration) error {
	grace = max(grace, 0)
	for {
		last, k, err := p.newestOrder(ctx)
		if err != nil || k > 0 && last.Grace <= grace {
			return err
		}
		if _, mine, err := createJSON(ctx, p.store, p.key("stop", k+1), stopOrder{version, nonce(), grace}); mine || err != nil {
			return err
		}
	}
}

// newestOrder is the order to stop that counts, and its number; 0: there is none.
func (p *Placement) newestOrder(ctx context.Context) (o stopOrder, k int, err error) {
	for object, err := range p.store.List(ctx, p.prefix+"stop/") {
		if err != nil {
			return o, 0, err
		}
		k = max(k, readNumber(object.Key[len(p.prefix+"stop/"):]))
	}
	if k > 0 {
		err = p.get(ctx, p.key("stop", k), &o)
		o.Grace = max(o.Grace, 0)
	}
	return o, k, err
}

// orderRemoval records that the whole placement is to be removed once no agent is left.
func (p *Placement) orderRemoval(ctx context.Context) error {
	_, _, err := createJSON(ctx, p.store, p.prefix+"remove", asked{version, nonce()})
	return err
}
