package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// untilTold runs until it is told to end, and says that it began.
func untilTold(began chan<- [2]int) program {
	return func(ctx context.Context, attempt, rank int) protocol.Exit {
		began <- [2]int{attempt, rank}
		<-ctx.Done()
		return protocol.Exit{Verdict: protocol.Done}
	}
}

func (d *desk) handle(p job.Path, placement int) driver.Handle {
	return driver.Handle{Target: mem.Name, Job: p.Job, Placement: placement}
}

func TestAttendSeesAJobToItsEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.submit(spec())
	s, err := d.Attend(t.Context(), p)
	d.check(err)
	if diff := cmp.Diff(&protocol.Settled{State: job.Succeeded, Attempt: 1}, s); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}
	rep := d.look(p)
	if diff := cmp.Diff([]protocol.Placed{{Placement: 1, Agents: 1, Target: mem.Name}}, rep.Run.Placed); diff != "" {
		t.Errorf("placed (-want +got):\n%s", diff)
	}
	// Of a job that has ended nothing is asked for again, and nothing stays.
	if again, err := d.Attend(t.Context(), p); err != nil || *again != *s {
		t.Errorf("attended again: %+v, %v", again, err)
	}
	d.check(d.Clean(t.Context(), p))
	if held, err := d.mem.List(t.Context()); err != nil || len(held) > 0 {
		t.Errorf("the place still holds %v (%v)", held, err)
	}
}

func TestManyMayAttend(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.submit(spec(func(s *job.Spec) { s.Nodes = 3 }))
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			s, err := d.other("cli-"+string(rune('a'+i))).Attend(t.Context(), p)
			if err != nil || s.State != job.Succeeded {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	all.Wait()
	if placed := d.look(p).Run.Placed; len(placed) != 1 || placed[0].Agents != 3 {
		t.Errorf("asked for %+v", placed)
	}
}

func TestALostAgentIsReplaced(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lose  func(*mem.Driver, driver.Handle)
		cause protocol.Cause
	}{
		"killed":                {func(m *mem.Driver, h driver.Handle) { m.Kill(h, 0) }, protocol.Lost},
		"its machine was taken": {func(m *mem.Driver, h driver.Handle) { m.Take(h, 0) }, protocol.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			began := make(chan [2]int, 1)
			d.does(untilTold(began))
			p := d.submit(spec())
			wait := d.attend(t.Context(), d.Engine, p)
			<-began
			d.does(func(context.Context, int, int) protocol.Exit { return protocol.Exit{Verdict: protocol.Done} })
			row.lose(d.mem, d.handle(p, 1))
			s, err := wait()
			if d.check(err); s.State != job.Succeeded || s.Attempt != 2 {
				t.Errorf("%+v", s)
			}
			rep := d.look(p)
			if len(rep.Run.Placed) != 2 || rep.Run.Attempts[1].Cause != row.cause || rep.Run.Interruptions() != 1 {
				t.Errorf("placed %+v, attempts %+v", rep.Run.Placed, rep.Run.Attempts)
			}
		})
	}
}

func TestOfTwoNodesOnlyTheLostOneIsReplaced(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := make(chan [2]int, 2)
	d.does(untilTold(began))
	p := d.submit(spec(func(s *job.Spec) { s.Nodes = 2 }))
	wait := d.attend(t.Context(), d.Engine, p)
	<-began
	<-began
	keeper := d.look(p).Run.Joins
	lost := 0
	if !strings.HasPrefix(keeper[0].Agent, "1-1-") {
		lost = 1 // agent 1 of the placement has rank 1
	}
	d.does(func(context.Context, int, int) protocol.Exit { return protocol.Exit{Verdict: protocol.Done} })
	d.mem.Kill(d.handle(p, 1), 1)
	s, err := wait()
	if d.check(err); s.State != job.Succeeded || s.Attempt != 2 {
		t.Fatalf("%+v", s)
	}
	rep := d.look(p)
	want := protocol.Attempt{K: 2, Cause: protocol.Lost, Ranks: []int{lost}, Keep: map[int]string{1 - lost: keeper[1-lost].Agent}}
	if diff := cmp.Diff(want, rep.Run.Attempts[1]); diff != "" {
		t.Errorf("the second attempt (-want +got):\n%s", diff)
	}
	if len(rep.Run.Placed) != 2 || rep.Run.Placed[1].Agents != 1 {
		t.Errorf("placed %+v", rep.Run.Placed)
	}
}

