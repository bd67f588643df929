package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// MapView is a reader's view of a map: for showing, from the store alone. Each
// Refresh reads only what is new. Not for concurrent use.
type MapView struct {
	w         protocol.World
	p         job.Path
	j         job.Job
	Inventory *chunks.Inventory
	// newest are the failures that were seen last, the newest last.
	newest []ItemReport
}

// MapReport is a map as any reader sees it.
type MapReport struct {
	Job   job.Job
	Map   *chunks.Map
	Tally job.Tally // after the end, that of `settled`
	State job.State
	// Flight is how many tries run now, by the agents' heartbeats.
	Flight int
	// Retried counts failures that were followed, or will be, by another try.
	Retried    int
	Chunks     int // that are known by now
	Done       int // of them
	Heartbeats []protocol.Heartbeat
	Living     []protocol.Heartbeat
	Log        []protocol.JobEntry
	// Newest are failures that this view has read, also those that were followed by
	// another try; the newest last. Of chunks that were done when it began it reads none.
	Newest []ItemReport
}

// NewMapView makes a view of map j.
func NewMapView(w protocol.World, j job.Job) *MapView {
	return &MapView{w: w, p: j.Path(), j: j, Inventory: chunks.NewInventory(w, j, "")}
}

// newestFailures is how many of them a view keeps: as many as a person reads.
const newestFailures = 8

// noteFailures keeps the newest that count among results.
func (v *MapView) noteFailures(results []protocol.Result, by string) {
	for _, r := range results {
		if !r.Failed {
			continue
		}
		at, _ := slices.BinarySearchFunc(v.newest, r.Ended, func(had ItemReport, ended int64) int { return cmp.Compare(had.Result.Ended, ended) })
		if v.newest = slices.Insert(v.newest, at, ItemReport{N: r.Item, State: job.ItemFailed, Result: &r, Agent: by}); len(v.newest) > newestFailures {
			v.newest = v.newest[1:]
		}
	}
}

// viewProbes is how many chunks that no agent seemed to have touched a Refresh looks
// at, beside those that heartbeats name.
const viewProbes = 64

// Refresh reads on. It changes nothing. Counts of a chunk come from its log, or
// from its snapshot (V1).
func (v *MapView) Refresh(ctx context.Context) (MapReport, error) {
	r := MapReport{Job: v.j, Map: v.Inventory.Map}
	v.Inventory.OnResults = v.noteFailures
	defer func() { v.Inventory.OnResults, v.Inventory.ReadJustNow = nil, nil }() // Ended reads several parts at once
	if err := liveness.CheckSeenRecently(ctx, v.w, v.p); err != nil {
		return r, err
	}
	if err := v.Inventory.ReadJobLog(ctx); err != nil {
		return r, err
	}
	r.Log = v.Inventory.JobLog.Entries
	if len(r.Log) == 0 {
		if err := tasks.CheckSubmitted(ctx, v.w, v.p); err != nil {
			return r, err
		}
	}
	if err := v.readHeartbeats(ctx, &r); err != nil {
		return r, err
	}
	probes := viewProbes
	if v.Inventory.Map.Settled != nil || len(r.Living) == 0 {
		probes = v.Inventory.Map.Chunks()
	}
	if s := v.Inventory.Map.Settled; s != nil && s.Tally != nil {
		r.Tally = *s.Tally
	} else {
		var err error
		if r.Tally, _, err = v.Inventory.ScanChunks(ctx, chunks.Share{}, probes, nil); err != nil {
			return r, err
		}
		v.countItems(&r)
	}
	r.State, r.Newest = r.deriveState(), v.newest
	return r, nil
}

func (v *MapView) readHeartbeats(ctx context.Context, r *MapReport) (err error) {
	if v.Inventory.Map.Settled != nil {
		return nil
	}
	if r.Heartbeats, r.Living, err = readHeartbeats(ctx, v.w, v.p); err != nil {
		return err
	}
	var held []*chunks.Chunk
	for _, b := range r.Living {
		r.Flight += b.Flight
		for _, id := range b.Chunks { // read it, though no agent had touched it
			if c := v.Inventory.ManifestChunk(id); c != nil && !v.Inventory.Map.Done(c) {
				held = append(held, c)
			}
		}
	}
	return v.readAhead(ctx, held)
}

// readAhead reads on in chunks that agents hold, several at once: those are most of
// what a look reads, an entry after the other in each. survey then passes them.
func (v *MapView) readAhead(ctx context.Context, held []*chunks.Chunk) error {
	found := make([][][]byte, len(held))
	err := inLanes(ctx, v.w, len(held), func(ctx context.Context, i int) error {
		for c := held[i]; ; {
			b, err := v.w.ReadObject(ctx, v.Inventory.EntryKey(c, c.N+len(found[i])), protocol.MaxEntry)
			if errors.Is(err, store.ErrNotExist) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read chunk %s: %w", c.ID, err)
			}
			found[i] = append(found[i], b)
		}
	})
	if err != nil {
		return err
	}
	v.Inventory.ReadJustNow = map[string]bool{}
	for i, c := range held {
		if v.Inventory.ReadJustNow[c.ID] { // two named it: one of them has lost it
			continue
		}
		for _, b := range found[i] {
			if err := v.Inventory.ApplyEncoded(c, b, v.Inventory.EntryKey(c, c.N), nil); err != nil {
				return err
			}
		}
		v.Inventory.ReadJustNow[c.ID] = true
	}
	return nil
}

