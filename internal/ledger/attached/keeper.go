// Package attached is the part of an attached command line in a run and in a map: it sees that
// enough agents are placed, passes on what the engine says of them, and does what any process may
// do when no agent is left to.
//
// It refuses to know drivers: its caller asks them. Proved by the simulations of package ledger.
package attached

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// Machine is what an engine says of one place it was asked for: a row of a
// driver's Status.
type Machine struct {
	Placement int
	Index     int
	Alive     bool
	Broke     bool   // it ended by itself, with a status that is drover's own failure
	Taken     bool   // the engine says that it took the machine away: an interruption
	Why       string // the engine's own words, when it is not alive
}

// Watch is what a Keeper asks its engine to do.
type Watch struct {
	// Start asks for Agents agents under Placement: first ever, or again after
	// an ambiguous answer; starting is idempotent by placement (J1).
	Start  bool
	Placed protocol.Placed
	// Interrupted: a person has stopped the agents while this keeper watched.
	Interrupted bool
	// Settled is set once the job has ended and the task's log knows.
	Settled *protocol.Settled
}

// Keeper is an attached engine's part in a run: it sees that enough agents are
// there, opens attempts and settles as any process may. It may die at any moment and
// another may run beside it. Not for concurrent use.
type Keeper struct {
	w      protocol.World
	p      job.Path
	target string
	by     string
	log    *protocol.Log[protocol.JobEntry]
	run    runs.Run

	// Far says that a request costs something: what follows from an entry of our own
	// is decided without reading on, and agents are looked for by their joins first.
	Far bool
	// Inherited are the variables that agents inherit from the command that keeps the job; nil: those
	// that the job has.
	Inherited *job.Inherited

	placements
	agents []string      // on living machines, by their heartbeats
	listed time.Duration // when they were looked for
	stopAt time.Duration
	began  bool
	asked  int // the attempt that stood interrupted by a person when we began, 0: none
}

// placements is what a keeper knows of the agents it asked for.
type placements struct {
	observer         *liveness.Observer
	joined           map[int]bool // placements with an agent that ever took part, as seen by this keeper
	failedPlacements int          // placements of this keeper in a row that came to nothing
	counted          map[int]bool // placements we asked for, and whether they are in barren
}

func newPlacements(w protocol.World, p job.Path) placements {
	return placements{observer: liveness.NewObserver(w, p), joined: map[int]bool{}, counted: map[int]bool{}}
}

// MaxFailedPlacements is how many placements in a row may die before any of their agents
// joined, or end with drover's own failure: then starting more is of no use.
const MaxFailedPlacements = 3

// NewKeeper makes an engine's part in job j. by names the engine's process.
func NewKeeper(w protocol.World, j job.Job, by string) *Keeper {
	p := j.Path()
	return &Keeper{w: w, p: p, target: j.Target(), by: by,
		log: w.JobLog(p, by), placements: newPlacements(w, p),
		run: runs.Run{Nodes: j.Spec.Nodes, Retries: j.Spec.Retries, Grace: time.Duration(j.Spec.Grace)}}
}

// Run is the newest fold, for showing.
func (k *Keeper) Run() runs.Run { return k.run }

// Placed lists what was asked for so far: what the engine asks its driver about.
// Call Poll first.
func (k *Keeper) Placed() []protocol.Placed { return k.run.Placed }

// Poll reads what is new and decides. machines is the driver's answer for every
// placement it knows; one that is missing was never started.
func (k *Keeper) Poll(ctx context.Context, machines []Machine) (Watch, error) {
	fresh, err := k.submittedJustNow()
	if err != nil {
		return Watch{}, err
	}
	for read := !fresh; ; {
		if read {
			if err := k.readAll(ctx, machines); err != nil {
				return Watch{}, err
			}
		}
		if k.run.Settled != nil {
			return Watch{Settled: k.run.Settled}, tasks.CloseRun(ctx, k.w, k.p, k.by, false)
		}
		if k.wasInterrupted() {
			return Watch{Interrupted: true}, nil
		}
		e, ok := k.nextEntry(machines)
		if !ok {
			return k.startRequest(machines), nil
		}
		if err := checkMayFollow(ctx, k.w, k.p, e); err != nil {
			return Watch{}, err
		}
		mine, err := k.log.Append(ctx, e)
		if err != nil {
			return Watch{}, err
		}
		if read = !k.Far || !mine || e.Placed == nil && e.Settled == nil; !read {
			k.run.RefoldLog(k.log.Entries)
		}
	}
}

