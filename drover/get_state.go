package drover

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/job"
)

// GotState says what GetState brought.
type GotState struct {
	Kept
	Changes
}

// GetState brings a task's state, that of all its nodes as one folder, into dir, by the
// rules of Job.Get. Parts and Watch mean nothing here.
func (c *Client) GetState(ctx context.Context, project, task, dir string, o GetOptions) (GotState, error) {
	got, err := c.getState(ctx, project, task, dir, o)
	if err != nil {
		err = fmt.Errorf("get state of task %s: %w", task, err)
	}
	return got, err
}

func (c *Client) getState(ctx context.Context, project, task, dir string, o GetOptions) (got GotState, err error) {
	data, err := c.Data(ctx, project, task)
	if err != nil {
		return got, err
	}
	nodes, short := 1, "state" // of a state that was put there by hand
	for _, k := range data.State {
		if nodes = max(nodes, k.Node+1); k.Job != "" {
			short = k.Job
		}
	}
	p := job.Path{Project: project, Task: task}
	t, err := c.engine.Inputs.StateOf(ctx, p, nodes)
	if err != nil {
		return got, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return got, err
	}
	d, err := openDestination(dir, p.String(), short, o)
	if err != nil {
		return got, err
	}
	defer d.closeFolder()
	got.Kept = Kept{Name: "state", Files: len(t.Files), Bytes: t.Bytes()}
	if err := tree.RestoreWith(ctx, c.world.Store, t, d.stagingFolder("state"), tree.RestoreOptions{Umask: true}); err != nil {
		return got, err
	}
	err = d.replaceState(ctx, t)
	got.Changes = d.changes
	return got, err
}

// replaceState gives the files of a state, which are complete in the workshop, their
// places, and removes those of an earlier one that it does not have any more.
func (d *destination) replaceState(ctx context.Context, t tree.Tree) (err error) {
	files, names := filesOf(t, "."), map[string]bool{}
	for i := range files {
		files[i].State = true
		names[files[i].Path] = true
	}
	old := func(gone func(b bundle.Brought) bool) {
		d.eachEarlierFile(func(b bundle.Brought) {
			if err == nil && b.State && !names[b.Path] && gone(b) {
				err = d.removeFile(ctx, b)
			}
		})
	}
	// First of all, or an earlier file could stand where a folder is to be.
	if old(func(b bundle.Brought) bool { return b.For == "" }); err != nil {
		return err
	}
	if _, err := d.putTree(ctx, path.Join(bundle.Workshop, "state"), files, t.Dirs, ".", func(name string) bool { return names[name] }); err != nil {
		return err
	}
	if old(func(b bundle.Brought) bool { return b.For != "" && !d.beside[b.Path] }); err != nil {
		return err
	}
	return d.rewriteRecord(func(b bundle.Brought) bool { return !b.State })
}
