// Package drivertest proves a driver: a table of named promises, the same for a
// laptop, a cluster and a cloud.
//
// It starts agents that act a Script. Where agents are processes, the test program itself is
// the agent's program, and Main makes it act. What a suite cannot do through the contract
// (kill an agent without its driver, take its machine away) a Place does for it.
//
// It refuses to know how a target works, and does not depend on timing: it looks, a bounded
// number of times, until the target says what was promised. Package mem passes it, and plants
// a fault for every promise (mutants_test.go there); the suite must catch each of them.
package drivertest

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/job"
)

// Place is what a driver's tests tell the suite of the driver and its target.
type Place struct {
	// Open makes a target for one promise and takes it down by t.Cleanup. The target may
	// have placements that are not ours. The function that Open gives is called for each new
	// Driver value on that target, as another process would make it.
	Open func(t *testing.T) func() driver.Driver

	// Boot makes the Boot of an agent that acts s; the suite fills in its Job. Nil: this program, with the script in its
	// environment.
	Boot func(t *testing.T, s Script) driver.Boot

	// Needs adds what agents of the suite must have on this target, such as the volume with
	// Marks. Nil: nothing.
	Needs func(n *driver.Needs)

	// Marks is a folder that the suite and the agents reach under the same path. "": a
	// folder of this machine.
	Marks string

	// Kill ends an agent in a way that it cannot report, as a crash does. Nil: SIGKILL to its PID.
	Kill func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member)

	// Take takes an agent's machine away. Nil: no machine is ever taken here.
	Take func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member)

	// Break changes r to a request for agents that cannot come up. Nil: their program is
	// missing.
	Break func(t *testing.T, d driver.Driver, r *driver.Request)

	// Warn makes the engine announce that an agent's machine is about to go. Nil: the engine
	// here announces nothing.
	Warn func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member)

	// Move makes a target's name without a detail mean another place from now on. Nil: it
	// always means the same one.
	Move func(t *testing.T, d driver.Driver)

	// LoseAnswer makes the next Start happen, and loses its answer. Nil: what Start asks for
	// is done before it returns, or by another process.
	LoseAnswer func(d driver.Driver)

	// Pass lets virtual time pass between two looks. Nil: the target uses real time.
	Pass func(d driver.Driver, step time.Duration)

	// Looks is how often, a hundredth of a second apart, the suite looks for what
	// was promised before it gives up. 0: 3000.
	Looks int
}

// Run proves every promise, each on a target of its own and all in parallel.
func Run(t *testing.T, place Place) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.keep(newStage(t, place))
		})
	}
}

// stage is the target, the agents and the handles of one promise.
type stage struct {
	*testing.T
	place Place
	again func() driver.Driver
	d     driver.Driver
	marks string
	job   string
	// detail is what the target's name means in full when the promise begins; "": it is all that
	// can be said
	detail string
	// requested is how many agents each handle has from Start
	requested map[driver.Handle]int
}

func newStage(t *testing.T, place Place) *stage {
	s := &stage{T: t, place: place, job: newID(), marks: place.Marks, requested: map[driver.Handle]int{}}
	if s.place.Looks == 0 {
		s.place.Looks = 3000
	}
	if s.marks == "" {
		s.marks = t.TempDir()
	} else {
		s.marks = filepath.Join(s.marks, s.job)
		err := os.MkdirAll(s.marks, 0o700)
		if err == nil {
			err = os.Chmod(s.marks, 0o777) // agents may run as another user
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(s.marks) })
	}
	s.again = place.Open(t)
	s.d = s.again()
	t.Cleanup(func() { s.removeAll() })
	s.detail = s.offerForOne(driver.Needs{}).Detail
	return s
}

func newID() string {
	var b [job.IDBytes]byte
	rand.Read(b[:]) // never fails
	return job.ID(b)
}

// removeAll removes everything of this promise's job.
func (s *stage) removeAll() {
	for _, h := range s.listOwnHandles() {
		s.removePlacement(h)
	}
}

// removePlacement stops and removes, and waits until the target does not know h any more.
func (s *stage) removePlacement(h driver.Handle) {
	s.Helper()
	if err := s.d.Stop(context.Background(), h, 0, true); err != nil {
		s.Errorf("Stop(%s, 0, remove): %v", h, err)
		return
	}
	s.waitUntil("the place has forgotten the handle", func() bool { return len(s.readStatus(h)) == 0 })
}

