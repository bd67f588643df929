package ledger

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
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
	Placed Placed
	// Interrupted: a person has stopped the agents while this keeper watched.
	Interrupted bool
	// Settled is set once the job has ended and the task's log knows.
	Settled *Settled
}

// Keeper is an attached engine's part in a run: it sees that enough agents are
// there, opens attempts and settles as anyone may. It may die at any moment and
// another may run beside it. Not for concurrent use.
type Keeper struct {
	w      World
	p      job.Path
	target string
	by     string
	log    *Log
	run    Run

	// Far says that a request costs something: what follows from an entry of our own
	// is decided without reading on, and agents are looked for by their joins first.
	Far bool
	// Inherited are the variables that agents inherit from who keeps the job; nil: those
	// that the job has.
	Inherited *job.Inherited

	crew
	agents []string      // on living machines, by their heartbeats
	listed time.Duration // when they were looked for
	stopAt time.Duration
	began  bool
	asked  int // the attempt that stood interrupted by a person when we began, 0: none
}

// crew is what a keeper knows of the agents it asked for.
type crew struct {
	watch   *watch
	joined  map[int]bool // placements whose agents ever took part, as seen by this keeper
	barren  int          // placements of this keeper in a row that came to nothing
	counted map[int]bool // placements we asked for, and whether they are in barren
}

func newCrew(w World, p job.Path) crew {
	return crew{watch: newWatch(w, p), joined: map[int]bool{}, counted: map[int]bool{}}
}

// MaxBarren is how many placements in a row may die before any of their agents
// joined, or end with drover's own failure: then starting more is of no use.
const MaxBarren = 3

// NewKeeper makes an engine's part in job j. by names the engine's process.
func (w World) NewKeeper(j job.Job, by string) *Keeper {
	p := j.Path()
	return &Keeper{w: w, p: p, target: j.Spec.On, by: by,
		log: w.openLog(jobDir(p)+"/log", by), crew: newCrew(w, p),
		run: Run{Nodes: j.Spec.Nodes, Retries: j.Spec.Retries, Grace: time.Duration(j.Spec.Grace)}}
}

// Run is the newest fold, for showing.
func (k *Keeper) Run() Run { return k.run }

// Placed lists what was asked for so far: what the engine asks its driver about.
// Call Poll first.
func (k *Keeper) Placed() []Placed { return k.run.Placed }

// Poll reads what is new and decides. machines is the driver's answer for every
// placement it knows; one that is missing was never started.
func (k *Keeper) Poll(ctx context.Context, machines []Machine) (Watch, error) {
	fresh, err := k.fresh()
	if err != nil {
		return Watch{}, err
	}
	for read := !fresh; ; {
		if read {
			if err := k.read(ctx, machines); err != nil {
				return Watch{}, err
			}
		}
		if k.run.Settled != nil {
			return Watch{Settled: k.run.Settled}, k.w.closeRun(ctx, k.p, k.by, false)
		}
		if k.interrupted() {
			return Watch{Interrupted: true}, nil
		}
		e, ok := k.next(machines)
		if !ok {
			return k.start(machines), nil
		}
		if err := k.w.mayFollow(ctx, k.p, e); err != nil {
			return Watch{}, err
		}
		mine, err := k.log.Append(ctx, e)
		if err != nil {
			return Watch{}, err
		}
		if read = !k.Far || !mine || e.Placed == nil && e.Settled == nil; !read {
			k.run.refold(k.log.Entries)
		}
	}
}

