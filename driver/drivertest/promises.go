package drivertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// never is a grace that does not pass during any test.
const never = 1000 * time.Hour

// soon is a grace that passes while a test waits.
const soon = 50 * time.Millisecond

var promises = []struct {
	name string
	keep func(*stage)
}{
	{"starting starts every agent, numbered from 0", startsAll},
	{"starting twice starts once", startsOnce},
	{"starting the same name from many sides at once starts once", startsOnceAtOnce},
	{"starting again after the end starts nothing", startsNothingAfterEnd},
	{"placements of one job are apart", placementsApart},
	{"a request that names nobody is refused and leaves nothing", refusesInvalid},
	{"a hostile job id is refused and reaches nothing", refusesHostile},
	{"an agent that ends well shows its code", endsWell},
	{"an agent that ends badly shows its code and the end of its log", endsBadly},
	{"an agent that cannot start says why", cannotStart},
	{"a killed agent is lost, and the reason says so", lostWhenKilled},
	{"stopping the others does not explain a lost agent away", lostStaysLost},
	{"an interruption is told from a loss", takenIsNotLost},
	{"status of an unknown handle has no members", unknownHandle},
	{"stop asks, and lets the agent end by itself within grace", stopAsks},
	{"stop kills what ignores it after grace", stopKills},
	{"a second stop with less grace overtakes the first", stopHurries},
	{"stop with no grace kills at once", stopAtOnce},
	{"stop twice, and of what never was, is fine", stopTwice},
	{"stop with remove leaves nothing", stopRemoves},
	{"stop with remove waits for agents that are still ending", stopRemovesLater},
	{"list names live and ended handles to any process", lists},
	{"handles print and parse", handlesPrint},
	{"a handle leads to the place that the target's name meant", staysWhereItIs},
	{"an offer fits, or says why not", offers},
	{"a price can be looked up again", pricesHaveSources},
	{"what is asked of machines holds, or is refused", askedOfMachines},
	{"spot capacity is had, or refused", spotOrRefused},
	{"options that no engine has are refused", foreignOptions},
	{"a cancelled context changes nothing", cancelled},
	{"an agent has the environment and the secrets of its request", handsOver},
	{"an agent that is stopped is told that a person has asked, and how long it has", tellsStop},
	{"an agent whose machine is about to go is told that it is an interruption", tellsInterruption},
	{"an agent that ends without a word is not called done", endsWordless},
	{"a start whose answer was lost can be asked for again", startsAfterLostAnswer},
	{"a way in leads to the agent that runs", letsIn},
}

func startsAll(s *stage) {
	r := s.newRequest(1, 3, Script{Stay: true})
	h := s.startAndWait(r)
	var members []driver.Member
	s.waitUntil("three members run", func() bool {
		members = s.readStatus(h)
		return len(members) == 3 && !slices.ContainsFunc(members, func(m driver.Member) bool { return m.State != driver.Running })
	})
	s.startedOnce(r)
}

func startsOnce(s *stage) {
	r := s.newRequest(1, 2, Script{Stay: true})
	h := s.startPlacement(s.d, r)
	if again := s.startPlacement(s.again(), r); again != h {
		s.Errorf("the second Start gives %s, the first gave %s", again, h)
	}
	s.waitUntil("all agents act", func() bool { return s.allAgentsActed(r) })
	s.startPlacement(s.again(), r)
	s.startedOnce(r)
	if n := len(s.readStatus(h)); n != 2 {
		s.Errorf("Status has %d members of 2", n)
	}
}

func startsOnceAtOnce(s *stage) {
	const sides = 8
	r := s.newRequest(1, 2, Script{Stay: true})
	var handles [sides]driver.Handle
	var errs [sides]error
	var all sync.WaitGroup
	for i := range sides {
		d := s.again()
		all.Go(func() { handles[i], errs[i] = d.Start(context.Background(), r) })
	}
	all.Wait()
	for i := range sides {
		if errs[i] != nil || handles[i] != handles[0] {
			s.Errorf("side %d: %v, %v; side 0 has %v", i, handles[i], errs[i], handles[0])
		}
	}
	s.waitUntil("all agents act", func() bool { return s.allAgentsActed(r) })
	s.startedOnce(r)
}

