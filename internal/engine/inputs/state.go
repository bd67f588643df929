package inputs

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// PutState makes the files of a folder the newest state of one rank of a task:
// what its next job finds in /state. Where the ranks share one (the rules of ssm), it
// is that, whatever the rank. dir "" empties it. A task with a live job is
// refused: its program writes there.
func (w *Finder) PutState(ctx context.Context, p job.Path, rank int, dir string) (tree.Tree, error) {
	task, err := tasks.ReadTask(ctx, w.World, p)
	if err != nil {
		return tree.Tree{}, err
	}
	if task.Live != "" {
		live := job.Path{Project: p.Project, Task: p.Task, Job: task.Live}
		rep, err := views.ReadReport(ctx, w.World, live)
		if err != nil {
			return tree.Tree{}, err
		}
		if rep.Run.Settled == nil {
			return tree.Tree{}, fault.New(fault.Invalid, "Wait for it with `drover wait "+rep.Job.Short+"`, or end it with `drover cancel "+rep.Job.Short+"`.",
				"put state of task %s: job %s is live", p.Task, rep.Job.Short)
		}
	}
	if err := removal.RememberTask(ctx, w.World, p); err != nil {
		return tree.Tree{}, err
	}
	sweeps, err := removal.ReadSweeps(ctx, w.World)
	if err != nil {
		return tree.Tree{}, err
	}
	t, list, err := w.saveState(ctx, dir)
	if err != nil {
		return t, fmt.Errorf("put state of task %s: %w", p.Task, err)
	}
	was, err := states.ReadShared(ctx, w.World, p, w.StateIsComplete(ctx))
	switch {
	case err != nil:
	case was.Begun != nil: // the one of all ranks
		err = states.PutShared(ctx, w.World, p, w.Caller.By, list, t.Bytes())
	default:
		err = states.PutState(ctx, w.World, p, rank, w.Caller.By, w.StateIsComplete(ctx), func(s *protocol.Saved) { s.State, s.Bytes = list, t.Bytes() })
	}
	if errors.Is(err, states.ErrFenced) {
		return t, fault.Wrap(err, fault.Invalid, "`drover status "+p.Task+"` shows it.", "put state of task %s: a job has begun", p.Task)
	}
	if err != nil || dir == "" {
		return t, err
	}
	need := func() ([]store.Digest, error) { return append(t.Blobs(), list), nil }
	return t, sweeps.Assure(ctx, need, func(ctx context.Context, _ []store.Digest) error {
		_, again, err := w.saveState(ctx, dir)
		if err == nil && again != list {
			err = fault.New(fault.Invalid, "Run it again.", "put state of task %s: %q changed meanwhile", p.Task, dir)
		}
		return err
	})
}

// saveState stores a folder and its list; "" is no folder. What drover keeps in a folder
// that it brought a state into is no part of it.
func (w *Finder) saveState(ctx context.Context, dir string) (t tree.Tree, list store.Digest, err error) {
	if dir == "" {
		return t, "", nil
	}
	if t, err = tree.Save(ctx, w.World.Store, dir, tree.SaveOptions{Skip: func(name string) bool { return name == bundle.Receipt }}); err != nil {
		return t, "", err
	}
	list, err = tree.PutTree(ctx, w.World.Store, t)
	return t, list, err
}
