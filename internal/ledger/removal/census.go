// Package removal is gc's part: which blobs entries name, sweeps of those that none names, and how
// a job is removed (rules E6 and E7).
//
// It refuses to know which jobs are old enough. Proved by its tests and the simulation of gc in
// package engine.
package removal

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
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// NameOutputs says what the exit of a rank is going to name. Its agent calls it
// when the outputs are stored, then Sweeps.Assure, then Member.Ended. It may be
// called again with others: the newest are meant.
func NameOutputs(ctx context.Context, w protocol.World, p job.Path, attempt, rank int, agent string, outputs map[string]store.Digest) error {
	l := w.OutputsLog(p, attempt, rank, agent)
	for { // no other writes it, as a rule: it is not read first
		mine, err := l.Append(ctx, protocol.OutputsEntry{Named: &protocol.Named{Outputs: outputs}})
		if err != nil || mine {
			return err
		}
	}
}

// RememberTask makes a task known to gc before it has had a job: a command that puts state there by
// hand calls it first.
func RememberTask(ctx context.Context, w protocol.World, p job.Path) error {
	_, _, err := w.Store.CreateOnce(ctx, protocol.KnownDir+p.Project+"."+p.Task, protocol.Encode(job.Path{Project: p.Project, Task: p.Task}))
	return err
}

// Inventory is all that entries name, job by job: what gc decides by. It remembers
// what cannot change any more, so a second look costs little. Not for concurrent use.
type Inventory struct {
	w     protocol.World
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
	Settled   *protocol.Settled
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

	log    *protocol.Log[protocol.JobEntry]
	rounds *protocol.Log[protocol.RoundsEntry]          // nil: of a run, which has none
	names  map[int]*protocol.Log[protocol.OutputsEntry] // of outputs, by rank
	exits  map[int]protocol.Exit
	k      int  // the attempt that names and exits are of
	whole  bool // nothing of it can change any more
}

// Live says that a job was accepted and may still change.
func (c *Counted) Live() bool { return c.Submitted && !c.Removed && c.Settled == nil }

// CountedTask is one task: its fold, and the generations of its ranks.
type CountedTask struct {
	Path job.Path
	Task tasks.Task
	// Generations are those of each rank that count, newest first.
	Generations map[int][]protocol.Saved
	// Restoring is what a rank's holder begins with, of those that have saved nothing yet.
	Restoring map[int]protocol.Saved
	// Begun are the states that attempts with one shared state began with, newest first.
	Begun []protocol.Begun
	// Bad says why its logs cannot be read; nil: they can.
	Bad error

	log   *protocol.Log[protocol.TaskEntry]
	ranks map[int]*protocol.Log[protocol.StateEntry]
}

// NewInventory makes one that has seen nothing yet: see Look.
func NewInventory(w protocol.World) *Inventory {
	return &Inventory{w: w, ids: map[string]job.Path{}, jobs: map[job.Path]*Counted{}, tasks: map[job.Path]*CountedTask{}}
}