func startsNothingAfterEnd(s *stage) {
	r := s.newRequest(1, 1, Script{Code: 4})
	h := s.startAndWait(r)
	s.waitUntilGone(h)
	s.startPlacement(s.again(), r)
	s.startedOnce(r)
	if m := s.waitUntilGone(h)[0]; m.State != driver.Ended || m.Code != 4 {
		s.Errorf("the member is %+v after it was started again, want it ended with 4", m)
	}
}

func placementsApart(s *stage) {
	one := s.startAndWait(s.newRequest(1, 1, Script{Stay: true}))
	two := s.startAndWait(s.newRequest(2, 1, Script{Stay: true}))
	s.stopPlacement(one, 0, false)
	s.waitUntilGone(one)
	if !s.agentIsAlive(two, 0) {
		s.Errorf("placement 2 is %+v after placement 1 was stopped", s.readStatus(two))
	}
}

func refusesInvalid(s *stage) {
	for name, spoil := range map[string]func(*driver.Request){
		"no agents":     func(r *driver.Request) { r.Agents = 0 },
		"fewer than no": func(r *driver.Request) { r.Agents = -1 },
		"placement 0":   func(r *driver.Request) { r.Placement = 0 },
		"placement -1":  func(r *driver.Request) { r.Placement = -1 },
	} {
		r := s.newRequest(1, 1, Script{Stay: true})
		spoil(&r)
		if h, err := s.d.Start(context.Background(), r); fault.KindOf(err) != fault.Invalid {
			s.Errorf("%s: Start gives %v, %v; want a fault of kind invalid", name, h, err)
		}
	}
	if held := s.listOwnHandles(); len(held) != 0 {
		s.Errorf("List has %v after refusals", held)
	}
}

func refusesHostile(s *stage) {
	ctx := context.Background()
	victim := s.startAndWait(s.newRequest(1, 1, Script{Stay: true}))
	hostile := []string{"", ".", "..", "../" + s.job, "a/b", "/etc", `a\b`, "a\x00b", "A", "a b", "-rf", "a:b", "a\nb",
		"é", "$(id)", "*", ".new", s.job + "-1", s.job + "/../" + s.job, strings.Repeat("a", 300)}
	for _, id := range hostile {
		r := s.newRequest(1, 1, Script{})
		r.Job = id
		if h, err := s.d.Start(ctx, r); fault.KindOf(err) != fault.Invalid {
			s.Errorf("job %q: Start gives %v, %v; want a fault of kind invalid", id, h, err)
		}
		h := driver.Handle{Target: victim.Target, Detail: victim.Detail, Job: id, Placement: 1}
		if m, err := s.d.Status(ctx, h); len(m) != 0 || (err != nil && fault.KindOf(err) != fault.Invalid) {
			s.Errorf("job %q: Status gives %v, %v; want no members", id, m, err)
		}
		if err := s.d.Stop(ctx, h, 0, true); err != nil && fault.KindOf(err) != fault.Invalid {
			s.Errorf("job %q: Stop gives %v", id, err)
		}
	}
	if !s.agentIsAlive(victim, 0) {
		s.Errorf("the agent beside them is %+v", s.readStatus(victim))
	}
}

func endsWell(s *stage) {
	m := s.waitUntilGone(s.startAndWait(s.newRequest(1, 1, Script{})))[0]
	if m.State != driver.Ended || m.Code != 0 {
		s.Errorf("member is %+v, want it ended with 0", m)
	}
}

func endsBadly(s *stage) {
	for i, m := range s.waitUntilGone(s.startAndWait(s.newRequest(1, 2, Script{Say: "no disk like home", Code: 7}))) {
		if m.State != driver.Ended || m.Code != 7 {
			s.Errorf("member %d is %+v, want it ended with 7", i, m)
		}
		if !strings.Contains(m.Tail, "no disk like home") {
			s.Errorf("member %d: the end of its log is %q", i, m.Tail)
		}
	}
}

