package views

import (
	"context"
	"errors"
	"strings"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Part is a chunk of the manifest with all that was handed over from it, for a reader that
// sums a job up and does not want to read again what cannot have changed.
type Part struct {
	ID   string
	Seed protocol.Seed
	// Seal stands for what the logs of the part hold, while nothing is added to them:
	// parts of one seal have the same items with the same results. "": it may change.
	Seal string
}

// Parts gives the parts of a map in order. Their seals come from one listing of
// snapshots, and a request for each that a reopen may have changed.
func (v *MapView) Parts(ctx context.Context) ([]Part, error) {
	if err := v.Inventory.ReadJobLog(ctx); err != nil {
		return nil, err
	}
	if err := v.Inventory.ListSnapshots(ctx); err != nil {
		return nil, err
	}
	parts := make([]Part, v.Inventory.Map.Chunks())
	for i := range parts {
		id, seed := v.Inventory.Map.Seed(i)
		seal, err := v.sealPart(ctx, id)
		if err != nil {
			return nil, err
		}
		parts[i] = Part{id, seed, seal}
	}
	return parts, nil
}

// sealPart is the names of the snapshots of a chunk and of what it handed over; "" when
// one is not there, or more was written after it.
func (v *MapView) sealPart(ctx context.Context, id string) (string, error) {
	b, ok := v.Inventory.NamedChunks[id]
	if !ok || len(v.Inventory.NamedParts[id]) != b.Children {
		return "", nil
	}
	if v.Inventory.MayBeReopened(b) { // what was asked for may stand in the log already
		_, err := v.Inventory.World.ReadObject(ctx, v.Inventory.EntryKey(&chunks.Chunk{ID: id}, b.N+1), protocol.MaxEntry)
		if err == nil {
			return "", nil
		}
		if !errors.Is(err, store.ErrNotExist) {
			return "", err
		}
	}
	names := []string{b.Text}
	for _, part := range v.Inventory.NamedParts[id] {
		name, err := v.sealPart(ctx, part)
		if err != nil || name == "" {
			return "", err
		}
		names = append(names, name)
	}
	return strings.Join(names, " "), nil
}

// Ended gives the items of a part that have ended with a result or were quarantined.
// Their order is always the same. Several parts may be read at once.
func (v *MapView) Ended(ctx context.Context, p Part, give func(ItemReport)) error {
	if whole, err := v.fromSnapshot(ctx, p, give); whole || err != nil {
		return err
	}
	items, err := v.itemsOf(ctx, p.ID, p.Seed, false)
	if err != nil {
		return err
	}
	for item := range p.Seed.Items.All {
		it := items[item]
		switch it.State {
		case job.ItemSucceeded, job.ItemFailed, job.ItemQuarantined:
			give(it)
		}
	}
	return nil
}

// fromSnapshot gives the items of a part from a snapshot that has them all: one request
// for what takes many from the log. Of quarantined items, and of those of earlier
// claims, only the log knows.
func (v *MapView) fromSnapshot(ctx context.Context, p Part, give func(ItemReport)) (whole bool, err error) {
	b := v.Inventory.NamedChunks[p.ID]
	if p.Seal == "" || b.Children > 0 || b.Tally.Quarantined > 0 {
		return false, nil
	}
	snap, err := ReadSnapshot(ctx, v.Inventory.World.Store, protocol.JobDir(v.p)+"/results/"+b.Text)
	if errors.Is(err, store.ErrNotExist) {
		return false, nil // an index may go
	}
	if err != nil || snap.Cut || len(snap.Results) != b.Tally.Succeeded+b.Tally.Failed {
		return false, err
	}
	for i := range snap.Results {
		r := &snap.Results[i]
		it := ItemReport{N: r.Item, State: job.ItemSucceeded, Result: r}
		if r.Failed {
			it.State = job.ItemFailed
		}
		give(it)
	}
	return true, nil
}

// Limits are what binds items that start from now on.
func (v *MapView) Limits() job.Limits { return v.Inventory.Map.Limits() }

// Held are the items that an agent holds, by its heartbeat: those of its chunks, as
// far as these were read.
func (v *MapView) Held(b protocol.Heartbeat) (held protocol.Spans) {
	for _, id := range b.Chunks {
		if c := v.Inventory.ManifestChunk(id); c != nil {
			held = append(held, c.Items...)
		}
	}
	return held
}
