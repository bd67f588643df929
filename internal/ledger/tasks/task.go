// Package tasks is the log of a task: which jobs it had and which one is live (rules T1 to T3). It
// submits, loads, closes and finds jobs, and keeps the versions of a task's inputs.
//
// It refuses to know what a job does. Proved by the simulations of package ledger.
package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Task is the fold of a task's log: which jobs it had, which one is live.
type Task struct {
	Jobs []Place // in the order of their last submission, removed ones too
	Live string  // the job that was submitted and not yet closed; "" when none
	// Gone are the jobs that gc has removed, by id; nil when there are none.
	Gone map[string]protocol.Removed
	// Beside are the tasks that jobs with other settings belong to, by the digest of
	// these; nil when there are none (T3).
	Beside map[string]string
}

// Place is a job's number in its task's log: the order of jobs that needs no clock.
type Place struct {
	Job   string
	Place int // entry number of its `submitted`
}

// Newest is the last submitted job, "" when there is none.
func (t Task) Newest() string {
	if len(t.Jobs) == 0 {
		return ""
	}
	return t.Jobs[len(t.Jobs)-1].Job
}

// PlaceOf finds a job's place.
func (t Task) PlaceOf(id string) (place int, ok bool) {
	i := slices.IndexFunc(t.Jobs, func(p Place) bool { return p.Job == id })
	if i < 0 {
		return 0, false
	}
	return t.Jobs[i].Place, true
}

// FoldTask ignores a second `submitted` of a live task, a `closed` of a job that
// is not the live one, and a `removed` of one that is (L3). What was removed is
// not submitted any more: that ends a submit which slept for hours.
func FoldTask(entries []protocol.TaskEntry) Task {
	var t Task
	for n, e := range entries {
		switch {
		case e.Submitted != nil && t.Live == "":
			if _, gone := t.Gone[e.Submitted.Job]; gone {
				continue
			}
			t.Live = e.Submitted.Job
			// A map may be submitted again: its place is the last one (T2).
			t.Jobs = slices.DeleteFunc(t.Jobs, func(p Place) bool { return p.Job == t.Live })
			t.Jobs = append(t.Jobs, Place{e.Submitted.Job, n})
		case e.Closed != nil && e.Closed.Job == t.Live:
			t.Live = ""
		case e.Removed != nil && e.Removed.Job != t.Live:
			if t.Gone == nil {
				t.Gone = map[string]protocol.Removed{}
			}
			if _, twice := t.Gone[e.Removed.Job]; !twice {
				t.Gone[e.Removed.Job] = *e.Removed
			}
		case e.Beside != nil && t.Live != "":
			if t.Beside == nil {
				t.Beside = map[string]string{}
			}
			if _, twice := t.Beside[e.Beside.Key]; !twice {
				t.Beside[e.Beside.Key] = e.Beside.Task
			}
		}
	}
	return t
}

// ReadTask reads a task. A task that was never used has no jobs; that is not an error.
func ReadTask(ctx context.Context, w protocol.World, p job.Path) (Task, error) {
	l := w.TaskLog(p, "")
	if err := l.Read(ctx); err != nil {
		return Task{}, err
	}
	return FoldTask(l.Entries), nil
}

// ReadPlace finds a job's place in its task's log; ok is false when it was never
// submitted. A run is submitted once, so nothing is read behind that.
func ReadPlace(ctx context.Context, w protocol.World, j job.Job) (place int, ok bool, err error) {
	l := w.TaskLog(j.Path(), "")
	found := func() bool {
		place, ok = FoldTask(l.Entries).PlaceOf(j.ID)
		return ok && j.Spec.Verb != job.Map
	}
	err = l.ReadUntil(ctx, found)
	place, ok = FoldTask(l.Entries).PlaceOf(j.ID)
	return place, ok, err
}

// NameJob gives the job an id and claims a short one under ids/, which grows by
// a letter while another job has it.
func NameJob(ctx context.Context, w protocol.World, j *job.Job) error {
	j.ID = w.NewID()
	for n := job.MinShort; n <= len(j.ID); n++ {
		j.Short = j.ID[:n]
		_, mine, err := w.Store.CreateOnce(ctx, protocol.IDKey(j.Short), protocol.Encode(j.Path()))
		if err != nil {
			return fmt.Errorf("name job: %w", err)
		}
		if mine {
			return nil
		}
	}
	return fmt.Errorf("name job: id %s is taken", j.ID)
}

