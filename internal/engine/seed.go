package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// What a command means by the rules of simple-sagemaker (job.SSM), where that is not
// what it means by drover's own: docs/design/008-the-seeds-rules.md.

// decideBySSM decides for a task whose newest job has settled, or is gone: it is complete
// when the last job of the same type has succeeded, whatever has changed since.
func (e *Engine) decideBySSM(ctx context.Context, p *Plan, task tasks.Task, force bool) error {
	rep, err := e.lastOfType(ctx, p, task)
	if err != nil || rep == nil {
		return err
	}
	id := rep.Job.Short
	switch {
	case rep.State != job.Succeeded:
		p.Note = fmt.Sprintf("job %s %s; this is a new one", id, badEnd(rep.State))
	case force:
		p.Note = fmt.Sprintf("job %s has succeeded; --force_running runs the task again", id)
	default:
		p.Action, p.before, p.Job = Skip, *rep, rep.Path
		p.Note = "complete since " + stamp(rep.Ended()) + " by job " + id + "; --force_running runs it again"
		if p.Spec.CleanState {
			p.Note += ", --clean_state alone does not"
		}
	}
	return nil
}

// badEnd says how a job ended that has not succeeded.
func badEnd(s job.State) string {
	if s == job.Cancelled {
		return "was cancelled"
	}
	return "failed"
}

// lastOfType is the newest job that counts for the task of a plan; nil: none does.
func (e *Engine) lastOfType(ctx context.Context, p *Plan, task tasks.Task) (*views.Report, error) {
	for i := len(task.Jobs) - 1; i >= 0; i-- {
		one := job.Path{Project: p.Spec.Project, Task: p.Spec.Task, Job: task.Jobs[i].Job}
		j, err := tasks.LoadJob(ctx, e.World, one)
		if errors.Is(err, store.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		if !j.Spec.Completes(p.Spec) {
			continue
		}
		rep, err := views.ReadReport(ctx, e.World, one)
		if errors.Is(err, store.ErrNotExist) {
			continue
		}
		return &rep, err
	}
	return nil, nil
}

// archiveOf is the file that another task's model or output is in an input: SageMaker
// keeps a training job's as one, and nobody unpacks it. "" for all else.
func (e *Engine) archiveOf(ctx context.Context, ref job.TaskRef, project string, o job.Origin) (string, error) {
	if ref.What != "model" && ref.What != "output" {
		return "", nil
	}
	j, err := tasks.LoadJob(ctx, e.World, job.Path{Project: cmp.Or(ref.Project, project), Task: ref.Task, Job: path.Base(o.Job)})
	if err != nil || j.Spec.Verb == job.Process {
		return "", err
	}
	return ref.What + ".tar.gz", nil
}

// packArchive stores the archive of a feed that is to be one. The same files give the same
// archive.
func (e *Engine) packArchive(ctx context.Context, f *feed) error {
	if f.archive == "" {
		return nil
	}
	tmp, err := os.CreateTemp("", "drover-archive-")
	if err != nil {
		return fault.Wrap(err, fault.Full, "Free some space, or set TMPDIR.", "make %s", f.archive)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if _, err := tree.TarGz(ctx, e.World.Store, []tree.Named{{Tree: f.tree}}, tmp); err != nil {
		return fmt.Errorf("make %s: %w", f.archive, err)
	}
	if _, err := tmp.Seek(0, 0); err != nil {
		return fmt.Errorf("make %s: %w", f.archive, err)
	}
	d, n, err := e.World.Store.PutBlob(ctx, tmp)
	if err != nil {
		return fmt.Errorf("store %s: %w", f.archive, err)
	}
	f.held = tree.Tree{Files: []tree.File{{Path: f.archive, Size: n, Mode: 0o644, SHA256: d}}}
	return nil
}
