package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Named lists what a rank's exit will name. It is written before the exit, which
// is a promise at once: gc must know of the outputs before.
type Named struct {
	Outputs map[string]store.Digest `json:"outputs"` // as Exit.Outputs
}

func namedDir(p job.Path, k, rank int) string {
	return fmt.Sprintf("%s/attempts/%d/out/%d", jobDir(p), k, rank)
}

// NameOutputs says what the exit of a rank is going to name. Its agent calls it
// when the outputs are stored, then Sweeps.Assure, then Member.Ended. It may be
// called again with others: the newest are meant.
func (w World) NameOutputs(ctx context.Context, p job.Path, attempt, rank int, agent string, outputs map[string]store.Digest) error {
	l := w.openLog(namedDir(p, attempt, rank), agent)
	for { // nobody else writes it, as a rule: it is not read first
		mine, err := l.Append(ctx, Entry{Named: &Named{Outputs: outputs}})
		if err != nil || mine {
			return err
		}
	}
}

// NameRound says what a round is going to name: new code, or new items with files.
// Who gives a map such a round calls it when that is stored, then Sweeps.Assure, then
// Reopen, which is a promise at once. What was named stays until the job goes,
// whatever becomes of the round.
func (w World) NameRound(ctx context.Context, p job.Path, by string, r Round) error {
	l := w.openLog(roundsDir(p), by)
	for {
		mine, err := l.Append(ctx, Entry{Amended: r.Amend, Extended: r.More})
		if err != nil || mine {
			return err
		}
	}
}

// roundsDir holds the log of what rounds of a map are about to name.
func roundsDir(p job.Path) string { return jobDir(p) + "/rounds" }

// knownDir names the tasks that have state and perhaps no job, by which all others
// are found.
const knownDir = sweepDir + "/tasks/"

// Known makes a task known to gc before it has had a job: who puts state there by
// hand calls it first.
func (w World) Known(ctx context.Context, p job.Path) error {
	_, _, err := w.Store.CreateOnce(ctx, knownDir+p.Project+"."+p.Task, encode(job.Path{Project: p.Project, Task: p.Task}))
	return err
}

// Census is all that entries name, job by job: what gc decides by. It remembers
// what cannot change any more, so a second look costs little. Not for concurrent use.
type Census struct {
	w     World
	ids   map[string]job.Path // by short id
	jobs  map[job.Path]*Counted
	tasks map[job.Path]*CountedTask // by a path without a job
	names []error                   // short ids and names of tasks that cannot be read
}

// Counted is one job as a census finds it.
type Counted struct {
	Path      job.Path
	Short     string    // "": it has none
	Since     time.Time // when it got its short id, by the store's clock
	Job       job.Job
	There     bool // job.json is
	Place     int  // in its task
	Submitted bool
	Removed   bool
	Settled   *Settled
	Ended     time.Time // when it settled, by the writer's clock
	// Codes are what a map was given new code as, after its own, or is about to be.
	Codes []store.Digest
	// More are the items that a map was given after its own, or is about to be.
	More []job.Manifest
	// Outputs are the lists of files that its current attempt left, or is about to.
	Outputs []store.Digest

	// Bad says why it cannot be read, or its task; nil: it can. What it names is then
	// not known, and what is known of it may be old.
	Bad error

	log    *Log
	rounds *Log         // nil: of a run, which has none
	names  map[int]*Log // of outputs, by rank
	exits  map[int]Exit
	k      int  // the attempt that names and exits are of
	whole  bool // nothing of it can change any more
}

// Live says that a job was accepted and may still change.
func (c *Counted) Live() bool { return c.Submitted && !c.Removed && c.Settled == nil }

// CountedTask is one task: its fold, and the generations of its ranks.
type CountedTask struct {
	Path job.Path
	Task Task
	// Generations are those of each rank that count, newest first.
	Generations map[int][]Saved
	// Begun are the states that attempts began with whose ranks share one, newest first.
	Begun []Begun
	// Bad says why its logs cannot be read; nil: they can.
	Bad error

	log   *Log
	ranks map[int]*Log
}

