// Package control is what a user tells a job: cancel, drain, pause, continue, amend, another round,
// and that one agent is to leave. Each call returns once its entry is durable.
//
// It refuses to know how agents obey. Proved by the simulations of package ledger.
package control

import (
	"context"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// CancelJob asks for the end of a job. It returns once that is durable: stands is
// false when the job had already settled, or was stopped by something else.
func CancelJob(ctx context.Context, w protocol.World, p job.Path, by, reason string) (stands bool, err error) {
	return appendStop(ctx, w, p, by, protocol.Stop{Reason: reason})
}

// DrainJob is Cancel of a map that lets running items end (E2); Cancel after it has
// them ended.
func DrainJob(ctx context.Context, w protocol.World, p job.Path, by, reason string) (stands bool, err error) {
	return appendStop(ctx, w, p, by, protocol.Stop{Reason: reason, Drain: true})
}

func appendStop(ctx context.Context, w protocol.World, p job.Path, by string, stop protocol.Stop) (stands bool, err error) {
	l := w.JobLog(p, by)
	for {
		if err := liveness.CheckSeenRecently(ctx, w, p); err != nil {
			return false, err
		}
		if err := l.Read(ctx); err != nil {
			return false, err
		}
		if len(l.Entries) == 0 {
			if err := tasks.CheckSubmitted(ctx, w, p); err != nil {
				return false, err
			}
			j, err := tasks.LoadJob(ctx, w, p)
			if err == nil && j.Spec.Verb == job.Map {
				err = chunks.AppendFirst(ctx, l)
			}
			if err != nil {
				return false, err
			}
		}
		r := runs.FoldRun(l.Entries)
		if r.Settled != nil || r.Stop != nil && (r.Failing || !r.Stop.IsHardenedBy(stop)) {
			return r.Stop != nil && !r.Failing, nil
		}
		if _, err := l.Append(ctx, protocol.JobEntry{Cancelled: &stop}); err != nil {
			return false, err
		}
	}
}
