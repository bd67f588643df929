package ledger

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// keep lets a keeper look once, and do what follows.
func (d *desk) keep(k *attached.Keeper, rows []attached.Machine) attached.Watch {
	d.t.Helper()
	w, err := k.Poll(d.t.Context(), rows)
	d.check(err)
	return w
}

// Machines of a run of several nodes seldom die in the same moment: there is
// always one that has just been started, and lives yet.
func TestPlacementsThatComeToNothingAreNotAskedForForEver(t *testing.T) {
	d := newDesk(t)
	j := d.submit(func(j *job.Job) { j.Spec.Nodes = 2 })
	k := attached.NewKeeper(d.World, j, "cli-1")
	var rows []attached.Machine
	for range 20 {
		w := d.keep(k, rows)
		switch {
		case w.Start:
			for i := range w.Placed.Agents {
				rows = append(rows, attached.Machine{Placement: w.Placed.Placement, Index: i, Alive: true})
			}
		case k.Run().Stop != nil:
			if r := k.Run(); !r.Failing || !strings.Contains(r.Stop.Reason, "could not be started") || len(r.Placed) > attached.MaxFailedPlacements+2 {
				t.Errorf("after %d placements: %+v", len(r.Placed), r.Stop)
			}
			return
		}
		for i := range rows { // the oldest that lives dies
			if rows[i].Alive {
				rows[i] = attached.Machine{Placement: rows[i].Placement, Index: rows[i].Index, Broke: true, Why: "no room"}
				break
			}
		}
	}
	t.Errorf("%d placements, and the run goes on", len(k.Run().Placed))
}

// A laptop slept while a placement's agent joined, worked and was lost.
func TestWhoJoinedBetweenTwoLooksHasComeToSomething(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	k := attached.NewKeeper(d.World, j, "cli-1")
	var rows []attached.Machine
	for n := range attached.MaxFailedPlacements {
		if w := d.keep(k, rows); !w.Start || w.Placed.Placement != n+1 {
			t.Fatalf("placement %d was not asked for: %+v", n+1, w)
		}
		rows = append(rows, attached.Machine{Placement: n + 1})
	}
	d.write(j, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: fmt.Sprintf("%d-0-a", attached.MaxFailedPlacements)})
	d.write(j, opened(2, protocol.Lost))
	if d.keep(k, rows); k.Run().Stop != nil || len(k.Run().Placed) != attached.MaxFailedPlacements+1 {
		t.Errorf("%d placements, and it was given up: %+v", len(k.Run().Placed), k.Run().Stop)
	}
}

// A network that is cut, or an engine that is late: it calls a machine taken on
// which an agent works on.
func TestTheEnginesWordIsSpentWhenTheAgentJoinsAgain(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	d.write(j, protocol.JobEntry{Placed: &protocol.Placed{Placement: 1, Agents: 1}}, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: "1-0-a"})
	k := attached.NewKeeper(d.World, j, "cli-1")
	rows := []attached.Machine{{Placement: 1, Alive: true}}
	d.keep(k, rows)
	rows[0] = attached.Machine{Placement: 1, Taken: true}
	if d.keep(k, rows); k.Run().Attempt() != 2 {
		t.Fatalf("attempt %d, and the engine says that the only machine is taken", k.Run().Attempt())
	}
	rows = append(rows, attached.Machine{Placement: 2, Alive: true})
	d.join(j, 2, 0, protocol.Join{Agent: "1-0-a"})
	for range 5 {
		d.pass(time.Second)
		if d.keep(k, rows); k.Run().Attempt() != 2 {
			t.Fatalf("attempt %d: an agent that has joined again was mourned on the old word", k.Run().Attempt())
		}
	}
	for range 7 {
		d.pass(protocol.HeartbeatEvery)
		d.keep(k, rows)
	}
	if k.Run().Attempt() != 3 {
		t.Errorf("attempt %d, and its agent was not heard of for a lease", k.Run().Attempt())
	}
}

// An engine has started an agent again under the index of one that is dead.
func TestAMachineWorksThatHasANewAgent(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	beat := func(agent string, n int) {
		d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), protocol.Heartbeat{Agent: agent, Counter: int64(n)}))
	}
	d.write(j, protocol.JobEntry{Placed: &protocol.Placed{Placement: 1, Agents: 1}}, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: "1-0-a"})
	beat("1-0-a", 0)
	k := attached.NewKeeper(d.World, j, "cli-1")
	rows := []attached.Machine{{Placement: 1, Alive: true}}
	d.keep(k, rows)
	d.pass(protocol.HeartbeatEvery)
	d.keep(k, rows)
	d.write(j, opened(2, protocol.Lost))
	d.join(j, 2, 0, protocol.Join{Agent: "1-0-b"})
	for n := range 10 {
		beat("1-0-b", n)
		d.pass(protocol.HeartbeatEvery)
		if d.keep(k, rows); len(k.Run().Placed) != 1 {
			t.Fatalf("%d placements, and the only machine has an agent that was just heard of", len(k.Run().Placed))
		}
	}
	for range 7 {
		d.pass(protocol.HeartbeatEvery)
		d.keep(k, rows)
	}
	if len(k.Run().Placed) != 2 {
		t.Errorf("%d placements, and no agent of the only machine was heard of for a lease", len(k.Run().Placed))
	}
}

