// Package engine decides, anywhere: what a command means for the job that may be
// there already, what is shipped, and, while a command line is attached, that enough
// agents are there.
//
// An engine holds no facts: the logs do. Every engine may die at any moment,
// and several may attend one job. An engine knows targets only as drivers that were
// given to it, and users only as what they typed.
//
// Proved by its tests over the memory store and the memory driver with real
// agents, and by cmd/drover's scripts.
package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/code"
	"github.com/drover-run/drover/internal/engine/inputs"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/engine/waiting"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
	"github.com/drover-run/drover/report"
)

// Engine acts for one command line or one program. Its methods may be called
// from many goroutines.
type Engine struct {
	*session.Session
	Passes Passes

	Code   *code.Locator  // what goes along with a program
	Inputs *inputs.Finder // what inputs hold, and what tasks have left
	passes *passes
	given  *given
}

// New makes an engine.
func New(s session.Session, p Passes) *Engine {
	return &Engine{Session: &s, Passes: p, Code: &code.Locator{Session: &s}, Inputs: &inputs.Finder{Session: &s}, passes: &passes{made: map[passKey]madePass{}}, given: &given{}}
}

// The pace at which an attached engine looks. A folder store and a local driver answer
// in microseconds; quickest is for the first moments, when the user waits.
const (
	quickest = 10 * time.Millisecond
	slowest  = 250 * time.Millisecond
	// A store far away is asked that often, and when machines have gone: what ends a
	// job ends its agents, and where these live beside us we see that for nothing.
	farPace    = protocol.Poll
	besidePace = protocol.HeartbeatEvery
)

// keeper is an engine's part in a job: a run's or a map's.
type keeper interface {
	Poll(ctx context.Context, machines []attached.Machine) (attached.Watch, error)
	Placed() []protocol.Placed
}

// Attend sees that enough agents work on a job until it has settled, ctx ends,
// or the target cannot be had. It is what "run", "resume" and a second command
// do; many may do it at once.
func (e *Engine) Attend(ctx context.Context, p job.Path) (*protocol.Settled, error) {
	return e.AttendTold(ctx, p, Told{})
}

// Told are the functions by which AttendTold tells what it sees. One that is nil is not called.
type Told struct {
	// Asked is called whenever the target has been asked for all agents that are wanted just
	// now: from then on those go on without us, unless they live beside the command line.
	Asked func()
	// Waiting is called when agents have waited for a while, and again when the reasons have
	// changed.
	Waiting func([]report.Waiting)
}

// AttendTold is Attend that tells what it sees meanwhile.
func (e *Engine) AttendTold(ctx context.Context, p job.Path, told Told) (*protocol.Settled, error) {
	j, err := tasks.LoadAccepted(ctx, e.World, p)
	if err != nil {
		return nil, err
	}
	if j.Spec.Verb == job.Map { // its agents are asked for with what binds now
		m, err := chunks.ReadMap(ctx, e.World, j)
		if err != nil {
			return nil, err
		}
		j = m.Bind(j)
	}
	d, err := e.Driver(j.Spec.On)
	if err != nil {
		return nil, err
	}
	k, look := e.newKeeper(ctx, d, j)
	var rows []attached.Machine
	pace := quickest
	passes := renewal{e: e, d: d, j: j}
	waits := waiting.Reporter{Tell: told.Waiting}
	asked := func() {
		if told.Asked != nil {
			told.Asked()
		}
	}
	for {
		w, err := k.Poll(ctx, rows)
		if err != nil {
			return nil, err
		}
		if w.Settled != nil {
			return w.Settled, nil
		}
		if w.Interrupted {
			return nil, fault.New(fault.Interrupted, "Continue it: `drover resume "+j.Short+"`.", "follow job %s: another command has interrupted it", j.Short)
		}
		if w.Start {
			if err := e.startPlacement(ctx, d, j, w.Placed); err != nil {
				return nil, err
			}
			passes.begun(ctx)
			pace = quickest
			asked()
		} else if slices.ContainsFunc(rows, func(m attached.Machine) bool { return m.Alive }) {
			asked()
		}
		passes.look(ctx, rows)
		clock := e.World.Store.Clock()
		for asked, before := clock.Boot(), rows; ; before = rows {
			if err := clock.Sleep(ctx, pace); err != nil {
				return nil, err
			}
			pace = min(slowest, pace*5/4)
			members, err := e.listMembers(ctx, d, j, k.Placed())
			if err != nil {
				return nil, err
			}
			rows = machineRows(members)
			waits.Note(slices.Concat(members...), clock.Boot())
			if fewer(before, rows) || clock.Boot()-asked >= look {
				break
			}
		}
	}
}