// submittedJustNow says whether the job was submitted by us a moment ago: its log is taken to be
// empty then, which an append finds out.
func (k *Keeper) submittedJustNow() (bool, error) {
	if !k.Far || k.began {
		return false, nil
	}
	task := k.w.TaskLog(k.p, k.by)
	if err := task.RecallKnown(); err != nil {
		return false, err
	}
	ours, times := false, 0
	for _, e := range task.Entries {
		if e.Submitted != nil && e.Submitted.Job == k.p.Job {
			ours, times = e.By == k.by, times+1
		}
	}
	return ours && times == 1, nil
}

// wasInterrupted says whether a person has stopped the job since we began: another
// keeper must not undo that (K1). To go on is for the next command.
func (k *Keeper) wasInterrupted() bool {
	by := 0
	for _, e := range k.run.Exits {
		if e.Verdict == protocol.AskedToStop {
			by = k.run.Attempt()
		}
	}
	if !k.began {
		k.began, k.asked = true, by
	}
	return by > k.asked && k.run.Stop == nil
}

// nextEntry is the entry to append now, if any. The first attempt is the agents' to
// open: an engine that opens it would have it wait for no agent.
func (k *Keeper) nextEntry(machines []Machine) (protocol.JobEntry, bool) {
	step := k.run.Next(runs.Evidence{Death: k.observer.DeathOf, StopAge: k.w.Clock().Boot() - k.stopAt})
	switch {
	case step.Settle != nil:
		return protocol.JobEntry{Settled: step.Settle}, true
	case step.Fail != nil:
		return protocol.JobEntry{Failing: step.Fail}, true
	case step.Open != nil && step.Open.K > 1 && step.Open.Cause != protocol.Asked:
		return protocol.JobEntry{Attempt: step.Open}, true
	case k.run.Stop != nil || k.placementPending(machines):
		return protocol.JobEntry{}, false
	}
	if stop := k.crashLoop(len(k.run.Placed), machines); stop != nil {
		return protocol.JobEntry{Failing: stop}, true
	}
	missing := k.run.Nodes - k.workingMachines(machines)
	if missing <= 0 {
		return protocol.JobEntry{}, false
	}
	k.counted[len(k.run.Placed)+1] = false
	return protocol.JobEntry{Placed: &protocol.Placed{Placement: len(k.run.Placed) + 1, Agents: missing, Target: k.target, Inherited: k.Inherited}}, true
}

// placementPending says whether the newest placement is written but not yet started.
func (k *Keeper) placementPending(machines []Machine) bool {
	return pending(len(k.run.Placed), machines)
}

func pending(n int, machines []Machine) bool {
	return n > 0 && !slices.ContainsFunc(machines, func(m Machine) bool { return m.Placement == n })
}

// startRequest asks for the newest placement when the driver knows nothing of it.
func (k *Keeper) startRequest(machines []Machine) Watch {
	if k.run.Stop != nil || !k.placementPending(machines) {
		return Watch{}
	}
	return Watch{Start: true, Placed: k.run.Placed[len(k.run.Placed)-1]}
}

// crashLoop ends a job after its last placements, of n so far, came to nothing (K2).
func (k *placements) crashLoop(n int, machines []Machine) *protocol.Stop {
	for i := range n {
		k.countFailedPlacement(i+1, machines)
	}
	if k.failedPlacements < MaxFailedPlacements {
		return nil
	}
	return &protocol.Stop{Code: fault.ExitDrover, Reason: fmt.Sprintf("agents could not be started %d times in a row: %s", MaxFailedPlacements, lastWords(machines))}
}

// countFailedPlacement counts a placement of ours that is wholly dead, if no agent joined from
// it or drover itself has failed on it. A run's machines die one by one.
func (k *placements) countFailedPlacement(n int, machines []Machine) {
	if counted, ours := k.counted[n]; !ours || counted || alive(machines, n) {
		return
	}
	k.counted[n] = true
	taken, broke := false, false
	for _, m := range machines {
		if m.Placement == n {
			taken, broke = taken || m.Taken, broke || m.Broke
		}
	}
	if taken || k.joined[n] && !broke {
		k.failedPlacements = 0
		return
	}
	k.failedPlacements++
}

// workingMachines counts the machines that live, without those with agents of which none was
// heard of within a lease: one that hangs is replaced, and finds its rank taken if it comes back.
// A machine may have had several agents, as an engine starts it again under its index.
func (k *placements) workingMachines(machines []Machine) (n int) {
	heard, silent := map[[2]int]bool{}, map[[2]int]bool{}
	for agent := range k.observer.Seen {
		placement, index, ok := liveness.PlacementAndIndex(agent)
		switch at := [2]int{placement, index}; {
		case !ok:
		case k.observer.DeathOf(agent) == liveness.Alive:
			heard[at] = true
		default:
			silent[at] = true
		}
	}
	for _, m := range machines {
		if at := [2]int{m.Placement, m.Index}; m.Alive && (heard[at] || !silent[at]) {
			n++
		}
	}
	return n
}