// NewCensus makes one that has seen nothing yet: see Look.
func (w World) NewCensus() *Census {
	return &Census{w: w, ids: map[string]job.Path{}, jobs: map[job.Path]*Counted{}, tasks: map[job.Path]*CountedTask{}}
}

// Look reads everything that was written before it began. What cannot be read hides
// nothing else: it is Bad, and Unreadable has it. What it names is not known then.
func (c *Census) Look(ctx context.Context) error {
	if err := c.find(ctx); err != nil {
		return fmt.Errorf("list what is referenced: %w", err)
	}
	for _, t := range c.Tasks() {
		t.Bad = nil
		err := c.task(ctx, t)
		if errors.Is(err, ErrUnreadable) {
			t.Bad = damagedTask(err, t.Path)
			continue
		}
		if err != nil {
			return fmt.Errorf("look at task %s/%s: %w", t.Path.Project, t.Path.Task, err)
		}
	}
	for _, j := range c.Jobs() {
		if j.Bad = c.tasks[job.Path{Project: j.Path.Project, Task: j.Path.Task}].Bad; j.Bad != nil {
			continue
		}
		err := c.job(ctx, j)
		if errors.Is(err, ErrUnreadable) {
			j.Bad = fault.Wrap(err, fault.KindOf(err), "drover verify "+j.Path.Job+" says what is wrong with it; put that back from a copy of the store.", "look at job %s", j.Path.Job)
			continue
		}
		if err != nil {
			return fmt.Errorf("look at job %s: %w", j.Path.Job, err)
		}
	}
	return nil
}

func damagedTask(err error, p job.Path) error {
	return fault.Wrap(err, fault.KindOf(err), "Put it back from a copy of the store.", "look at task %s/%s", p.Project, p.Task)
}

// Unreadable are the reasons why something was not read in the last Look, in an order
// that stays. While there are any, a blob that nothing names may be named all the same.
func (c *Census) Unreadable() []error {
	all := slices.Clone(c.names)
	for _, t := range c.Tasks() {
		if t.Bad != nil {
			all = append(all, t.Bad)
		}
	}
	for _, j := range c.Jobs() {
		if task := c.tasks[job.Path{Project: j.Path.Project, Task: j.Path.Task}]; j.Bad != nil && task.Bad == nil {
			all = append(all, j.Bad)
		}
	}
	return all
}

// Jobs are all jobs that were found, in the order of their tasks and places.
func (c *Census) Jobs() []*Counted {
	var all []*Counted
	for _, j := range c.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *Counted) int {
		if n := strings.Compare(a.Path.Project+"/"+a.Path.Task, b.Path.Project+"/"+b.Path.Task); n != 0 {
			return n
		}
		if a.Place != b.Place {
			return a.Place - b.Place
		}
		return strings.Compare(a.Path.Job, b.Path.Job)
	})
	return all
}

// Tasks are all tasks that were found, by name.
func (c *Census) Tasks() []*CountedTask {
	var all []*CountedTask
	for _, t := range c.tasks {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *CountedTask) int {
		return strings.Compare(a.Path.Project+"/"+a.Path.Task, b.Path.Project+"/"+b.Path.Task)
	})
	return all
}

// find reads the short ids, and the tasks that are known without a job.
func (c *Census) find(ctx context.Context) error {
	c.names = nil
	for _, prefix := range []string{"ids/", knownDir} {
		for o, err := range c.w.Store.List(ctx, prefix) {
			if err != nil {
				return err
			}
			if _, known := c.ids[o.Key]; known {
				continue
			}
			p, there, err := c.w.readID(ctx, o.Key)
			if errors.Is(err, ErrUnreadable) {
				c.names = append(c.names, err)
				continue
			}
			if err != nil {
				return err
			}
			if !there {
				continue // withdrawn between the listing and now
			}
			c.ids[o.Key] = p
			c.met(p)
			if j := c.jobs[p]; j != nil {
				j.Short, j.Since = strings.TrimPrefix(o.Key, "ids/"), o.Time
			}
		}
	}
	return nil
}