// hung is a store that takes long to answer one request, and what happens meanwhile.
type hung struct {
	store.Bucket
	key  string
	then func()
}

func (h *hung) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if then := h.then; key == h.key && then != nil {
		h.then = nil
		then()
	}
	return h.Bucket.Get(ctx, key, off, n)
}

// What counts from when an entry was read does not count from when it was asked for.
func TestNoTimeIsOverBeforeAnEntryWasRead(t *testing.T) {
	d := newDesk(t)
	h := &hung{Bucket: mem.At(d.clock)}
	d.Store = store.New(h, store.Options{Clock: d.clock})
	j := d.submit(func(j *job.Job) { j.Spec.Nodes = 2 })
	p := j.Path()
	d.write(j, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: "1-0-a"})
	d.join(j, 1, 1, protocol.Join{Agent: "1-1-b"})
	beats := func() {
		for n, id := range []string{"1-0-a", "1-1-b"} {
			d.check(liveness.WriteHeartbeat(t.Context(), d.World, p, protocol.Heartbeat{Agent: id, Counter: int64(d.clock.Boot()) + int64(n)}))
		}
	}
	beats()

	m := runagent.NewMember(d.World, j, "2-0-c", protocol.Join{})
	m.Ready()
	_, err := m.Poll(t.Context())
	d.check(err)
	h.key, h.then = protocol.JobDir(p)+"/log/00000001", func() { // the second attempt is opened while it reads
		d.pass(2 * protocol.KeepRankFor)
		beats()
		d.write(j, protocol.JobEntry{Attempt: &protocol.Attempt{K: 2, Cause: protocol.Lost, Ranks: []int{1}, Keep: map[int]string{0: "1-0-a"}}})
		d.join(j, 2, 1, protocol.Join{Agent: "3-0-d"})
	}
	if _, err := m.Poll(t.Context()); err != nil || h.then != nil {
		t.Fatalf("asked for the entry: %t, %v", h.then == nil, err)
	}
	if keys := d.keys(protocol.AttemptKey(p, 2, "join", 0)); len(keys) != 0 {
		t.Error("it took a rank that had been kept for no time at all")
	}

	k := attached.NewKeeper(d.World, j, "cli-1")
	d.keep(k, nil)
	h.key, h.then = protocol.JobDir(p)+"/log/00000003", func() { // after the attempt and a placement; a user cancels
		d.pass(time.Hour)
		beats()
		d.write(j, cancelled1)
	}
	if d.keep(k, nil); k.Run().Stop == nil || k.Run().Settled != nil {
		t.Errorf("stopped by %v, settled as %v, and nobody had time to end", k.Run().Stop, k.Run().Settled)
	}
}

// A placement came to nothing when drover itself failed on it, though its agent took part
// (K2).
func TestPlacementsOnWhichDroverFailsAreCounted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit(nil)
	k := attached.NewKeeper(d.World, j, "cli-1")
	var rows []attached.Machine
	for n := 1; n <= attached.MaxFailedPlacements; n++ {
		if w := d.keep(k, rows); !w.Start || w.Placed.Placement != n {
			t.Fatalf("placement %d was not asked for: %+v, stop %+v", n, w, k.Run().Stop)
		}
		rows = append(rows, attached.Machine{Placement: n, Alive: true})
		if n == 1 {
			d.write(j, opened(1, protocol.First))
		}
		d.join(j, n, 0, protocol.Join{Agent: fmt.Sprintf("%d-0-a", n)})
		d.keep(k, rows)
		rows[n-1] = attached.Machine{Placement: n, Broke: true, Why: "no room"}
	}
	if d.keep(k, rows); k.Run().Stop == nil || !k.Run().Failing {
		t.Errorf("%d placements ended with drover's own failure, and it goes on: %+v", attached.MaxFailedPlacements, k.Run())
	}
}

// A job that was cancelled is settled also by a command line that saw a person stop its
// agents (K1).
func TestAStoppedJobIsSettledThoughItsAgentsWereInterrupted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit(nil)
	k := attached.NewKeeper(d.World, j, "cli-1")
	d.keep(k, nil)
	rows := []attached.Machine{{Placement: 1, Alive: true}}
	d.write(j, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: "1-0-a"})
	d.keep(k, rows)
	d.exit(j, 1, 0, protocol.Exit{Agent: "1-0-a", Verdict: protocol.AskedToStop})
	d.write(j, cancelled1)
	if w := d.keep(k, rows); w.Interrupted || w.Settled == nil || w.Settled.State != job.Cancelled {
		t.Errorf("a cancelled job: %+v", w)
	}
}

// After a person's stop agents open the attempt: a command line that goes on with the job
// asks for them, and opens none (R3).
func TestACommandLineOpensNoAttemptAfterAPersonsStop(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit(nil)
	d.write(j, protocol.JobEntry{Placed: &protocol.Placed{Placement: 1, Agents: 1}}, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: "1-0-a"})
	d.exit(j, 1, 0, protocol.Exit{Agent: "1-0-a", Verdict: protocol.AskedToStop})
	k := attached.NewKeeper(d.World, j, "cli-2")
	if w := d.keep(k, []attached.Machine{{Placement: 1}}); !w.Start || w.Placed.Placement != 2 || k.Run().Attempt() != 1 {
		t.Errorf("it asks for %+v, and attempt %d is open", w, k.Run().Attempt())
	}
}
