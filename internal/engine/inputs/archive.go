package inputs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// archiveOf is the file that another task's model or output is in an input: SageMaker
// keeps a training job's as one, and it is not unpacked. "" for all else.
func (w *Finder) archiveOf(ctx context.Context, ref job.TaskRef, project string, o job.Origin) (string, error) {
	if ref.What != "model" && ref.What != "output" {
		return "", nil
	}
	j, err := tasks.LoadJob(ctx, w.World, job.Path{Project: cmp.Or(ref.Project, project), Task: ref.Task, Job: path.Base(o.Job)})
	if err != nil || j.Spec.Verb == job.Process {
		return "", err
	}
	return ref.What + ".tar.gz", nil
}

// StoreArchive stores the archive of a feed that is to be one. The same files give the same
// archive.
func (w *Finder) StoreArchive(ctx context.Context, f *Feed) error {
	if f.Archive == "" {
		return nil
	}
	tmp, err := os.CreateTemp("", "drover-archive-")
	if err != nil {
		return fault.Wrap(err, fault.Full, "Free some space, or set TMPDIR.", "make %s", f.Archive)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if _, err := tree.TarGz(ctx, w.World.Store, []tree.Named{{Tree: f.Tree}}, tmp); err != nil {
		return fmt.Errorf("make %s: %w", f.Archive, err)
	}
	if _, err := tmp.Seek(0, 0); err != nil {
		return fmt.Errorf("make %s: %w", f.Archive, err)
	}
	d, n, err := w.World.Store.PutBlob(ctx, tmp)
	if err != nil {
		return fmt.Errorf("store %s: %w", f.Archive, err)
	}
	f.held = tree.Tree{Files: []tree.File{{Path: f.Archive, Size: n, Mode: 0o644, SHA256: d}}}
	return nil
}