func alive(machines []Machine, placement int) bool {
	return slices.ContainsFunc(machines, func(m Machine) bool { return m.Placement == placement && m.Alive })
}

func lastWords(machines []Machine) string {
	if len(machines) == 0 {
		return "no reason given"
	}
	return machines[len(machines)-1].Why
}

// checkMayFollow looks whether the job is there before e is written, if that follows from
// agents that are gone: those of one that was removed leave as soon as they come.
func checkMayFollow(ctx context.Context, w protocol.World, p job.Path, e protocol.JobEntry) error {
	if e.Failing == nil && (e.Placed == nil || e.Placed.Placement == 1) {
		return nil
	}
	return notRemoved(liveness.CheckSeenSince(ctx, w, p, 0), p)
}

// notRemoved says of an error that a job was removed what there is to do.
func notRemoved(err error, p job.Path) error {
	if errors.Is(err, liveness.ErrRemoved) {
		return fault.Wrap(err, fault.Missing, "Run it again.", "follow job %s", p.Job)
	}
	return err
}

func (k *Keeper) readAll(ctx context.Context, machines []Machine) error {
	if err := notRemoved(liveness.CheckSeenRecently(ctx, k.w, k.p), k.p); err != nil {
		return err
	}
	now, stopped, seen := k.w.Clock().Boot(), k.run.Stop != nil, k.run.Attempt()
	k.observer.MarkDead()
	if err := runs.ReadRun(ctx, k.w, k.p, k.log, &k.run); err != nil {
		return err
	}
	if k.run.Stop != nil && !stopped {
		k.stopAt = k.w.Clock().Boot() // after the answer: it may have taken long
	}
	if err := k.findAgents(ctx, machines, now); err != nil {
		return err
	}
	if err := runs.ObserveAgents(ctx, k.w, k.observer, k.run, "", k.agents...); err != nil {
		return err
	}
	for n := max(1, seen); k.began && n < k.run.Attempt(); n++ { // attempts that came and went between two looks
		joins := map[int]protocol.Join{}
		if err := runs.ReadRanks(ctx, k.w, k.p, n, "join", k.run.Nodes, joins, -1, func(j *protocol.Join) *int { return &j.V }); err != nil {
			return err
		}
		for _, join := range joins {
			if placement, _, ok := liveness.PlacementAndIndex(join.Agent); ok {
				k.joined[placement] = true
			}
		}
	}
	for _, join := range k.run.Joins {
		placement, index, ok := liveness.PlacementAndIndex(join.Agent)
		if !ok {
			continue
		}
		k.joined[placement] = true
		i := slices.IndexFunc(machines, func(m Machine) bool { return m.Placement == placement && m.Index == index })
		if i >= 0 && !machines[i].Alive {
			k.observer.EngineSays[join.Agent] = liveness.Dead
			if machines[i].Taken {
				k.observer.EngineSays[join.Agent] = liveness.Taken
			}
		}
	}
	return nil
}

// findAgents looks, as often as agents beat, for the ids of agents on living
// machines: also of those that have not joined, or are not asked for any more.
func (k *Keeper) findAgents(ctx context.Context, machines []Machine, now time.Duration) error {
	if len(k.agents) > 0 && now-k.listed < protocol.HeartbeatEvery {
		return nil
	}
	if k.Far && k.agentsAreKnown(machines) {
		k.agents = nil
		return nil
	}
	k.listed, k.agents = now, nil
	for o, err := range k.w.Store.List(ctx, protocol.JobDir(k.p)+"/agents/") {
		if err != nil {
			return err
		}
		agent := path.Base(o.Key)
		placement, index, ok := liveness.PlacementAndIndex(agent)
		if ok && slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive && m.Placement == placement && m.Index == index }) {
			k.agents = append(k.agents, agent)
		}
	}
	return nil
}

// agentsAreKnown says that the agents of all living machines are known by their joins, or that
// no machine lives: a listing would say nothing more.
func (k *Keeper) agentsAreKnown(machines []Machine) bool {
	joined := map[[2]int]bool{}
	for _, join := range k.run.Joins {
		if placement, index, ok := liveness.PlacementAndIndex(join.Agent); ok {
			joined[[2]int{placement, index}] = true
		}
	}
	return !slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive && !joined[[2]int{m.Placement, m.Index}] })
}