// cannotStart: a target that checks first refuses, and keeps nothing; one that finds out later
// shows it.
func cannotStart(s *stage) {
	r := s.newRequest(1, 1, Script{})
	if s.place.Break != nil {
		s.place.Break(s.T, s.d, &r)
	} else {
		r.Run.Binary = filepath.Join(s.TempDir(), "missing")
	}
	h, err := s.d.Start(context.Background(), r)
	if err != nil {
		if k := fault.KindOf(err); k != fault.Invalid && k != fault.Denied {
			s.Errorf("Start: %v is of kind %s", err, k)
		}
		if held := s.listOwnHandles(); len(held) != 0 {
			s.Errorf("List has %v after a refusal", held)
		}
		return
	}
	if m := s.waitUntilGone(h)[0]; m.Reason == "" || m.Code == 0 {
		s.Errorf("member is %+v: it has to say why", m)
	}
}

func lostWhenKilled(s *stage) {
	h := s.startAndWait(s.newRequest(1, 2, Script{Stay: true, Say: "last words"}))
	s.killAgent(h, 0)
	if m := s.waitUntilDead(h, 0); m.State != driver.Lost || m.Reason == "" || ownStatus(m.Code) {
		s.Errorf("the killed agent is %+v, want it lost, with a reason and no status of its own", m)
	}
	if !s.agentIsAlive(h, 1) {
		s.Errorf("the other agent is %+v", s.readStatus(h))
	}
}

func lostStaysLost(s *stage) {
	h := s.startAndWait(s.newRequest(1, 2, Script{Stay: true}))
	s.killAgent(h, 0)
	s.waitUntilDead(h, 0)
	s.stopPlacement(h, never, false)
	members := s.waitUntilGone(h)
	if members[0].State != driver.Lost || members[1].State != driver.Ended {
		s.Errorf("members are %+v, want one lost and one ended", members)
	}
}

func takenIsNotLost(s *stage) {
	if s.place.Take == nil { // no machine is ever taken here, and the driver may not say so
		h := s.startAndWait(s.newRequest(1, 1, Script{Stay: true}))
		s.killAgent(h, 0)
		if m := s.waitUntilDead(h, 0); m.State == driver.Taken {
			s.Errorf("member is %+v, and no machine was taken", m)
		}
		return
	}
	h := s.startAndWait(s.newRequest(1, 1, Script{Stay: true, Deaf: true}))
	s.place.Take(s.T, s.d, h, s.waitUntilRunning(h)[0])
	if m := s.waitUntilDead(h, 0); m.State != driver.Taken || m.Reason == "" {
		s.Errorf("member is %+v, want it taken, with a reason", m)
	}
}

func unknownHandle(s *stage) {
	known := s.startAndWait(s.newRequest(1, 1, Script{Stay: true}))
	for _, h := range []driver.Handle{
		{Target: known.Target, Detail: known.Detail, Job: newID(), Placement: 1},
		{Target: known.Target, Detail: known.Detail, Job: known.Job, Placement: 2},
		{Target: known.Target + "x", Detail: known.Detail, Job: known.Job, Placement: 1},
		{},
	} {
		if m, err := s.d.Status(context.Background(), h); err != nil || len(m) != 0 {
			s.Errorf("Status(%s) gives %v, %v", h, m, err)
		}
	}
}

func stopAsks(s *stage) {
	h := s.startAndWait(s.newRequest(1, 2, Script{Stay: true, Code: 5}))
	s.waitUntilRunning(h) // an engine that does not know it yet may end it as one that has not begun
	s.stopPlacement(h, never, false)
	for i, m := range s.waitUntilGone(h) {
		if m.State != driver.Ended || m.Code != 5 {
			s.Errorf("member %d is %+v, want it ended by itself with 5", i, m)
		}
	}
}

func stopKills(s *stage) {
	h := s.startAndWait(s.newRequest(1, 2, Script{Stay: true, Deaf: true}))
	s.stopPlacement(h, soon, false)
	s.allStopped(h)
}

func stopHurries(s *stage) {
	h := s.startAndWait(s.newRequest(1, 1, Script{Stay: true, Deaf: true}))
	s.stopPlacement(h, never, false)
	s.stopPlacement(h, soon, false)
	s.stopPlacement(h, never, false) // and a later, longer grace does not give more time
	s.allStopped(h)
}

// stopAtOnce: one agent listens for SIGTERM, and would have ended with 5 had it been asked.
func stopAtOnce(s *stage) {
	hears := s.startAndWait(s.newRequest(1, 1, Script{Stay: true, Code: 5}))
	deaf := s.startAndWait(s.newRequest(2, 1, Script{Stay: true, Deaf: true}))
	s.stopPlacement(hears, 0, false)
	s.stopPlacement(deaf, 0, false)
	s.allStopped(hears)
	s.allStopped(deaf)
}