// fresh says whether the job was submitted by us a moment ago: its log is taken to be
// empty then, which an append finds out.
func (k *Keeper) fresh() (bool, error) {
	if !k.Far || k.began {
		return false, nil
	}
	task := k.w.openLog(taskDir(k.p)+"/log", k.by)
	if err := task.recall(); err != nil {
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

// interrupted says whether a person has stopped the job since we began: another
// keeper must not undo that (K1). To go on is for who is called afterwards.
func (k *Keeper) interrupted() bool {
	by := 0
	for _, e := range k.run.Exits {
		if e.Verdict == AskedToStop {
			by = k.run.Attempt()
		}
	}
	if !k.began {
		k.began, k.asked = true, by
	}
	return by > k.asked && k.run.Stop == nil
}

// next is the entry to append now, if any. The first attempt is the agents' to
// open: an engine that opens it would have it wait for nobody.
func (k *Keeper) next(machines []Machine) (Entry, bool) {
	step := k.run.Next(Evidence{Death: k.watch.death, StopAge: k.w.clock().Boot() - k.stopAt})
	switch {
	case step.Settle != nil:
		return Entry{Settled: step.Settle}, true
	case step.Fail != nil:
		return Entry{Failing: step.Fail}, true
	case step.Open != nil && step.Open.K > 1 && step.Open.Cause != Asked:
		return Entry{Attempt: step.Open}, true
	case k.run.Stop != nil || k.pending(machines):
		return Entry{}, false
	}
	if stop := k.hopeless(len(k.run.Placed), machines); stop != nil {
		return Entry{Failing: stop}, true
	}
	missing := k.run.Nodes - k.working(machines)
	if missing <= 0 {
		return Entry{}, false
	}
	k.counted[len(k.run.Placed)+1] = false
	return Entry{Placed: &Placed{Placement: len(k.run.Placed) + 1, Agents: missing, Target: k.target, Inherited: k.Inherited}}, true
}

// pending says whether the newest placement is written but not yet started.
func (k *Keeper) pending(machines []Machine) bool { return pending(len(k.run.Placed), machines) }

func pending(n int, machines []Machine) bool {
	return n > 0 && !slices.ContainsFunc(machines, func(m Machine) bool { return m.Placement == n })
}

// start asks for the newest placement when the driver knows nothing of it.
func (k *Keeper) start(machines []Machine) Watch {
	if k.run.Stop != nil || !k.pending(machines) {
		return Watch{}
	}
	return Watch{Start: true, Placed: k.run.Placed[len(k.run.Placed)-1]}
}

// hopeless ends a job of whose placements, n by now, the last ones came to nothing (K2).
func (k *crew) hopeless(n int, machines []Machine) *Stop {
	for i := range n {
		k.countBarren(i+1, machines)
	}
	if k.barren < MaxBarren {
		return nil
	}
	return &Stop{Code: fault.ExitDrover, Reason: fmt.Sprintf("%d placements in a row failed: %s", MaxBarren, lastWords(machines))}
}

// countBarren counts a placement of ours that is wholly dead, if nobody joined from
// it or drover itself has failed on it. A run's machines die one by one.
func (k *crew) countBarren(n int, machines []Machine) {
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
		k.barren = 0
		return
	}
	k.barren++
}

// working counts the machines that live and whose agent was heard of within a
// lease: one that hangs is replaced, and finds its rank taken if it comes back.
func (k *crew) working(machines []Machine) (n int) {
	silent := map[[2]int]bool{}
	for agent := range k.watch.seen {
		if placement, index, ok := Seat(agent); ok && k.watch.death(agent) != Alive {
			silent[[2]int{placement, index}] = true
		}
	}
	for _, m := range machines {
		if m.Alive && !silent[[2]int{m.Placement, m.Index}] {
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

// mayFollow looks whether the job is there before e is written, if that follows from
// agents that are gone: those of one that was removed leave as soon as they come.
func (w World) mayFollow(ctx context.Context, p job.Path, e Entry) error {
	if e.Failing == nil && (e.Placed == nil || e.Placed.Placement == 1) {
		return nil
	}
	return notRemoved(w.seen(ctx, p, 0), p)
}

// notRemoved says of an error that a job was removed what there is to do.
func notRemoved(err error, p job.Path) error {
	if errors.Is(err, ErrRemoved) {
		return fault.Wrap(err, fault.Missing, "Run it again.", "follow job %s", p.Job)
	}
	return err
}

func (k *Keeper) read(ctx context.Context, machines []Machine) error {
	if err := notRemoved(k.w.exists(ctx, k.p), k.p); err != nil {
		return err
	}
	now, stopped, seen := k.w.clock().Boot(), k.run.Stop != nil, k.run.Attempt()
	k.watch.bury()
	if err := k.w.readRun(ctx, k.p, k.log, &k.run); err != nil {
		return err
	}
	if k.run.Stop != nil && !stopped {
		k.stopAt = k.w.clock().Boot() // after the answer: it may have taken long
	}
	if err := k.findAgents(ctx, machines, now); err != nil {
		return err
	}
	if err := k.w.observe(ctx, k.watch, k.run, "", k.agents...); err != nil {
		return err
	}
	for n := max(1, seen); k.began && n < k.run.Attempt(); n++ { // attempts that came and went between two looks
		joins := map[int]Join{}
		if err := fill(ctx, k.w, k.p, n, "join", k.run.Nodes, joins, -1, func(j *Join) *int { return &j.V }); err != nil {
			return err
		}
		for _, join := range joins {
			if placement, _, ok := Seat(join.Agent); ok {
				k.joined[placement] = true
			}
		}
	}
	for _, join := range k.run.Joins {
		placement, index, ok := Seat(join.Agent)
		if !ok {
			continue
		}
		k.joined[placement] = true
		i := slices.IndexFunc(machines, func(m Machine) bool { return m.Placement == placement && m.Index == index })
		if i >= 0 && !machines[i].Alive {
			k.watch.engine[join.Agent] = Dead
			if machines[i].Taken {
				k.watch.engine[join.Agent] = Taken
			}
		}
	}
	return nil
}

// findAgents looks, as often as agents beat, for the ids of agents on living
// machines: also of those that have not joined, or are not asked for any more.
func (k *Keeper) findAgents(ctx context.Context, machines []Machine, now time.Duration) error {
	if len(k.agents) > 0 && now-k.listed < Heartbeat {
		return nil
	}
	if k.Far && k.found(machines) {
		k.agents = nil
		return nil
	}
	k.listed, k.agents = now, nil
	for o, err := range k.w.Store.List(ctx, jobDir(k.p)+"/agents/") {
		if err != nil {
			return err
		}
		agent := path.Base(o.Key)
		placement, index, ok := Seat(agent)
		if ok && slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive && m.Placement == placement && m.Index == index }) {
			k.agents = append(k.agents, agent)
		}
	}
	return nil
}

// found says that the agents of all living machines are known by their joins, or that
// no machine lives: a listing would say nothing more.
func (k *Keeper) found(machines []Machine) bool {
	joined := map[[2]int]bool{}
	for _, join := range k.run.Joins {
		if placement, index, ok := Seat(join.Agent); ok {
			joined[[2]int{placement, index}] = true
		}
	}
	return !slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive && !joined[[2]int{m.Placement, m.Index}] })
}

