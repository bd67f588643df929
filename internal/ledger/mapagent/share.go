package mapagent

import (
	"context"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
)

// looksForIdle says whether the next entry depends on which agents are idle, at a flush at
// now; then that is looked for, which is a request or two, once in every balance.
func (h *OwnedChunk) looksForIdle(now time.Duration) bool {
	if h.m.Inventory.Map.Stop != nil || h.Chunk.Isolated() || len(h.suspects) > 0 {
		return false
	}
	if len(h.Queue) == 0 || now-h.balanced < h.m.Pace.balance && !h.handsAllOver() {
		return false
	}
	h.balanced = now
	least := h.m.leastHandoff()
	// Before another had begun with so few, we are done.
	return h.handsAllOver() || least <= h.m.o.Slots || len(h.Queue) >= 2*least
}

// chooseHandoff chooses what another is to do: what only waits for a back-off when we have
// nothing else, or a share of what waits for a slot when agents are idle (M8).
func (h *OwnedChunk) chooseHandoff(now time.Duration, idle []string) *protocol.Handed {
	switch {
	case h.m.Inventory.Map.Stop != nil || h.Chunk.Isolated():
		return nil
	case len(h.suspects) > 0: // for an agent that runs nothing else: this one, when it is done
		return &protocol.Handed{Seed: h.handoffSeed(h.suspects, 0)}
	case len(h.Queue) == 0 && len(h.flight) == 0 && len(h.later) > 0:
		wait := time.Duration(0)
		for _, at := range h.later {
			wait = max(wait, at-now)
		}
		return &protocol.Handed{Seed: h.handoffSeed(sortedItems(h.later), wait)}
	case h.handsAllOver():
		return h.handOverAll(idle)
	case len(idle) == 0:
		return nil
	}
	// An equal share, but no less than keeps another's slots busy.
	share := max((len(h.Queue)+len(idle))/(len(idle)+1), min(len(h.Queue), h.m.leastHandoff()))
	if len(idle) > 1 {
		h.balanced = 0 // the next one at the next flush
	}
	part := slices.Clone(h.Queue[len(h.Queue)-share:])
	slices.Sort(part)
	return &protocol.Handed{Seed: h.handoffSeed(part, 0), To: idle[0]}
}

// handsAllOver says that what waits here is for others, as our agent was drained. A careful
// chunk goes over whole, when its one item has ended.
func (h *OwnedChunk) handsAllOver() bool {
	return h.m.isDrained() && len(h.Queue) > 0 && !h.Chunk.Isolated()
}

// handOverAll hands over all that has not begun; to none, if none is idle.
func (h *OwnedChunk) handOverAll(idle []string) *protocol.Handed {
	e := &protocol.Handed{Seed: h.handoffSeed(slices.Sorted(slices.Values(h.Queue)), 0)}
	if len(idle) > 0 {
		e.To = idle[0]
	}
	return e
}

// handOverTo hands all that is open to another agent: nothing of it has begun here.
func (h *OwnedChunk) handOverTo(ctx context.Context, to string) error {
	for !h.Over {
		e := protocol.ChunkEntry{Ended: &protocol.Ended{}}
		if rest := slices.Concat(h.Queue, h.suspects); len(rest) > 0 {
			slices.Sort(rest)
			e.Handed = &protocol.Handed{Seed: h.handoffSeed(rest, 0), To: to}
		}
		if _, err := h.appendOwn(ctx, e); err != nil {
			return err
		}
	}
	h.leaveWhenOver(ctx)
	return nil
}

// handoffSeed is childSeed with the failures that the next entry records (M3).
func (h *OwnedChunk) handoffSeed(items []int, wait time.Duration) protocol.Seed {
	s := h.Chunk.ChildSeed(items, wait)
	for _, r := range h.results {
		if r.Failed && !r.Final && s.Items.Has(r.Item) {
			had := s.Carry[r.Item]
			had.Failures = h.failuresOf(r.Item)
			had.OOMs = h.Chunk.History[r.Item].OOMs + h.ooms[r.Item]
			if s.Carry == nil {
				s.Carry = map[int]protocol.Carry{}
			}
			s.Carry[r.Item] = had
		}
	}
	return s
}
