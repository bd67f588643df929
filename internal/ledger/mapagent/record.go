package mapagent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Flush appends what is due, or reads the log's end: either renews the licence.
func (h *OwnedChunk) Flush(ctx context.Context) (Outcome, error) {
	for !h.Over {
		e, err := h.dueEntry(ctx)
		if err != nil {
			return h.outcome, err
		}
		if e == nil && h.Unsure == nil {
			sent, err := h.m.Inventory.ReadChunk(ctx, h.Chunk, nil)
			if err != nil {
				return h.outcome, err
			}
			if err := h.renewDeadline(ctx, sent); err != nil {
				return h.outcome, err
			}
			break
		}
		if e == nil {
			e = &protocol.ChunkEntry{}
		}
		mine, err := h.appendOwn(ctx, *e)
		if err != nil {
			return h.outcome, err
		}
		if mine && len(h.results) == 0 && h.naming == 0 {
			break
		}
	}
	h.leaveWhenOver(ctx)
	return h.outcome, nil
}

// Record appends the results that there are, and nothing else: for a caller that is about to
// Release the chunk, and has to wait for some of its items before.
func (h *OwnedChunk) Record(ctx context.Context) error {
	for !h.Over && len(h.results) > 0 {
		if _, err := h.appendOwn(ctx, protocol.ChunkEntry{Results: h.results}); err != nil {
			return err
		}
	}
	return nil
}

// appendOwn writes an entry of ours, as what comes after all that was read. An
// entry with an outcome that stayed unknown comes first, with its own bytes (L1), and the caller
// decides again.
func (h *OwnedChunk) appendOwn(ctx context.Context, e protocol.ChunkEntry) (mine bool, err error) {
	body, again := h.Unsure, h.Unsure != nil
	var known *protocol.ChunkEntry
	if !again {
		e.Claim, known = h.claim, &e
		body = h.m.Inventory.SealEntry(h.m.ID, known)
	}
	mine, sent, err := h.m.Inventory.SendEntry(ctx, h.Chunk, body, known)
	if err != nil {
		if errors.Is(err, store.ErrUnclear) {
			h.Unsure = body
		}
		return false, err
	}
	if mine { // else there may be more to read
		if err := h.renewDeadline(ctx, sent); err != nil {
			return false, err
		}
	}
	return mine && !again, h.m.writeHandoffs(ctx)
}

// renewDeadline moves the start deadline on, after a request that left at sent found the end of
// the chunk's log. That request proves nothing once gc has removed the job: the entries by
// which another agent took the chunk are deleted then, and job.json before them. So
// job.json is looked for after it, if it was not seen a moment ago (E6).
func (h *OwnedChunk) renewDeadline(ctx context.Context, sent time.Duration) error {
	err := liveness.CheckSeenRecently(ctx, h.m.Inventory.World, h.m.Inventory.Path)
	switch {
	case errors.Is(err, liveness.ErrRemoved): // Poll says so, too; until then nothing begins
		h.Over, h.outcome = true, Fenced
	case err != nil:
		return err
	default:
		h.lastRead = sent
	}
	return nil
}

// noteEntry takes in an entry that the chunk's log is found to hold, whatever it was read
// for. One of ours may be of a request that we had given up: it landed.
func (h *OwnedChunk) noteEntry(e protocol.ChunkEntry) {
	if h.Over {
		return
	}
	h.Unsure = nil // its number is taken
	if e.By == h.m.ID && e.Claim == h.claim {
		h.noteRecorded(e)
	}
	switch {
	case h.Chunk.Closed:
		h.Over, h.outcome = true, Over
	case h.Chunk.Owner != h.m.ID || h.Chunk.Claim != h.claim:
		h.Over, h.outcome = true, Fenced
	}
}

// noteRecorded brings our side up to date with an entry of ours that is in the log.
func (h *OwnedChunk) noteRecorded(e protocol.ChunkEntry) {
	n := 0 // the buffer may have grown since
	for n < min(len(e.Results), len(h.results)) && h.results[n].Item == e.Results[n].Item && h.results[n].Try == e.Results[n].Try {
		n++
	}
	for _, r := range h.results[:n] {
		h.m.recorded++
		if r.FailedForGood() {
			h.m.failed++
		}
		if r.Failed {
			h.fails[r.Item]--
		}
		if r.Kind == job.FailMemory {
			h.ooms[r.Item]--
		}
		if !r.Failed || r.Final {
			h.keepForSnapshot(r)
		}
		h.bytes -= size(r)
	}
	if n < len(h.results) {
		h.results = h.results[n:]
	} else { // e may share its room, and is done with
		h.results = h.results[:0]
		clear(h.fails)
		clear(h.ooms)
	}
	if len(e.Starting) > 0 {
		h.named, h.naming = e.Starting[0], 0
	}
	id := protocol.ChildID(h.Chunk.ID, h.Chunk.N-1)
	if i := len(h.Chunk.Children) - 1; e.Handed != nil && i >= 0 && h.Chunk.Children[i].ID == id {
		for item := range e.Handed.Items.All {
			delete(h.later, item)
		}
		h.Queue = slices.DeleteFunc(h.Queue, e.Handed.Items.Has)
		h.suspects = slices.DeleteFunc(h.suspects, e.Handed.Items.Has)
		h.m.noteHandoff(h.Chunk.Children[i])
	}
}

