package mapagent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// chunkSearch looks for a chunk that no agent has touched.
type chunkSearch struct {
	*part
	Cursor Search
}

// Search goes through the manifest's chunks for one that no agent has touched (M11).
type Search struct {
	Chunks   int          // that there were
	own, end int          // what is left of the part that is ours to try first
	free     []int        // chunks that a listing has not shown, in the order in which to try them
	known    map[int]bool // touched, by a listing
	Pages    map[int]bool // of chunks' folders, listed
	empty    int          // of these in a row, without one that is free
}

// What a search costs at most. Where thousands look for the last chunks, each has to
// give up soon: the standbys find what is left.
const (
	missesBefore = 2 // tries to claim that fail before a listing is asked
	EmptyPages   = 3 // far away: listings without a free chunk before it gives up
)

func (m *chunkSearch) searchIsOver() bool { return m.Cursor.IsExhausted() && !m.MayListMore() }

// MayListMore says whether a listing may still show what is free.
func (m *chunkSearch) MayListMore() bool {
	f := &m.Cursor
	return len(f.Pages) < min(256, f.Chunks) && (m.o.Near || f.empty < EmptyPages)
}

// DivideChunks gives us the part of n chunks that is ours to try first: by our seat, so that
// thousands that come at once do not all want what others have. Of chunks that were
// added later it is a part of these.
func (f *Search) DivideChunks(n, workers int, id string) {
	if f.Chunks == n {
		return
	}
	_, seat, ok := liveness.PlacementAndIndex(id)
	if !ok {
		seat = int(hash(id) >> 1)
	}
	seat %= workers
	from, more := f.Chunks, max(0, n-f.Chunks)
	*f = Search{Chunks: n, own: from + seat*more/workers, end: from + (seat+1)*more/workers, known: map[int]bool{}, Pages: map[int]bool{}}
}

// IsExhausted says that it knows of no chunk to try.
func (f *Search) IsExhausted() bool { return f.own >= f.end && len(f.free) == 0 }

// NextChunk is the chunk to try now, if it is not out.
func (f *Search) NextChunk() (at int) {
	if len(f.free) > 0 {
		at, f.free = f.free[0], f.free[1:]
		return at
	}
	f.own++
	return f.own - 1
}

// claimUntouched claims a chunk that no agent has touched: first of its own part, and beyond
// that, or after two misses, one that a page of a listing does not show; far away, one
// page at a time.
func (m *MapMember) claimUntouched(ctx context.Context) (*OwnedChunk, error) {
	f, n := &m.Cursor, m.Inventory.Map.Chunks()
	f.DivideChunks(n, max(1, m.Inventory.Map.Spec.Workers), m.ID)
	if m.leavesShare() {
		return nil, nil
	}
	for misses, listed := 0, false; !m.searchIsOver(); {
		if m.MayListMore() && (misses >= missesBefore || f.IsExhausted()) {
			if listed && !m.o.Near {
				break
			}
			misses, listed = 0, true
			if err := m.ListFreeChunks(ctx, n); err != nil {
				return nil, err
			}
			continue
		}
		at := f.NextChunk()
		id, seed := m.Inventory.Map.Seed(at)
		if _, closed := m.Inventory.NamedChunks[id]; closed || f.known[at] {
			continue
		}
		c := m.Inventory.ChunkOf(id, seed)
		if c.N > 0 {
			continue
		}
		if h, err := m.claimChunk(ctx, c); h != nil || err != nil {
			return h, err
		}
		misses++
	}
	return nil, nil
}

// ListFreeChunks lists one of the folders that chunks are spread over: those of its chunks that
// are not there are to be tried next, by each agent in another order.
func (m *chunkSearch) ListFreeChunks(ctx context.Context, n int) error {
	f := &m.Cursor
	dice := int(hash(fmt.Sprintf("%s %d", m.ID, len(f.Pages))) >> 1)
	hh := dice % min(256, n)
	for f.Pages[hh] {
		hh = (hh + 1) % min(256, n)
	}
	f.Pages[hh] = true
	there := map[string]bool{}
	prefix := fmt.Sprintf("%s/chunks/%02x/", protocol.JobDir(m.Inventory.Path), hh)
	for o, err := range m.Inventory.World.Store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("find work: %w", err)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
		there[id] = true
	}
	if !m.o.Near {
		f.free = nil // others have been at these since
	}
	var free []int
	for i := hh; i < n; i += 256 {
		if id, _ := m.Inventory.Map.Seed(i); there[id] {
			f.known[i] = true
		} else {
			free = append(free, i)
		}
	}
	if f.empty++; len(free) > 0 {
		at := dice % len(free)
		f.free, f.empty = slices.Concat(free[at:], free[:at], f.free), 0
	}
	return nil
}

func hash(text string) uint32 {
	h := uint32(2166136261) // FNV-1a, without what hash/fnv allocates: a roll has thousands
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h
}