// met notes a job, or with an empty id a task.
func (c *Census) met(p job.Path) {
	task := job.Path{Project: p.Project, Task: p.Task}
	if c.tasks[task] == nil {
		c.tasks[task] = &CountedTask{Path: task, log: c.w.openLog(taskDir(task)+"/log", ""), ranks: map[int]*Log{}}
	}
	if p.Job != "" && c.jobs[p] == nil {
		c.jobs[p] = &Counted{Path: p, log: c.w.openLog(jobDir(p)+"/log", "")}
	}
}

func (c *Census) task(ctx context.Context, t *CountedTask) error {
	if err := t.log.Read(ctx); err != nil {
		return err
	}
	t.Task = foldTask(t.log.Entries)
	for _, p := range t.Task.Jobs { // a short id may have been lost by hand
		c.met(job.Path{Project: t.Path.Project, Task: t.Path.Task, Job: p.Job})
	}
	prefix := taskDir(t.Path) + "/state/"
	for o, err := range c.w.Store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		rank, err := strconv.Atoi(firstPart(o.Key[len(prefix):]))
		if err == nil && t.ranks[rank] == nil {
			t.ranks[rank] = c.w.openLog(stateDir(t.Path, rank), "")
		}
	}
	t.Generations, t.Begun = map[int][]Saved{}, nil
	for _, rank := range slices.Sorted(maps.Keys(t.ranks)) {
		l := t.ranks[rank]
		if err := l.Read(ctx); err != nil {
			return err
		}
		for _, n := range slices.Backward(generations(l.Entries)) {
			t.Generations[rank] = append(t.Generations[rank], *l.Entries[n].Saved)
		}
		if rank == 0 {
			t.Begun = begun(l.Entries)
			slices.Reverse(t.Begun)
		}
	}
	return nil
}

func (c *Census) job(ctx context.Context, j *Counted) (err error) {
	task := c.tasks[job.Path{Project: j.Path.Project, Task: j.Path.Task}]
	t := task.Task
	j.Place, j.Submitted = t.PlaceOf(j.Path.Job)
	if j.Removed = t.removed(j.Path.Job); j.Removed || j.whole {
		return nil // it names nothing any more, or nothing new
	}
	if !j.There {
		j.Job, err = c.w.Load(ctx, j.Path)
		if errors.Is(err, store.ErrNotExist) {
			return nil // not yet proposed, or removed since
		}
		if err != nil {
			return err
		}
		j.There = true
	}
	if !j.Submitted {
		return nil
	}
	if err := j.log.Read(ctx); err != nil {
		return err
	}
	if err := c.rounds(ctx, j); err != nil {
		return err
	}
	r := foldRun(j.log.Entries)
	k := r.Attempt()
	if r.Settled != nil {
		k = r.Settled.Attempt
	}
	if err := c.outputs(ctx, j, k); err != nil {
		return err
	}
	if _, again := resubmitted(task.log.Entries, j.Path.Job); again && r.Settled != nil && r.Settled.Place < j.Place {
		r.Settled = nil // of an older round: somebody is about to reopen it (T2)
	}
	if j.Settled = r.Settled; j.Settled == nil {
		return nil
	}
	j.Ended = Report{Run: r, Log: j.log.Entries}.Ended()
	// A rank of a job that was stopped may be late with its exit.
	// And a map may be reopened.
	j.whole = (k == 0 || len(j.exits) == j.Job.Spec.Nodes) && j.Job.Spec.Verb != job.Map
	return nil
}

