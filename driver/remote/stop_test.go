package remote

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// left is an engine as a command has left it that died: it has what was found of it.
type left struct {
	Engine
	found   []string
	held    []driver.Handle
	silent  error
	removed int
}

func (e *left) Find(context.Context, driver.Handle) ([]string, error) { return e.found, nil }
func (e *left) Processes(_ context.Context, _ driver.Handle, ids []string, _ Known) (all []Process, err error) {
	for _, id := range ids {
		all = append(all, Process{Claimant: Claimant{ID: id, Attempt: 1}, State: driver.Ended})
	}
	return all, nil
}
func (e *left) Remove(context.Context, driver.Handle, []string) error {
	e.removed++
	return nil
}
func (e *left) Held(context.Context) ([]driver.Handle, error) { return e.held, e.silent }

func (e *left) driver(r Records) *Driver {
	return New("far", e, func(context.Context) (*store.Store, error) { return r.store, nil }, Options{Settle: 20 * time.Millisecond, Look: time.Millisecond})
}

// A command that has died while it asked the engine gives no answer: a Stop that takes away finds it, in the engine or as that there is none, and leaves no record.
func TestAStopAnswersForACommandThatHasDied(t *testing.T) {
	for _, found := range [][]string{nil, {"id"}} {
		r := newRecords()
		p := created(t, r, 1)
		if mine, err := p.ask(t.Context(), 1); !mine || err != nil {
			t.Fatal(mine, err)
		}
		e := &left{found: found}
		d := e.driver(r)
		if err := d.Stop(t.Context(), p.Handle, 0, false); err != nil || e.removed != 0 {
			t.Errorf("%v, removed %d times", err, e.removed)
		}
		if err := d.Stop(t.Context(), p.Handle, 0, true); err != nil || e.removed != 1 {
			t.Errorf("of %s: %v, removed %d times", found, err, e.removed)
		}
		if _, err := r.Open(t.Context(), p.Handle); !absent(err) {
			t.Errorf("of %s its record is left: %v", found, err)
		}
	}
	r := newRecords()
	p := created(t, r, 1)
	if _, err := p.ask(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	d := (&left{}).driver(r)
	d.o.Settle = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.Stop(ctx, p.Handle, 0, true); err == nil {
		t.Error("a command that may live is not waited for")
	}
}

// A placement is listed once, by its record, also where the engine was found under another name of its place; what is silent is said beside the others.
func TestAPlacementIsListedByItsRecord(t *testing.T) {
	r := newRecords()
	q := driver.Request{Job: handle.Job, Placement: 1, Agents: 1, Needs: driver.Needs{Detail: "here/1"}, Run: driver.Boot{Job: "p/t/" + handle.Job}}
	p, _, err := r.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	other, foreign := p.Handle, p.Handle
	other.Detail, foreign.Placement = "bare/here/1", 2
	e := &left{held: []driver.Handle{other, foreign}, silent: fault.New(fault.Denied, "", "ask there: no")}
	if all, err := e.driver(r).List(t.Context()); fault.KindOf(err) != fault.Denied || !slices.Equal(all, []driver.Handle{p.Handle, foreign}) {
		t.Errorf("%s, %v", all, err)
	}
}
