package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/bundle/union"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// FindTaskInput finds what another task left (an input such as m=task:train/model). Its
// blobs are in the store already; those of a source, which is an archive there,
// are stored if keep says so.
//
// By the rules of ssm a task may have a state before it has a job.
func (w *Finder) FindTaskInput(ctx context.Context, in job.Input, ref job.TaskRef, project string, rules job.Rules, keep bool) (tree.Tree, job.Origin, error) {
	p := job.Path{Project: cmp.Or(ref.Project, project), Task: ref.Task}
	task, err := tasks.ReadTask(ctx, w.World, p)
	if err != nil {
		return tree.Tree{}, job.Origin{}, err
	}
	p.Job = task.Newest()
	if rules == job.SSM && ref.What == "state" {
		return w.readStateNow(ctx, in, ref, p)
	}
	if p.Job == "" {
		hint := "`drover status` lists what there is"
		if rules != job.SSM { // in which --iit names no project
			hint += "; another project's is task:PROJECT/" + ref.Task + "/" + ref.What
		}
		hint += "."
		return tree.Tree{}, job.Origin{}, fault.New(fault.Missing, hint, "read input %s: project %s has no task %s", in.Name, p.Project, ref.Task)
	}
	rep, err := views.ReadReport(ctx, w.World, p)
	if errors.Is(err, store.ErrNotExist) {
		return tree.Tree{}, job.Origin{}, gone(in, ref, "its newest job was removed")
	}
	if err != nil {
		return tree.Tree{}, job.Origin{}, err
	}
	o := job.Origin{Job: p.String(), Short: rep.Job.Short, What: ref.What}
	var t tree.Tree
	switch ref.What {
	case "state":
		t, err = w.StateOf(ctx, p, rep.Job.Spec.Nodes)
	case "source":
		t, err = w.ReadJobSource(ctx, rep.Job, keep)
	default:
		if err = ended(in, ref, rep); err == nil {
			o.Attempt = rep.Run.Settled.Attempt
			t, _, err = w.OutputsOf(ctx, rep, ref.What)
		}
	}
	if errors.Is(err, store.ErrNotExist) {
		err = gone(in, ref, "its list of files is no longer in the store")
	}
	if err != nil {
		return tree.Tree{}, o, err
	}
	if len(t.Files)+len(t.Links) == 0 {
		return t, o, fault.New(fault.Missing, "See what there is: "+dataOf(p)+".", "read input %s: task %s has no %s (job %s)", in.Name, ref.Task, ref.What, o.Short)
	}
	if ref.What == "source" {
		return t, o, nil // it was read a moment ago
	}
	lost, err := tree.Missing(ctx, w.World.Store, t)
	if err == nil && len(lost) > 0 {
		err = gone(in, ref, fmt.Sprintf("%d of its %d files are not in the store any more", len(lost), len(t.Files)))
	}
	return t, o, err
}

// readStateNow is the state that a task has at this moment, whatever its jobs have come
// to. One without any is refused, as SageMaker refuses an input of no objects.
func (w *Finder) readStateNow(ctx context.Context, in job.Input, ref job.TaskRef, p job.Path) (tree.Tree, job.Origin, error) {
	o := job.Origin{Job: strings.TrimSuffix(p.String(), "/"), What: ref.What} // its task alone, where there is no job
	ranks := 1
	if p.Job != "" {
		j, err := tasks.LoadJob(ctx, w.World, p)
		if err != nil && !errors.Is(err, store.ErrNotExist) { // its job may be gone, and the state stays
			return tree.Tree{}, o, err
		}
		o.Short, ranks = j.Short, max(1, j.Spec.Nodes)
	}
	t, err := w.StateOf(ctx, p, ranks)
	if err != nil {
		return t, o, err
	}
	if len(t.Files)+len(t.Links) == 0 {
		return t, o, fault.New(fault.Missing, "Run it first, or look at what there is: "+dataOf(p)+".", "read input %s: task %s has no state", in.Name, ref.Task)
	}
	return t, o, nil
}

