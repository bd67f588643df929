package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Remote is the name of the target that has an Engine as its engine.
const Remote = "remote"

// Engine is a control plane in memory for driver/remote: what clouds have in common and no
// better. It has no token by which a second submission is known, shows what was submitted
// only after some calls of Find, and starts again what it took away. Its processes are
// goroutines that run remote.Supervisor, with an agent's Run below it.
type Engine struct {
	run   func(ctx context.Context, a EngineAgent) error
	store *store.Store
	o     EngineOptions
	all   sync.WaitGroup

	mu          sync.Mutex
	submissions map[string]*submission // by id
	order       []string
	knobs       engineKnobs
	processes   map[remote.Claimant]*process
}

var _ remote.Engine = (*Engine)(nil)

// EngineOptions are how an engine misbehaves.
type EngineOptions struct {
	// Twice has each submission happen twice.
	Twice bool
	// Unseen is how many calls of Find do not show a new submission.
	Unseen int
}

// EngineAgent is one agent of an Engine's submission.
type EngineAgent struct {
	Request driver.Request
	Number  int
	Given   *driver.Allocation
	Killed  <-chan struct{} // closed once it is dead
}

type submission struct {
	remote.Submission
	unseen int
}

// process is under Engine.mu.
type process struct {
	remote.Process
	kill    context.CancelFunc
	notices chan driver.Notice
}

// NewEngine makes an engine that calls run for each agent and keeps its records in s. The
// context of an agent ends when it is asked to stop, and its cause is ErrAsked.
func NewEngine(s *store.Store, run func(context.Context, EngineAgent) error, o EngineOptions) *Engine {
	return &Engine{run: run, store: s, o: o, submissions: map[string]*submission{}, processes: map[remote.Claimant]*process{}}
}

// remoteDriver is the target's driver.
type remoteDriver struct {
	*remote.Driver
	e *Engine
}

// Offer is that of New's driver.
func (d remoteDriver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	near := New(nil)
	d.e.mu.Lock()
	near.MoveTo(d.e.knobs.site)
	d.e.mu.Unlock()
	return near.Offer(ctx, n)
}

// Driver is a driver over the engine, as another process would make it.
func (e *Engine) Driver() driver.Driver {
	open := func(context.Context) (*store.Store, error) { return e.store, nil }
	return remoteDriver{remote.New(Remote, e, open, remote.Options{Settle: 50 * time.Millisecond, Look: 5 * time.Millisecond}), e}
}

// Close kills every process and waits until they have returned.
func (e *Engine) Close() {
	e.mu.Lock()
	for _, p := range e.processes {
		p.kill()
	}
	e.mu.Unlock()
	e.all.Wait()
}

// Submit starts r.Agents goroutines, each time that it is called.
func (e *Engine) Submit(ctx context.Context, s remote.Submission) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	time.Sleep(e.slowness())
	e.mu.Lock()
	before := e.knobs.submit
	e.mu.Unlock()
	if before != nil {
		before()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.knobs.refusal; err != nil {
		e.knobs.refusal = nil
		return nil, err
	}
	var ids []string
	for range map[bool]int{false: 1, true: 2}[e.o.Twice] {
		id := fmt.Sprintf("s-%d", len(e.order)+1)
		e.submissions[id] = &submission{s, e.o.Unseen}
		e.order = append(e.order, id)
		ids = append(ids, id)
		for i := range s.Request.Agents {
			e.start(s, remote.Claimant{ID: id, Index: i, Attempt: 1})
		}
	}
	e.knobs.spoilt = ""
	if e.knobs.silent {
		e.knobs.silent = false
		return nil, fault.New(fault.Lost, "", "submit: the answer was lost")
	}
	return ids[:1], nil // it knows of one
}

// start begins a process. Under e.mu.
func (e *Engine) start(s remote.Submission, c remote.Claimant) {
	ctx, kill := context.WithCancel(context.Background())
	p := &process{Process: remote.Process{Claimant: c, State: driver.Running, Code: -1, Where: "memory"}, kill: kill, notices: make(chan driver.Notice, 1)}
	p.Enter, p.Program = []string{"enter-memory"}, "drover"
	e.processes[c] = p
	if e.knobs.spoilt != "" {
		p.State, p.Code, p.Reason, p.Tail = driver.Ended, 1, "cannot pull image: "+e.knobs.spoilt, e.knobs.spoilt
		return
	}
	if e.knobs.held {
		p.State = driver.Waiting
		return
	}
	e.all.Go(func() { e.supervise(ctx, s, p) }) // Close waits
}

