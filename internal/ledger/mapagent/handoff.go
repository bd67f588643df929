package mapagent

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// handoffs is what owners and idle agents write for each other: idle announcements, and the
// chunks that were handed off for them (M8).
type handoffs struct {
	*part
	handedOver      []chunks.Child // by us, not known to be claimed
	handoffsToWrite []chunks.Child // of these, those that an idle agent is to read of
	asked           int            // how often for idle agents
	announced       bool           // our name stands among the idle
	IdleFlagSeen    bool           // an agent of the job has been idle, ever
}

// noteHandoff notes a chunk that we handed over: no other agent may know of it yet.
func (m *handoffs) noteHandoff(c chunks.Child) {
	m.Inventory.ChunkOf(c.ID, c.Seed)
	m.handedOver = append(m.handedOver, c)
	if c.To != "" {
		m.handoffsToWrite = append(m.handoffsToWrite, c)
	}
}

// claimOwnHandoff takes back what no agent has claimed, when our own is done.
func (m *MapMember) claimOwnHandoff(ctx context.Context) (*OwnedChunk, error) {
	for i := 0; i < len(m.handedOver); i++ {
		c := m.Inventory.ChunkOf(m.handedOver[i].ID, m.handedOver[i].Seed)
		if _, err := m.Inventory.ReadChunk(ctx, c, nil); err != nil {
			return nil, err
		}
		if c.N > 0 {
			m.handedOver = slices.Delete(m.handedOver, i, i+1)
			i--
			continue
		}
		if h, err := m.claimChunk(ctx, c); h != nil || err != nil {
			return h, err
		}
	}
	return nil, nil
}

// claimHandedTo claims what an owner handed over for us.
func (m *MapMember) claimHandedTo(ctx context.Context) (*OwnedChunk, error) {
	if !m.announced {
		return nil, nil
	}
	b, err := m.Inventory.World.ReadObject(ctx, m.IdleKey(m.ID), protocol.MaxRecord)
	if err != nil || len(b) == 0 {
		return nil, ignoreAbsent(err)
	}
	m.announced = false // our hand was taken down: raise it again when this comes to nothing
	c, err := m.findHandedChunk(ctx, string(b))
	if c == nil || err != nil {
		return nil, err
	}
	if _, err := m.Inventory.ReadChunk(ctx, c, nil); err != nil {
		return nil, err
	}
	return m.claimChunk(ctx, c)
}

// findHandedChunk finds a chunk that was handed over, by its id, in its parent's log; nil
// when there is none (the entry did not count).
func (m *handoffs) findHandedChunk(ctx context.Context, id string) (*chunks.Chunk, error) {
	dot := strings.LastIndexByte(id, '.')
	if dot < 0 {
		return m.Inventory.ManifestChunk(id), nil
	}
	parent, err := m.findHandedChunk(ctx, id[:dot])
	if parent == nil || err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(id[dot+1:]); err != nil || parent.N <= n {
		if _, err := m.Inventory.ReadChunk(ctx, parent, nil); err != nil {
			return nil, err
		}
	}
	for _, c := range parent.Children {
		if c.ID == id {
			return m.Inventory.ChunkOf(id, c.Seed), nil
		}
	}
	return nil, nil
}

// writeHandoffs writes to idle agents what was handed over for them.
func (m *handoffs) writeHandoffs(ctx context.Context) error {
	for len(m.handoffsToWrite) > 0 {
		c := m.handoffsToWrite[0]
		m.handoffsToWrite = m.handoffsToWrite[1:]
		if err := m.Inventory.World.Store.Put(ctx, m.IdleKey(c.To), []byte(c.ID)); err != nil {
			return err
		}
	}
	return nil
}
