package remote

import (
	"context"
	"fmt"
	"hash/fnv"
	"path"

	"github.com/drover-run/drover/fault"
)

// Claim makes a process of the engine an agent of the placement, and gives its number. The
// first claimant of an index has the index as its number. When the engine starts that process
// again, the new process has the next number of the same index: index + agents, and so on. ok
// is false for a process of another submission of the placement, when the engine was asked
// twice: that process must exit. A claimant that asks again gets the number that it has.
//
// A claimant of the index Anywhere becomes an agent with a number that none has had: one that was requested, else a higher one.
func (p *Placement) Claim(ctx context.Context, c Claimant) (n int, ok bool, err error) {
	if c.Index == Anywhere && c.ID != "" && c.Process != "" && c.Attempt == 1 {
		return p.claimAny(ctx, c)
	}
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

// claimAny claims a number that none has. Many claim at the same time: each begins at another number, by the digest of its name.
func (p *Placement) claimAny(ctx context.Context, c Claimant) (n int, ok bool, err error) {
	had := map[int]bool{}
	prefix, next := p.prefix+"up/", p.Request.Agents
	for o, err := range p.store.List(ctx, prefix) {
		if err != nil {
			return 0, false, err
		}
		n := readNumber(o.Key[len(prefix):])
		had[n], next = true, max(next, n+1)
	}
	first := fnv.New32a()
	first.Write([]byte(c.Process))
	for i := range p.Request.Agents {
		n := (int(first.Sum32()%uint32(p.Request.Agents)) + i) % p.Request.Agents
		if had[n] {
			continue
		}
		if ok, err := p.claimNumber(ctx, n, c); ok || err != nil {
			return n, ok, err
		}
	}
	for n = next; n <= maxNumber; n++ {
		if ok, err := p.claimNumber(ctx, n, c); ok || err != nil {
			return n, ok, err
		}
	}
	return 0, false, nil
}

// claimNumber claims a number, unless another claimant has it.
func (p *Placement) claimNumber(ctx context.Context, n int, c Claimant) (ok bool, err error) {
	key := p.key("up", n)
	held, mine, err := createJSON(ctx, p.store, key, c)
	if mine || err != nil {
		return mine, err
	}
	var other Claimant
	err = readJSON(held, key, &other)
	return other == c, err
}

// Turn claims turn number k of what one of the placement's agents does for all, such as what an engine must hear now and
// then. It is one agent's.
func (p *Placement) Turn(ctx context.Context, k int) (mine bool, err error) {
	_, mine, err = createJSON(ctx, p.store, p.key("turn", k), asked{version, nonce()})
	return mine, err
}

// Present notes that a process takes part in turn k, and gives how many have noted that in this turn or the one before: a
// process of which neither has a word may be gone.
func (p *Placement) Present(ctx context.Context, k int, process string) (n int, err error) {
	if _, _, err := createJSON(ctx, p.store, fmt.Sprintf("%s%d/%s", p.prefix+"present/", k, process), asked{version, nonce()}); err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for _, turn := range []int{k - 1, k} {
		for o, err := range p.store.List(ctx, fmt.Sprintf("%spresent/%d/", p.prefix, turn)) {
			if err != nil {
				return 0, err
			}
			seen[path.Base(o.Key)] = true
		}
	}
	return len(seen), nil
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