// rounds takes in what a map was given after its own code and items, and what it is
// about to be.
func (c *Census) rounds(ctx context.Context, j *Counted) error {
	if j.Job.Spec.Verb != job.Map {
		return nil
	}
	if j.rounds == nil {
		j.rounds = c.w.openLog(roundsDir(j.Path), "")
	}
	if err := j.rounds.Read(ctx); err != nil {
		return err
	}
	j.Codes, j.More = nil, nil
	for _, e := range slices.Concat(j.rounds.Entries, j.log.Entries) {
		if e.Amended != nil && e.Amended.Code != nil {
			j.Codes = append(j.Codes, store.Digest(e.Amended.Code.Blob))
		}
		if e.Extended != nil {
			j.More = append(j.More, e.Extended.Manifest)
		}
	}
	return nil
}

// outputs reads what attempt k has left, and what its ranks are about to.
func (c *Census) outputs(ctx context.Context, j *Counted, k int) error {
	if j.k != k || j.exits == nil {
		j.k, j.exits, j.names = k, map[int]Exit{}, map[int]*Log{}
	}
	if k == 0 {
		return nil
	}
	// Names come before exits, in writing and in reading; an exit says it all.
	nodes := j.Job.Spec.Nodes
	for rank := range nodes {
		if _, ended := j.exits[rank]; ended {
			continue
		}
		if j.names[rank] == nil {
			j.names[rank] = c.w.openLog(namedDir(j.Path, k, rank), "")
		}
		if err := j.names[rank].Read(ctx); err != nil {
			return err
		}
	}
	if err := fill(ctx, c.w, j.Path, k, "exit", nodes, j.exits, -1, func(e *Exit) *int { return &e.V }); err != nil {
		return err
	}
	j.Outputs = nil
	for rank := range nodes {
		if exit, ended := j.exits[rank]; ended {
			j.Outputs = appendAll(j.Outputs, exit.Outputs)
			continue
		}
		for _, e := range j.names[rank].Entries {
			if e.Named != nil {
				j.Outputs = appendAll(j.Outputs, e.Named.Outputs)
			}
		}
	}
	return nil
}

func appendAll(all []store.Digest, outputs map[string]store.Digest) []store.Digest {
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		all = append(all, outputs[name])
	}
	return all
}

// Folder is what lies below a job's name, whether or not there is such a job.
type Folder struct {
	Job     string
	Objects int
	Bytes   int64
	Newest  time.Time // by the store's clock
}

// Folders lists what the jobs of a task have.
func (w World) Folders(ctx context.Context, p job.Path) ([]Folder, error) {
	var all []Folder
	prefix := taskDir(p) + "/"
	for o, err := range w.Store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list task %s: %w", p.Task, err)
		}
		name := firstPart(o.Key[len(prefix):])
		if !job.ValidID(name) || len(name) != len(fullID) {
			continue // the task's own: log, state, input
		}
		if n := len(all); n == 0 || all[n-1].Job != name {
			all = append(all, Folder{Job: name})
		}
		f := &all[len(all)-1]
		f.Objects++
		f.Bytes += o.Size
		if o.Time.After(f.Newest) {
			f.Newest = o.Time
		}
	}
	return all, nil
}

// fullID has the length of every job's id.
var fullID = job.ID([job.IDBytes]byte{})

// Tidy deletes what gcs left, older than a time, that were cut short.
func (w World) Tidy(ctx context.Context, before time.Time) error {
	for _, dir := range []string{"/lists/", "/now/"} {
		for o, err := range w.Store.List(ctx, sweepDir+dir) {
			if err == nil && o.Time.Before(before) {
				err = w.Store.Delete(ctx, o.Key)
			}
			if err != nil {
				return fmt.Errorf("clean up after gc: %w", err)
			}
		}
	}
	return nil
}

// Now is the store's own clock, by the date of an object written for that.
func (w World) Now(ctx context.Context) (now time.Time, err error) {
	key := sweepDir + "/now/" + w.nonce()
	if _, _, err := w.Store.CreateOnce(ctx, key, encode(struct{}{})); err != nil {
		return now, fmt.Errorf("ask the store for its clock: %w", err)
	}
	for o, err := range w.Store.List(ctx, key) {
		if err != nil {
			return now, err
		}
		if o.Key == key {
			now = o.Time
		}
	}
	return now, w.Store.Delete(ctx, key)
}
