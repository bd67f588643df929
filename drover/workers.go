package drover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// Worker is an agent of a live job: as its engine sees it, and as it says itself.
type Worker struct {
	Job     string  `json:"job"` // its short id
	Task    string  `json:"task"`
	Target  string  `json:"target"`
	Agent   string  `json:"agent,omitempty"` // its id; "": the engine has it, and it has not come up
	Where   string  `json:"where,omitempty"` // machine, for people
	Engine  string  `json:"engine"`          // what the engine says: waiting, running ...; unknown
	Reason  string  `json:"reason,omitempty"`
	State   string  `json:"state"`                   // what it says itself: preparing, running, left ...; "": nothing yet
	Age     float64 `json:"heartbeat_age_seconds"`   // of its last heartbeat, by this machine's clock; -1: none
	Rank    *int    `json:"rank,omitempty"`          // of a run's node
	Flight  int     `json:"items_running,omitempty"` // of a map
	Done    int     `json:"items_recorded,omitempty"`
	Slots   int     `json:"slots,omitempty"`
	CPUs    float64 `json:"cpus,omitempty"` // that were asked for
	Memory  int64   `json:"memory_bytes,omitempty"`
	GPUs    int     `json:"gpus,omitempty"`
	Drained bool    `json:"drained,omitempty"` // it is to leave

	enter []string
	at    [2]int // placement and index
}

// Workers are the agents of a job that live, as far as its engine or its store tells;
// with all, those that are gone too.
func (j *Job) Workers(ctx context.Context, all bool) ([]Worker, error) {
	rep, err := j.readReport(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := j.c.listWorkers(ctx, rep)
	if err == nil && !all {
		workers = slices.DeleteFunc(workers, func(w Worker) bool { return !w.isAlive() })
	}
	return workers, err
}

// isAlive says whether it may still be working: the engine's word comes first.
func (w Worker) isAlive() bool {
	if w.State == protocol.Left {
		return false
	}
	if w.Engine == unknown {
		return w.Age >= 0 && w.Age < protocol.Lease.Seconds()
	}
	return driver.State(w.Engine).Alive()
}

// unknown is what an engine says of an agent that it cannot be asked about.
const unknown = "unknown"

// listWorkers puts together what a job's engine and its agents say.
func (c *Client) listWorkers(ctx context.Context, rep views.Report) ([]Worker, error) {
	if rep.Run.Settled != nil {
		return nil, nil
	}
	spec := rep.Job.Spec
	blank := Worker{Job: rep.Job.Short, Task: spec.Task, Target: spec.On, Engine: unknown, Age: -1, CPUs: spec.CPUs, Memory: int64(spec.Memory), GPUs: spec.GPUs}
	by := map[[2]int]*Worker{}
	for _, pl := range rep.Run.Placed {
		members, err := c.engine.Members(ctx, rep.Job, pl.Placement)
		if err != nil {
			continue // it is shown by its heartbeat alone
		}
		for _, m := range members {
			w := blank
			w.at = [2]int{pl.Placement, m.Index}
			w.Engine, w.Reason, w.Where, w.enter = string(m.State), m.Reason, m.Where, m.Enter
			by[w.at] = &w
		}
	}
	drained := rep.Run.Drained
	if rep.Map != nil {
		drained = rep.Map.Map.Drained
	}
	for _, b := range rep.Heartbeats {
		placement, index, _ := liveness.PlacementAndIndex(b.Agent)
		w := by[[2]int{placement, index}]
		if w == nil {
			made := blank
			w, made.at = &made, [2]int{placement, index}
			by[made.at] = w
		}
		w.setFromHeartbeat(b, rep, c.world.Store.Clock().Now())
		_, w.Drained = drained[b.Agent]
	}
	var list []Worker
	for _, w := range by {
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b Worker) int { return cmp.Or(cmp.Compare(a.at[0], b.at[0]), cmp.Compare(a.at[1], b.at[1])) })
	return list, nil
}

func (w *Worker) setFromHeartbeat(b protocol.Heartbeat, rep views.Report, now time.Time) {
	w.Agent, w.State = b.Agent, b.Phase
	w.Where = cmp.Or(b.Name, w.Where)
	w.Age = max(0, now.Sub(b.At).Seconds())
	w.Flight, w.Done, w.Slots = b.Flight, b.Recorded, b.Slots
	for rank, join := range rep.Run.Joins {
		if join.Agent == b.Agent {
			w.Rank = &rank
		}
	}
}

// DrainWorker asks an agent to leave, by its id or what it begins with: it begins
// nothing new, what runs of a map ends, and a run goes on elsewhere from what it has
// saved. It returns once that is durable, wherever the agent is; the agent reads it at
// its next look.
func (j *Job) DrainWorker(ctx context.Context, agent, reason string) (Worker, error) {
	workers, err := j.Workers(ctx, false)
	if err != nil {
		return Worker{}, err
	}
	w, err := pick(workers, agent)
	if err != nil {
		return w, err
	}
	stands, err := control.DrainAgent(ctx, j.c.world, j.path, j.c.engine.Caller.By, protocol.Drained{Agent: w.Agent, Reason: reason, User: j.c.engine.Caller.User})
	if err == nil && !stands {
		err = fault.New(fault.Invalid, "It leaves by itself: `drover wait "+w.Job+"`.", "drain agent %s: job %s has ended or is being stopped", w.Agent, w.Job)
	}
	return w, err
}

