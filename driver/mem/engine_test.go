package mem_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	memstore "github.com/drover-run/drover/store/mem"
)

// engineDriver is a driver over an engine, with the engine's knobs.
type engineDriver struct {
	driver.Driver
	*mem.Engine
}

// remotePlace is driver/remote over an engine in memory, as the suite meets it.
func remotePlace(bucket func() store.Bucket, o mem.EngineOptions) drivertest.Place {
	return drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			e := mem.NewEngine(store.New(bucket(), store.Options{}), actScript, o)
			e.MoveTo("shelf:1")
			t.Cleanup(e.Close)
			return func() driver.Driver { return engineDriver{e.Driver(), e} }
		},
		Kill: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			d.(engineDriver).Kill(h, m.Index)
		},
		Take: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			d.(engineDriver).Take(h, m.Index)
		},
		Break: func(_ *testing.T, d driver.Driver, _ *driver.Request) { d.(engineDriver).Spoil("no such image") },
		Warn: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			d.(engineDriver).Warn(h, m.Index, "the machine is taken away in two minutes")
		},
		Move:       func(_ *testing.T, d driver.Driver) { d.(engineDriver).MoveTo("shelf:2") },
		LoseAnswer: func(d driver.Driver) { d.(engineDriver).LoseAnswer() },
		Looks:      looks,
	}
}

// looks is fewer than the suite's own where a mutant is expected to fail.
var looks, _ = strconv.Atoi(os.Getenv("DROVER_LOOKS"))

// actScript is an agent of the suite below a supervisor.
func actScript(ctx context.Context, a mem.EngineAgent) error {
	s, ok := drivertest.ScriptOf(a.Request.Run)
	if !ok {
		return errors.New("no script")
	}
	var log bytes.Buffer
	code := s.Act(ctx, drivertest.Agent{Placement: a.Request.Placement, Index: a.Number, Given: a.Given, Environ: a.Request.Run.Env, Killed: a.Killed, Log: &log})
	if code != 0 {
		return status{code, log.String()}
	}
	return nil
}

func TestRemoteIsADriver(t *testing.T) {
	for name, o := range map[string]mem.EngineOptions{
		"an engine that shows what it has": {},
		"an engine that submits twice":     {Twice: true},
		"an engine that shows it late":     {Unseen: 3},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, remotePlace(func() store.Bucket { return memstore.New() }, o))
		})
	}
}

func TestRemoteIsADriverOverAStoreThatLies(t *testing.T) {
	drivertest.Run(t, remotePlace(func() store.Bucket {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 2))
		draw := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(n)
		}
		return flaky.New(memstore.New(), flaky.Plan{Rand: draw, Busy: 0.05, LoseRequest: 0.05, LoseReply: 0.05, Conflict: 0.05, Echo: 0.05})
	}, mem.EngineOptions{}))
}

// untilAsked is an agent that ends with 0 once it is asked.
func untilAsked(ctx context.Context, a mem.EngineAgent) error {
	select {
	case <-ctx.Done():
	case <-a.Killed:
	}
	return nil
}

func newEngine(t *testing.T, run func(context.Context, mem.EngineAgent) error, o mem.EngineOptions) *mem.Engine {
	e := mem.NewEngine(store.New(memstore.New(), store.Options{}), run, o)
	t.Cleanup(e.Close)
	return e
}

// requestOf is for agents of the job jobID.
func requestOf(agents int) driver.Request {
	return driver.Request{Job: jobID, Placement: 1, Agents: agents, Run: driver.Boot{Job: "p/t/" + jobID}}
}

