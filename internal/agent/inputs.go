package agent

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bucket"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// wholeInput stands for a rank where inputs are meant that every node has whole:
// they are fetched before it is known which rank this is.
const wholeInput = -1

// fetchInputs restores inputs, each into a folder of its own: those that every
// node has whole, or a rank's share of those that are spread over the nodes. A
// rank that is another than in the attempt before gets another share.
func (p *preparation) fetchInputs(ctx context.Context, rank int) error {
	for _, in := range p.Job.Spec.Inputs {
		if p.isSharded(in) != (rank != wholeInput) {
			continue
		}
		dir := filepath.Join(p.space.HostPaths().Data, in.Name)
		if in.To != "" {
			dir = filepath.Join(p.Root, in.To)
		}
		if held, ok := p.ready.shares[in.Name]; ok && held != rank {
			if err := tree.RemoveAll(dir); err != nil {
				return fmt.Errorf("clear input %s: %w", in.Name, err)
			}
		}
		if held, ok := p.ready.shares[in.Name]; ok && held == rank {
			continue
		}
		if err := p.fetchInput(ctx, in, rank, dir); err != nil {
			return fmt.Errorf("fetch input %s: %w", in.Name, err)
		}
		p.ready.inputs[in.Name], p.ready.shares[in.Name] = dir, rank
	}
	return nil
}

// isSharded says whether each node has its share of an input alone.
func (p *preparation) isSharded(in job.Input) bool { return in.Sharded && p.Job.Spec.Nodes > 1 }

func (p *preparation) fetchInput(ctx context.Context, in job.Input, rank int, dir string) error {
	listing, err := tree.LoadTree(ctx, p.World.Store, store.Digest(p.Job.Inputs[in.Name]))
	if err != nil {
		return err
	}
	if rank != wholeInput {
		all := len(listing.Files)
		listing = share(listing, rank, p.Job.Spec.Nodes)
		p.LogNote("input %s: this node gets %d of %d files", in.Name, len(listing.Files), all)
	}
	if listing.Away == nil {
		return tree.Restore(ctx, p.World.Store, listing, dir)
	}
	if p.Machine.OpenPlace == nil {
		return fault.New(fault.Bug, "", "open %s: this agent opens no buckets", listing.Away.Bucket)
	}
	b, err := p.Machine.OpenPlace(ctx, listing.Away.Bucket)
	if err != nil {
		return err
	}
	return bucket.RestoreAway(ctx, store.New(b, store.Options{}), listing, dir)
}

// share is what one node gets of a tree: the files that are its own by SageMaker's
// rule, the links to these and to their folders, and all empty folders.
func share(t tree.Tree, rank, nodes int) tree.Tree {
	keys := make([]string, len(t.Files))
	for i, f := range t.Files {
		keys[i] = f.Path
	}
	mine := tree.Tree{Dirs: t.Dirs, Away: t.Away}
	there := map[string]bool{}
	for _, i := range input.Shard(keys, rank, nodes) {
		mine.Files = append(mine.Files, t.Files[i])
		for p := t.Files[i].Path; p != "."; p = path.Dir(p) {
			there[p] = true
		}
	}
	slices.SortFunc(mine.Files, func(a, b tree.File) int { return cmp.Compare(a.Path, b.Path) })
	for _, l := range t.Links {
		if there[path.Join(path.Dir(l.Path), l.Target)] {
			mine.Links = append(mine.Links, l)
		}
	}
	return mine
}
