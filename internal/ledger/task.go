package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Task is the fold of a task's log: which jobs it had, which one is live.
type Task struct {
	Jobs []Place // in the order of their last submission, removed ones too
	Live string  // the job that was submitted and not yet closed; "" when none
	// Gone are the jobs that gc has removed, by id; nil when there are none.
	Gone map[string]Removed
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

// foldTask ignores a second `submitted` of a live task, a `closed` of a job that
// is not the live one, and a `removed` of one that is (L3). What was removed is
// not submitted any more: that ends a submit which slept for hours.
func foldTask(entries []Entry) Task {
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
				t.Gone = map[string]Removed{}
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

// Task reads a task. A task nobody used has no jobs; that is not an error.
func (w World) Task(ctx context.Context, p job.Path) (Task, error) {
	l := w.openLog(taskDir(p)+"/log", "")
	if err := l.Read(ctx); err != nil {
		return Task{}, err
	}
	return foldTask(l.Entries), nil
}

// PlaceOf finds a job's place in its task's log; ok is false when it was never
// submitted. A run is submitted once, so nothing is read behind that.
func (w World) PlaceOf(ctx context.Context, j job.Job) (place int, ok bool, err error) {
	l := w.openLog(taskDir(j.Path())+"/log", "")
	found := func() bool {
		place, ok = foldTask(l.Entries).PlaceOf(j.ID)
		return ok && j.Spec.Verb != job.Map
	}
	err = l.readUntil(ctx, found)
	place, ok = foldTask(l.Entries).PlaceOf(j.ID)
	return place, ok, err
}

// NameJob gives the job an id and claims a short one under ids/, which grows by
// a letter while another job has it.
func (w World) NameJob(ctx context.Context, j *job.Job) error {
	j.ID = w.NewID()
	for n := job.MinShort; n <= len(j.ID); n++ {
		j.Short = j.ID[:n]
		_, mine, err := w.Store.CreateOnce(ctx, idKey(j.Short), encode(j.Path()))
		if err != nil {
			return fmt.Errorf("name job: %w", err)
		}
		if mine {
			return nil
		}
	}
	return fmt.Errorf("name job: id %s is taken", j.ID)
}

// Propose writes job.json, the first half of Submit: from here on gc counts what
// j names. Who submits calls it, then Sweeps.Assure, then Submit: nothing that a
// submitted job needs is then ever missing.
func (w World) Propose(ctx context.Context, j job.Job) error {
	if _, there := w.Store.Recall(jobKey(j.Path()), sure); there {
		return nil
	}
	if _, _, err := w.Store.CreateFixed(ctx, jobKey(j.Path()), encode(j)); err != nil {
		return fmt.Errorf("propose job: %w", err)
	}
	return nil
}

// Submit makes j the task's live job (T1). All that j needs was stored before.
// live is j when it was, even if it has ended by now.
// When another job is live, live names it and mine is false: j does not exist
// then, and its job.json and short id are taken away again. So it is when live is "" and
// mine is false: the task's log says that jobs with j's settings are another task's (T3).
func (w World) Submit(ctx context.Context, j job.Job, by string) (live string, mine bool, err error) {
	p := j.Path()
	if err := w.Propose(ctx, j); err != nil {
		return "", false, err
	}
	l := w.openLog(taskDir(p)+"/log", by)
	// The plan has just read it: who came between has the number, and is met there.
	if err := l.recall(); err != nil {
		return "", false, err
	}
	for {
		t := foldTask(l.Entries)
		if _, ours := t.PlaceOf(j.ID); ours { // it may have ended since, if we slept
			return j.ID, true, nil
		}
		if _, gone := t.Gone[j.ID]; gone {
			return "", false, errors.Join(abandoned(j), w.withdraw(ctx, j))
		}
		if _, elsewhere := t.Beside[j.SettingsKey]; elsewhere && !j.Spec.Named {
			return "", false, w.withdraw(ctx, j)
		}
		if t.Live != "" {
			closed, err := w.closeIfSettled(ctx, l, job.Path{Project: p.Project, Task: p.Task, Job: t.Live})
			if err != nil {
				return "", false, err
			}
			if closed {
				continue
			}
			return t.Live, false, w.withdraw(ctx, j)
		}
		mine, err := l.Append(ctx, Entry{Submitted: &Submitted{Job: j.ID, Record: w.record(j)}})
		if mine {
			return j.ID, true, nil
		}
		if err != nil {
			if !errors.Is(err, store.ErrUnclear) { // then it may still land, and needs its job.json
				err = errors.Join(err, w.withdraw(context.WithoutCancel(ctx), j))
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
func (w World) PutBeside(ctx context.Context, p job.Path, by, live, key, task string) (name string, ok bool, err error) {
	l := w.openLog(taskDir(p)+"/log", by)
	for {
		if err := l.Read(ctx); err != nil {
			return "", false, err
		}
		t := foldTask(l.Entries)
		if name, ok := t.Beside[key]; ok {
			return name, true, nil
		}
		if t.Live != live || live == "" {
			return "", false, nil
		}
		if _, err := l.Append(ctx, Entry{Beside: &Beside{Key: key, Task: task}}); err != nil {
			return "", false, err
		}
	}
}

// record is the digest of the job.json that Propose has written.
func (w World) record(j job.Job) store.Digest {
	body, known := w.Store.Recall(jobKey(j.Path()), store.Forever)
	if !known {
		body = encode(j)
	}
	return digestOf(body)
}

func digestOf(body []byte) store.Digest {
	sum := sha256.Sum256(body)
	return store.Digest(hex.EncodeToString(sum[:]))
}

// recordOf is the digest of a job's record by the first `submitted` of it; "": there is
// none, or it names none.
func recordOf(entries []Entry, id string) store.Digest {
	for _, e := range entries {
		if e.Submitted != nil && e.Submitted.Job == id {
			return e.Submitted.Record
		}
	}
	return ""
}

// LoadAccepted is Load for whatever runs a job, or has it go on: job.json must have the
// bytes that it had when the job was submitted (T1a). One that was changed since is
// ErrUnreadable, and nothing of it is returned. Behind the job's first `submitted` nothing
// is read.
func (w World) LoadAccepted(ctx context.Context, p job.Path) (job.Job, error) {
	j, body, err := w.load(ctx, p)
	if err != nil {
		return j, err
	}
	l := w.openLog(taskDir(p)+"/log", "")
	said := func() bool {
		return slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Submitted != nil && e.Submitted.Job == p.Job })
	}
	if err := l.readUntil(ctx, said); err != nil {
		return job.Job{}, err
	}
	if want := recordOf(l.Entries, p.Job); want != "" && want != digestOf(body) {
		return job.Job{}, fault.Wrap(unreadable{errors.New("it was changed after the job was submitted: its task's log names another digest")}, fault.Bug,
			"Put job.json back from a copy of the store, or run the command again with --force.", "read %s", jobKey(p))
	}
	return j, nil
}

// submitted says whether a job exists: its task's log names it (T1). What a submit
// left that never got so far is store.ErrNotExist.
func (w World) submitted(ctx context.Context, p job.Path) error {
	t, err := w.Task(ctx, p)
	if err != nil {
		return err
	}
	if _, ok := t.PlaceOf(p.Job); !ok {
		return fmt.Errorf("read job %s: never submitted: %w", p.Job, store.ErrNotExist)
	}
	return nil
}

// withdraw removes what a job left that never came to exist.
func (w World) withdraw(ctx context.Context, j job.Job) error {
	err := w.Store.Delete(ctx, jobKey(j.Path()))
	return errors.Join(err, w.Store.Delete(ctx, idKey(j.Short)))
}

// closeIfSettled writes `closed` when the live job's own log says settled: only
// then does another submit count (T1). A map that was submitted once more, and not
// reopened for that, is first settled for its new place, in its own log: who was
// about to reopen it comes too late there, or we do (T2).
func (w World) closeIfSettled(ctx context.Context, task *Log, p job.Path) (bool, error) {
	l := w.openLog(jobDir(p)+"/log", task.by)
	place, again := resubmitted(task.Entries, p.Job)
	ended := func() bool {
		s := foldRun(l.Entries).Settled
		return s != nil && (!again || s.Place >= place)
	}
	for {
		if err := l.readUntil(ctx, ended); err != nil {
			return false, err
		}
		if ended() {
			break
		}
		s := foldRun(l.Entries).Settled
		if s == nil {
			return false, nil
		}
		decline := *s
		decline.Place = place
		if _, err := l.Append(ctx, Entry{Settled: &decline}); err != nil {
			return false, err
		}
	}
	_, err := task.Append(ctx, Entry{Closed: &Closed{Job: p.Job}})
	return err == nil, err
}

// resubmitted is a job's last place, and whether it had one before.
func resubmitted(entries []Entry, id string) (place int, again bool) {
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

// Close writes into the task's log that the settled job p is no longer live.
// It may be called by anyone, any number of times; a job that has not settled
// is left alone.
func (w World) Close(ctx context.Context, p job.Path, by string) error {
	l := w.openLog(taskDir(p)+"/log", by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		if foldTask(l.Entries).Live != p.Job {
			return nil
		}
		if closed, err := w.closeIfSettled(ctx, l, p); err != nil || !closed {
			return err
		}
	}
}

// closeRun is Close of a run, which is submitted once: its first closed is its last,
// and nothing is read behind it. first says that nobody else is likely to have said
// so: then it is written by what this process knows, and who lost reads on.
func (w World) closeRun(ctx context.Context, p job.Path, by string, first bool) error {
	l := w.openLog(taskDir(p)+"/log", by)
	closed := func() bool {
		t := foldTask(l.Entries)
		_, had := t.PlaceOf(p.Job)
		return had && t.Live != p.Job
	}
	if err := l.recall(); err != nil {
		return err
	}
	for ; !closed(); first = false {
		live := foldTask(l.Entries).Live == p.Job
		if !first || !live {
			if err := l.readUntil(ctx, closed); err != nil || foldTask(l.Entries).Live != p.Job {
				return err
			}
		}
		if settled, err := w.closeIfSettled(ctx, l, p); err != nil || !settled {
			return err
		}
	}
	return nil
}

// Find resolves a short id, or the unambiguous beginning of one or of a full
// id. store.ErrNotExist when nothing matches.
func (w World) Find(ctx context.Context, id string) (job.Path, error) {
	if len(id) > job.MinShort {
		// A full id, or more of it than the short id needs.
		for n := len(id); n >= job.MinShort; n-- {
			p, ok, err := w.readID(ctx, idKey(id[:n]))
			if err != nil {
				return p, err
			}
			if ok && len(p.Job) >= len(id) && p.Job[:len(id)] == id {
				return p, nil
			}
		}
	}
	var found []job.Path
	var bad error
	for o, err := range w.Store.List(ctx, idKey(id)) {
		if err != nil {
			return job.Path{}, err
		}
		p, ok, err := w.readID(ctx, o.Key)
		switch {
		case errors.Is(err, ErrUnreadable) && o.Key != idKey(id):
			bad = err // it may be another's
		case err != nil || ok && o.Key == idKey(id):
			return p, err
		case ok:
			if found = append(found, p); len(found) > 1 {
				return p, ErrAmbiguous
			}
		}
	}
	if len(found) == 0 && bad != nil {
		return job.Path{}, bad
	}
	if len(found) == 0 {
		return job.Path{}, store.ErrNotExist
	}
	return found[0], nil
}

// ErrAmbiguous is Find's answer when several jobs begin with what was given.
var ErrAmbiguous = errors.New("several jobs begin with it")