// Starting more is of no use when none of them ever joins.
func TestAgentsThatNeverComeUpFailTheJob(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.mem.Close()
	d.mem = mem.New(func(context.Context, driver.Request, int) error { return errors.New("begun\nno room on /var") })
	t.Cleanup(d.mem.Close)
	d.Drivers[mem.Name] = mem.Open(d.mem)
	p := d.submit(spec())
	s, err := d.Attend(t.Context(), p)
	d.check(err)
	if s.State != job.Failed || s.Code != fault.ExitDrover || !strings.HasPrefix(s.Reason, "agents could not be started 3 times in a row: ") || !strings.HasSuffix(s.Reason, ": no room on /var") {
		t.Errorf("%+v", s)
	}
	if n := len(d.look(p).Run.Placed); n != attached.MaxFailedPlacements {
		t.Errorf("%d placements", n)
	}
}

func TestATargetThatRefusesIsSaidAndTheJobStays(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.mem.Refuse(fault.New(fault.Full, "Wait a little.", "start agents: no room"))
	p := d.submit(spec())
	_, err := d.Attend(t.Context(), p)
	if fault.KindOf(err) != fault.Full || fault.Hint(err) != "Wait a little." || !strings.HasPrefix(err.Error(), "place job "+p.Job[:job.MinShort]+" on mem: ") {
		t.Errorf("%v", err)
	}
	if rep := d.look(p); rep.State != job.Pending {
		t.Errorf("it is %s", rep.State)
	}
	// The same placement is asked for again: nothing was started under its name.
	if s, err := d.Attend(t.Context(), p); err != nil || s.State != job.Succeeded || len(d.look(p).Run.Placed) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Rule J1 of docs/protocol.md: a start that lost its answer is found again by its name.
func TestAStartWhoseAnswerWasLostIsFoundAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.mem.LoseAnswer()
	p := d.submit(spec())
	if _, err := d.Attend(t.Context(), p); err != nil && fault.KindOf(err) != fault.Lost {
		t.Fatal(err)
	}
	s, err := d.Attend(t.Context(), p)
	if d.check(err); s.State != job.Succeeded || s.Attempt != 1 || len(d.look(p).Run.Placed) != 1 {
		t.Errorf("%+v, placed %+v", s, d.look(p).Run.Placed)
	}
}

func TestAttendEndsWithItsContextAndTheAgentsGoOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began, on := make(chan [2]int, 1), make(chan struct{})
	d.does(func(ctx context.Context, attempt, rank int) protocol.Exit {
		began <- [2]int{attempt, rank}
		select {
		case <-on:
		case <-ctx.Done():
		}
		return protocol.Exit{Verdict: protocol.Done}
	})
	p := d.submit(spec())
	ctx, stop := context.WithCancelCause(t.Context())
	wait := d.attend(ctx, d.Engine, p)
	<-began
	left := errors.New("the command line left")
	stop(left)
	if _, err := wait(); !errors.Is(err, left) {
		t.Errorf("%v", err)
	}
	close(on)
	if s, err := d.other("cli-2").Attend(t.Context(), p); err != nil || s.State != job.Succeeded || s.Attempt != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestInterruptLetsTheAgentsGoAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := make(chan [2]int, 1)
	d.does(untilTold(began))
	p := d.submit(spec())
	ctx, stop := context.WithCancel(t.Context())
	wait := d.attend(ctx, d.Engine, p)
	<-began
	stop() // as the command line does before it interrupts
	_, _ = wait()
	d.check(d.Interrupt(t.Context(), p, time.Hour))
	if rep := d.look(p); rep.State != job.Interrupted || rep.Run.Exits[0].Verdict != protocol.AskedToStop {
		t.Errorf("it is %s, %+v", rep.State, rep.Run.Exits)
	}
	d.does(func(context.Context, int, int) protocol.Exit { return protocol.Exit{Verdict: protocol.Done} })
	s, err := d.Attend(t.Context(), p)
	if d.check(err); s.State != job.Succeeded || s.Attempt != 2 {
		t.Errorf("%+v", s)
	}
	if rep := d.look(p); rep.Run.Attempts[1].Cause != protocol.Asked || rep.Run.Interruptions() != 0 {
		t.Errorf("attempts %+v", rep.Run.Attempts)
	}
	// Of what has ended there is nothing to interrupt.
	d.check(d.Interrupt(t.Context(), p, 0))
}

