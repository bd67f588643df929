package remote

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/secret"
	"github.com/drover-run/drover/store"
)

// Driver is all of a driver.Driver but Offer, made of the records of a target and the calls of
// its engine. A target embeds it. Its agents need an identity of their own
// (driver.Properties), as a newer Boot.Pass is not handed to running agents.
type Driver struct {
	engine Engine
	open   driver.OpenStore
	target string
	o      Options

	mu   sync.Mutex
	last map[driver.Handle]seen
}

// seen is the last answer of Status for a handle.
type seen struct {
	at      time.Time
	good    time.Duration // how long it may be given again
	members []driver.Member
}

// mostLooks is for how many times Options.Look an answer of Status is good while nothing changes.
const mostLooks = 15

// Options say how long a driver waits. The zero value is for everything but tests.
type Options struct {
	// Settle is how long an engine may take until Find shows what was submitted; 0: 60 s. A
	// call that has no answer after this process has watched it so long counts as never made.
	Settle time.Duration
	// Look is how often Start looks while it waits, and how long an answer of Status is given again
	// after a change; while nothing changes it is good for twice as long each time, up to 15 times
	// Look. 0: 2 s.
	Look time.Duration
}

// New makes a driver with its records in the store that open gives. It sends nothing.
func New(target string, e Engine, open driver.OpenStore, o Options) *Driver {
	o.Settle = cmp.Or(o.Settle, time.Minute)
	o.Look = cmp.Or(o.Look, 2*time.Second)
	return &Driver{engine: e, open: open, target: target, o: o, last: map[driver.Handle]seen{}}
}

func (d *Driver) records(ctx context.Context) (Records, error) {
	if ctx.Err() != nil {
		return Records{}, context.Cause(ctx)
	}
	s, err := d.open(ctx)
	if err != nil {
		return Records{}, err
	}
	return NewRecords(s, d.target), nil
}

// Start records the request, and asks the engine unless the record says that it was asked.
// Where another process is asking, or has died while it asked, Start waits, up to
// Options.Settle.
func (d *Driver) Start(ctx context.Context, q driver.Request) (driver.Handle, error) {
	defer d.forget(q.Job)
	r, err := d.records(ctx)
	if err != nil {
		return driver.Handle{}, err
	}
	p, fresh, err := r.Create(ctx, q)
	if err != nil {
		return driver.Handle{}, err
	}
	if err := d.submit(ctx, r, p, q, fresh); err != nil {
		return driver.Handle{}, err
	}
	return p.Handle, nil
}

// submit makes the engine start the placement once, as far as that can be known.
func (d *Driver) submit(ctx context.Context, r Records, p *Placement, q driver.Request, fresh bool) error {
	var waited time.Duration // for an answer to call number waitedFor
	waitedFor := 0
	for {
		s, err := p.read(ctx)
		switch {
		case err != nil:
			return err
		case s.accepted() || s.removing || s.orders > 0: // a Stop came first: nothing is to start
			return nil
		}
		if s.asked > 0 {
			ids, err := d.engine.Find(ctx, p.Handle)
			if err != nil {
				return err
			}
			if len(ids) > 0 {
				return p.answer(ctx, s.asked, answered{IDs: ids})
			}
		}
		if s.inFlight() {
			if s.asked != waitedFor {
				waitedFor, waited = s.asked, 0
			}
			if waited < d.o.Settle {
				if err := p.store.Clock().Sleep(ctx, d.o.Look); err != nil {
					return err
				}
				waited += d.o.Look
				continue
			}
		}
		k := s.asked + 1
		mine, err := p.ask(ctx, k)
		if err != nil {
			return err
		}
		if !mine {
			continue
		}
		// A Stop that came since the record was read may have found nothing to end.
		if s, err := p.read(ctx); err != nil || s.removing || s.orders > 0 {
			return errors.Join(err, p.answer(ctx, k, answered{Refused: "a Stop came first"})) // the call was not made
		}
		return d.call(ctx, r, p, q, k, fresh)
	}
}