// listOwnHandles is List, without handles of other jobs than this promise's.
func (s *stage) listOwnHandles() []driver.Handle {
	s.Helper()
	all, err := s.again().List(context.Background())
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	return slices.DeleteFunc(all, func(h driver.Handle) bool { return h.Job != s.job })
}

// newRequest is placement number p of this promise's job.
func (s *stage) newRequest(p, agents int, script Script) driver.Request {
	s.Helper()
	script.Marks = s.marks
	var boot driver.Boot
	if s.place.Boot != nil {
		boot = s.place.Boot(s.T, script)
	} else {
		program, err := os.Executable()
		if err != nil {
			s.Fatal(err)
		}
		boot = driver.Boot{Binary: program, Store: s.marks, Env: script.Environ()}
	}
	boot.Job = "suite/task/" + s.job
	needs := driver.Needs{Agents: agents, Detail: s.detail}
	if s.place.Needs != nil {
		s.place.Needs(&needs)
	}
	return driver.Request{Job: s.job, Placement: p, Agents: agents, Needs: needs, Run: boot}
}

// startPlacement starts a placement and expects the handle that follows from its name.
func (s *stage) startPlacement(d driver.Driver, r driver.Request) driver.Handle {
	s.Helper()
	h, err := d.Start(context.Background(), r)
	if err != nil {
		s.Fatalf("Start(placement %d): %v", r.Placement, err)
	}
	if h.Target == "" || h.Detail != s.detail || h.Job != r.Job || h.Placement != r.Placement {
		s.Fatalf("Start(%s, placement %d) at %q gives the handle %+v", r.Job, r.Placement, s.detail, h)
	}
	s.requested[h] = r.Agents
	return h
}

// startAndWait starts, and waits until every agent has begun to act.
func (s *stage) startAndWait(r driver.Request) driver.Handle {
	s.Helper()
	h := s.startPlacement(s.d, r)
	s.waitUntil("all agents act", func() bool { return s.allAgentsActed(r) })
	return h
}

func (s *stage) allAgentsActed(r driver.Request) bool {
	for i := range r.Agents {
		if s.countStarts(r.Placement, i) == 0 {
			return false
		}
	}
	return true
}

// countStarts counts how often an agent was started.
func (s *stage) countStarts(placement, index int) int {
	found, err := filepath.Glob(filepath.Join(s.marks, markName(placement, index)+"-*"))
	if err != nil {
		s.Fatal(err)
	}
	return len(found)
}

// startedOnce expects each agent to have been started once. If Start were still to start an
// agent, that agent would come up before another that is started after it: so the suite
// starts one more and waits for it first.
func (s *stage) startedOnce(r driver.Request) {
	s.Helper()
	s.startAndWait(s.newRequest(r.Placement+1000, 1, Script{}))
	for i := range r.Agents {
		if n := s.countStarts(r.Placement, i); n != 1 {
			s.Errorf("agent %d of placement %d was started %d times", i, r.Placement, n)
		}
	}
}

// readStatus expects the members in the order of their numbers, with those first that were
// requested, from 0 on without gaps. Agents that the engine started again have any higher number.
func (s *stage) readStatus(h driver.Handle) []driver.Member {
	s.Helper()
	members, err := s.again().Status(context.Background(), h)
	if err != nil {
		s.Fatalf("Status(%s): %v", h, err)
	}
	for i, m := range members {
		if i < s.requested[h] && m.Index != i || i > 0 && m.Index <= members[i-1].Index {
			s.Fatalf("Status(%s): member %d of %d requested has index %d", h, i, s.requested[h], m.Index)
		}
	}
	return members
}

// waitUntilGone waits until no agent of h is alive, and gives the members.
func (s *stage) waitUntilGone(h driver.Handle) []driver.Member {
	s.Helper()
	var members []driver.Member
	s.waitUntil("no agent is alive", func() bool {
		members = s.readStatus(h)
		return !slices.ContainsFunc(members, func(m driver.Member) bool { return m.State.Alive() })
	})
	if len(members) == 0 {
		s.Fatalf("Status(%s): no members", h)
	}
	return members
}

// step is the time between two looks.
const step = 10 * time.Millisecond

// waitUntil looks, a bounded number of times, until done is true.
func (s *stage) waitUntil(what string, done func() bool) {
	s.Helper()
	for range s.place.Looks {
		if done() {
			return
		}
		if s.place.Pass != nil {
			s.place.Pass(s.d, step)
		}
		time.Sleep(step) // agents are real processes, which need the processor
	}
	s.Fatalf("looked %d times: never seen that %s", s.place.Looks, what)
}
