package mem

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
)

// engineKnobs are under Engine.mu.
type engineKnobs struct {
	silent  bool          // the next Submit happens, its answer is lost
	refusal error         // the next Submit's
	spoilt  string        // why the next Submit's processes never come up
	held    bool          // processes wait
	slow    time.Duration // before each Submit happens
	removal error         // each Remove's
	before  func()        // each Processes; nil: nothing
	submit  func()        // each Submit; nil: nothing
	site    string        // as in Driver
}

func (e *Engine) turn(change func(*engineKnobs)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.knobs)
}

func (e *Engine) slowness() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.knobs.slow
}

// Refuse makes the next Submit return err and do nothing.
func (e *Engine) Refuse(err error) { e.turn(func(k *engineKnobs) { k.refusal = err }) }

// Hold keeps the processes of all later submissions waiting.
func (e *Engine) Hold() { e.turn(func(k *engineKnobs) { k.held = true }) }

// Slow makes each Submit take so long before it happens.
func (e *Engine) Slow(by time.Duration) { e.turn(func(k *engineKnobs) { k.slow = by }) }

// FailRemoval makes each Remove return err; nil: it works again.
func (e *Engine) FailRemoval(err error) { e.turn(func(k *engineKnobs) { k.removal = err }) }

// LoseAnswer makes the next Submit happen and give no answer.
func (e *Engine) LoseAnswer() { e.turn(func(k *engineKnobs) { k.silent = true }) }

// Spoil makes the processes of the next Submit never come up, for this reason.
func (e *Engine) Spoil(reason string) { e.turn(func(k *engineKnobs) { k.spoilt = reason }) }

// MoveTo is as in Driver.
func (e *Engine) MoveTo(site string) { e.turn(func(k *engineKnobs) { k.site = site }) }

// Kill ends the process that is agent number n, as a crash of its machine does.
func (e *Engine) Kill(h driver.Handle, n int) {
	e.endNumber(h, n, func(p *process) { p.State, p.Reason = driver.Lost, "gone without a word" })
}

// Take takes the machine of agent number n away.
func (e *Engine) Take(h driver.Handle, n int) {
	e.endNumber(h, n, func(p *process) { p.State, p.Reason = driver.Taken, "the machine was taken away" })
}

// Restart takes the machine of agent number n away and starts the process again on another.
func (e *Engine) Restart(h driver.Handle, n int) {
	var again remote.Claimant
	e.endNumber(h, n, func(p *process) {
		p.State, p.Reason = driver.Taken, "the machine was taken away"
		again = p.Claimant
	})
	again.Attempt++
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.submissions[again.ID]; s != nil {
		e.start(s.Submission, again)
	}
}

// Warn tells agent number n that its machine is about to go.
func (e *Engine) Warn(h driver.Handle, n int, why string) {
	c := e.claimant(h, n)
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[c]; p != nil {
		p.notices <- driver.Notice{Why: why}
	}
}

func (e *Engine) endNumber(h driver.Handle, n int, record func(*process)) {
	e.end(e.claimant(h, n), record)
}

// claimant is the process that is agent number n; the zero value: none is.
func (e *Engine) claimant(h driver.Handle, n int) (c remote.Claimant) {
	p, err := remote.NewRecords(e.store, Remote).Open(context.Background(), h)
	if err == nil {
		c, _ = p.Agent(context.Background(), n)
	}
	return c
}

// BeforeProcesses has f run at the beginning of each call of Processes.
func (e *Engine) BeforeProcesses(f func()) { e.turn(func(k *engineKnobs) { k.before = f }) }

// BeforeSubmit has f run at the beginning of each call of Submit.
func (e *Engine) BeforeSubmit(f func()) { e.turn(func(k *engineKnobs) { k.submit = f }) }

// RestartWaiting takes the machines of the handle's processes away before they came up, and
// has others wait.
func (e *Engine) RestartWaiting(h driver.Handle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var again []remote.Claimant
	for c, p := range e.processes {
		if s := e.submissions[c.ID]; s != nil && s.Handle == h && p.State == driver.Waiting {
			p.State, p.Reason = driver.Taken, "the machine was taken away"
			c.Attempt++
			again = append(again, c)
		}
	}
	for _, c := range again {
		e.start(e.submissions[c.ID].Submission, c)
	}
}

// Forget makes the engine know nothing more of the handle's processes.
func (e *Engine) Forget(h driver.Handle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.processes {
		if s := e.submissions[c.ID]; s != nil && s.Handle == h {
			delete(e.processes, c)
		}
	}
}

// Alive is how many processes have not ended.
func (e *Engine) Alive() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.processes {
		if p.State.Alive() {
			n++
		}
	}
	return n
}

// Orders is how many orders to stop the record of a placement has.
func (e *Engine) Orders(ctx context.Context, h driver.Handle) (n int) {
	for o, err := range e.store.List(ctx, remote.Root) {
		if err == nil && strings.Contains(o.Key, fmt.Sprintf("/%s/%s-%d/", Remote, h.Job, h.Placement)) && strings.Contains(o.Key, "/stop/") {
			n++
		}
	}
	return n
}

// Submissions is how often Submit was called and something was started.
func (e *Engine) Submissions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.order)
}

// LoseRecords deletes all records of placements.
func (e *Engine) LoseRecords(ctx context.Context) {
	for o, err := range e.store.List(ctx, remote.Root) {
		if err == nil {
			_ = e.store.Delete(ctx, o.Key) // a store in memory
		}
	}
}
