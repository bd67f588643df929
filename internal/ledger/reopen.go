package ledger

import (
	"context"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Round is what a map gets more to do, in one entry (L4).
type Round struct {
	Again *Reopened // items that ended without success and run again
	More  *Extended // new ones: what it names is stored already, and First is filled in here
	Amend *Amended  // what binds them, and all that begin from then on
}

// Reopen gives a map another round. A job that has ended is submitted again
// first, and comes back only by that (T2). live is the task's live job: another one
// when ok is false, and then nothing was changed. A job that is being stopped is
// waited for (E4).
func (w World) Reopen(ctx context.Context, j job.Job, by string, r Round) (live string, ok bool, err error) {
	p := j.Path()
	task := w.openLog(taskDir(p)+"/log", by)
	for {
		if err := w.exists(ctx, p); err != nil {
			return "", false, err
		}
		if _, err := w.LoadAccepted(ctx, p); err != nil {
			return "", false, err
		}
		if err := task.Read(ctx); err != nil {
			return "", false, err
		}
		t := foldTask(task.Entries)
		switch {
		case t.removed(j.ID):
			return "", false, fault.New(fault.Missing, "Run it again.", "reopen job %s: it was removed", j.Short)
		case t.Live == j.ID:
			written, stopping, err := w.addRound(ctx, j, by, r, task.Entries)
			if err != nil || written {
				return j.ID, written, err
			}
			if stopping {
				if err := w.clock().Sleep(ctx, 200*time.Millisecond); err != nil {
					return "", false, err
				}
				continue
			}
			if _, err := w.closeIfSettled(ctx, task, p); err != nil {
				return "", false, err
			}
			continue
		case t.Live != "":
			closed, err := w.closeIfSettled(ctx, task, job.Path{Project: p.Project, Task: p.Task, Job: t.Live})
			if err != nil {
				return "", false, err
			}
			if !closed {
				return t.Live, false, nil
			}
			continue
		}
		if _, err := task.Append(ctx, Entry{Submitted: &Submitted{Job: j.ID, Record: recordOf(task.Entries, j.ID)}}); err != nil {
			return "", false, err
		}
	}
}

// addRound appends to the log of a job that the task's log says is live. written
// is false when it has settled for its place already, or is being stopped.
func (w World) addRound(ctx context.Context, j job.Job, by string, r Round, entries []Entry) (written, stopping bool, err error) {
	l := w.openLog(jobDir(j.Path())+"/log", by)
	place, second := resubmitted(entries, j.ID)
	for {
		if err := l.Read(ctx); err != nil {
			return false, false, err
		}
		if err := begin(ctx, l); err != nil {
			return false, false, err
		}
		m := NewMap(j)
		for _, e := range l.Entries {
			m.Fold(e)
		}
		e := Entry{Reopened: r.Again, Extended: r.More, Amended: r.Amend}
		switch {
		case m.Settled != nil && (!second || m.Settled.Place >= place):
			return false, false, nil
		case m.Settled != nil:
			again := Reopened{None: true} // for the new items alone
			if r.Again != nil {
				again = *r.Again
			}
			again.Place = place
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

// MapOf is the fold of a map's log as it is now: what binds an agent that begins.
func (w World) MapOf(ctx context.Context, j job.Job) (*Map, error) {
	l := w.openLog(jobDir(j.Path())+"/log", "")
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	m := NewMap(j)
	for _, e := range l.Entries {
		m.Fold(e)
	}
	return m, nil
}

// Bind is a job as it binds what begins now (J2): its spec, and its code.
func (m *Map) Bind(j job.Job) job.Job {
	j = m.Recoded(j)
	j.Spec = m.Bound()
	return j
}

// Recoded is a job with the newest code that it was given.
func (m *Map) Recoded(j job.Job) job.Job {
	c := m.Code(j)
	j.Code, j.Environment, j.Interpreter = c.Code, c.Environment, c.Interpreter
	return j
}

// Bound is the job's spec as it binds what begins now (J2).
func (m *Map) Bound() job.Spec {
	s := m.Spec
	s.Limits, s.ItemTimeout, s.Retries, s.RetryOn, s.MemoryStep = m.Limits(), job.Duration(m.ItemTimeout()), m.Retries(), m.RetryOn(), m.MemoryStep()
	return s
}

// Pause stops claims and starts of a map until Continue (J3). It returns once that
// is durable; stands is false when the job has ended or is being stopped.
func (w World) Pause(ctx context.Context, p job.Path, by string, pause Paused) (stands bool, err error) {
	return w.tell(ctx, p, by, func(m *Map) (Entry, bool) { return Entry{Paused: &pause}, m.Paused })
}

// Continue ends a pause.
func (w World) Continue(ctx context.Context, p job.Path, by string) (stands bool, err error) {
	return w.tell(ctx, p, by, func(m *Map) (Entry, bool) { return Entry{Resumed: &Resumed{}}, !m.Paused })
}

// Amend changes what binds the items that start from now on (J2).
func (w World) Amend(ctx context.Context, p job.Path, by string, a Amended) (stands bool, err error) {
	return w.tell(ctx, p, by, func(*Map) (Entry, bool) { return Entry{Amended: &a}, false })
}

// tell appends to the log of a live map what say wants, until it says that it is so.
func (w World) tell(ctx context.Context, p job.Path, by string, say func(*Map) (e Entry, so bool)) (bool, error) {
	j, err := w.Load(ctx, p)
	if err != nil {
		return false, err
	}
	l := w.openLog(jobDir(p)+"/log", by)
	for {
		if err := l.Read(ctx); err != nil {
			return false, err
		}
		if err := begin(ctx, l); err != nil {
			return false, err
		}
		m := NewMap(j)
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

// begin sees to it that entry 0 of a map's log is none that chunks follow from: in
// their logs 0 says "by itself", and is no mark (L5).
func begin(ctx context.Context, l *Log) error {
	for len(l.Entries) == 0 {
		if _, err := l.Append(ctx, Entry{Resumed: &Resumed{}}); err != nil {
			return err
		}
	}
	return nil
}