// A command line that only watches does not undo another one's Ctrl-C.
func TestWhoWatchesDoesNotUndoAnInterruption(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := make(chan [2]int, 1)
	d.does(untilTold(began))
	p := d.submit(spec())
	wait := d.attend(t.Context(), d.Engine, p)
	<-began
	d.check(d.other("cli-2").Interrupt(t.Context(), p, time.Hour))
	if _, err := wait(); fault.KindOf(err) != fault.Interrupted || fault.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	if rep := d.look(p); rep.State != job.Interrupted || rep.Run.Attempt() != 1 {
		t.Errorf("it is %s, attempt %d", rep.State, rep.Run.Attempt())
	}
}

// A target is emptied: a command that follows its job places no agents anew, and nothing is left.
// A place that does not answer is said, and the others are emptied all the same.
func TestATargetIsEmptied(t *testing.T) {
	t.Parallel()
	for _, silent := range []error{nil, errors.New("a cluster does not answer")} {
		d := newDesk(t)
		began := make(chan [2]int, 1)
		d.does(untilTold(began))
		p := d.submit(spec())
		wait := d.attend(t.Context(), d.Engine, p)
		<-began
		if err := d.other("cli-2").EmptyTarget(t.Context(), partly{d.mem, silent}); !errors.Is(err, silent) {
			t.Errorf("%v, want %v", err, silent)
		}
		if _, err := wait(); fault.KindOf(err) != fault.Interrupted {
			t.Errorf("%v", err)
		}
		held, err := d.mem.List(t.Context())
		if rep := d.look(p); err != nil || len(held) != 0 || rep.State != job.Interrupted || rep.Run.Attempt() != 1 {
			t.Errorf("%v are left, %v; it is %s, attempt %d", held, err, rep.State, rep.Run.Attempt())
		}
	}
}

// An agent that was killed before it could leave is lost: a command that follows its job then places
// another, and that is said.
func TestATargetThatIsFilledAgainIsNotEmpty(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := make(chan [2]int, 1)
	d.does(untilTold(began))
	p := d.submit(spec())
	d.attend(t.Context(), d.Engine, p)
	<-began
	err := d.other("cli-2").EmptyTarget(t.Context(), &filled{Driver: d.mem})
	if err == nil || err.Error() != "empty the target: a command that follows job "+p.Job+" has placed agents anew" || fault.Hint(err) != "End that command, and type this one again." {
		t.Errorf("%v", err)
	}
}

// filled is a target that has a new placement of each job in its second list.
type filled struct {
	driver.Driver
	first []driver.Handle // that it had
}

func (f *filled) List(ctx context.Context) ([]driver.Handle, error) {
	held, err := f.Driver.List(ctx)
	for _, h := range f.first {
		h.Placement++
		held = append(held, h)
	}
	if f.first == nil {
		f.first = slices.Clone(held)
	}
	return held, err
}

// partly is a target of which a place does not answer.
type partly struct {
	driver.Driver
	silent error
}

func (p partly) List(ctx context.Context) ([]driver.Handle, error) {
	held, err := p.Driver.List(ctx)
	return held, errors.Join(err, p.silent)
}

