package mem_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
)

// status is how a scripted agent returns what is not 0.
type status struct {
	code int
	log  string
}

func (s status) Error() string { return s.log }
func (s status) ExitCode() int { return s.code }

// scripted makes a target with agents that do what the suite's scripts say.
func scripted(t *testing.T) *mem.Driver {
	var d *mem.Driver
	d = mem.New(func(ctx context.Context, r driver.Request, index int) error {
		s, ok := drivertest.ScriptOf(r.Run)
		if !ok {
			return errors.New("no script")
		}
		h := driver.Handle{Target: mem.Name, Detail: r.Needs.Detail, Job: r.Job, Placement: r.Placement}
		var log bytes.Buffer
		a := drivertest.Agent{Placement: r.Placement, Index: index, Given: d.Allocation(h, index), Environ: r.Run.Env, Killed: d.Killed(h, index), Log: &log}
		if code := s.Act(ctx, a); code != 0 {
			return status{code, log.String()}
		}
		return nil
	})
	d.SetPrice(driver.Price{OnDemand: 0.04, Spot: 0.01, Currency: "USD", Source: "this test", Day: "2026-11-23"})
	d.MoveTo("shelf:1")
	t.Cleanup(d.Close)
	return d
}

// memPlace is mem as the suite meets it.
var memPlace = drivertest.Place{
	Open: func(t *testing.T) func() driver.Driver {
		d := scripted(t)
		return func() driver.Driver { return d }
	},
	Kill: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) { knobs(d).Kill(h, m.Index) },
	Take: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) { knobs(d).Take(h, m.Index) },
	Break: func(_ *testing.T, d driver.Driver, _ *driver.Request) {
		knobs(d).Spoil("no such program")
	},
	Warn: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
		if w, ok := d.(*twisted); ok && w.warn != nil {
			w.warn(h, m.Index)
			return
		}
		knobs(d).Warn(h, m.Index, "the machine is taken away in two minutes")
	},
	Move:       func(_ *testing.T, d driver.Driver) { knobs(d).MoveTo("shelf:2") },
	LoseAnswer: func(d driver.Driver) { knobs(d).LoseAnswer() },
	Pass:       func(d driver.Driver, step time.Duration) { knobs(d).Pass(step) },
}

func knobs(d driver.Driver) *mem.Driver {
	if w, ok := d.(*twisted); ok {
		return w.Driver
	}
	return d.(*mem.Driver)
}

func TestMemIsADriver(t *testing.T) { drivertest.Run(t, memPlace) }

var request = driver.Request{Job: "abcd2345", Placement: 1, Agents: 1}

// untilDone is an agent that goes when told, and says why.
func untilDone(ctx context.Context, _ driver.Request, _ int) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestALostAnswerHidesAStartThatHappened(t *testing.T) {
	d := mem.New(untilDone)
	defer d.Close()
	d.LoseAnswer()
	if _, err := d.Start(t.Context(), request); fault.KindOf(err) != fault.Lost {
		t.Fatalf("Start gives %v, want a fault of kind lost", err)
	}
	held, err := d.List(t.Context())
	if err != nil || len(held) != 1 {
		t.Fatalf("List gives %v, %v; want the placement", held, err)
	}
	if h, err := d.Start(t.Context(), request); err != nil || h != held[0] {
		t.Errorf("Start again gives %v, %v; want %v", h, err, held[0])
	}
}

func TestARefusedStartDoesNothingAndTheNextOneDoes(t *testing.T) {
	d := mem.New(untilDone)
	defer d.Close()
	d.Refuse(fault.New(fault.Full, "", "start agents: no room"))
	if _, err := d.Start(t.Context(), request); fault.KindOf(err) != fault.Full {
		t.Fatalf("Start gives %v, want a fault of kind full", err)
	}
	if held, _ := d.List(t.Context()); len(held) != 0 {
		t.Errorf("List has %v after the refusal", held)
	}
	if _, err := d.Start(t.Context(), request); err != nil {
		t.Errorf("the next Start gives %v", err)
	}
}

func TestAnAgentLearnsWhyItHasToGo(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*mem.Driver, driver.Handle)
		want error
	}{
		"asked":  {func(d *mem.Driver, h driver.Handle) { d.Stop(t.Context(), h, time.Hour, false) }, mem.ErrAsked},
		"killed": {func(d *mem.Driver, h driver.Handle) { d.Kill(h, 0) }, mem.ErrKilled},
		"taken":  {func(d *mem.Driver, h driver.Handle) { d.Take(h, 0) }, mem.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan error, 1)
			d := mem.New(func(ctx context.Context, _ driver.Request, _ int) error {
				<-ctx.Done()
				got <- context.Cause(ctx)
				return nil
			})
			defer d.Close()
			h, err := d.Start(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			c.end(d, h)
			if err := <-got; !errors.Is(err, c.want) {
				t.Errorf("the cause is %v, want %v", err, c.want)
			}
		})
	}
}

func TestWhatADeadAgentReturnsCountsForNothing(t *testing.T) {
	d := mem.New(func(ctx context.Context, _ driver.Request, _ int) error {
		<-ctx.Done()
		return status{code: 7}
	})
	h, err := d.Start(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	d.Kill(h, 0)
	d.Close() // it has returned
	got, err := d.Status(t.Context(), h)
	want := []driver.Member{{State: driver.Lost, Code: -1, Reason: "gone without a word", Where: "memory"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Status: %v, difference:\n%s", err, diff)
	}
}

func TestMoreFilesThanMemoryKeepsAreRefused(t *testing.T) {
	d := mem.New(nil)
	t.Cleanup(d.Close)
	for disk, fits := range map[int64]bool{mem.Disk: true, mem.Disk + 1: false} {
		if o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Disk: disk}); err != nil || o.Fits != fits || (o.Reason == "") != fits {
			t.Errorf("%d bytes: %+v, %v", disk, o, err)
		}
	}
}