// Look reads everything that was written before it began. What cannot be read hides
// nothing else: it is Bad, and Unreadable has it. What it names is not known then.
func (c *Inventory) Look(ctx context.Context) error {
	if err := c.findNames(ctx); err != nil {
		return fmt.Errorf("list what is referenced: %w", err)
	}
	for _, t := range c.Tasks() {
		t.Bad = nil
		err := c.readTask(ctx, t)
		if errors.Is(err, protocol.ErrUnreadable) {
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
		err := c.readJobOf(ctx, j)
		if errors.Is(err, protocol.ErrUnreadable) {
			j.Bad = fault.Wrap(err, fault.KindOf(err), "`drover verify "+j.Path.Job+"` says what is wrong with it; put that back from a copy of the store.", "look at job %s", j.Path.Job)
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
func (c *Inventory) Unreadable() []error {
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
func (c *Inventory) Jobs() []*Counted {
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
func (c *Inventory) Tasks() []*CountedTask {
	var all []*CountedTask
	for _, t := range c.tasks {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *CountedTask) int {
		return strings.Compare(a.Path.Project+"/"+a.Path.Task, b.Path.Project+"/"+b.Path.Task)
	})
	return all
}

// findNames reads the short ids, and the tasks that are known without a job.
func (c *Inventory) findNames(ctx context.Context) error {
	c.names = nil
	for _, prefix := range []string{"ids/", protocol.KnownDir} {
		for o, err := range c.w.Store.List(ctx, prefix) {
			if err != nil {
				return err
			}
			if _, known := c.ids[o.Key]; known {
				continue
			}
			p, there, err := tasks.ReadShortID(ctx, c.w, o.Key)
			if errors.Is(err, protocol.ErrUnreadable) {
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
			c.noteFound(p)
			if j := c.jobs[p]; j != nil {
				j.Short, j.Since = strings.TrimPrefix(o.Key, "ids/"), o.Time
			}
		}
	}
	return nil
}

// noteFound notes a job, or with an empty id a task.
func (c *Inventory) noteFound(p job.Path) {
	task := job.Path{Project: p.Project, Task: p.Task}
	if c.tasks[task] == nil {
		c.tasks[task] = &CountedTask{Path: task, log: c.w.TaskLog(task, ""), ranks: map[int]*protocol.Log[protocol.StateEntry]{}}
	}
	if p.Job != "" && c.jobs[p] == nil {
		c.jobs[p] = &Counted{Path: p, log: c.w.JobLog(p, "")}
	}
}

func (c *Inventory) readTask(ctx context.Context, t *CountedTask) error {
	if err := t.log.Read(ctx); err != nil {
		return err
	}
	t.Task = tasks.FoldTask(t.log.Entries)
	for _, p := range t.Task.Jobs { // a short id may have been lost by hand
		c.noteFound(job.Path{Project: t.Path.Project, Task: t.Path.Task, Job: p.Job})
	}
	prefix := protocol.TaskDir(t.Path) + "/state/"
	for o, err := range c.w.Store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		rank, err := strconv.Atoi(protocol.FirstPart(o.Key[len(prefix):]))
		if err == nil && t.ranks[rank] == nil {
			t.ranks[rank] = c.w.StateLog(t.Path, rank, "")
		}
	}
	t.Generations, t.Restoring, t.Begun = map[int][]protocol.Saved{}, map[int]protocol.Saved{}, nil
	for _, rank := range slices.Sorted(maps.Keys(t.ranks)) {
		l := t.ranks[rank]
		if err := l.Read(ctx); err != nil {
			return err
		}
		for _, n := range slices.Backward(states.CountedGenerations(l.Entries)) {
			t.Generations[rank] = append(t.Generations[rank], *l.Entries[n].Saved)
		}
		if from := states.BeginsWith(l.Entries); from != nil {
			t.Restoring[rank] = *from
		}
		if rank == 0 {
			t.Begun = states.FoldBegun(l.Entries)
			slices.Reverse(t.Begun)
		}
	}
	return nil
}

func (c *Inventory) readJobOf(ctx context.Context, j *Counted) (err error) {
	task := c.tasks[job.Path{Project: j.Path.Project, Task: j.Path.Task}]
	t := task.Task
	j.Place, j.Submitted = t.PlaceOf(j.Path.Job)
	if j.Removed = t.WasRemoved(j.Path.Job); j.Removed || j.whole {
		return nil // it names nothing any more, or nothing new
	}
	if !j.There {
		j.Job, err = tasks.LoadJob(ctx, c.w, j.Path)
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
	if err := c.readRounds(ctx, j); err != nil {
		return err
	}
	r := runs.FoldRun(j.log.Entries)
	k := r.Attempt()
	if r.Settled != nil {
		k = r.Settled.Attempt
	}
	if err := c.readOutputs(ctx, j, k); err != nil {
		return err
	}
	if _, again := tasks.LastPlace(task.log.Entries, j.Path.Job); again && r.Settled != nil && r.Settled.Submission < j.Place {
		r.Settled = nil // of an older round: a command is about to reopen it (T2)
	}
	if j.Settled = r.Settled; j.Settled == nil {
		return nil
	}
	j.Ended = runs.SettledAt(r, j.log.Entries)
	// A rank of a job that was stopped may be late with its exit.
	// And a map may be reopened.
	j.whole = (k == 0 || len(j.exits) == j.Job.Spec.Nodes) && j.Job.Spec.Verb != job.Map
	return nil
}

// readRounds takes in what a map was given after its own code and items, and what it is
// about to be.
func (c *Inventory) readRounds(ctx context.Context, j *Counted) error {
	if j.Job.Spec.Verb != job.Map {
		return nil
	}
	if j.rounds == nil {
		j.rounds = c.w.RoundsLog(j.Path, "")
	}
	if err := j.rounds.Read(ctx); err != nil {
		return err
	}
	j.Codes, j.More = nil, nil
	for _, e := range j.rounds.Entries {
		j.noteRound(e.Amended, e.Extended)
	}
	for _, e := range j.log.Entries {
		j.noteRound(e.Amended, e.Extended)
	}
	return nil
}

// noteRound notes the code and the items that one entry names.
func (j *Counted) noteRound(a *protocol.Amended, x *protocol.Extended) {
	if a != nil && a.Code != nil {
		j.Codes = append(j.Codes, store.Digest(a.Code.Blob))
	}
	if x != nil {
		j.More = append(j.More, x.Manifest)
	}
}

// readOutputs reads what attempt k has left, and what its ranks are about to.
func (c *Inventory) readOutputs(ctx context.Context, j *Counted, k int) error {
	if j.k != k || j.exits == nil {
		j.k, j.exits, j.names = k, map[int]protocol.Exit{}, map[int]*protocol.Log[protocol.OutputsEntry]{}
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
			j.names[rank] = c.w.OutputsLog(j.Path, k, rank, "")
		}
		if err := j.names[rank].Read(ctx); err != nil {
			return err
		}
	}
	if err := runs.ReadRanks(ctx, c.w, j.Path, k, "exit", nodes, j.exits, -1, func(e *protocol.Exit) *int { return &e.V }); err != nil {
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

// ListFolders lists what the jobs of a task have.
func ListFolders(ctx context.Context, w protocol.World, p job.Path) ([]Folder, error) {
	var all []Folder
	prefix := protocol.TaskDir(p) + "/"
	for o, err := range w.Store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list task %s: %w", p.Task, err)
		}
		name := protocol.FirstPart(o.Key[len(prefix):])
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

// RemoveProbes deletes what gcs left, older than a time, that were cut short.
func RemoveProbes(ctx context.Context, w protocol.World, before time.Time) error {
	for _, dir := range []string{"/lists/", "/now/"} {
		for o, err := range w.Store.List(ctx, protocol.SweepDir+dir) {
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

// StoreTime is the store's own clock, by the date of an object written for that.
func StoreTime(ctx context.Context, w protocol.World) (now time.Time, err error) {
	key := protocol.SweepDir + "/now/" + w.NewNonce()
	if _, _, err := w.Store.CreateOnce(ctx, key, protocol.Encode(struct{}{})); err != nil {
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
