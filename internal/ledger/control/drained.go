package control

import (
	"context"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// DrainAgent asks an agent to leave. It returns once that is durable; stands is
// false when the job has ended or is being stopped.
func DrainAgent(ctx context.Context, w protocol.World, p job.Path, by string, d protocol.Drained) (stands bool, err error) {
	j, err := tasks.LoadJob(ctx, w, p)
	if err != nil {
		return false, err
	}
	l := w.JobLog(p, by)
	for {
		if err := l.Read(ctx); err != nil {
			return false, err
		}
		if j.Spec.Verb == job.Map {
			if err := chunks.AppendFirst(ctx, l); err != nil {
				return false, err
			}
		}
		drained, open := foldDrained(w, j, l.Entries)
		if !open {
			return false, nil
		}
		if _, twice := drained[d.Agent]; twice {
			return true, nil
		}
		if mine, err := l.Append(ctx, protocol.JobEntry{Drained: &d}); err != nil || mine {
			return mine, err
		}
	}
}

// foldDrained folds a job's log; open is false once it was stopped or has settled.
func foldDrained(w protocol.World, j job.Job, entries []protocol.JobEntry) (drained map[string]protocol.Drained, open bool) {
	if j.Spec.Verb == job.Map {
		m := chunks.NewMap(j)
		for _, e := range entries {
			m.Fold(e)
		}
		return m.Drained, m.Settled == nil && m.Stop == nil
	}
	r := runs.FoldRun(entries)
	return r.Drained, r.Settled == nil && r.Stop == nil
}