// keepForSnapshot keeps a result for the snapshot.
func (h *OwnedChunk) keepForSnapshot(r protocol.Result) {
	if h.kept += size(r); h.kept > chunks.MaxSnapshot {
		h.cut, h.encoded = true, nil
	}
	if h.cut {
		return
	}
	if len(h.encoded) > 0 {
		h.encoded = append(h.encoded, ',')
	}
	h.encoded = protocol.AppendResult(h.encoded, &r)
}

// dueEntry is the entry to append now, nil for none: what nextEntry decides, after a look
// for idle agents where it depends on these.
func (h *OwnedChunk) dueEntry(ctx context.Context) (*protocol.ChunkEntry, error) {
	now := h.m.Inventory.Now()
	h.endBackOffs(now)
	if !h.looksForIdle(now) {
		return h.nextEntry(now, nil), nil
	}
	idle, err := h.m.IdleAgents(ctx)
	if err != nil {
		return nil, err
	}
	return h.nextEntry(now, idle), nil
}

// nextEntry decides, without I/O, what the owner appends at now: results, the item to be
// named, the suspects, a part for an idle agent or for a back-off, and the end, in one (L4);
// nil for nothing. idle are the agents that a look for idle ones has found.
func (h *OwnedChunk) nextEntry(now time.Duration, idle []string) *protocol.ChunkEntry {
	e := protocol.ChunkEntry{Results: h.results, Handed: h.chooseHandoff(now, idle)}
	if h.naming > 0 {
		e.Starting = []int{h.naming}
	}
	if h.endsChunk(e) {
		e.Ended = &protocol.Ended{}
	}
	if len(e.Results) == 0 && len(e.Starting) == 0 && e.Handed == nil && e.Ended == nil {
		return nil
	}
	return &e
}

// endsChunk says whether nothing of the chunk is open once e is recorded.
func (h *OwnedChunk) endsChunk(e protocol.ChunkEntry) bool {
	left := len(h.Queue) + len(h.suspects) + len(h.later) + len(h.flight)
	if e.Handed != nil {
		left -= e.Handed.Items.Len()
	}
	return left == 0
}

// Wind records what there is and ends the chunk, because the job was stopped: its
// items have been ended. Results that came before count (E2). Of a job that has
// settled it finds out that another ended the chunk.
func (h *OwnedChunk) Wind(ctx context.Context) error {
	for !h.Over && h.m.Inventory.Map.Stop != nil {
		e := protocol.ChunkEntry{Results: h.results, Ended: &protocol.Ended{By: h.m.Inventory.Map.StopAt}}
		if _, err := h.appendOwn(ctx, e); err != nil {
			return err
		}
	}
	if !h.Over && h.m.Inventory.Map.Settled != nil {
		if _, err := h.m.Inventory.ReadChunk(ctx, h.Chunk, nil); err != nil {
			return err
		}
	}
	h.leaveWhenOver(ctx)
	return nil
}

// Release gives the chunk back. Its tries in flight were ended: they count as
// interrupted, unless a person asked; then it is only said how many there were.
func (h *OwnedChunk) Release(ctx context.Context, asked bool) error {
	for !h.Over {
		gone := protocol.Released{Flight: sortedItems(h.flight)}
		if asked {
			gone = protocol.Released{Stopped: len(gone.Flight)}
		}
		e := protocol.ChunkEntry{Results: h.results, Released: &gone}
		if left := len(h.Queue) + len(h.suspects) + len(h.later) + len(h.flight); left == 0 {
			e.Released, e.Ended = nil, &protocol.Ended{}
		}
		if _, err := h.appendOwn(ctx, e); err != nil {
			return err
		}
	}
	h.leaveWhenOver(ctx)
	return nil
}

// leaveWhenOver takes a hold that is over from its member, and leaves the chunk's snapshot.
func (h *OwnedChunk) leaveWhenOver(ctx context.Context) {
	if !h.Over {
		return
	}
	before := len(h.m.OwnedChunks)
	h.m.OwnedChunks = slices.DeleteFunc(h.m.OwnedChunks, func(o *OwnedChunk) bool { return o == h })
	if len(h.m.OwnedChunks) == before || !h.Chunk.Closed || h.m.o.Near && h.Chunk.Tally == (job.Tally{Items: h.Chunk.Tally.Items, Cancelled: h.Chunk.Tally.Items}) {
		return // of one that was cancelled whole its log is as short
	}
	// Results of claims before ours are in the log alone.
	cut := h.cut || h.Chunk.Claim > 1
	results := h.encoded
	if cut {
		results = nil
	}
	store := h.m.Inventory.SnapshotWriter(h.Chunk, results, cut)
	if h.m.o.Later == nil {
		_ = store(ctx) // an index: a store that is full loses nothing by it
		return
	}
	h.m.o.Later(store)
}