// ProposeJob writes job.json, the first half of Submit: from here on gc counts what
// j names. A submitter calls it, then Sweeps.Assure, then Submit: nothing that a
// submitted job needs is then ever missing.
func ProposeJob(ctx context.Context, w protocol.World, j job.Job) error {
	if _, there := w.Store.Recall(protocol.JobKey(j.Path()), protocol.JobSeenFor); there {
		return nil
	}
	if _, _, err := w.Store.CreateFixed(ctx, protocol.JobKey(j.Path()), protocol.Encode(j)); err != nil {
		return fmt.Errorf("propose job: %w", err)
	}
	return nil
}

// SubmitJob makes j the task's live job (T1). All that j needs was stored before.
// live is j when it was, even if it has ended by now.
// When another job is live, live names it and mine is false: j does not exist
// then, and its job.json and short id are taken away again. So it is when live is "" and
// mine is false: the task's log says that jobs with j's settings are another task's (T3).
func SubmitJob(ctx context.Context, w protocol.World, j job.Job, by string) (live string, mine bool, err error) {
	p := j.Path()
	if err := ProposeJob(ctx, w, j); err != nil {
		return "", false, err
	}
	l := w.TaskLog(p, by)
	// The plan has just read it: a submitter that came between has the number, and is met there.
	if err := l.RecallKnown(); err != nil {
		return "", false, err
	}
	for {
		t := FoldTask(l.Entries)
		if _, ours := t.PlaceOf(j.ID); ours { // it may have ended since, if we slept
			return j.ID, true, nil
		}
		if _, gone := t.Gone[j.ID]; gone {
			return "", false, errors.Join(abandoned(j), withdrawJob(ctx, w, j))
		}
		if _, elsewhere := t.Beside[j.SettingsKey]; elsewhere && !j.Spec.Named {
			return "", false, withdrawJob(ctx, w, j)
		}
		if t.Live != "" {
			closed, err := CloseIfSettled(ctx, w, l, job.Path{Project: p.Project, Task: p.Task, Job: t.Live})
			if err != nil {
				return "", false, err
			}
			if closed {
				continue
			}
			return t.Live, false, withdrawJob(ctx, w, j)
		}
		mine, err := l.Append(ctx, protocol.TaskEntry{Submitted: &protocol.Submitted{Job: j.ID, Record: recordDigest(w, j)}})
		if mine {
			return j.ID, true, nil
		}
		if err != nil {
			if !errors.Is(err, store.ErrUnclear) { // then it may still land, and needs its job.json
				err = errors.Join(err, withdrawJob(context.WithoutCancel(ctx), w, j))
			}
			return "", false, err
		}
		if err := l.Read(ctx); err != nil {
			return "", false, err
		}
	}
}

// PutBeside says in the log of a task that jobs with the settings of a digest are another
// task's, because live, a job of this one with other settings, is live (T3). It returns
// once that is durable: the task is the one that was said first. ok is false when live is
// not live any more, and nothing was said: then the caller decides again.
//
// Commands with these settings go by what the log says, so of two that are typed at once
// one does not start here and the other one there: the entry and a submit want one number.
func PutBeside(ctx context.Context, w protocol.World, p job.Path, by, live, key, task string) (name string, ok bool, err error) {
	l := w.TaskLog(p, by)
	for {
		if err := l.Read(ctx); err != nil {
			return "", false, err
		}
		t := FoldTask(l.Entries)
		if name, ok := t.Beside[key]; ok {
			return name, true, nil
		}
		if t.Live != live || live == "" {
			return "", false, nil
		}
		if _, err := l.Append(ctx, protocol.TaskEntry{Beside: &protocol.Beside{Key: key, Task: task}}); err != nil {
			return "", false, err
		}
	}
}

// recordDigest is the digest of the job.json that Propose has written.
func recordDigest(w protocol.World, j job.Job) store.Digest {
	body, known := w.Store.Recall(protocol.JobKey(j.Path()), store.Forever)
	if !known {
		body = protocol.Encode(j)
	}
	return digestOf(body)
}

