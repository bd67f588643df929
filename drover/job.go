package drover

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Job is one job in the store. Its methods may be called from many goroutines,
// and from many programs at once. Those that read its output, its results and its figures
// are of the types that it is made of.
type Job struct {
	jobRef
	jobOutput
	jobResults
}

// jobRef is which job it is, and what its logs say of it.
type jobRef struct {
	c    *Client
	path job.Path
}

// jobOutput is what a job's programs print and measure.
type jobOutput struct{ jobRef }

// jobResults is what a job has made: files, and results of items with what they come to.
type jobResults struct{ jobRef }

// wholeJob is the job with all that is asked of it.
func (j *jobRef) wholeJob() *Job { return j.c.newJob(j.path) }

// Path says where the job lies in the store.
func (j *jobRef) Path() job.Path { return j.path }

// Status is a job as the store shows it.
type Status struct {
	V             int       `json:"v"`
	ID            string    `json:"id"`
	Job           string    `json:"job"` // project/task/id, in full
	Project       string    `json:"project"`
	Task          string    `json:"task"`
	State         job.State `json:"state"`
	Command       []string  `json:"command"`
	On            string    `json:"on"`
	Image         string    `json:"image,omitempty"` // what its programs run in; "": none, or the target's own choice
	Attempt       int       `json:"attempt"`
	Interruptions int       `json:"interruptions"`
	Failures      int       `json:"failures"`
	Code          *int      `json:"exit_code,omitempty"` // once settled
	Reason        string    `json:"reason,omitempty"`
	Hint          string    `json:"hint,omitempty"`
	Message       string    `json:"message,omitempty"` // what its nodes left in output/message, at most 1024 characters
	Submitted     time.Time `json:"submitted"`
	Started       time.Time `json:"started,omitzero"` // the newest attempt's program
	Ended         time.Time `json:"ended,omitzero"`
	Active        time.Time `json:"active,omitzero"` // an agent was last heard of
	Nodes         []Node    `json:"nodes,omitempty"`
	// Lineage says which jobs the inputs came from that were another task's.
	Lineage map[string]job.Origin `json:"lineage,omitempty"`
	Tags    map[string]string     `json:"tags,omitempty"`
	Queue   string                `json:"queue,omitempty"`
	User    string                `json:"user,omitempty"`
	Host    string                `json:"host,omitempty"`
	Folder  string                `json:"folder,omitempty"`
	// Root is the folder that was shipped as code, and Commit what git had checked out there;
	// Dirty says that files differed from it.
	Root   string `json:"code_folder,omitempty"`
	Commit string `json:"commit,omitempty"`
	Dirty  bool   `json:"dirty,omitempty"`

	// MapStatus is nil of a run, and where the items were not read (BriefStatus).
	*MapStatus
}

// Ran is how long the job has run, in its newest attempt; ok is false when nothing of
// it has begun. The time of a job that nothing works on stands still.
func (s Status) Ran(now time.Time) (ran time.Duration, ok bool) {
	if s.Started.IsZero() {
		return 0, false
	}
	until := now
	if !s.Ended.IsZero() {
		until = s.Ended
	}
	if (s.State == job.Interrupted || s.State == job.Cancelled) && s.Active.Before(until) {
		until = s.Active
	}
	return max(0, until.Sub(s.Started)), true
}

