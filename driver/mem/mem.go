// Package mem is the reference driver: a target in memory that runs Go functions as its
// agents.
//
// It is what drivertest's promises mean, without an engine in the way, and the target on
// which package engine is tested and simulated: it can kill an agent, take its machine
// away, refuse a Start or lose the answer to one. It knows no clock: time passes when Pass
// is called.
//
// It refuses to know what the functions do. drivertest proves it, and the methods that
// tests disturb it with are proved by mem_test.go.
package mem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
	"github.com/drover-run/drover/job/where"
)

// Name is the target in the handles of this driver.
const Name = "mem"

// What the place has, for Offer. It does not count what its agents use.
const (
	Cores  = 64
	Memory = 256 << 30 // bytes
	Disk   = Memory    // it keeps files in memory
)

// attributes are what Needs.Where is held against.
var attributes = where.Attributes{where.Node: {"memory"}, where.Arch: {runtime.GOARCH}, where.CPUs: {strconv.Itoa(Cores)}, where.Memory: {strconv.Itoa(Memory)},
	where.GPUCount: {}, where.GPUName: {}, where.GPUMemory: {}, where.Feature: {}, where.Purchase: {where.OnDemand}}

// The causes with which an agent's context ends.
var (
	ErrAsked  = errors.New("asked to stop") // by Stop, as SIGTERM would
	ErrKilled = errors.New("killed")        // by Stop or Kill
	ErrTaken  = errors.New("machine taken") // by Take
)

// Run is an agent: number index of r. Its ctx ends when it is asked to stop or is
// dead, and context.Cause tells which. What it returns is its end: nil is exit
// status 0, an error with an ExitCode() int method (as *exec.ExitError) is that
// status, any other is 1; the error's text is its log. An agent that is dead
// cannot be made to return: it should watch Killed, and what it returns then
// counts for nothing.
type Run = func(ctx context.Context, r driver.Request, index int) error

// Properties are those of this machine's memory: its agents are functions beside the caller.
func Properties() driver.Properties {
	return driver.Properties{Attached: true, Stdin: true, Shown: []string{"/"}}
}

// Open makes of d, or of what wraps one, a target with Properties.
func Open(d driver.Driver) driver.Opened {
	return driver.Opened{Driver: driver.KeepOffers(d), Properties: Properties()}
}

// Contained makes of it a target with containers: its agents do not see the machine.
func Contained(d driver.Driver) driver.Opened {
	o := Open(d)
	o.Apart, o.Containers = true, true
	return o
}

// Driver is a place. All its methods may be called from many goroutines; one
// that several "processes" share is the same value.
type Driver struct {
	run    Run
	agents sync.WaitGroup // the functions that have not returned

	mu         sync.Mutex
	placements map[driver.Handle]*placement
	refusal    error  // the next Start's
	silent     bool   // the next Start happens, its answer is lost
	spoilt     string // why the next Start's agents never come up
	price      driver.Price
	site       string // the Detail that "" means now
	offers     int    // how often Offer was asked
}

var _ driver.Driver = (*Driver)(nil)

// placement is under Driver.mu, and so are its agents.
type placement struct {
	agents []*agent
	remove bool
}

type agent struct {
	driver.Member
	cancel context.CancelCauseFunc
	killed chan struct{}
	asked  bool
	left   time.Duration // once asked: of its grace
	why    driver.Notice // once asked or warned
	given  *driver.Allocation
	word   *string // End's reason; nil: none was left
}

// New makes a target without placements that calls run for each agent.
func New(run Run) *Driver {
	return &Driver{run: run, placements: map[driver.Handle]*placement{}}
}

// Close kills every agent and waits until all their functions have returned.
func (d *Driver) Close() {
	d.mu.Lock()
	for _, p := range d.placements {
		for _, a := range p.agents {
			a.die(driver.Lost, "killed: the place was closed", ErrKilled)
		}
	}
	d.mu.Unlock()
	d.agents.Wait()
}

// Offer fits what one machine of Cores and Memory holds. It costs what SetPrice has said.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	d.mu.Lock()
	d.offers++
	o := driver.Offer{Machine: "memory, 64 cores, 256 GB", Cores: Cores, Memory: Memory, Price: d.price, Detail: cmp.Or(n.Detail, d.site)}
	d.mu.Unlock()
	if o.Price.Spot > 0 && (n.Spot == job.SpotOnly || n.Spot == job.SpotFirst) {
		o.Spot, n.Spot = true, job.SpotAny
	}
	all := float64(max(n.Agents, 1))
	reason, hint := n.MachineRefusal("memory", attributes)
	switch {
	case reason != "":
		o.Reason, o.Hint = reason, hint
	case n.CPUs*all > Cores:
		o.Reason = fmt.Sprintf("memory has %d cores", Cores)
	case float64(n.Memory)*all > Memory:
		o.Reason = "memory has 256 GB"
	case n.Disk > Disk:
		o.Reason = "memory has no disk, and keeps 256 GB of files"
	case n.GPUs > 0:
		o.Reason = "memory has no GPUs"
	default:
		o.Fits = true
	}
	return o, nil
}

