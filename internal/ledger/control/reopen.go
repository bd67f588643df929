package control

import (
	"context"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// Round is what a map gets more to do, in one entry (L4).
type Round struct {
	Again *protocol.Reopened // items that ended without success and run again
	More  *protocol.Extended // new ones: what it names is stored already, and First is filled in here
	Amend *protocol.Amended  // what binds them, and all that begin from then on
}

// ReopenMap gives a map another round. A job that has ended is submitted again
// first, and comes back only by that (T2). live is the task's live job: another one
// when ok is false, and then nothing was changed. A job that is being stopped is
// waited for (E4).
func ReopenMap(ctx context.Context, w protocol.World, j job.Job, by string, r Round) (live string, ok bool, err error) {
	p := j.Path()
	task := w.TaskLog(p, by)
	for {
		if err := liveness.CheckSeenRecently(ctx, w, p); err != nil {
			return "", false, err
		}
		if _, err := tasks.LoadAccepted(ctx, w, p); err != nil {
			return "", false, err
		}
		if err := task.Read(ctx); err != nil {
			return "", false, err
		}
		t := tasks.FoldTask(task.Entries)
		switch {
		case t.WasRemoved(j.ID):
			return "", false, fault.New(fault.Missing, "Run it again.", "reopen job %s: it was removed", j.Short)
		case t.Live == j.ID:
			written, stopping, err := appendRound(ctx, w, j, by, r, task.Entries)
			if err != nil || written {
				return j.ID, written, err
			}
			if stopping {
				if err := w.Clock().Sleep(ctx, 200*time.Millisecond); err != nil {
					return "", false, err
				}
				continue
			}
			if _, err := tasks.CloseIfSettled(ctx, w, task, p); err != nil {
				return "", false, err
			}
			continue
		case t.Live != "":
			closed, err := tasks.CloseIfSettled(ctx, w, task, job.Path{Project: p.Project, Task: p.Task, Job: t.Live})
			if err != nil {
				return "", false, err
			}
			if !closed {
				return t.Live, false, nil
			}
			continue
		}
		if _, err := task.Append(ctx, protocol.TaskEntry{Submitted: &protocol.Submitted{Job: j.ID, Record: tasks.AcceptedRecord(task.Entries, j.ID)}}); err != nil {
			return "", false, err
		}
	}
}

// appendRound appends to the log of a job that the task's log says is live. written
// is false when it has settled for its place already, or is being stopped.
func appendRound(ctx context.Context, w protocol.World, j job.Job, by string, r Round, entries []protocol.TaskEntry) (written, stopping bool, err error) {
	l := w.JobLog(j.Path(), by)
	place, second := tasks.LastPlace(entries, j.ID)
	for {
		if err := l.Read(ctx); err != nil {
			return false, false, err
		}
		if err := chunks.AppendFirst(ctx, l); err != nil {
			return false, false, err
		}
		m := chunks.NewMap(j)
		for _, e := range l.Entries {
			m.Fold(e)
		}
		e := protocol.JobEntry{Reopened: r.Again, Extended: r.More, Amended: r.Amend}
		switch {
		case m.Settled != nil && (!second || m.Settled.Submission >= place):
			return false, false, nil
		case m.Settled != nil:
			again := protocol.Reopened{None: true} // for the new items alone
			if r.Again != nil {
				again = *r.Again
			}
			again.Submission = place
			e.Reopened = &again
		case m.Stop != nil:
			return false, true, nil
		}
		if r.More != nil {
			x := *r.More
			x.First = m.Items() + 1
			e.Extended = &x
		}
		mine, err := l.Append(ctx, e)
		if err != nil {
			return false, false, err
		}
		if mine {
			return true, false, nil
		}
	}
}

// PauseMap stops claims and starts of a map until Continue (J3). It returns once that
// is durable; stands is false when the job has ended or is being stopped.
func PauseMap(ctx context.Context, w protocol.World, p job.Path, by string, pause protocol.Paused) (stands bool, err error) {
	return appendToMap(ctx, w, p, by, func(m *chunks.Map) (protocol.JobEntry, bool) { return protocol.JobEntry{Paused: &pause}, m.Paused })
}

// ContinueMap ends a pause.
func ContinueMap(ctx context.Context, w protocol.World, p job.Path, by string) (stands bool, err error) {
	return appendToMap(ctx, w, p, by, func(m *chunks.Map) (protocol.JobEntry, bool) {
		return protocol.JobEntry{Resumed: &protocol.Resumed{}}, !m.Paused
	})
}

// AmendMap changes what binds the items that start from now on (J2).
func AmendMap(ctx context.Context, w protocol.World, p job.Path, by string, a protocol.Amended) (stands bool, err error) {
	return appendToMap(ctx, w, p, by, func(*chunks.Map) (protocol.JobEntry, bool) { return protocol.JobEntry{Amended: &a}, false })
}

// appendToMap appends to the log of a live map what say wants, until it says that it is so.
func appendToMap(ctx context.Context, w protocol.World, p job.Path, by string, say func(*chunks.Map) (e protocol.JobEntry, so bool)) (bool, error) {
	j, err := tasks.LoadJob(ctx, w, p)
	if err != nil {
		return false, err
	}
	l := w.JobLog(p, by)
	for {
		if err := l.Read(ctx); err != nil {
			return false, err
		}
		if err := chunks.AppendFirst(ctx, l); err != nil {
			return false, err
		}
		m := chunks.NewMap(j)
		for _, e := range l.Entries {
			m.Fold(e)
		}
		if m.Settled != nil || m.Stop != nil {
			return false, nil
		}
		e, so := say(m)
		if so {
			return true, nil
		}
		if mine, err := l.Append(ctx, e); err != nil || mine {
			return mine, err
		}
	}
}

// NameRound says what a round is going to name: new code, or new items with files.
// A command that gives a map such a round calls it when that is stored, then Sweeps.Assure, then
// Reopen, which is a promise at once. What was named stays until the job goes,
// whatever becomes of the round.
func NameRound(ctx context.Context, w protocol.World, p job.Path, by string, r Round) error {
	l := w.RoundsLog(p, by)
	for {
		mine, err := l.Append(ctx, protocol.RoundsEntry{Amended: r.Amend, Extended: r.More})
		if err != nil || mine {
			return err
		}
	}
}