// withdrawJob removes what a job left that never came to exist.
func withdrawJob(ctx context.Context, w protocol.World, j job.Job) error {
	err := w.Store.Delete(ctx, protocol.JobKey(j.Path()))
	return errors.Join(err, w.Store.Delete(ctx, protocol.IDKey(j.Short)))
}

// CloseIfSettled writes `closed` when the live job's own log says settled: only
// then does another submit count (T1). A map that was submitted once more, and not
// reopened for that, is first settled for its new place, in its own log: a process
// that is about to reopen it comes too late there, or this one does (T2).
func CloseIfSettled(ctx context.Context, w protocol.World, task *protocol.Log[protocol.TaskEntry], p job.Path) (bool, error) {
	l := w.JobLog(p, task.By)
	place, again := LastPlace(task.Entries, p.Job)
	ended := func() bool {
		s := runs.FoldRun(l.Entries).Settled
		return s != nil && (!again || s.Submission >= place)
	}
	for {
		if err := l.ReadUntil(ctx, ended); err != nil {
			return false, err
		}
		if ended() {
			break
		}
		s := runs.FoldRun(l.Entries).Settled
		if s == nil {
			return false, nil
		}
		decline := *s
		decline.Submission = place
		if _, err := l.Append(ctx, protocol.JobEntry{Settled: &decline}); err != nil {
			return false, err
		}
	}
	_, err := task.Append(ctx, protocol.TaskEntry{Closed: &protocol.Closed{Job: p.Job}})
	return err == nil, err
}

// LastPlace is a job's last place, and whether it had one before.
func LastPlace(entries []protocol.TaskEntry, id string) (place int, again bool) {
	seen := 0
	live := ""
	for n, e := range entries {
		switch {
		case e.Submitted != nil && live == "":
			if live = e.Submitted.Job; live == id {
				place = n
				seen++
			}
		case e.Closed != nil && e.Closed.Job == live:
			live = ""
		}
	}
	return place, seen > 1
}

// CloseJob writes into the task's log that the settled job p is no longer live.
// It may be called by any process, any number of times; a job that has not settled
// is left alone.
func CloseJob(ctx context.Context, w protocol.World, p job.Path, by string) error {
	l := w.TaskLog(p, by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		if FoldTask(l.Entries).Live != p.Job {
			return nil
		}
		if closed, err := CloseIfSettled(ctx, w, l, p); err != nil || !closed {
			return err
		}
	}
}

// CloseRun is Close of a run, which is submitted once: its first closed is its last,
// and nothing is read behind it. first says that no other is likely to have said
// so: then it is written by what this process knows, and a writer that lost reads on.
func CloseRun(ctx context.Context, w protocol.World, p job.Path, by string, first bool) error {
	l := w.TaskLog(p, by)
	closed := func() bool {
		t := FoldTask(l.Entries)
		_, had := t.PlaceOf(p.Job)
		return had && t.Live != p.Job
	}
	if err := l.RecallKnown(); err != nil {
		return err
	}
	for ; !closed(); first = false {
		live := FoldTask(l.Entries).Live == p.Job
		if !first || !live {
			if err := l.ReadUntil(ctx, closed); err != nil || FoldTask(l.Entries).Live != p.Job {
				return err
			}
		}
		if settled, err := CloseIfSettled(ctx, w, l, p); err != nil || !settled {
			return err
		}
	}
	return nil
}

// abandoned is a submit's answer when gc took it for one that would never finish.
func abandoned(j job.Job) error {
	return fault.New(fault.Lost, "Run it again.", "submit job %s: it took so long that gc has removed it", j.Short)
}

func (t Task) WasRemoved(id string) bool {
	_, gone := t.Gone[id]
	return gone
}

// StillHas says whether a job is there and has not come back since it had that place.
func (t Task) StillHas(p Place) bool {
	place, ok := t.PlaceOf(p.Job)
	return ok && place == p.Place && !t.WasRemoved(p.Job)
}

func digestOf(body []byte) store.Digest {
	sum := sha256.Sum256(body)
	return store.Digest(hex.EncodeToString(sum[:]))
}
