package remote

import (
	"context"

	"github.com/drover-run/drover/fault"
)

// Claim makes a process of the engine an agent of the placement, and gives its number. The
// first claimant of an index has the index as its number. When the engine starts that process
// again, the new process has the next number of the same index: index + agents, and so on. ok
// is false for a process of another submission of the placement, when the engine was asked
// twice: that process must exit. A claimant that asks again gets the number that it has.
func (p *Placement) Claim(ctx context.Context, c Claimant) (n int, ok bool, err error) {
	if c.ID == "" || c.Index < 0 || c.Index >= p.Request.Agents || c.Attempt < 1 {
		return 0, false, fault.New(fault.Invalid, "", "claim agent: %s has no agent %d of %d", p.Handle, c.Index, p.Request.Agents)
	}
	for n = c.Index; ; n += p.Request.Agents {
		key := p.key("up", n)
		held, mine, err := createJSON(ctx, p.store, key, c)
		if mine || err != nil {
			return n, mine, err
		}
		var other Claimant
		switch err := readJSON(held, key, &other); {
		case err != nil:
			return 0, false, err
		case other == c:
			return n, true, nil
		case other.ID != c.ID || other.Index != c.Index || other.Attempt > c.Attempt:
			return 0, false, nil
		}
	}
}

// Ended records how an agent ended. The first record stands.
func (p *Placement) Ended(ctx context.Context, n int, e End) error {
	e.V = version
	_, _, err := createJSON(ctx, p.store, p.key("end", n), e)
	return err
}

// Agent is the process that is agent number n. ok is false when none is.
func (p *Placement) Agent(ctx context.Context, n int) (c Claimant, ok bool) {
	err := p.get(ctx, p.key("up", n), &c)
	return c, err == nil
}