// Node is one rank of the newest attempt.
type Node struct {
	Rank    int       `json:"rank"`
	State   string    `json:"state"` // pending, an agent's phase, or the verdict
	Host    string    `json:"host,omitempty"`
	Address string    `json:"address,omitempty"` // where the other nodes reach it
	PID     int       `json:"agent_pid,omitempty"`
	Code    *int      `json:"exit_code,omitempty"`
	Signal  string    `json:"signal,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Trace   string    `json:"-"`
	CPU     float64   `json:"cpu_seconds,omitempty"`
	MaxRSS  int64     `json:"max_rss_bytes,omitempty"`     // of the largest process
	Peak    int64     `json:"peak_memory_bytes,omitempty"` // of all processes at once
	Saved   int       `json:"checkpoints_saved,omitempty"`
	SavedAt time.Time `json:"checkpoint_at,omitzero"`
	Notes   []string  `json:"notes,omitempty"`
}

// Spec is what was asked for, with everything that was recorded beside it.
func (j *jobRef) Spec(ctx context.Context) (job.Job, error) {
	rec, err := tasks.LoadJob(ctx, j.c.world, j.path)
	return rec, j.withVerifyHint(err)
}

// IsCallers reports whether rec, which Spec returned, names the client's own user as its
// submitter. That is the record's own word: another writer of the store can change it.
func (j *jobRef) IsCallers(rec job.Job) bool { return rec.User == j.c.engine.Caller.User }

// withVerifyHint adds to an error which says that the job's objects are what to look at next.
func (j *jobRef) withVerifyHint(err error) error {
	if errors.Is(err, protocol.ErrUnreadable) && fault.KindOf(err) == fault.Bug {
		return fault.Wrap(err, fault.Bug, "`drover verify "+j.path.Job+"` says what is wrong with it; put that back from a copy of the store.", "")
	}
	return err
}

func (j *jobRef) readReport(ctx context.Context) (views.Report, error) {
	rep, err := views.ReadReport(ctx, j.c.world, j.path)
	if errors.Is(err, store.ErrNotExist) {
		return rep, fault.Wrap(err, fault.Missing, "`drover status` lists what there is.", "read job %s", j.path.Job)
	}
	return rep, j.withVerifyHint(err)
}

func status(rep views.Report) Status {
	spec := rep.Job.Spec
	s := Status{V: 1, ID: rep.Job.Short, Job: rep.Path.String(), Project: spec.Project, Task: spec.Task, State: rep.State,
		Command: append([]string{spec.Program}, spec.Args...), On: spec.On, Image: rep.Job.Image, Attempt: rep.Run.Attempt(),
		Interruptions: rep.Run.Interruptions(), Failures: rep.Run.Failures(), Submitted: rep.Job.At,
		Started: rep.Started(), Ended: rep.Ended(), Active: rep.Active(), Lineage: rep.Job.Lineage, Tags: spec.Tags, Queue: spec.Queue, User: rep.Job.User, Host: rep.Job.Host, Folder: rep.Job.Folder,
		Root: rep.Job.Code.Root, Commit: rep.Job.Code.Commit, Dirty: rep.Job.Code.Dirty}
	if e := rep.Run.Settled; e != nil {
		code := e.Code
		s.Code, s.Reason, s.Hint = &code, e.Reason, e.Hint
		if e.State == job.Failed {
			s.Failures++
		}
	} else if rep.Run.Stop != nil {
		s.Reason = "stopping: " + rep.Run.Stop.Reason
	}
	var message []string
	for rank := range rep.Run.Nodes {
		s.Nodes = append(s.Nodes, node(rep, rank))
		if m := rep.Run.Exits[rank].Message; m != "" {
			message = append(message, m)
		}
	}
	all := []rune(strings.Join(message, "\n"))
	s.Message = string(all[:min(len(all), 1024)]) // as SageMaker joins and cuts them
	return s
}

func node(rep views.Report, rank int) Node {
	n := Node{Rank: rank, State: "pending"}
	join, joined := rep.Run.Joins[rank]
	if joined {
		n.State, n.Host, n.Address, n.PID = "lost", join.Name, join.Address, join.Host.PID
	}
	for _, b := range rep.Living {
		if joined && b.Agent == join.Agent {
			n.State, n.Saved, n.SavedAt = b.Phase, b.Saved, b.SavedAt
		}
	}
	if e, ok := rep.Run.Exits[rank]; ok {
		code := e.Code
		n.State, n.Code, n.Signal, n.Reason, n.Trace = string(e.Verdict), &code, e.Signal, e.Reason, e.Trace
		n.CPU, n.MaxRSS, n.Peak, n.Notes = e.CPU.Seconds(), e.MaxRSS, e.Peak, e.Notes
	}
	return n
}

// Wait sees that agents work on the job until it has settled, and says how it
// ended. It may be called by many at once; when ctx ends, the agents go on.
func (j *Job) Wait(ctx context.Context) (Status, error) { return j.WaitTold(ctx, nil) }

// WaitTold is Wait that tells what agents wait for, each time that it has changed; those with
// most agents come first.
func (j *Job) WaitTold(ctx context.Context, told func([]Waiting)) (Status, error) {
	if _, err := j.c.engine.AttendTold(ctx, j.path, engine.Told{Waiting: told}); err != nil {
		return Status{}, err
	}
	if err := j.c.engine.Clean(ctx, j.path); err != nil {
		return Status{}, err
	}
	return j.Status(ctx)
}

// Start sees that agents work on the job, and returns as soon as that is so; where
// they do not live beside the command line, as soon as their target has been asked for
// them: it may have them wait for long.
func (j *Job) Start(ctx context.Context) error {
	ctx, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	started := errors.New("started")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			rep, err := views.ReadReport(ctx, j.c.world, j.path)
			if err != nil || rep.Run.Settled != nil || len(rep.Living) > 0 {
				enough(started)
				return
			}
			_ = j.c.world.Store.Clock().Sleep(ctx, j.c.pollInterval())
		}
	}()
	attached, err := j.Attached(ctx)
	if err == nil {
		_, err = j.c.engine.AttendTold(ctx, j.path, engine.Told{Asked: func() {
			if !attached {
				enough(started)
			}
		}})
	}
	enough(started)
	<-done
	if errors.Is(context.Cause(ctx), started) && (err == nil || errors.Is(err, started) || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// Stop cancels the job and waits until it has settled; its programs get
// SIGTERM, and SIGKILL after their grace. stands is false when the job had
// ended before: that is not changed.
func (j *Job) Stop(ctx context.Context, reason string) (stands bool, err error) {
	return j.c.engine.Cancel(ctx, j.path, reason)
}

// StopWithin is Stop that has the job's agents killed after this time, if that is sooner than the
// grace of its programs. Of several the one that ends soonest stands; 0 kills at once.
func (j *Job) StopWithin(ctx context.Context, reason string, grace time.Duration) (stands bool, err error) {
	return j.c.engine.CancelWithin(ctx, j.path, reason, grace)
}

// Interrupt asks the job's agents to save and go, and waits for it. With job.Spec.StopTime
// the program gets its stop signal first, with less than that SIGTERM; with grace
// 0 they are killed. The job is INTERRUPTED then: Wait goes on with it.
func (j *Job) Interrupt(ctx context.Context, grace time.Duration) error {
	return j.c.engine.Interrupt(ctx, j.path, grace)
}

// Hasten leaves the agents that Interrupt asks to go less time than that, and waits for nothing.
func (j *Job) Hasten(ctx context.Context, grace time.Duration) error {
	return j.c.engine.Hasten(ctx, j.path, grace)
}

// Events tells what has happened to the job so far, in order.
func (j *Job) Events(ctx context.Context) ([]job.Event, error) {
	rep, err := j.readReport(ctx)
	if err != nil {
		return nil, err
	}
	events, err := views.ReadEvents(ctx, j.c.world, rep)
	if err != nil {
		return nil, err
	}
	notes, err := j.jobOutput.newReader().Notes(ctx, rep)
	if err != nil {
		return nil, err
	}
	events = append(events, notes...)
	slices.SortStableFunc(events, func(a, b job.Event) int { return a.Time.Compare(b.Time) })
	return events, nil
}

// Watch gives the job's events as they happen, from the first one on, and ends when the
// job has settled, when it has no agents any more, or when ctx does.
func (j *Job) Watch(ctx context.Context) iter.Seq2[job.Event, error] {
	return func(yield func(job.Event, error) bool) {
		seen := map[string]bool{}
		for idle := 0; idle <= idleLooks; {
			if s, err := j.BriefStatus(ctx); err == nil && s.State == job.Interrupted {
				idle++
			} else {
				idle = 0
			}
			events, err := j.Events(ctx)
			if err != nil {
				yield(job.Event{}, err)
				return
			}
			for _, e := range events {
				key := e.Time.String() + e.Kind + e.Text
				if seen[key] {
					continue
				}
				seen[key] = true
				if !yield(e, nil) || e.Kind == "settled" {
					return
				}
			}
			if err := j.c.world.Store.Clock().Sleep(ctx, j.c.pollInterval()); err != nil {
				yield(job.Event{}, err)
				return
			}
		}
	}
}