// errNoWorker says that a job has no agent of that name.
var errNoWorker = errors.New("no such agent")

// pick finds the one agent that a text means.
func pick(workers []Worker, text string) (Worker, error) {
	var found []Worker
	for _, w := range workers {
		if w.Agent != "" && (w.Agent == text || strings.HasPrefix(w.Agent, text)) {
			found = append(found, w)
		}
	}
	const hint = "`drover worker ls` shows the agents that live."
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Worker{}, fault.Wrap(errNoWorker, fault.Missing, hint, "find agent %q", text)
	}
	return Worker{}, fault.New(fault.Invalid, hint, "find agent: %d agents begin with %q", len(found), text)
}

// FindWorker finds the live job that an agent works on, in a project or, with "", in
// the whole store.
func (c *Client) FindWorker(ctx context.Context, agent, project string) (*Job, error) {
	jobs, err := c.Live(ctx, project)
	var bad *Unreadable
	if err != nil && !errors.As(err, &bad) {
		return nil, err
	}
	var of *Job
	for _, j := range jobs {
		workers, err := j.Workers(ctx, false)
		if err != nil {
			return nil, err
		}
		switch _, err := pick(workers, agent); {
		case errors.Is(err, errNoWorker):
		case err != nil:
			return nil, err
		case of != nil:
			return nil, fault.New(fault.Invalid, "Type more of it; `drover worker ls` shows the agents.", "find agent: several jobs have one that begins with %q", agent)
		default:
			of = j
		}
	}
	switch {
	case of == nil && bad != nil: // it may be of one of these
		return nil, bad
	case of == nil:
		return nil, fault.Wrap(errNoWorker, fault.Missing, "`drover worker ls` shows the agents that live.", "find agent %q", agent)
	}
	return of, nil
}

// Live are the jobs that have not settled, oldest first. Those that cannot be read are an
// *Unreadable beside the others.
func (c *Client) Live(ctx context.Context, project string) ([]*Job, error) {
	var live []*Job
	var bad Unreadable
	all, err := c.Jobs(ctx, project)
	if err != nil && !bad.Took(err) {
		return nil, err
	}
	for _, j := range all {
		s, err := j.BriefStatus(ctx)
		if fault.KindOf(err) == fault.Missing || bad.Took(err) {
			continue // it was never submitted, or was removed
		}
		if err != nil {
			return nil, err
		}
		if !s.State.Settled() {
			live = append(live, j)
		}
	}
	return live, bad.OrNil()
}

// Beside is the command that, run with this terminal, runs what is added to it beside
// the program of a worker; without any more, a shell. The worker is given as a run's rank,
// or as an agent's id or what it begins with; "": rank 0, or the first agent of a map.
func (j *Job) Beside(ctx context.Context, who string) ([]string, error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		_, err = j.readReport(ctx) // it says it in words for people
		return nil, err
	}
	workers, err := j.Workers(ctx, false)
	if err != nil {
		return nil, err
	}
	w, err := j.findAgentBeside(rec, workers, who)
	if err != nil {
		return nil, err
	}
	if w.enter == nil {
		return nil, fault.New(fault.Invalid, "Look at what it prints: `drover logs -f "+w.Job+"`.", "attach to job %s: target %s cannot open a shell beside agent %s", w.Job, w.Target, w.Agent)
	}
	return w.enter, nil
}

func (j *Job) findAgentBeside(rec job.Job, workers []Worker, who string) (Worker, error) {
	workers = slices.DeleteFunc(workers, func(w Worker) bool { return w.Agent == "" })
	if rank, err := strconv.Atoi(cmp.Or(who, "0")); err == nil && rec.Spec.Verb != job.Map {
		if rank < 0 || rank >= rec.Spec.Nodes {
			return Worker{}, fault.New(fault.Invalid, "`drover worker ls "+rec.Short+"` shows those there are.", "attach to job %s: it has no node %d", rec.Short, rank)
		}
		for _, w := range workers {
			if w.Rank != nil && *w.Rank == rank {
				return w, nil
			}
		}
		what := "its program"
		if rec.Spec.Nodes > 1 {
			what = fmt.Sprintf("node %d", rank)
		}
		return Worker{}, fault.New(fault.Missing, "`drover why "+rec.Short+"` says how it stands.", "attach to job %s: %s is not running", rec.Short, what)
	}
	if who != "" {
		return pick(workers, who)
	}
	if len(workers) == 0 {
		return Worker{}, fault.New(fault.Missing, "`drover why "+rec.Short+"` says how it stands.", "attach to job %s: no agent of it is running", rec.Short)
	}
	return workers[0], nil
}