func stopTwice(s *stage) {
	h := s.startAndWait(s.newRequest(1, 1, Script{Stay: true}))
	s.stopPlacement(h, never, false)
	s.stopPlacement(h, never, false)
	s.waitUntilGone(h)
	s.stopPlacement(h, never, false)
	s.stopPlacement(h, 0, false)
	s.stopPlacement(driver.Handle{Target: h.Target, Detail: h.Detail, Job: newID(), Placement: 1}, 0, true)
	s.stopPlacement(h, 0, true)
	s.stopPlacement(h, 0, true)
	s.waitUntil("the place has forgotten the handle", func() bool { return len(s.readStatus(h)) == 0 })
	s.stopPlacement(h, 0, true)
}

func stopRemoves(s *stage) {
	live := s.startAndWait(s.newRequest(1, 2, Script{Stay: true, Deaf: true}))
	ended := s.startAndWait(s.newRequest(2, 1, Script{}))
	kept := s.startAndWait(s.newRequest(3, 1, Script{}))
	s.waitUntilGone(ended)
	s.removePlacement(live)
	s.removePlacement(ended)
	if held := s.listOwnHandles(); !slices.Equal(held, []driver.Handle{kept}) {
		s.Errorf("List has %v, want %v alone", held, kept)
	}
}

func stopRemovesLater(s *stage) {
	h := s.startAndWait(s.newRequest(1, 1, Script{Stay: true}))
	s.stopPlacement(h, never, true)
	s.waitUntil("the place has forgotten the handle", func() bool { return len(s.readStatus(h)) == 0 })
	if held := s.listOwnHandles(); len(held) != 0 {
		s.Errorf("List has %v", held)
	}
}

func lists(s *stage) {
	if held := s.listOwnHandles(); len(held) != 0 {
		s.Errorf("List has %v before anything was started", held)
	}
	ended := s.startAndWait(s.newRequest(1, 1, Script{}))
	live := s.startAndWait(s.newRequest(12, 1, Script{Stay: true}))
	s.waitUntilGone(ended)
	held := s.listOwnHandles()
	slices.SortFunc(held, func(a, b driver.Handle) int { return a.Placement - b.Placement })
	if !slices.Equal(held, []driver.Handle{ended, live}) {
		s.Errorf("List has %v, want %v and %v", held, ended, live)
	}
}

func handlesPrint(s *stage) {
	h := s.startPlacement(s.d, s.newRequest(12, 1, Script{}))
	back, err := driver.ParseHandle(h.String())
	if err != nil || back != h {
		s.Errorf("ParseHandle(%q) gives %+v, %v; want %+v", h, back, err, h)
	}
}

// staysWhereItIs expects that agents are found where they were started, whatever the target's
// name means later, and nowhere else.
func staysWhereItIs(s *stage) {
	r := s.newRequest(1, 1, Script{Stay: true})
	h := s.startAndWait(r)
	if s.place.Move != nil {
		s.place.Move(s.T, s.d)
		if o := s.offerForOne(driver.Needs{}); o.Detail == s.detail {
			s.Fatalf("the target's name still means %q", o.Detail)
		}
	}
	if o := s.offerForOne(driver.Needs{Detail: s.detail}); o.Detail != s.detail {
		s.Errorf("Offer at %q means %q", s.detail, o.Detail)
	}
	if again := s.startPlacement(s.again(), r); again != h {
		s.Errorf("the second Start gives %s, the first gave %s", again, h)
	}
	if held := s.listOwnHandles(); !slices.Equal(held, []driver.Handle{h}) {
		s.Errorf("List has %v, want %v", held, h)
	}
	if members := s.waitUntilRunning(h); len(members) != 1 {
		s.Errorf("Status(%s) has %d members of 1", h, len(members))
	}
	other := h
	other.Detail += "x"
	if m, err := s.d.Status(context.Background(), other); err == nil && len(m) != 0 {
		s.Errorf("Status(%s) gives %v, and %s was started", other, m, h)
	}
}