// dataOf is the command that lists what a task has left, wherever it is typed.
func dataOf(p job.Path) string { return "drover data " + p.Task + " -p " + p.Project }

func gone(in job.Input, ref job.TaskRef, why string) error {
	return fault.New(fault.Missing, "Run task "+ref.Task+" again: its command with `--force`.", "read input %s: the %s of task %s is gone: %s", in.Name, ref.What, ref.Task, why)
}

// ended refuses a task if its newest job has not succeeded: the output of an older job is
// seldom what is meant.
func ended(in job.Input, ref job.TaskRef, rep views.Report) error {
	switch {
	case rep.Run.Settled == nil:
		return fault.New(fault.Invalid, "Wait for it: `drover wait "+rep.Job.Short+"`.", "read input %s: task %s has not ended: job %s is %s", in.Name, ref.Task, rep.Job.Short, strings.ToLower(string(rep.State)))
	case rep.State != job.Succeeded:
		return fault.New(fault.Invalid, "See why: `drover why "+rep.Job.Short+"`.", "read input %s: the newest job of task %s, %s, is %s", in.Name, ref.Task, rep.Job.Short, strings.ToLower(string(rep.State)))
	}
	return nil
}

// StateOf is the newest state of a task, that of all its ranks as one folder. ranks
// are how many there are, where each has a state of its own.
func (w *Finder) StateOf(ctx context.Context, p job.Path, ranks int) (tree.Tree, error) {
	if s, err := states.ReadShared(ctx, w.World, p, w.StateIsComplete(ctx)); err != nil || s.Begun != nil {
		if err != nil {
			return tree.Tree{}, err
		}
		return w.ReadUnitedTree(ctx, s)
	}
	var all []tree.Named
	for rank := range max(1, ranks) {
		saved, err := states.ReadState(ctx, w.World, p, rank, w.StateIsComplete(ctx))
		if err != nil {
			return tree.Tree{}, err
		}
		if saved == nil || saved.State == "" {
			continue
		}
		t, err := tree.LoadTree(ctx, w.World.Store, saved.State)
		if err != nil {
			return tree.Tree{}, err
		}
		all = append(all, tree.Named{Name: fmt.Sprintf("node %d", rank), Tree: t})
	}
	t, _ := tree.Merge(all)
	return t, nil
}

// ReadUnitedTree is a state that ranks share as one folder.
func (w *Finder) ReadUnitedTree(ctx context.Context, s states.Shared) (tree.Tree, error) {
	var copies []union.Copy
	base := s.Copies(func(rank int, own string, list store.Digest) {
		copies = append(copies, union.Copy{Rank: rank, Own: own, List: list})
	})
	return union.Unite(ctx, w.World.Store, base, copies, contract.IsHost)
}