// newKeeper is our part in a job, and how long it may go without a look at the store
// while no machine goes.
func (e *Engine) newKeeper(ctx context.Context, d driver.Opened, j job.Job) (keeper, time.Duration) {
	look := time.Duration(0)
	inherited := e.placedWith(d.Properties, j)
	if !e.Near && d.Attached {
		look = besidePace
	}
	if !e.Near && look == 0 {
		look = farPace
	}
	if j.Spec.Verb == job.Map {
		k := attached.NewMapKeeper(e.World, j, e.Caller.By)
		k.Inherited = inherited
		return k, min(look, farPace)
	}
	k := attached.NewKeeper(e.World, j, e.Caller.By)
	k.Far, k.Inherited = !e.Near, inherited
	return k, look
}

// fewer says whether a machine has gone since before, or has come and gone.
func fewer(before, now []attached.Machine) bool {
	lived := func(rows []attached.Machine) (alive int) {
		for _, m := range rows {
			if m.Alive {
				alive++
			}
		}
		return alive
	}
	return lived(now) < lived(before) || len(now)-lived(now) > len(before)-lived(before)
}

// startPlacement asks a driver for a placement's agents. A place that is full or gone is
// said, and the job stays as it is.
func (e *Engine) startPlacement(ctx context.Context, d driver.Opened, j job.Job, placed protocol.Placed) error {
	if d.Attached {
		// Its agents inherit what this command has: without a secret the job would fail
		// for good, and here the user can still be asked.
		if _, err := secret.Resolve(j.Spec.Secrets, e.Caller.Environ, os.ReadFile); err != nil {
			return err
		}
	}
	in, err := e.stdinForPlacement(d.Properties, j)
	if err != nil {
		return err
	}
	if err := e.requestAgents(ctx, d, j, placed.Placement, placed.Agents, in); err != nil {
		return fmt.Errorf("place job %s on %s: %w", j.Short, placed.Target, err)
	}
	return nil
}

// requestAgents is the Start of a placement, the first or another.
func (e *Engine) requestAgents(ctx context.Context, d driver.Opened, j job.Job, placement, agents int, in *os.File) error {
	each := needsOf(j)
	if s := j.Spec; s.Verb == job.Map && s.Slots == 0 && s.GPUs == 0 && (s.CPUs > 0 || s.Memory > 0) {
		if o, err := d.Offer(ctx, each); err == nil { // a container takes as many items as its machine has room for
			each = together(each, slots(s, o))
		}
	}
	each.Agents = agents
	boot, err := e.makeBoot(ctx, d, j)
	if err != nil {
		return err
	}
	boot.Stdin = in
	_, err = d.Start(ctx, driver.Request{Job: j.ID, Placement: placement, Agents: agents, Needs: each, Run: boot})
	return err
}

// Members asks a job's target about one of its placements.
func (e *Engine) Members(ctx context.Context, j job.Job, placement int) ([]driver.Member, error) {
	d, err := e.Driver(j.Spec.On)
	if err != nil {
		return nil, err
	}
	return d.Status(ctx, e.PlacementHandle(j, placement))
}

// listMachines asks a driver about every placement of a job.
func (e *Engine) listMachines(ctx context.Context, d driver.Opened, j job.Job, placed []protocol.Placed) ([]attached.Machine, error) {
	members, err := e.listMembers(ctx, d, j, placed)
	return machineRows(members), err
}

// listMembers asks a driver about every placement of a job, of which the numbers begin at 1.
func (e *Engine) listMembers(ctx context.Context, d driver.Opened, j job.Job, placed []protocol.Placed) (members [][]driver.Member, err error) {
	for _, pl := range placed {
		all, err := d.Status(ctx, e.PlacementHandle(j, pl.Placement))
		if err != nil {
			return nil, fmt.Errorf("ask %s about job %s: %w", j.Spec.On, j.Short, err)
		}
		members = append(members, all)
	}
	return members, nil
}

// machineRows are the members of a job's placements as a keeper needs them.
func machineRows(placements [][]driver.Member) (rows []attached.Machine) {
	for i, members := range placements {
		for _, m := range members {
			why := m.Reason
			if m.Tail != "" {
				lines := strings.Split(strings.TrimSpace(m.Tail), "\n")
				why = strings.TrimPrefix(why+": "+lines[len(lines)-1], ": ")
			}
			rows = append(rows, attached.Machine{Placement: i + 1, Index: m.Index, Alive: m.State.Alive(),
				Broke: m.State == driver.Ended && m.Code == fault.ExitDrover, Taken: m.State == driver.Taken, Why: why})
		}
	}
	return rows
}

