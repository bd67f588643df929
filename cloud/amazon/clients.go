package amazon

import (
	"context"
	"sync"

	"github.com/drover-run/drover/fault"
)

// Clients are what sends requests to services, one for each region, made when it is first asked for.
type Clients[C any] struct {
	open func(ctx context.Context, region string) (c C, of string, err error)

	mu  sync.Mutex
	all map[string]C // by region
}

// NewClients keeps what open makes, for a region and as that of the region of; "": the region that this machine's configuration names.
func NewClients[C any](open func(ctx context.Context, region string) (c C, of string, err error)) *Clients[C] {
	return &Clients[C]{open: open, all: map[string]C{}}
}

// In gives the client of a region; "": the region that this machine's configuration names.
func (k *Clients[C]) In(ctx context.Context, region string) (C, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.all[region]; ok {
		return c, nil
	}
	c, of, err := k.open(ctx, region)
	if err != nil {
		return c, err
	}
	k.all[region], k.all[of] = c, c
	return c, nil
}

// CheckConfigured is a fault of kind Missing where this machine has no account to look at the first of some regions with, as
// Configured says it. Without regions it is about the one that the configuration names.
func CheckConfigured(ctx context.Context, regions ...string) error {
	var o Options
	if len(regions) > 0 {
		o.Region = regions[0] // then this machine's configuration needs none
	}
	if have := Configured(ctx, o); !have.OK() {
		return fault.New(fault.Missing, have.Fix, "find an account of AWS: %s", have.Missing)
	}
	return nil
}