// StateIsComplete says whether what a generation names as state is all in the store.
func (w *Finder) StateIsComplete(ctx context.Context) func(protocol.Saved) (bool, error) {
	return func(s protocol.Saved) (bool, error) {
		if s.State == "" {
			return true, nil
		}
		t, err := tree.LoadTree(ctx, w.World.Store, s.State)
		if errors.Is(err, store.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		lost, err := tree.Missing(ctx, w.World.Store, t)
		return len(lost) == 0, err
	}
}

// OutputsOf merges one output of all ranks of a job: of the attempt that settled it, or
// of the current one as far as it is stored. For a rank with a program that has not ended
// these are the files which its newest generation holds, and of other outputs those of the
// newest attempt in which it ended.
func (w *Finder) OutputsOf(ctx context.Context, rep views.Report, name string) (tree.Tree, []tree.Collision, error) {
	attempt := rep.Run.Attempt()
	if s := rep.Run.Settled; s != nil {
		attempt = s.Attempt
	}
	if attempt == 0 {
		return tree.Tree{}, nil, nil
	}
	lists, err := w.outputLists(ctx, rep, attempt, name)
	if err != nil {
		return tree.Tree{}, nil, err
	}
	var all []tree.Named
	for rank := range rep.Run.Nodes {
		d := lists[rank]
		if d == "" {
			continue
		}
		t, err := tree.LoadTree(ctx, w.World.Store, d)
		if err != nil {
			return tree.Tree{}, nil, err
		}
		all = append(all, tree.Named{Name: fmt.Sprintf("node %d", rank), Tree: t})
	}
	t, collisions := tree.Merge(all)
	return t, collisions, nil
}

// outputLists finds the list of one output of each rank.
func (w *Finder) outputLists(ctx context.Context, rep views.Report, attempt int, name string) (map[int]store.Digest, error) {
	lists := map[int]store.Digest{}
	left := map[int]bool{} // ranks of which nothing was found yet
	for rank := range rep.Run.Nodes {
		left[rank] = true
	}
	for ; attempt > 0 && len(left) > 0; attempt-- {
		exits, err := runs.ReadExits(ctx, w.World, rep.Path, rep.Run.Nodes, attempt)
		if err != nil {
			return nil, err
		}
		for rank, exit := range exits {
			if left[rank] && (!exit.Started.IsZero() || len(exit.Outputs) > 0) { // else its program never ran
				delete(left, rank)
				lists[rank] = exit.Outputs[name]
			}
		}
		if name != "files" {
			continue
		}
		for rank := range left {
			s, err := states.ReadState(ctx, w.World, rep.Path, rank, w.outputsAreComplete(ctx))
			if err != nil {
				return nil, err
			}
			if s != nil && s.Job == rep.Path.Job {
				lists[rank] = s.Files
				delete(left, rank)
			}
		}
	}
	return lists, nil
}

// outputsAreComplete says whether all that a generation names is in the store.
func (w *Finder) outputsAreComplete(ctx context.Context) func(protocol.Saved) (bool, error) {
	complete := w.StateIsComplete(ctx)
	return func(s protocol.Saved) (bool, error) {
		for _, d := range s.Lists() {
			if ok, err := complete(protocol.Saved{State: d}); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	}
}

// NamesOfOutputs are those of some outputs of a job that hold anything, without reading
// their lists.
func (w *Finder) NamesOfOutputs(ctx context.Context, rep views.Report, names ...string) (held []string, err error) {
	attempt := rep.Run.Attempt()
	if s := rep.Run.Settled; s != nil {
		attempt = s.Attempt
	}
	empty := tree.EmptyTree()
	for _, name := range names {
		lists, err := w.outputLists(ctx, rep, attempt, name)
		if err != nil {
			return nil, err
		}
		for _, d := range lists {
			if d != "" && d != empty {
				held = append(held, name)
				break
			}
		}
	}
	return held, nil
}

// ReadJobSource lays a job's code out and reads it as a folder.
func (w *Finder) ReadJobSource(ctx context.Context, j job.Job, keep bool) (tree.Tree, error) {
	if j.Code.Blob == "" {
		return tree.Tree{}, nil
	}
	dir, err := os.MkdirTemp("", "drover-source-")
	if err != nil {
		return tree.Tree{}, fault.Wrap(err, fault.Full, "Free some space, or set TMPDIR.", "read source of job %s", j.Short)
	}
	defer os.RemoveAll(dir)
	r, err := w.World.Store.OpenBlob(ctx, store.Digest(j.Code.Blob))
	if err != nil {
		return tree.Tree{}, err
	}
	defer r.Close()
	if err := bundle.Unpack(ctx, r, dir, bundle.Caps{}); err != nil {
		return tree.Tree{}, fmt.Errorf("read source of job %s: %w", j.Short, err)
	}
	if !keep {
		return tree.Hash(ctx, dir, tree.SaveOptions{Settled: true})
	}
	return tree.Save(ctx, w.World.Store, dir, tree.SaveOptions{Settled: true})
}