// Interrupt asks the agents of a job to save and go, and waits until they are
// gone; with grace 0 it kills them. An agent that has the spec's StopTime gives its program
// the stop signal first, one that has less SIGTERM. The job is INTERRUPTED then, and resume
// goes on.
func (e *Engine) Interrupt(ctx context.Context, p job.Path, grace time.Duration) error {
	rep, d, err := e.stopAgents(ctx, p, grace)
	if err != nil {
		return err
	}
	for {
		rows, err := e.listMachines(ctx, d, rep.Job, rep.Run.Placed)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(rows, func(m attached.Machine) bool { return m.Alive }) {
			return nil
		}
		if err := e.World.Store.Clock().Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// Hasten leaves the agents that an Interrupt waits for less time.
func (e *Engine) Hasten(ctx context.Context, p job.Path, grace time.Duration) error {
	_, _, err := e.stopAgents(ctx, p, grace)
	return err
}

// stopAgents asks the agents of all placements of a job to go.
func (e *Engine) stopAgents(ctx context.Context, p job.Path, grace time.Duration) (rep views.Report, d driver.Opened, err error) {
	if rep, err = views.ReadReport(ctx, e.World, p); err != nil {
		return rep, d, err
	}
	if d, err = e.Driver(rep.Job.Spec.On); err != nil {
		return rep, d, err
	}
	for _, pl := range rep.Run.Placed {
		if err := d.Stop(ctx, e.PlacementHandle(rep.Job, pl.Placement), grace, false); err != nil {
			return rep, d, err
		}
	}
	return rep, d, nil
}

// Cancel ends a job for good and waits until it has settled; what its agents
// are given to save is the job's grace. stands is false when it had already ended.
func (e *Engine) Cancel(ctx context.Context, p job.Path, reason string) (stands bool, err error) {
	stands, err = control.CancelJob(ctx, e.World, p, e.Caller.By, reason)
	return e.waitUntilSettled(ctx, p, stands, err)
}

// CancelWithin is Cancel that has the agents killed by their target after grace, if that is sooner.
func (e *Engine) CancelWithin(ctx context.Context, p job.Path, reason string, grace time.Duration) (stands bool, err error) {
	stands, err = control.CancelJob(ctx, e.World, p, e.Caller.By, reason)
	if err == nil && stands {
		err = e.Hasten(ctx, p, grace)
	}
	return e.waitUntilSettled(ctx, p, stands, err)
}

// Drain is Cancel of a map that lets its running items end. told is called once the order
// is durable, before the wait for them.
func (e *Engine) Drain(ctx context.Context, p job.Path, reason string, told func()) (stands bool, err error) {
	stands, err = control.DrainJob(ctx, e.World, p, e.Caller.By, reason)
	if err == nil && stands {
		told()
	}
	return e.waitUntilSettled(ctx, p, stands, err)
}

// waitUntilSettled waits until a job that was cancelled has settled.
func (e *Engine) waitUntilSettled(ctx context.Context, p job.Path, stands bool, err error) (bool, error) {
	if err != nil || !stands {
		return stands, err
	}
	if _, err = e.Attend(ctx, p); err != nil {
		return stands, err
	}
	return stands, e.Clean(ctx, p)
}

// lastMinutes is how long agents of a job that has settled may still take: they go
// by themselves once output/ is made, which takes as long as the model is large.
const lastMinutes = time.Hour

// parting is how long Clean waits for agents to be gone: they usually are within
// milliseconds, and then nothing of a command is left when it returns. Over a bucket
// their last words take longer.
const parting, farParting = time.Second, 5 * time.Second

// Clean takes away what targets still hold of a job that has settled.
func (e *Engine) Clean(ctx context.Context, p job.Path) error {
	rep, err := views.ReadReport(ctx, e.World, p)
	if err != nil || rep.Run.Settled == nil {
		return err
	}
	d, err := e.Driver(rep.Job.Spec.On)
	if err != nil {
		return err
	}
	for _, pl := range rep.Run.Placed {
		if err := d.Stop(ctx, e.PlacementHandle(rep.Job, pl.Placement), lastMinutes, true); err != nil {
			return err
		}
	}
	clock, patience := e.World.Store.Clock(), farParting
	if e.Near && mapagent.Few(rep.Job.Spec.Workers) { // many may not be near it themselves
		patience = parting
	}
	for begin := clock.Boot(); clock.Boot()-begin < patience; {
		rows, err := e.listMachines(ctx, d, rep.Job, rep.Run.Placed)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := clock.Sleep(ctx, quickest); err != nil {
			return err
		}
	}
	return nil // a later command takes the rest away
}

// stopLeftAgents takes away what a target still holds of jobs that settled while no
// command line was attached. It does as much as it can: what cannot be asked or taken stays.
func (e *Engine) stopLeftAgents(ctx context.Context, target string) {
	d, err := e.Driver(target)
	if err != nil {
		return
	}
	held, _ := d.List(ctx) // of a place that does not answer, a later command takes away what is left
	for _, h := range held {
		p, err := tasks.FindJob(ctx, e.World, h.Job)
		if err != nil {
			continue // of another store, perhaps
		}
		if rep, err := views.ReadReport(ctx, e.World, p); err == nil && rep.Run.Settled != nil {
			_ = d.Stop(ctx, h, lastMinutes, true)
		}
	}
}

// Attached says whether a job's target keeps its agents beside the command line.
func (e *Engine) Attached(ctx context.Context, p job.Path) (bool, error) {
	j, err := tasks.LoadJob(ctx, e.World, p)
	if err != nil {
		return false, err
	}
	d, err := e.Driver(j.Spec.On)
	if err != nil {
		return false, err
	}
	return d.Attached, nil
}