func (v *MapView) countItems(r *MapReport) {
	for id := range v.Inventory.ChunksOf(chunks.Share{}) {
		r.Chunks++
		if _, done := v.Inventory.ChunkIsDone(id); done {
			r.Done++
		}
		if c := v.Inventory.ChunksRead[id]; c != nil {
			for item, had := range c.History {
				if c.StateOf(item) != chunks.StateHandedOn {
					r.Retried += had.Failures
				}
				if c.StateOf(item) == chunks.StateFailed && had.Failures > 0 {
					r.Retried--
				}
			}
		}
	}
}

// deriveState derives where the map stands; INTERRUPTED is computed, as for a run.
func (r MapReport) deriveState() job.State {
	switch {
	case r.Map.Settled != nil:
		return r.Map.Settled.State
	case r.Map.Paused && r.Map.Stop == nil:
		return job.Paused
	case len(r.Living) == 0 && len(r.Heartbeats) > 0:
		return job.Interrupted
	case slices.ContainsFunc(r.Living, func(b protocol.Heartbeat) bool { return protocol.Works(b.Phase) }):
		return job.Running
	case slices.ContainsFunc(r.Living, func(b protocol.Heartbeat) bool { return b.Phase != protocol.Queued }):
		return job.Starting
	}
	return job.Pending
}

// ItemReport is one item as any reader sees it.
type ItemReport struct {
	N     int
	State job.ItemState
	protocol.Carry
	// Result is the one that counts: of an item that is still open, its last
	// failure. Nil: there is none.
	Result *protocol.Result
	Agent  string // that recorded it
	// Tries are all that were recorded, in order; Each leaves them out.
	Tries []TryReport
}

// TryReport is one recorded try.
type TryReport struct {
	Agent string
	Claim int
	Chunk string
	protocol.Result
}

// Each gives every item of the job in order, reading one chunk after another.
func (v *MapView) Each(ctx context.Context, give func(ItemReport) error) error {
	return v.EachFrom(ctx, 1, give)
}

// EachFrom is Each from item first on. Chunks before it are not read.
func (v *MapView) EachFrom(ctx context.Context, first int, give func(ItemReport) error) error {
	if err := v.Inventory.ReadJobLog(ctx); err != nil {
		return err
	}
	for i := range v.Inventory.Map.Chunks() {
		id, s := v.Inventory.Map.Seed(i)
		if n := len(s.Items); n > 0 && s.Items[n-1][1] < first {
			continue
		}
		items, err := v.itemsOf(ctx, id, s, false)
		if err != nil {
			return err
		}
		for item := range s.Items.All {
			if item < first {
				continue
			}
			r, ok := items[item]
			if !ok {
				r = ItemReport{N: item, State: job.ItemPending}
			}
			if err := give(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// ErrNoItem says that a job has no item of that number.
var ErrNoItem = errors.New("no such item")

// One is one item, with all its tries.
func (v *MapView) One(ctx context.Context, n int) (ItemReport, error) {
	if err := v.Inventory.ReadJobLog(ctx); err != nil {
		return ItemReport{}, err
	}
	for i := range v.Inventory.Map.Chunks() {
		id, s := v.Inventory.Map.Seed(i)
		if !s.Items.Has(n) {
			continue
		}
		items, err := v.itemsOf(ctx, id, s, true)
		if err != nil {
			return ItemReport{}, err
		}
		r, ok := items[n]
		if !ok {
			r = ItemReport{N: n, State: job.ItemPending}
		}
		return r, nil
	}
	return ItemReport{}, fmt.Errorf("item %d of %d: %w", n, v.Inventory.Map.Items(), ErrNoItem)
}

// itemsOf reads a chunk, and those handed over from it, from their logs.
func (v *MapView) itemsOf(ctx context.Context, id string, s protocol.Seed, tries bool) (map[int]ItemReport, error) {
	items := map[int]ItemReport{}
	c := chunks.NewChunk(id, s)
	_, err := v.Inventory.ReadChunk(ctx, c, func(e protocol.ChunkEntry, counted []protocol.Result) {
		for _, r := range counted {
			it := items[r.Item]
			it.Result, it.Agent = &r, e.By
			if tries {
				it.Tries = append(it.Tries, TryReport{Agent: e.By, Claim: e.Claim, Chunk: id, Result: r})
			}
			items[r.Item] = it
		}
	})
	if err != nil {
		return nil, err
	}
	for item := range s.Items.All {
		state, had, here := c.Item(item)
		it, any := items[item]
		if !here || !any && state == job.ItemPending && had == (protocol.Carry{}) {
			continue
		}
		it.N, it.State, it.Carry = item, state, had
		items[item] = it
	}
	for _, child := range c.Children {
		below, err := v.itemsOf(ctx, child.ID, child.Seed, tries)
		if err != nil {
			return nil, err
		}
		for item, it := range below {
			before := items[item]
			if it.Result == nil {
				it.Result, it.Agent = before.Result, before.Agent
			}
			it.Tries = append(before.Tries, it.Tries...)
			items[item] = it
		}
	}
	return items, nil
}

// ReadSnapshot reads the snapshot of a chunk that closed, by the name that a
// listing of the job's results/ gave; for a reader that checks it against the log.
func ReadSnapshot(ctx context.Context, s *store.Store, key string) (snap protocol.Snapshot, err error) {
	b, err := s.Get(ctx, key)
	if err != nil {
		return snap, err
	}
	return snap, protocol.DecodeResults(b, &snap, &snap.Results, &snap.V, key)
}

// Ended is when the map settled, by its writer's clock; zero while it has not.
func (r MapReport) Ended() time.Time { return r.Map.Ended }
