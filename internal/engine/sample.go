package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Sample plans a map of some of another plan's items, in a task of its own beside
// that plan's: the same program and code, the items with these numbers, numbered
// from 1. However many of them fail, all are run. It is always a new job; one of
// that task that was interrupted is cancelled first. Close it when it is done with;
// p stays as it is.
func (e *Engine) Sample(ctx context.Context, p *Plan, what string, numbers []int) (Plan, error) {
	s := Plan{Spec: p.Spec, Action: report.ActionStart, Code: p.Code, Script: p.Script, Sub: p.Sub, Python: p.Python, Paths: p.Paths, InPlace: p.InPlace, Seen: p.Seen, CodeNote: p.CodeNote, Digest: p.Digest,
		Environment: p.Environment, Properties: p.Properties, Offer: p.Offer, Contents: p.Contents, ship: p.ship, feeds: p.feeds,
		Image: p.Image, seen: p.seen}
	s.Spec.Task, s.Spec.MaxFails = job.Beside(p.Spec.Task, what), ""
	return e.newPlanner().runPlanSteps(ctx, s, []planStep{
		func(e planner, ctx context.Context, s *Plan) error { return e.chooseItems(ctx, p, s, numbers) },
		func(e planner, ctx context.Context, s *Plan) error { return e.newDecider().decideSample(ctx, s) },
	})
}

// chooseItems makes the list of the sample's items, which outlives that of p.
func (e planner) chooseItems(ctx context.Context, p, s *Plan, numbers []int) error {
	if p.Items.list == nil {
		return fault.New(fault.Bug, "", "choose items: the plan of task %s was closed", p.Spec.Task)
	}
	dir, err := newItemsFolder()
	if err != nil {
		return err
	}
	s.Items.dir = dir
	l, err := manifest.Sample(ctx, p.Items.list, numbers, dir.dir)
	if err != nil {
		return err
	}
	s.Items.list, s.Items.Count, s.Items.New = l, l.Count(), l.Count()
	s.Items.Format, s.Items.Fields = p.Items.Format, p.Items.Fields
	s.Items.places = p.Items.places
	s.Items.Uploads = p.Items.Uploads // of the sample there may be fewer
	size := chunks.ChunkSize(l.Count(), s.Spec.Workers)
	s.Items.Chunks = (l.Count() + size - 1) / size
	s.Cost = e.estimateCost(s.Spec, s.Items.Count, s.Items.Chunks)
	return nil
}

// decideSample decides for a job that is never gone on with.
func (e decider) decideSample(ctx context.Context, s *Plan) error {
	path := job.Path{Project: s.Spec.Project, Task: s.Spec.Task}
	task, err := tasks.ReadTask(ctx, e.World, path)
	if err != nil {
		return err
	}
	if path.Job = task.Newest(); path.Job == "" {
		return nil
	}
	rep, err := views.ReadReport(ctx, e.World, path)
	if errors.Is(err, store.ErrNotExist) { // removed since
		gone := task.Gone[path.Job]
		s.setFirstState(task, path.Job, gone.Since, gone.StateSince, true)
		return nil
	}
	if err != nil {
		return err
	}
	s.before, s.Job = rep, path
	s.setFirstState(task, path.Job, rep.Job.Since, rep.Job.StateSince, true)
	switch {
	case rep.State.Settled():
	case rep.State == job.Interrupted || rep.Run.Stop != nil:
		s.Action = report.ActionReplace
		s.Note = fmt.Sprintf("job %s of task %s has not ended: it is cancelled", rep.Job.Short, s.Spec.Task)
	default:
		id := rep.Job.Short
		return fault.New(fault.Invalid, "Wait for it with `drover wait "+id+"`, or end it with `drover cancel "+id+"`.",
			"start task %s: job %s is live (%s)", s.Spec.Task, id, strings.ToLower(string(rep.State)))
	}
	return nil
}

// Slots is about how many items an agent of a map runs at once, as far as that can
// be known from afar: what was asked for, else what the place's cores and memory
// allow. GPUs are not counted.
func Slots(p *Plan) int { return slots(p.Spec, p.Offer) }

func slots(s job.Spec, o driver.Offer) int {
	if s.Slots > 0 {
		return s.Slots
	}
	n := max(1, o.Cores)
	if s.CPUs > 0 {
		n = max(1, int(float64(n)/s.CPUs))
	}
	if s.Memory > 0 && o.Memory > 0 {
		n = max(1, min(n, int(o.Memory/int64(s.Memory))))
	}
	return n
}
