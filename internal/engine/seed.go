package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// What a command means by the rules of simple-sagemaker (job.SSM), where that is not
// what it means by drover's own: docs/design/008-the-seeds-rules.md.

// decideBySSM decides for a task with a newest job that has settled, or is gone: it is complete
// when the last job of the same type has succeeded, whatever has changed since.
func (e decider) decideBySSM(ctx context.Context, p *Plan, task tasks.Task, force bool) error {
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
		p.Action, p.before, p.Job = report.ActionSkip, *rep, rep.Path
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
func (e decider) lastOfType(ctx context.Context, p *Plan, task tasks.Task) (*views.Report, error) {
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
