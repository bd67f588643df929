package engine

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
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// feed is where one input of a plan comes from and what it holds.
type feed struct {
	in     job.Input
	tree   tree.Tree
	origin *job.Origin // of what another task has left; nil: it is local

	source input.Source // a local one
	cache  *tree.Cache

	// archive is the file that a training job's model or output is, by the rules of
	// ssm; "" are its files. held is the tree with that file, once it is stored.
	archive string
	held    tree.Tree
}

// storedTree is the tree that the job is given.
func (f *feed) storedTree() tree.Tree {
	if f.archive != "" {
		return f.held
	}
	return f.tree
}

// findFeeds finds all inputs of a spec and reads what they hold, but for files that
// have not changed since they were read last. Nothing is stored.
func (e *Engine) findFeeds(ctx context.Context, spec job.Spec) ([]feed, error) {
	var all []feed
	for _, in := range spec.Inputs {
		f, err := e.findFeed(ctx, in, spec, false)
		if err != nil {
			return all, err
		}
		all = append(all, f)
	}
	return all, nil
}

// findFeed finds one input. keep stores the files of another task's source, which are
// no blobs yet.
func (e *Engine) findFeed(ctx context.Context, in job.Input, spec job.Spec, keep bool) (feed, error) {
	f := feed{in: in}
	ref, chained, err := in.TaskRef()
	if err != nil {
		return f, err
	}
	if chained {
		t, origin, err := e.findTaskInput(ctx, in, ref, spec.Project, spec.Rules, keep)
		f.tree, f.origin = below(t, in.Subdir), &origin
		if err == nil && in.Subdir != "" && len(f.tree.Files)+len(f.tree.Links) == 0 {
			task := job.Path{Project: cmp.Or(ref.Project, spec.Project), Task: ref.Task}
			return f, fault.New(fault.Missing, "See what there is: "+dataOf(task)+".", "read input %s: the %s of task %s has no folder %q", in.Name, ref.What, ref.Task, in.Subdir)
		}
		if err == nil && spec.Rules == job.SSM && in.Subdir == "" {
			f.archive, err = e.archiveOf(ctx, ref, spec.Project, origin)
		}
		return f, err
	}
	switch kind, err := input.KindOf(in.Path); {
	case err != nil:
		return f, err
	case kind == input.Bucket:
		if f.tree, err = e.listBucketInput(ctx, in); err != nil {
			return f, fmt.Errorf("read input %s: %w", in.Name, err)
		}
		return f, nil
	case kind == input.Web:
		if in.Path, err = input.Fetch(ctx, nil, in.Path, filepath.Join(e.Caller.Cache, "downloads"), nil); err != nil {
			return f, fmt.Errorf("fetch input %s: %w", in.Name, err)
		}
	}
	if f.source, err = input.Find(in, e.Caller.Folder); err != nil {
		return f, err
	}
	if f.cache, err = tree.OpenCache(filepath.Join(e.Caller.Cache, "inputs", f.source.Key)); err != nil {
		f.cache = &tree.Cache{} // it costs time, nothing else
	}
	f.tree, err = tree.Hash(ctx, f.source.Root, f.saveOptions())
	if err != nil {
		return f, fmt.Errorf("read input %s: %w", in.Name, err)
	}
	f.rememberDigests()
	return f, nil
}

// listBucketInput is what is in somebody's bucket: nothing is read of it but the list.
func (e *Engine) listBucketInput(ctx context.Context, in job.Input) (tree.Tree, error) {
	url, key, err := transfer.Split(in.Path)
	if err != nil {
		return tree.Tree{}, err
	}
	if in.Subdir != "" {
		key = path.Join(key, in.Subdir) + "/"
	}
	s, url, err := e.openBucketURL(ctx, url)
	if err != nil {
		return tree.Tree{}, err
	}
	return bucket.ListAway(ctx, s, url, key)
}

// openBucketURL opens somebody's bucket. full is the URL that opens it elsewhere too.
func (e *Engine) openBucketURL(ctx context.Context, url string) (s *store.Store, full string, err error) {
	if e.OpenPlace == nil {
		return nil, "", fault.New(fault.Invalid, "Give drover.Options an OpenPlace.", "open %s: this program opens no buckets", url)
	}
	b, err := e.OpenPlace(ctx, url)
	if err != nil {
		return nil, "", err
	}
	if full = b.String(); !strings.Contains(full, "?") { // with the server, which an agent may not know
		full = url
	}
	return store.New(b, store.Options{}), full, nil
}

func (f *feed) saveOptions() tree.SaveOptions {
	return tree.SaveOptions{Skip: f.source.Skip, Cache: f.cache}
}

// rememberDigests keeps for the next command what was read.
func (f *feed) rememberDigests() {
	_ = f.cache.Keep() // without it that takes longer, and nothing else
	if f.source.File != "" {
		f.tree.Dirs, f.tree.Links = nil, nil // the folder around it is not what was asked for
	}
}

// storeFeed stores a local input and gives the digest of its list.
func (f *feed) storeFeed(ctx context.Context, s *store.Store, watch func(transfer.Progress)) (d store.Digest, err error) {
	told := toldBlobs{s, newTelling(watch, s.Clock())}
	defer told.tell.reportEnd()
	if f.tree, d, err = tree.Sync(ctx, told, s.String(), f.source.Root, f.saveOptions()); err != nil {
		return d, fmt.Errorf("store input %s: %w", f.in.Name, err)
	}
	if f.rememberDigests(); f.source.File == "" {
		return d, nil
	}
	return tree.PutTree(ctx, s, f.tree)
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

// shipInput stores one input and gives the digest of its list.
func (e *Engine) shipInput(ctx context.Context, f *feed, p *Plan) (store.Digest, error) {
	if f.tree.Away != nil {
		d, err := tree.PutTree(ctx, e.World.Store, f.tree)
		if err != nil {
			return d, fmt.Errorf("store the list of input %s: %w", f.in.Name, err)
		}
		return d, nil
	}
	if f.origin == nil {
		return f.storeFeed(ctx, e.World.Store, p.progressOf(OfInputs))
	}
	if f.origin.What == "source" {
		again, err := e.findFeed(ctx, f.in, p.Spec, true)
		if err != nil {
			return "", err
		}
		*f = again
	}
	err := e.packArchive(ctx, f)
	d := store.Digest("")
	if err == nil {
		d, err = tree.PutTree(ctx, e.World.Store, f.storedTree())
	}
	if err != nil {
		return d, fmt.Errorf("store input %s: %w", f.in.Name, err)
	}
	return d, nil
}

// shipInputs stores what the plan has found, and names it in the job. What has
// changed since is stored as it is now.
func (e *Engine) shipInputs(ctx context.Context, p *Plan, j *job.Job) error {
	for i := range p.feeds {
		f, in := &p.feeds[i], p.feeds[i].in
		d, err := e.shipInput(ctx, f, p)
		if err != nil {
			return err
		}
		j.Inputs[in.Name], j.Contents[in.Name] = string(d), f.tree.Digest()
		if f.origin != nil {
			if j.Lineage == nil {
				j.Lineage = map[string]job.Origin{}
			}
			j.Lineage[in.Name] = *f.origin
		}
		v := protocol.Version{List: d, From: in.Path, Files: len(f.storedTree().Files), Bytes: f.storedTree().Bytes()}
		if err := tasks.AddVersion(ctx, e.World, job.Path{Project: p.Spec.Project, Task: p.Spec.Task}, in.Name, v, e.Caller.By); err != nil {
			return fmt.Errorf("note version of input %s: %w", in.Name, err)
		}
	}
	return nil
}
