package mapagent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/store"
)

// runsIsolated says that it must not take more: items of one hold run alone, or the
// others asked for have not had their turn.
func (m *MapMember) runsIsolated() bool {
	return slices.ContainsFunc(m.OwnedChunks, (*OwnedChunk).Isolated)
}

// holdsOver says that a hold is over and its items may still run: what another has handed
// on of it must not begin beside them.
func (m *MapMember) holdsOver() bool {
	return slices.ContainsFunc(m.OwnedChunks, func(h *OwnedChunk) bool { return h.Over })
}

// MaxPolite is how long a fast agent leaves the others' share of a small job to
// them, as they may still be preparing.
const MaxPolite = 5 * time.Second

// leavesShare says that a further chunk may be another agent's share.
func (m *MapMember) leavesShare() bool {
	f := m.Inventory.Map
	workers := max(1, f.Spec.Workers)
	share := (f.Chunks() + workers - 1) / workers
	return m.claims >= share && m.claims < 8 && len(m.OwnedChunks) > 0 && m.Inventory.Now()-m.began < MaxPolite
}

// claimChunk takes a chunk that was read to its end, if no other was quicker.
func (m *MapMember) claimChunk(ctx context.Context, c *chunks.Chunk) (*OwnedChunk, error) {
	for {
		if h := m.adoptClaim(c); h != nil {
			return h, nil
		}
		if c.Owner != "" {
			m.observer.NoteEntry(c.Sign())
		}
		why, free := c.Free(m.deathOf)
		if !free || !m.mayBegin() || !m.Inventory.BackOffIsOver(c) || c.Isolated() && len(m.OwnedChunks) > 0 || m.ownsChunk(c) || m.holdsOver() {
			return nil, nil
		}
		e := protocol.ChunkEntry{Claimed: &protocol.Claimed{Agent: m.ID, Host: m.Self, N: c.Claim + 1, Why: why, Risk: m.Risk}}
		mine, sent, err := m.Inventory.AppendToChunk(ctx, c, m.ID, e)
		if errors.Is(err, store.ErrUnclear) {
			m.AddUnsure(UnsureClaim{Chunk: c, N: c.N})
		}
		if err != nil {
			return nil, err
		}
		if !mine {
			continue // another wrote first: decide again
		}
		m.claims++
		m.resting = 0
		h := m.newOwned(c, 0)
		m.OwnedChunks = append(m.OwnedChunks, h)
		if err := h.renewDeadline(ctx, sent); err != nil {
			return h, err
		}
		return h, m.withdrawIdle(ctx)
	}
}

// adoptClaim takes on a chunk that is ours and that we do not hold: a claim that we had
// given up has landed.
func (m *MapMember) adoptClaim(c *chunks.Chunk) *OwnedChunk {
	if c.Owner != m.ID || m.ownsChunk(c) {
		return nil
	}
	h := m.newOwned(c, 0) // its first Flush gives the licence
	m.OwnedChunks = append(m.OwnedChunks, h)
	m.resting = 0
	return h
}

// UnsureClaim is a claim with an unknown outcome: it may have landed under its number
// of the chunk's log, or may land there as long as the number is free.
type UnsureClaim struct {
	Chunk *chunks.Chunk
	N     int
}

func (m *MapMember) AddUnsure(u UnsureClaim) {
	if !slices.Contains(m.Unsure, u) {
		m.Unsure = append(m.Unsure, u)
	}
}

// ResolveUnsure checks the claims with an outcome that stayed unknown, each until its number
// holds an entry: if that is the claim, no other agent works on the chunk (L1). It returns
// the first chunk that is ours. A claim with a number that is still free is sent again if the
// chunk may be claimed now, and is left for later if not; others are not kept waiting.
func (m *MapMember) ResolveUnsure(ctx context.Context) (*OwnedChunk, error) {
	for _, u := range slices.Clone(m.Unsure) {
		if _, err := m.Inventory.ReadChunk(ctx, u.Chunk, nil); err != nil {
			return nil, err
		}
		h, err := m.claimChunk(ctx, u.Chunk)
		if err != nil {
			return nil, err
		}
		if u.Chunk.N > u.N {
			m.Unsure = slices.DeleteFunc(m.Unsure, func(o UnsureClaim) bool { return o == u })
		}
		if h != nil {
			return h, nil
		}
	}
	return nil, nil
}

func (m *MapMember) ownsChunk(c *chunks.Chunk) bool {
	return slices.ContainsFunc(m.OwnedChunks, func(h *OwnedChunk) bool { return h.Chunk == c })
}