// An engine that starts a process again makes it an agent with a number of its own, and the
// one before it stays what it was.
func TestAProcessThatIsStartedAgainIsAnotherAgent(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{})
	d := e.Driver()
	h, err := d.Start(t.Context(), requestOf(3))
	if err != nil {
		t.Fatal(err)
	}
	running := func(want ...int) func() bool {
		return func() bool {
			var got []int
			members, err := e.Driver().Status(t.Context(), h) // another process, which remembers nothing
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range members {
				if m.State == driver.Running {
					got = append(got, m.Index)
				}
			}
			return slices.Equal(got, want)
		}
	}
	drivertest.Until(t, "three agents run", running(0, 1, 2))
	e.Restart(h, 1)
	drivertest.Until(t, "the successor of agent 1 runs", running(0, 2, 4))
	e.Restart(h, 4)
	drivertest.Until(t, "the successor of agent 4 runs", running(0, 2, 7))
	members, err := e.Driver().Status(t.Context(), h) // another process, which remembers nothing
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.Index == 1 || m.Index == 4 {
			if m.State != driver.Taken || m.Reason != "the machine was taken away" {
				t.Errorf("agent %d is %+v, want it taken", m.Index, m)
			}
		}
	}
}

// A process that comes up after the Stop does not begin.
func TestAnAgentThatComesUpAfterAStopDoesNotBegin(t *testing.T) {
	begun := make(chan int, 10)
	e := newEngine(t, func(_ context.Context, a mem.EngineAgent) error {
		begun <- a.Number
		<-a.Killed // it is still there when its machine is taken away
		return nil
	}, mem.EngineOptions{})
	d := e.Driver()
	h, err := d.Start(t.Context(), requestOf(1))
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := d.Stop(t.Context(), h, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	e.Restart(h, 0)
	drivertest.Until(t, "all have ended", func() bool {
		members, err := e.Driver().Status(t.Context(), h) // another process, which remembers nothing
		return err == nil && len(members) == 2 && !members[0].State.Alive() && !members[1].State.Alive()
	})
	select {
	case n := <-begun:
		t.Errorf("agent %d began after the Stop", n)
	default:
	}
}

// A placement that is stopped before the engine was asked is never submitted.
func TestAStopBeforeTheStartHasSubmittedStartsNothing(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{Unseen: 1 << 30})
	d := e.Driver()
	e.LoseAnswer()
	r := requestOf(1)
	if _, err := d.Start(t.Context(), r); err == nil {
		t.Fatal("the answer was to be lost")
	}
	h := driver.Handle{Target: mem.Remote, Job: r.Job, Placement: 1}
	if err := d.Stop(t.Context(), h, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if n := e.Submissions(); n != 1 {
		t.Errorf("the engine has had %d submissions, want the first alone", n)
	}
}

// An allocation without a record is listed, and removed by Stop.
func TestWhatHasNoRecordIsListedAndRemoved(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{})
	d := e.Driver()
	h, err := d.Start(t.Context(), requestOf(1))
	if err != nil {
		t.Fatal(err)
	}
	e.LoseRecords(t.Context())
	if held, err := d.List(t.Context()); err != nil || !slices.Equal(held, []driver.Handle{h}) {
		t.Fatalf("List gives %v, %v; want %v", held, err, h)
	}
	drivertest.Until(t, "nothing is held", func() bool {
		if err := d.Stop(t.Context(), h, 0, true); err != nil {
			t.Fatal(err)
		}
		held, err := d.List(t.Context())
		return err == nil && len(held) == 0
	})
}

const jobID = "abcd2345abcd2345"

func (d engineDriver) members(t *testing.T, h driver.Handle) []driver.Member {
	t.Helper()
	members, err := d.Engine.Driver().Status(t.Context(), h) // another process, which remembers nothing
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// started is a placement of two agents that run.
func started(t *testing.T, run func(context.Context, mem.EngineAgent) error) (engineDriver, driver.Handle) {
	e := newEngine(t, run, mem.EngineOptions{})
	d := engineDriver{e.Driver(), e}
	h, err := d.Start(t.Context(), requestOf(2))
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "both run", func() bool {
		m := d.members(t, h)
		return len(m) == 2 && m[0].State == driver.Running && m[1].State == driver.Running
	})
	return d, h
}