func sorted(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Cancel asks for the end of a job. It returns once that is durable: stands is
// false when the job had already settled, or was stopped by something else.
func (w World) Cancel(ctx context.Context, p job.Path, by, reason string) (stands bool, err error) {
	return w.stop(ctx, p, by, Stop{Reason: reason})
}

// Drain is Cancel of a map whose items that run may end (E2); Cancel after it has
// them ended.
func (w World) Drain(ctx context.Context, p job.Path, by, reason string) (stands bool, err error) {
	return w.stop(ctx, p, by, Stop{Reason: reason, Drain: true})
}

func (w World) stop(ctx context.Context, p job.Path, by string, stop Stop) (stands bool, err error) {
	l := w.openLog(jobDir(p)+"/log", by)
	for {
		if err := w.exists(ctx, p); err != nil {
			return false, err
		}
		if err := l.Read(ctx); err != nil {
			return false, err
		}
		if len(l.Entries) == 0 {
			if err := w.submitted(ctx, p); err != nil {
				return false, err
			}
			j, err := w.Load(ctx, p)
			if err == nil && j.Spec.Verb == job.Map {
				err = begin(ctx, l)
			}
			if err != nil {
				return false, err
			}
		}
		r := foldRun(l.Entries)
		if r.Settled != nil || r.Stop != nil && (r.Failing || !r.Stop.hardenedBy(stop)) {
			return r.Stop != nil && !r.Failing, nil
		}
		if _, err := l.Append(ctx, Entry{Cancelled: &stop}); err != nil {
			return false, err
		}
	}
}