// call makes call number k of the engine for agents. After a refusal it removes the record,
// if this Start has made it.
func (d *Driver) call(ctx context.Context, r Records, p *Placement, q driver.Request, k int, fresh bool) error {
	secrets, err := secret.Resolve(q.Run.Secrets, os.Environ(), os.ReadFile)
	var pass []byte
	if err == nil && q.Run.Pass != nil {
		pass, err = q.Run.Pass(ctx)
	}
	if err != nil {
		return d.refused(ctx, r, p, k, fresh, err)
	}
	ids, err := d.engine.Submit(ctx, Submission{p.Handle, q, secrets, pass})
	switch {
	case err == nil:
		return d.recordAnswer(ctx, r, p, k, ids)
	case Refused(err):
		return d.refused(ctx, r, p, k, fresh, err)
	}
	return err // the next Start finds out whether agents were started
}

// recordAnswer records what the engine has started. Where the record was removed meanwhile,
// it ends those agents again, as no record would name them.
func (d *Driver) recordAnswer(ctx context.Context, r Records, p *Placement, k int, ids []string) error {
	if err := p.answer(ctx, k, answered{IDs: ids}); err != nil {
		return err
	}
	now, err := r.Open(ctx, p.Handle)
	if err == nil && now.Request.Nonce == p.Request.Nonce {
		return nil
	}
	if err != nil && !absent(err) {
		return err
	}
	all, err := d.engine.Processes(ctx, p.Handle, ids, Known{Stopped: true})
	if err == nil {
		err = d.engine.Terminate(ctx, p.Handle, all)
	}
	return errors.Join(err, p.removeObjects(ctx), fault.New(fault.Lost, "Type the command again.", "start agents: %s was removed meanwhile", p.Handle))
}

// refused records that call number k was certainly not made.
func (d *Driver) refused(ctx context.Context, r Records, p *Placement, k int, fresh bool, cause error) error {
	if fresh && k == 1 {
		if err := r.remove(ctx, p); err == nil {
			return cause
		}
	}
	return errors.Join(cause, p.answer(ctx, k, answered{Refused: cause.Error()}))
}

// Refused says whether an engine's error means that it has refused, and nothing was done.
func Refused(err error) bool {
	var known *fault.Fault
	return errors.As(err, &known) && slices.Contains([]fault.Kind{fault.Full, fault.Denied, fault.Invalid}, fault.KindOf(err))
}

// Status joins what the engine's processes and the records say (members). It takes away a
// placement that is to be removed and has no agent left.
func (d *Driver) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	before, good := d.remembered(h)
	if good {
		return slices.Clone(before.members), nil
	}
	members, err := d.freshStatus(ctx, h)
	if err == nil {
		d.remember(h, before, members)
	}
	return members, err
}

// remembered is the last answer for a handle, and whether it is still good.
func (d *Driver) remembered(h driver.Handle) (last seen, good bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, ok := d.last[h]
	return last, ok && time.Since(last.at) < last.good
}

func (d *Driver) remember(h driver.Handle, before seen, members []driver.Member) {
	now := seen{time.Now(), d.o.Look, slices.Clone(members)}
	if before.good > 0 && reflect.DeepEqual(before.members, members) {
		now.good = min(2*before.good, mostLooks*d.o.Look)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[h] = now
}

// forget drops what is remembered of a job's placements: this process changes them.
func (d *Driver) forget(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.last, func(h driver.Handle, _ seen) bool { return h.Job == job })
}