func TestInterruptWithoutGraceKills(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := make(chan [2]int, 1)
	d.does(untilTold(began))
	p := d.submit(spec())
	ctx, stop := context.WithCancel(t.Context())
	wait := d.attend(ctx, d.Engine, p)
	<-began
	stop()
	_, _ = wait()
	d.check(d.Interrupt(t.Context(), p, 0))
	members, err := d.mem.Status(t.Context(), d.handle(p, 1))
	if d.check(err); len(members) != 1 || members[0].State.Alive() {
		t.Errorf("%+v", members)
	}
	if rep := d.look(p); len(rep.Run.Exits) > 0 {
		t.Errorf("it wrote %+v", rep.Run.Exits)
	}
}

func TestCancelEndsAJobForGood(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := make(chan [2]int, 1)
	d.does(untilTold(began))
	p := d.submit(spec())
	wait := d.attend(t.Context(), d.Engine, p)
	<-began
	stands, err := d.other("cli-2").Cancel(t.Context(), p, "wrong data")
	if d.check(err); !stands {
		t.Error("it had already ended")
	}
	s, err := wait()
	if d.check(err); s.State != job.Cancelled || s.Reason != "wrong data" || s.Code != fault.ExitInterrupted {
		t.Errorf("%+v", s)
	}
	if held, err := d.mem.List(t.Context()); err != nil || len(held) > 0 {
		t.Errorf("the place still holds %v (%v)", held, err)
	}
	d.does(func(context.Context, int, int) protocol.Exit { return protocol.Exit{Verdict: protocol.Done} })
	done := d.submit(spec(named))
	succeeded(d, done)
	if stands, err := d.Cancel(t.Context(), done, "too late"); stands || err != nil || d.look(done).State != job.Succeeded {
		t.Errorf("the cancel of one that had succeeded stands: %t, %v", stands, err)
	}
}

func TestACancelOfAJobNobodyWorksOnSettlesIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.submit(spec())
	stands, err := d.Cancel(t.Context(), p, "")
	if rep := d.look(p); err != nil || !stands || rep.State != job.Cancelled || len(rep.Run.Placed) != 0 {
		t.Errorf("stands %t, %v; it is %s", stands, err, rep.State)
	}
}

func TestAJobStaysWhereItsTargetsNameLedAtSubmit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.mem.MoveTo("shelf:1")
	began := make(chan [2]int, 1)
	d.does(untilTold(began))
	p := d.submit(spec())
	wait := d.attend(t.Context(), d.Engine, p)
	<-began
	d.mem.MoveTo("shelf:2")
	j := d.load(p)
	if rep := d.look(p); j.Spec.On != "mem" || j.Target() != "mem/shelf:1" || rep.Run.Placed[0].Target != "mem/shelf:1" {
		t.Errorf("the job was submitted to %q, is at %q, and its placement at %q", j.Spec.On, j.Target(), rep.Run.Placed[0].Target)
	}
	members, err := d.other("cli-2").Members(t.Context(), j, 1)
	if d.check(err); len(members) != 1 || !members[0].State.Alive() {
		t.Errorf("the target has the members %+v", members)
	}
	_, err = d.other("cli-2").Cancel(t.Context(), p, "")
	d.check(err)
	_, err = wait()
	d.check(err)
	if held, err := d.mem.List(t.Context()); err != nil || len(held) > 0 {
		t.Errorf("the target still holds %v (%v)", held, err)
	}
}

func TestTargetsAreFoundByTheirFirstWord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, on := range []string{"mem", "mem/fast"} {
		if got, err := d.Driver(on); err != nil || got.Driver != d.Drivers[mem.Name].Driver {
			t.Errorf("%s: %v", on, err)
		}
	}
	_, err := d.Driver("moon/fast")
	if fault.KindOf(err) != fault.Invalid || !slices.Contains(strings.Fields(strings.TrimSuffix(fault.Hint(err), ".")), "mem") {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
	if attached, err := d.Attached(t.Context(), d.submit(spec())); err != nil || !attached {
		t.Errorf("attached %t, %v", attached, err)
	}
}
