// Package inputs finds what the inputs of a job hold: local files, buckets, addresses, and what other tasks have left
// (state, outputs, source). It stores what is not in the store, and makes a folder the state of a task. It knows nothing of
// plans and of agents.
//
// Proved by the tests of package engine.
package inputs

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bucket"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/engine/sending"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Finder finds what the inputs of a job hold, what tasks have left, and stores it.
type Finder struct{ *session.Session }

// Feed is where one input of a plan comes from and what it holds.
type Feed struct {
	In     job.Input
	Tree   tree.Tree
	origin *job.Origin // of what another task has left; nil: it is local

	source input.Source // a local one
	Cache  *tree.Cache

	// archive is the file that a training job's model or output is, by the rules of
	// ssm; "" are its files. held is the tree with that file, once it is stored.
	Archive string
	held    tree.Tree
}

// StoredTree is the tree that the job is given.
func (f *Feed) StoredTree() tree.Tree {
	if f.Archive != "" {
		return f.held
	}
	return f.Tree
}

// FindAll finds all inputs of a spec and reads what they hold, but for files that
// have not changed since they were read last. Nothing is stored.
func (w *Finder) FindAll(ctx context.Context, spec job.Spec) ([]Feed, error) {
	var all []Feed
	for _, in := range spec.Inputs {
		f, err := w.Find(ctx, in, spec, false)
		if err != nil {
			return all, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Find finds one input. keep stores the files of another task's source, which are
// no blobs yet.
func (w *Finder) Find(ctx context.Context, in job.Input, spec job.Spec, keep bool) (Feed, error) {
	f := Feed{In: in}
	ref, chained, err := in.TaskRef()
	if err != nil {
		return f, err
	}
	if chained {
		t, origin, err := w.FindTaskInput(ctx, in, ref, spec.Project, spec.Rules, keep)
		f.Tree, f.origin = below(t, in.Subdir), &origin
		if err == nil && in.Subdir != "" && len(f.Tree.Files)+len(f.Tree.Links) == 0 {
			task := job.Path{Project: cmp.Or(ref.Project, spec.Project), Task: ref.Task}
			return f, fault.New(fault.Missing, "See what there is: "+dataOf(task)+".", "read input %s: the %s of task %s has no folder %q", in.Name, ref.What, ref.Task, in.Subdir)
		}
		if err == nil && spec.Rules == job.SSM && in.Subdir == "" {
			f.Archive, err = w.archiveOf(ctx, ref, spec.Project, origin)
		}
		return f, err
	}
	switch kind, err := input.KindOf(in.Path); {
	case err != nil:
		return f, err
	case kind == input.Bucket:
		if f.Tree, err = w.listBucketInput(ctx, in); err != nil {
			return f, fmt.Errorf("read input %s: %w", in.Name, err)
		}
		return f, nil
	case kind == input.Web:
		if in.Path, err = input.Fetch(ctx, nil, in.Path, filepath.Join(w.Caller.Cache, "downloads"), nil); err != nil {
			return f, fmt.Errorf("fetch input %s: %w", in.Name, err)
		}
	}
	if f.source, err = input.Find(in, w.Caller.Folder); err != nil {
		return f, err
	}
	if f.Cache, err = tree.OpenCache(filepath.Join(w.Caller.Cache, "inputs", f.source.Key)); err != nil {
		f.Cache = &tree.Cache{} // it costs time, nothing else
	}
	f.Tree, err = tree.Hash(ctx, f.source.Root, f.saveOptions())
	if err != nil {
		return f, fmt.Errorf("read input %s: %w", in.Name, err)
	}
	f.rememberDigests()
	return f, nil
}

// listBucketInput is what is in a bucket: nothing is read of it but the list.
func (w *Finder) listBucketInput(ctx context.Context, in job.Input) (tree.Tree, error) {
	url, key, err := transfer.Split(in.Path)
	if err != nil {
		return tree.Tree{}, err
	}
	if in.Subdir != "" {
		key = path.Join(key, in.Subdir) + "/"
	}
	s, url, err := w.OpenBucketURL(ctx, url)
	if err != nil {
		return tree.Tree{}, err
	}
	return bucket.ListAway(ctx, s, url, key)
}

func (f *Feed) saveOptions() tree.SaveOptions {
	return tree.SaveOptions{Skip: f.source.Skip, Cache: f.Cache}
}

// rememberDigests keeps for the next command what was read.
func (f *Feed) rememberDigests() {
	_ = f.Cache.Keep() // without it that takes longer, and nothing else
	if f.source.File != "" {
		f.Tree.Dirs, f.Tree.Links = nil, nil // the folder around it is not what was asked for
	}
}

// storeFeed stores a local input and gives the digest of its list.
func (f *Feed) storeFeed(ctx context.Context, s *store.Store, watch func(report.CopyProgress)) (d store.Digest, err error) {
	told := sending.CountedBlobs{Store: s, Tell: sending.NewProgress(watch, s.Clock())}
	defer told.Tell.ReportEnd()
	if f.Tree, d, err = tree.Sync(ctx, told, s.String(), f.source.Root, f.saveOptions()); err != nil {
		return d, fmt.Errorf("store input %s: %w", f.In.Name, err)
	}
	if f.rememberDigests(); f.source.File == "" {
		return d, nil
	}
	return tree.PutTree(ctx, s, f.Tree)
}

// below is one folder of a tree.
func below(t tree.Tree, folder string) tree.Tree {
	if folder == "" {
		return t
	}
	folder += "/"
	var b tree.Tree
	for _, f := range t.Files {
		if rest, ok := strings.CutPrefix(f.Path, folder); ok {
			f.Path = rest
			b.Files = append(b.Files, f)
		}
	}
	for _, l := range t.Links {
		if rest, ok := strings.CutPrefix(l.Path, folder); ok {
			l.Path = rest
			b.Links = append(b.Links, l)
		}
	}
	for _, d := range t.Dirs {
		if rest, ok := strings.CutPrefix(d, folder); ok {
			b.Dirs = append(b.Dirs, rest)
		}
	}
	return b
}

// storeInput stores one input and gives the digest of its list.
func (w *Finder) storeInput(ctx context.Context, f *Feed, spec job.Spec, watch func(report.CopyProgress)) (store.Digest, error) {
	if f.Tree.Away != nil {
		d, err := tree.PutTree(ctx, w.World.Store, f.Tree)
		if err != nil {
			return d, fmt.Errorf("store the list of input %s: %w", f.In.Name, err)
		}
		return d, nil
	}
	if f.origin == nil {
		return f.storeFeed(ctx, w.World.Store, watch)
	}
	if f.origin.What == "source" {
		again, err := w.Find(ctx, f.In, spec, true)
		if err != nil {
			return "", err
		}
		*f = again
	}
	err := w.StoreArchive(ctx, f)
	d := store.Digest("")
	if err == nil {
		d, err = tree.PutTree(ctx, w.World.Store, f.StoredTree())
	}
	if err != nil {
		return d, fmt.Errorf("store input %s: %w", f.In.Name, err)
	}
	return d, nil
}

// StoreAll stores what was found, and names it in the job. What has
// changed since is stored as it is now.
func (w *Finder) StoreAll(ctx context.Context, feeds []Feed, j *job.Job, watch func(report.CopyProgress)) error {
	for i := range feeds {
		f, in := &feeds[i], feeds[i].In
		d, err := w.storeInput(ctx, f, j.Spec, watch)
		if err != nil {
			return err
		}
		j.Inputs[in.Name], j.Contents[in.Name] = string(d), f.Tree.Digest()
		if f.origin != nil {
			if j.Lineage == nil {
				j.Lineage = map[string]job.Origin{}
			}
			j.Lineage[in.Name] = *f.origin
		}
		v := protocol.Version{List: d, From: in.Path, Files: len(f.StoredTree().Files), Bytes: f.StoredTree().Bytes()}
		if err := tasks.AddVersion(ctx, w.World, job.Path{Project: j.Spec.Project, Task: j.Spec.Task}, in.Name, v, w.Caller.By); err != nil {
			return fmt.Errorf("note version of input %s: %w", in.Name, err)
		}
	}
	return nil
}
