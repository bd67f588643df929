package drover

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/drover-run/drover/internal/engine/delivery"
	"github.com/drover-run/drover/internal/engine/results"
	"github.com/drover-run/drover/job"
)

func (c *Client) newDeliverer() delivery.Deliverer {
	return delivery.Deliverer{Session: c.engine.Session, Inputs: c.engine.Inputs}
}

// Made finds out what the job has made so far.
func (j *jobResults) Made(ctx context.Context) (Made, error) {
	rep, err := j.readReport(ctx)
	if err != nil {
		return Made{}, err
	}
	return j.c.newDeliverer().Made(ctx, rep)
}

// Get brings the job's outputs into dir. Of a run these are model/, output/, files/ (what the
// program wrote beside itself) and logs/logs0, one for each node. Files have the modes
// that the program gave them, less this process's umask, and no set-user-ID bits. Of a run that
// has not settled it brings what its newest attempt has stored.
//
// Of a map these are the outputs of its succeeded items, each by its own name, and verified. Of
// two items with an output of one name the first one's is brought. A file that is there already
// with the same content is not copied again, so that Get may be called while the map runs.
//
// Files that an earlier Get has put there, and that have not changed since, are
// replaced, and removed when they are not among the outputs any more. Others stay: the
// new file then comes beside one of the same name (Changes.Beside).
//
// Into the folder where the program ran in place (job.Code.InPlace), what it wrote beside
// itself comes to its own place, as if it had been written there, and is never removed.
// There and in the caller's folder a part that is empty makes no folder. What an earlier Get
// has put there of parts that GetOptions.Parts does not name stays.
func (j *jobResults) Get(ctx context.Context, dir string, o GetOptions) (Got, error) {
	k, err := j.readKind(ctx)
	if err != nil {
		return Got{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return Got{}, err
	}
	return k.bringOutputs(ctx, dir, o)
}

func (k runKind) bringOutputs(ctx context.Context, dir string, o GetOptions) (Got, error) {
	rep, err := k.j.readReport(ctx)
	if err != nil {
		return Got{}, err
	}
	logs := func(rank int) iter.Seq2[Output, error] { return k.j.Logs(ctx, LogOptions{Nodes: []int{rank}}) }
	return k.j.c.newDeliverer().BringRun(ctx, rep, logs, dir, o)
}

func (k mapKind) bringOutputs(ctx context.Context, dir string, o GetOptions) (Got, error) {
	all := results.NewReader(k.j.c.engine.Session, k.j.path, k.rec).Each(ctx, ResultOptions{States: []job.ItemState{job.ItemSucceeded}})
	return k.j.c.newDeliverer().BringItems(ctx, k.j.path, k.rec.Short, all, dir, o)
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
	if dir, err = filepath.Abs(dir); err != nil {
		return got, err
	}
	return c.newDeliverer().BringState(ctx, job.Path{Project: project, Task: task}, nodes, short, dir, o)
}