func TestAnAnswerThatWasLostIsFoundByName(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{Unseen: 1})
	d, r := e.Driver(), requestOf(1)
	e.LoseAnswer()
	if _, err := d.Start(t.Context(), r); err == nil {
		t.Fatal("the answer was to be lost")
	}
	for range 3 {
		if _, err := d.Start(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.Submissions(); n != 1 {
		t.Errorf("the engine has had %d submissions, want 1", n)
	}
}

func TestManyStartsAskTheEngineOnce(t *testing.T) {
	const sides = 8
	b := &gate{Bucket: memstore.New(), open: make(chan struct{})}
	b.missing.Store(sides)
	e := mem.NewEngine(store.New(b, store.Options{}), untilAsked, mem.EngineOptions{Unseen: 4})
	t.Cleanup(e.Close)
	e.Slow(20 * time.Millisecond)
	var all sync.WaitGroup
	for range sides {
		all.Go(func() {
			if _, err := e.Driver().Start(t.Context(), requestOf(1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := e.Submissions(); n != 1 {
		t.Errorf("the engine has had %d submissions, want 1", n)
	}
}

// gate lets the first call of the engine be recorded once all sides want to.
type gate struct {
	store.Bucket
	missing atomic.Int32
	open    chan struct{}
}

func (g *gate) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if strings.HasSuffix(key, "/asked/1") {
		if g.missing.Add(-1) == 0 {
			close(g.open)
		}
		<-g.open
	}
	return g.Bucket.Create(ctx, key, body)
}

// A process that died between its record and the engine's call is stood in for.
func TestACallThatWasNeverMadeIsMadeByTheNextStart(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{})
	d, r := e.Driver(), requestOf(1)
	e.Refuse(fault.New(fault.Lost, "", "submit: no route to host"))
	if _, err := d.Start(t.Context(), r); fault.KindOf(err) != fault.Lost {
		t.Fatalf("Start gives %v, want a fault of kind lost", err)
	}
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if n := e.Submissions(); n != 1 {
		t.Errorf("the engine has had %d submissions, want 1", n)
	}
}

func TestARefusedSubmissionLeavesNothing(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{})
	d, r := e.Driver(), requestOf(1)
	e.Refuse(fault.New(fault.Full, "", "submit: no capacity"))
	if _, err := d.Start(t.Context(), r); fault.KindOf(err) != fault.Full {
		t.Fatalf("Start gives %v, want a fault of kind full", err)
	}
	if held, err := d.List(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("List gives %v, %v after the refusal", held, err)
	}
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func TestAStopEndsBothSubmissions(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{Twice: true})
	d := engineDriver{e.Driver(), e}
	e.Hold()
	h, err := d.Start(t.Context(), requestOf(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), h, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if n := e.Alive(); n != 0 {
		t.Errorf("%d processes are alive after the Stop", n)
	}
}

func TestALongerGraceAddsNoOrder(t *testing.T) {
	d, h := started(t, func(_ context.Context, a mem.EngineAgent) error {
		<-a.Killed
		return nil
	})
	for _, grace := range []time.Duration{2 * time.Hour, time.Hour, 3 * time.Hour, time.Hour} {
		if err := d.Stop(t.Context(), h, grace, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Orders(t.Context(), h); n != 2 {
		t.Errorf("there are %d orders to stop, want the two that each end sooner", n)
	}
}

func TestTheRecordOfAnEndStands(t *testing.T) {
	e := newEngine(t, func(context.Context, mem.EngineAgent) error { return status{code: 3, log: "no"} }, mem.EngineOptions{})
	d := engineDriver{e.Driver(), e}
	h, err := d.Start(t.Context(), requestOf(1))
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it has ended", func() bool { return !d.members(t, h)[0].State.Alive() })
	e.Forget(h)
	if m := d.members(t, h)[0]; m.State != driver.Ended || m.Code != 3 || m.Tail != "no" {
		t.Errorf("the member is %+v, want what was recorded of it", m)
	}
}

// The agent records its end after the record was read, and before the engine is asked.
func TestAnEndThatIsRecordedMeanwhileStands(t *testing.T) {
	end := make(chan struct{})
	e := newEngine(t, func(context.Context, mem.EngineAgent) error {
		<-end
		return status{code: 3, log: "no"}
	}, mem.EngineOptions{})
	d := engineDriver{e.Driver(), e}
	h, err := d.Start(t.Context(), requestOf(1))
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it runs", func() bool { return d.members(t, h)[0].State == driver.Running })
	var once sync.Once
	e.BeforeProcesses(func() {
		once.Do(func() {
			close(end)
			drivertest.Until(t, "it has ended", func() bool { return e.Alive() == 0 })
		})
	})
	if m := d.members(t, h)[0]; m.State != driver.Ended || m.Code != 3 || m.Tail != "no" {
		t.Errorf("the member is %+v, want what was recorded of it", m)
	}
}

func TestWhatWaitsIsEndedByAStop(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{})
	d := engineDriver{e.Driver(), e}
	e.Hold()
	h, err := d.Start(t.Context(), requestOf(2))
	if err != nil {
		t.Fatal(err)
	}
	if m := d.members(t, h); len(m) != 2 || m[0].State != driver.Waiting || m[1].State != driver.Waiting {
		t.Fatalf("the members are %+v, want two that wait", m)
	}
	if err := d.Stop(t.Context(), h, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	for _, m := range d.members(t, h) {
		if m.State != driver.Ended || m.Reason != "stopped before it began" {
			t.Errorf("the member is %+v, want it stopped before it began", m)
		}
	}
}

// An attempt that was taken before it came up is followed by the next, which waits.
func TestAnAttemptThatNeverCameUpIsFollowedByTheNext(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{})
	d := engineDriver{e.Driver(), e}
	e.Hold()
	h, err := d.Start(t.Context(), requestOf(1))
	if err != nil {
		t.Fatal(err)
	}
	e.RestartWaiting(h)
	for range 20 { // the engine gives its processes in any order
		if m := d.members(t, h); len(m) != 1 || m[0].State != driver.Waiting {
			t.Fatalf("the members are %+v, want one that waits", m)
		}
	}
}

// A Stop between the record and the engine's call is heeded by the Start that goes on.
func TestAStopBeforeTheEngineIsAskedStands(t *testing.T) {
	b := &hook{Bucket: memstore.New()}
	e := mem.NewEngine(store.New(b, store.Options{}), untilAsked, mem.EngineOptions{})
	t.Cleanup(e.Close)
	d := engineDriver{e.Driver(), e}
	h := driver.Handle{Target: mem.Remote, Job: jobID, Placement: 1}
	b.before = func() {
		if err := d.Stop(t.Context(), h, time.Hour, false); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Start(t.Context(), requestOf(1)); err != nil {
		t.Fatal(err)
	}
	if n := e.Submissions(); n != 0 {
		t.Errorf("the engine has had %d submissions after the Stop", n)
	}
}

// hook runs before once, when a call of the engine is about to be recorded.
type hook struct {
	store.Bucket
	before func()
	once   sync.Once
}

func (k *hook) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if strings.HasSuffix(key, "/asked/1") {
		k.once.Do(k.before)
	}
	return k.Bucket.Create(ctx, key, body)
}

// The record goes while the engine is being asked: what that starts would have no name.
func TestWhatWasStartedForARemovedRecordEnds(t *testing.T) {
	e := newEngine(t, untilAsked, mem.EngineOptions{})
	d := engineDriver{e.Driver(), e}
	e.Hold()
	e.BeforeSubmit(func() { e.LoseRecords(t.Context()) })
	if _, err := d.Start(t.Context(), requestOf(2)); fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "was removed meanwhile") {
		t.Errorf("Start gives %v, want a fault of kind lost", err)
	}
	if n := e.Alive(); n != 0 {
		t.Errorf("%d processes are alive, and nothing names them", n)
	}
}

func TestARemovalThatFailsKeepsTheRecord(t *testing.T) {
	d, h := started(t, untilAsked)
	d.Engine.FailRemoval(errors.New("throttled"))
	for range 3 {
		_ = d.Stop(t.Context(), h, 0, true) // it fails once nothing runs
	}
	if held, err := d.List(t.Context()); err != nil || !slices.Contains(held, h) {
		t.Fatalf("List gives %v, %v: the record is gone before what it names", held, err)
	}
	if n := len(d.members(t, h)); n == 0 {
		t.Error("the record is gone before what it names")
	}
	d.Engine.FailRemoval(nil)
	drivertest.Until(t, "nothing is held", func() bool {
		if err := d.Stop(t.Context(), h, 0, true); err != nil {
			t.Fatal(err)
		}
		held, err := d.List(t.Context())
		return err == nil && len(held) == 0
	})
}