// Start starts r.Agents goroutines.
func (d *Driver) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	switch {
	case ctx.Err() != nil:
		return driver.Handle{}, context.Cause(ctx)
	case !job.ValidID(r.Job) || r.Placement < 1 || r.Agents < 1:
		return driver.Handle{}, fault.New(fault.Invalid, "", "start agents: job %q, placement %d: %d agents cannot be", r.Job, r.Placement, r.Agents)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := driver.Handle{Target: Name, Detail: cmp.Or(r.Needs.Detail, d.site), Job: r.Job, Placement: r.Placement}
	if err := d.refusal; err != nil {
		d.refusal = nil
		return driver.Handle{}, err
	}
	if d.placements[h] == nil {
		secrets, err := secret.Resolve(r.Run.Secrets, os.Environ(), os.ReadFile)
		if err != nil {
			return driver.Handle{}, err
		}
		d.place(h, r, secrets)
	}
	if d.silent {
		d.silent = false
		return driver.Handle{}, fault.New(fault.Lost, "", "start agents: %s: the answer was lost", h)
	}
	return h, nil
}

// place starts the agents of a new placement. Under d.mu.
func (d *Driver) place(h driver.Handle, r driver.Request, secrets map[string]string) {
	p := &placement{}
	d.placements[h] = p
	for i := range r.Agents {
		// An agent outlives the Start that made it.
		ctx, cancel := context.WithCancelCause(context.Background())
		a := &agent{
			Member: driver.Member{Index: i, State: driver.Running, Code: -1, Where: "memory", Enter: h.Enter("drover", i)},
			cancel: cancel, killed: make(chan struct{}),
		}
		a.given = &driver.Allocation{Name: "memory", Cores: Cores, Memory: Memory, Secrets: secrets,
			Notice: func() driver.Notice {
				d.mu.Lock()
				defer d.mu.Unlock()
				return a.why
			},
			End: func(_ int, reason string) {
				d.mu.Lock()
				defer d.mu.Unlock()
				a.word = &reason
			}}
		p.agents = append(p.agents, a)
		if d.spoilt != "" {
			a.Tail = d.spoilt
			a.die(driver.Ended, "its agent never started: "+d.spoilt, ErrKilled)
			continue
		}
		d.agents.Go(func() { d.ended(h, p, a, d.run(ctx, r, i)) }) // Close waits
	}
	d.spoilt = ""
}

// ended takes down how an agent's function returned.
func (d *Driver) ended(h driver.Handle, p *placement, a *agent, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !a.State.Alive() {
		return // it was dead already
	}
	a.Code = exitStatus(err)
	if err != nil {
		a.Tail = err.Error()
	}
	reason := fmt.Sprintf("exit status %d", a.Code)
	if a.word != nil && *a.word != "" {
		reason = *a.word
	}
	a.die(driver.Ended, reason, ErrKilled)
	d.sweep(h, p)
}

// exitStatus is that which an agent's error means.
func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		return e.ExitCode()
	}
	return 1
}

// die ends an agent that is alive. Under Driver.mu.
func (a *agent) die(s driver.State, reason string, cause error) {
	if !a.State.Alive() {
		return
	}
	a.State, a.Reason, a.Enter = s, reason, nil
	a.cancel(cause)
	close(a.killed)
}

// sweep forgets a placement that is to be removed and has ended. Under d.mu.
func (d *Driver) sweep(h driver.Handle, p *placement) {
	alive := slices.ContainsFunc(p.agents, func(a *agent) bool { return a.State.Alive() })
	if p.remove && !alive && d.placements[h] == p {
		delete(d.placements, h)
	}
}

// Status tells the truth, at once.
func (d *Driver) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var members []driver.Member
	if p := d.placements[h]; p != nil {
		for _, a := range p.agents {
			members = append(members, a.Member)
		}
	}
	return members, nil
}

// Stop asks by ending the agents' contexts. Grace passes by Pass.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.placements[h]
	if p == nil {
		return nil
	}
	p.remove = p.remove || remove
	for _, a := range p.agents {
		switch {
		case grace <= 0:
			a.die(driver.Ended, "stopped: killed at once", ErrKilled)
		case !a.asked:
			a.asked, a.left, a.why = true, grace, driver.Notice{Asked: true, Why: driver.AskedToStop, Left: grace}
			a.cancel(ErrAsked)
		default:
			a.left = min(a.left, grace)
			a.why.Left = a.left
		}
	}
	d.sweep(h, p)
	return nil
}

// List names the placements in the order of their jobs and numbers.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var held []driver.Handle
	for h := range d.placements {
		held = append(held, h)
	}
	slices.SortFunc(held, func(a, b driver.Handle) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Placement, b.Placement))
	})
	return held, nil
}