// freshStatus reads the record and asks the engine.
func (d *Driver) freshStatus(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	r, err := d.records(ctx)
	if err != nil {
		return nil, err
	}
	p, err := r.Open(ctx, h)
	if absent(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	v, err := d.look(ctx, p, false)
	if err != nil {
		return nil, err
	}
	if v.leaves() && d.takeAway(ctx, r, p, v) == nil {
		return nil, nil
	}
	return v.members(), nil // a removal that failed is tried again by the next call
}

// look reads the record and asks the engine for the processes that the record names. With all,
// or where an answer is missing, it asks for everything with the placement's name too.
func (d *Driver) look(ctx context.Context, p *Placement, all bool) (v view, err error) {
	v = view{handle: p.Handle, request: p.Request}
	if v.state, err = p.read(ctx); err != nil {
		return v, err
	}
	v.found = v.known()
	if all || v.inFlight() || len(v.found) == 0 && v.asked > 0 {
		// An answer was lost, or is on its way; or a submission happened twice.
		more, err := d.engine.Find(ctx, p.Handle)
		if err != nil {
			return v, err
		}
		v.found = union(v.found, more)
	}
	if len(v.found) > 0 {
		if v.processes, err = d.engine.Processes(ctx, p.Handle, v.found, Known{slices.Collect(maps.Values(v.agents)), v.orders > 0}); err != nil {
			return v, err
		}
	}
	v.index()
	if slices.ContainsFunc(v.processes, func(p Process) bool { return !p.State.Alive() && !v.through(p) }) {
		// The agent may have come up, and recorded its end, since the record was read.
		v.state, err = p.read(ctx)
		v.index()
	}
	return v, err
}

// Stop records the order for the agents' supervisors, which carry it out in time. It ends by
// itself the processes that have not begun; without grace it ends all.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	defer d.forget(h.Job)
	r, err := d.records(ctx)
	if err != nil {
		return err
	}
	p, err := r.Open(ctx, h)
	switch {
	case absent(err):
		return d.stopUnrecorded(ctx, r, h)
	case isDamage(err):
		return errors.Join(err, d.stopUnrecorded(ctx, r, h))
	case err != nil:
		return err
	}
	// The order comes before any look: a process that comes up later finds the order, and a
	// Start that finds it does not ask the engine any more.
	if err := p.order(ctx, grace); err != nil {
		return err
	}
	if remove {
		if err := p.orderRemoval(ctx); err != nil {
			return err
		}
		if err := d.settle(ctx, p); err != nil && !isDamage(err) { // which the look below finds too
			return err
		}
	}
	v, err := d.look(ctx, p, true)
	if isDamage(err) {
		return errors.Join(err, d.stopUnrecorded(ctx, r, h))
	} else if err != nil {
		return err
	}
	if end := v.terminable(grace); len(end) > 0 {
		if err := d.engine.Terminate(ctx, h, end); err != nil {
			return err
		}
		if v, err = d.look(ctx, p, true); err != nil {
			return err
		}
	}
	if v.leaves() {
		return d.takeAway(ctx, r, p, v)
	}
	return nil
}

// settle waits for the answer to a call of the engine that is under way, for Options.Settle at most: the process that made it may have died. Then the
// answer is what the engine has, or that the call was not made. Without one the record could never go.
func (d *Driver) settle(ctx context.Context, p *Placement) error {
	for waited := time.Duration(0); ; waited += d.o.Look {
		s, err := p.read(ctx)
		if err != nil || !s.inFlight() {
			return err
		}
		ids, err := d.engine.Find(ctx, p.Handle)
		switch {
		case err != nil:
			return err
		case len(ids) > 0:
			return p.answer(ctx, s.asked, answered{IDs: ids})
		case waited >= d.o.Settle:
			return p.answer(ctx, s.asked, answered{Refused: "a Stop came first"})
		}
		if err := p.store.Clock().Sleep(ctx, d.o.Look); err != nil {
			return err
		}
	}
}

// isDamage says whether a record cannot be read, now or later.
func isDamage(err error) bool {
	return errors.Is(err, store.ErrMalformed) || err != nil && fault.KindOf(err) == fault.Invalid
}

// stopUnrecorded ends what the engine has under a name of drover's that has no record any more.
func (d *Driver) stopUnrecorded(ctx context.Context, r Records, h driver.Handle) error {
	if !r.names(h) {
		return nil
	}
	ids, err := d.engine.Find(ctx, h)
	if err != nil || len(ids) == 0 {
		return err
	}
	all, err := d.engine.Processes(ctx, h, ids, Known{Stopped: true})
	if err != nil {
		return err
	}
	if all = slices.DeleteFunc(all, func(p Process) bool { return !p.State.Alive() }); len(all) > 0 {
		return d.engine.Terminate(ctx, h, all)
	}
	return d.engine.Remove(ctx, h, ids)
}

// takeAway removes a placement without agents, and its record last.
func (d *Driver) takeAway(ctx context.Context, r Records, p *Placement, v view) error {
	if err := d.engine.Remove(ctx, p.Handle, v.found); err != nil {
		return err
	}
	return r.remove(ctx, p)
}

// List names what is recorded, and what the engine has without a record. An error says that there may be more.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	r, err := d.records(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	held, silent := d.engine.Held(ctx)
	for _, h := range held {
		named := func(o driver.Handle) bool { // of one record: its Detail is what was asked for, and the engine's may be another
			return o == h || o.Job == h.Job && o.Placement == h.Placement && o.Detail != ""
		}
		if r.names(h) && !slices.ContainsFunc(all, named) {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b driver.Handle) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Placement, b.Placement))
	})
	return all, silent
}
