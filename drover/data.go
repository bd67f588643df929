package drover

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/engine/delivery"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Data is what a task keeps: what its next job begins with, and what its newest
// success left.
type Data struct {
	V       int    `json:"v"`
	Project string `json:"project"`
	Task    string `json:"task"`
	Jobs    int    `json:"jobs"`              // that it has had
	Newest  string `json:"newest,omitempty"`  // the short id of the last one
	Success string `json:"success,omitempty"` // that of the last one that has succeeded
	// State, Checkpoints and Files are those of each node, as the newest generation has them.
	// A state that all nodes share is node 0's.
	State       []Kept         `json:"state,omitempty"`
	Checkpoints []Kept         `json:"checkpoints,omitempty"`
	Files       []Kept         `json:"files,omitempty"` // those of the working folder that a next attempt begins with
	Inputs      []InputVersion `json:"inputs,omitempty"`
	// Outputs are those of the newest job that has succeeded: model, output, files.
	Outputs []Kept `json:"outputs,omitempty"`
}

// InputVersion is what an input of a task holds in its newest version.
type InputVersion struct {
	Name     string    `json:"name"`
	From     string    `json:"from"` // as it was typed
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Versions int       `json:"versions"` // how many there have been
	Stored   time.Time `json:"stored"`
}

// Data looks at what a task keeps. A task that never was is fault.Missing.
func (c *Client) Data(ctx context.Context, project, task string) (Data, error) {
	p := job.Path{Project: project, Task: task}
	d := Data{V: 1, Project: project, Task: task}
	t, err := tasks.ReadTask(ctx, c.world, p)
	if err != nil {
		return d, err
	}
	d.Jobs = len(t.Jobs)
	nodes := 1
	for i := len(t.Jobs) - 1; i >= 0; i-- {
		p.Job = t.Jobs[i].Job
		rep, err := views.ReadReport(ctx, c.world, p)
		if errors.Is(err, store.ErrNotExist) {
			continue // removed
		}
		if err != nil {
			return d, err
		}
		nodes = max(nodes, rep.Run.Nodes)
		if d.Newest == "" {
			d.Newest = rep.Job.Short
		}
		if rep.State == job.Succeeded {
			d.Success = rep.Job.Short
			if d.Outputs, err = c.listGenerations(ctx, rep); err != nil {
				return d, err
			}
			break
		}
	}
	if err := c.generations(ctx, p, nodes, &d); err != nil {
		return d, err
	}
	if err := c.addInputVersions(ctx, p, &d); err != nil {
		return d, err
	}
	if len(t.Jobs) == 0 && len(d.State)+len(d.Inputs) == 0 {
		return d, fault.New(fault.Missing, "`drover status` lists what there is.", "look at task %s: project %s has none of that name", task, project)
	}
	return d, nil
}

// listGenerations counts the outputs of a job that has succeeded.
func (c *Client) listGenerations(ctx context.Context, rep views.Report) (all []Kept, err error) {
	for _, name := range delivery.Layout {
		t, _, err := c.engine.Inputs.OutputsOf(ctx, rep, name)
		if errors.Is(err, store.ErrNotExist) {
			continue // its list is gone
		}
		if err != nil {
			return nil, err
		}
		if len(t.Files)+len(t.Links) > 0 {
			all = append(all, Kept{Name: name, Job: rep.Job.Short, Files: len(t.Files), Bytes: t.Bytes()})
		}
	}
	return all, nil
}

// generations counts the newest state and checkpoints of each node; a state that all
// nodes share (the rules of ssm) once.
func (c *Client) generations(ctx context.Context, p job.Path, nodes int, d *Data) error {
	all := func(protocol.Saved) (bool, error) { return true, nil }
	shared, err := states.ReadShared(ctx, c.world, p, all)
	if err != nil {
		return err
	}
	if shared.Begun != nil {
		t, err := c.engine.Inputs.StateOf(ctx, p, nodes)
		if err != nil {
			return err
		}
		if len(t.Files)+len(t.Links) > 0 {
			id := shared.Begun.Job
			d.State = append(d.State, Kept{Name: "state", Job: id[:min(job.MinShort, len(id))], Files: len(t.Files), Bytes: t.Bytes()})
		}
	}
	for rank := range nodes {
		s, err := states.ReadState(ctx, c.world, p, rank, all)
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		short := s.Job[:min(job.MinShort, len(s.Job))]
		for _, one := range []struct {
			name   string
			digest store.Digest
			list   *[]Kept
		}{{"state", s.State, &d.State}, {"checkpoints", s.Checkpoints, &d.Checkpoints}, {"files", s.Files, &d.Files}} {
			if one.digest == "" || one.name == "state" && shared.Begun != nil {
				continue
			}
			t, err := tree.LoadTree(ctx, c.world.Store, one.digest)
			if errors.Is(err, store.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			*one.list = append(*one.list, Kept{Name: one.name, Node: rank, Job: short, Files: len(t.Files), Bytes: t.Bytes()})
		}
	}
	return nil
}

func (c *Client) addInputVersions(ctx context.Context, p job.Path, d *Data) error {
	for name, err := range tasks.ListInputs(ctx, c.world, p) {
		if err != nil {
			return err
		}
		all, err := tasks.ReadVersions(ctx, c.world, p, name)
		if err != nil {
			return err
		}
		if n := len(all); n > 0 {
			v := all[n-1]
			d.Inputs = append(d.Inputs, InputVersion{Name: name, From: v.From, Files: v.Files, Bytes: v.Bytes, Versions: n, Stored: v.At})
		}
	}
	return nil
}

// PutState makes a local folder the state of one node of a task: what its next
// job finds in /state. "" empties it. A task with a live job is refused.
func (c *Client) PutState(ctx context.Context, project, task string, node int, dir string) (Kept, error) {
	if err := job.ValidName("task", task); err != nil {
		return Kept{}, err
	}
	if dir != "" {
		full, err := filepath.Abs(dir)
		if err != nil {
			return Kept{}, err
		}
		dir = full
	}
	t, err := c.engine.Inputs.PutState(ctx, job.Path{Project: project, Task: task}, node, dir)
	return Kept{Name: "state", Node: node, Files: len(t.Files), Bytes: t.Bytes()}, err
}
