package delivery

import (
	"context"
	"path"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// BringState brings a task's state, that of so many nodes as one folder, into dir, an absolute path.
// short stands in the names of files that could not have their own.
func (x Deliverer) BringState(ctx context.Context, p job.Path, nodes int, short, dir string, o report.GetOptions) (got report.GotState, err error) {
	t, err := x.Inputs.StateOf(ctx, p, nodes)
	if err != nil {
		return got, err
	}
	d, err := openDestination(dir, p.String(), short, o)
	if err != nil {
		return got, err
	}
	defer d.closeFolder()
	got.Kept = report.Kept{Name: "state", Files: len(t.Files), Bytes: t.Bytes()}
	if err := tree.RestoreWith(ctx, x.World.Store, t, d.stagingFolder("state"), tree.RestoreOptions{Umask: true}); err != nil {
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