func offers(s *stage) {
	o, err := s.d.Offer(context.Background(), driver.Needs{Agents: 1})
	if err != nil || !o.Fits || o.Reason != "" || o.Machine == "" {
		s.Errorf("Offer(one agent) gives %+v, %v; want it to fit, on a machine", o, err)
	}
	for _, n := range []driver.Needs{
		{Agents: 1, CPUs: 1e7},
		{Agents: 1, Memory: 1 << 60},
		{Agents: 1, GPUs: 1e7},
	} {
		o, err := s.d.Offer(context.Background(), n)
		if err != nil || o.Fits || o.Reason == "" {
			s.Errorf("Offer(%+v) gives %+v, %v; want a reason why it does not fit", n, o, err)
		}
	}
	if held := s.listOwnHandles(); len(held) != 0 {
		s.Errorf("List has %v after offers", held)
	}
}

func cancelled(s *stage) {
	h := s.startAndWait(s.newRequest(1, 1, Script{Stay: true}))
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("the user has left")
	cancel(why)
	_, offer := s.d.Offer(ctx, driver.Needs{Agents: 1})
	_, start := s.d.Start(ctx, s.newRequest(2, 1, Script{}))
	_, status := s.d.Status(ctx, h)
	_, list := s.d.List(ctx)
	for name, err := range map[string]error{"Offer": offer, "Start": start, "Status": status, "List": list, "Stop": s.d.Stop(ctx, h, 0, true)} {
		if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
			s.Errorf("%s gives %v, want the context's cause", name, err)
		}
	}
	if held := s.listOwnHandles(); !slices.Equal(held, []driver.Handle{h}) {
		s.Errorf("List has %v, want %v alone", held, h)
	}
	if !s.agentIsAlive(h, 0) {
		s.Errorf("the agent is %+v after a cancelled Stop", s.readStatus(h))
	}
}

func (s *stage) stopPlacement(h driver.Handle, grace time.Duration, remove bool) {
	s.Helper()
	if err := s.again().Stop(context.Background(), h, grace, remove); err != nil {
		s.Fatalf("Stop(%s, %s, %v): %v", h, grace, remove, err)
	}
}

// allStopped expects every agent to have been killed by Stop.
func (s *stage) allStopped(h driver.Handle) {
	s.Helper()
	for i, m := range s.waitUntilGone(h) {
		if m.State != driver.Ended || m.Reason == "" || ownStatus(m.Code) {
			s.Errorf("member %d of %s is %+v, want it ended by Stop, with a reason and no status of its own", i, h, m)
		}
	}
}

// ownStatus says whether code can be an agent's own: not -1, nor the 128 and
// more with which engines and shells report a signal.
func ownStatus(code int) bool { return code >= 0 && code < 128 }

// waitUntilRunning waits until the target itself says that every agent runs.
func (s *stage) waitUntilRunning(h driver.Handle) []driver.Member {
	s.Helper()
	var members []driver.Member
	s.waitUntil("all agents run", func() bool {
		members = s.readStatus(h)
		return len(members) > 0 && !slices.ContainsFunc(members, func(m driver.Member) bool { return m.State != driver.Running })
	})
	return members
}

// waitUntilDead waits until agent number index is not alive. Its engine may start another.
func (s *stage) waitUntilDead(h driver.Handle, index int) driver.Member {
	s.Helper()
	s.waitUntil("the agent is not alive", func() bool { return !s.agentIsAlive(h, index) })
	return s.readStatus(h)[index]
}

// agentIsAlive says whether agent number index may still be working.
func (s *stage) agentIsAlive(h driver.Handle, index int) bool {
	s.Helper()
	members := s.readStatus(h)
	if index >= len(members) {
		s.Fatalf("Status(%s) has %d members, and number %d was started", h, len(members), index)
	}
	return members[index].State.Alive()
}

func (s *stage) killAgent(h driver.Handle, index int) {
	s.Helper()
	m := s.waitUntilRunning(h)[index]
	if s.place.Kill != nil {
		s.place.Kill(s.T, s.d, h, m)
		return
	}
	p, err := os.FindProcess(m.PID)
	if err == nil {
		err = p.Signal(syscall.SIGKILL)
	}
	if err != nil {
		s.Fatalf("kill agent %d, pid %d: %v", index, m.PID, err)
	}
}