// supervise is the process: what a machine of a cloud would do.
func (e *Engine) supervise(ctx context.Context, s remote.Submission, p *process) {
	defer p.kill()
	placement, err := remote.NewRecords(e.store, Remote).Open(ctx, s.Handle)
	if err == nil {
		_, err = remote.Supervisor{Placement: placement, Claimant: p.Claimant, Look: 5 * time.Millisecond, Notices: p.notices,
			Start: func(n int) (remote.Agent, error) { return e.agent(s, n), nil }}.Run(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.State.Alive() {
		p.State, p.Code, p.Reason = driver.Ended, 0, "exit status 0"
		if err != nil && !errors.Is(err, remote.ErrLeave) {
			p.Code, p.Reason, p.Tail = 1, "exit status 1", err.Error()
		}
	}
}

// Find shows submissions of the handle that have been asked for often enough.
func (e *Engine) Find(ctx context.Context, h driver.Handle) (ids []string, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range e.order {
		s := e.submissions[id]
		if s == nil || s.Handle != h {
			continue
		}
		if s.unseen--; s.unseen < 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Processes are those of the ids.
func (e *Engine) Processes(ctx context.Context, _ driver.Handle, ids []string, _ remote.Known) (all []remote.Process, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e.mu.Lock()
	before := e.knobs.before
	e.mu.Unlock()
	if before != nil {
		before()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for c, p := range e.processes {
		if slices.Contains(ids, c.ID) {
			all = append(all, p.Process)
		}
	}
	return all, nil
}

// Terminate kills processes.
func (e *Engine) Terminate(ctx context.Context, _ driver.Handle, all []remote.Process) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, p := range all {
		e.end(p.Claimant, func(p *process) { p.State, p.Reason, p.Terminated = driver.Ended, "stopped: terminated", true })
	}
	return nil
}

// end ends a process that is alive, as the engine then has it.
func (e *Engine) end(c remote.Claimant, record func(*process)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[c]; p != nil && p.State.Alive() {
		record(p)
		p.kill()
	}
}

// Remove forgets the submissions of the handle.
func (e *Engine) Remove(_ context.Context, h driver.Handle, _ []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.knobs.removal != nil {
		return e.knobs.removal
	}
	for id, s := range e.submissions {
		if s.Handle != h {
			continue
		}
		delete(e.submissions, id)
		for c, p := range e.processes {
			if c.ID == id {
				p.kill()
				delete(e.processes, c)
			}
		}
	}
	return nil
}

// Held names what has been submitted and not removed.
func (e *Engine) Held(ctx context.Context) (all []driver.Handle, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.submissions {
		if !slices.Contains(all, s.Handle) {
			all = append(all, s.Handle)
		}
	}
	return all, nil
}

// agent starts agent number n.
func (e *Engine) agent(s remote.Submission, n int) remote.Agent {
	ctx, cancel := context.WithCancelCause(context.Background()) // it ends by Ask and Kill
	a := &remoteAgent{cancel: cancel, killed: make(chan struct{}), exit: make(chan remote.Exit, 1)}
	var word string
	given := &driver.Allocation{Name: "memory", Cores: Cores, Memory: Memory, Secrets: s.Secrets, Notice: a.notice,
		End: func(_ int, reason string) { word = reason }}
	e.all.Go(func() { // Close waits
		err := e.run(ctx, EngineAgent{Request: s.Request, Number: n, Given: given, Killed: a.killed})
		x := remote.Exit{Code: exitStatus(err), Reason: word}
		if err != nil {
			x.Tail = err.Error()
		}
		a.exit <- x
	})
	return a
}

// remoteAgent is an agent of an Engine, as its supervisor has it.
type remoteAgent struct {
	cancel context.CancelCauseFunc
	once   sync.Once
	killed chan struct{}
	exit   chan remote.Exit

	mu  sync.Mutex
	why driver.Notice
}

func (a *remoteAgent) Ask(n driver.Notice) {
	a.mu.Lock()
	a.why = n
	a.mu.Unlock()
	a.cancel(ErrAsked)
}

func (a *remoteAgent) Kill() {
	a.once.Do(func() { close(a.killed) })
	a.cancel(ErrKilled)
}

func (a *remoteAgent) Exit() <-chan remote.Exit { return a.exit }

func (a *remoteAgent) notice() driver.Notice {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}
