package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func TestTheStateOfAJobIsDerived(t *testing.T) {
	beat := func(phase string) protocol.Heartbeat { return protocol.Heartbeat{Agent: "1-0-a", Phase: phase} }
	here := func(b protocol.Heartbeat, pid int) protocol.Heartbeat {
		b.Host = protocol.Host{Boot: "here", PID: pid}
		return b
	}
	const ghost, alive = 1, 2
	for _, row := range []struct {
		name    string
		entries []protocol.JobEntry
		beats   []protocol.Heartbeat
		later   time.Duration // since the heartbeats
		want    job.State
	}{
		{"nobody has come", nil, nil, 0, job.Pending},
		{"agents were asked for", []protocol.JobEntry{{Placed: &protocol.Placed{Placement: 1}}}, nil, 0, job.Pending},
		{"one prepares", nil, []protocol.Heartbeat{beat("preparing")}, 0, job.Starting},
		{"one waits for others", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{beat("waiting")}, 0, job.Starting},
		{"it runs", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{beat("running")}, 0, job.Running},
		{"it saves", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{beat("saving")}, 0, job.Running},
		{"one of two runs", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{beat("running"), {Agent: "1-1-b", Phase: "waiting"}}, 0, job.Running},
		{"one beat is late", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{beat("running")}, protocol.Lease - 1, job.Running},
		{"no beat for a lease", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{beat("running")}, protocol.Lease, job.Interrupted},
		{"they have left", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{beat(protocol.Left)}, 0, job.Interrupted},
		{"they left before they began", nil, []protocol.Heartbeat{beat(protocol.Left)}, 0, job.Interrupted},
		{"its process here is gone", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{here(beat("running"), ghost)}, 0, job.Interrupted},
		{"its process here lives, however silent", []protocol.JobEntry{opened(1, protocol.First)}, []protocol.Heartbeat{here(beat("running"), alive)}, time.Hour, job.Running},
		{"it was stopped and winds up", []protocol.JobEntry{opened(1, protocol.First), cancelled1}, []protocol.Heartbeat{beat("running")}, 0, job.Running},
		{"it was stopped and nobody is there", []protocol.JobEntry{opened(1, protocol.First), cancelled1}, nil, 0, job.Interrupted},
		{"it has ended, whatever is said", []protocol.JobEntry{opened(1, protocol.First), ended(1, job.Failed)}, []protocol.Heartbeat{beat("running")}, 0, job.Failed},
	} {
		d := newDesk(t)
		d.gone[ghost], d.gone[alive] = true, false
		j := d.submit(nil)
		d.write(j, row.entries...)
		for _, b := range row.beats {
			d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), b))
		}
		d.pass(row.later)
		rep, err := views.ReadReport(t.Context(), d.World, j.Path())
		if d.check(err); rep.State != row.want {
			t.Errorf("%s: %s, want %s", row.name, rep.State, row.want)
		}
	}
}

func TestAJobThatNeverWasIsNotThere(t *testing.T) {
	if _, err := views.ReadReport(t.Context(), newDesk(t).World, job.Path{Project: "a", Task: "b", Job: "c"}); !errors.Is(err, store.ErrNotExist) {
		t.Error(err)
	}
}

func TestEventsTellEverythingInOrder(t *testing.T) {
	d := newDesk(t)
	step := func() { d.pass(time.Second) }
	j := d.submit(func(j *job.Job) { j.Spec.Nodes = 2 })
	step()
	d.write(j, protocol.JobEntry{Placed: &protocol.Placed{Placement: 1, Agents: 2, Target: "local"}}, opened(1, protocol.First))
	step()
	d.join(j, 1, 0, protocol.Join{Agent: "a", Name: "desk"})
	d.join(j, 1, 1, protocol.Join{Agent: "b"})
	step()
	d.exit(j, 1, 0, protocol.Exit{Agent: "a", Verdict: protocol.Interrupted, Reason: "spot"})
	d.exit(j, 1, 1, protocol.Exit{Agent: "b", Verdict: protocol.Halted})
	step()
	d.write(j, protocol.JobEntry{Attempt: &protocol.Attempt{K: 2, Cause: protocol.Notice, Ranks: []int{0}}}, opened(2, protocol.Lost)) // the second is void
	step()
	d.write(j, protocol.JobEntry{Placed: &protocol.Placed{Placement: 2, Agents: 1, Target: "local"}},
		protocol.JobEntry{Attempt: &protocol.Attempt{K: 3, Cause: protocol.Lost, Ranks: []int{0, 1}}}, protocol.JobEntry{Attempt: &protocol.Attempt{K: 4, Cause: protocol.Asked}},
		protocol.JobEntry{Attempt: &protocol.Attempt{K: 5, Cause: protocol.Failure, Ranks: []int{1}}})
	step()
	d.write(j, protocol.JobEntry{Failing: &protocol.Stop{Reason: "no more"}}, cancelled1) // the second is void
	step()
	d.write(j, protocol.JobEntry{Settled: &protocol.Settled{State: job.Failed, Reason: "no more"}})
	rep, err := views.ReadReport(t.Context(), d.World, j.Path())
	d.check(err)
	events, err := views.ReadEvents(t.Context(), d.World, rep)
	d.check(err)
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%ds %s: %s", int(e.Time.Sub(events[0].Time).Seconds()), e.Kind, e.Text))
		if e.V != 1 || e.Job != j.Short {
			t.Errorf("an event of another job, or of none: %+v", e)
		}
	}
	want := []string{
		"0s submitted: digits submitted by ann on desk",
		"1s placed: asked local for 2 agents",
		"1s attempt: attempt 1 began",
		"2s joined: node 0 joined on desk",
		"2s joined: node 1 joined on a machine",
		"3s exit: node 0: interrupted, spot",
		"3s exit: node 1: halted",
		"4s attempt: attempt 2 began: node 0 was interrupted",
		"5s placed: asked local for 1 agent",
		"5s attempt: attempt 3 began: lost node 0, 1",
		"5s attempt: attempt 4 began: it was interrupted by hand",
		"5s attempt: attempt 5 began: node 1 failed, a retry is left",
		"6s failing: no more",
		"7s settled: FAILED: no more",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestACancelWithoutAWordIsAnEventAllTheSame(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	d.write(j, protocol.JobEntry{Cancelled: &protocol.Stop{}}, protocol.JobEntry{Settled: &protocol.Settled{State: job.Cancelled}})
	rep, err := views.ReadReport(t.Context(), d.World, j.Path())
	d.check(err)
	events, err := views.ReadEvents(t.Context(), d.World, rep)
	d.check(err)
	if n := len(events); n != 3 || events[1].Text != "cancelled" || events[2].Text != "CANCELLED" {
		t.Errorf("%+v", events)
	}
}

func TestWhenTheProgramBeganAndTheJobEnded(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	look := func() views.Report {
		t.Helper()
		rep, err := views.ReadReport(t.Context(), d.World, j.Path())
		d.check(err)
		return rep
	}
	if rep := look(); !rep.Started().IsZero() || !rep.Ended().IsZero() {
		t.Errorf("before anything: began %s, ended %s", rep.Started(), rep.Ended())
	}
	d.write(j, opened(1, protocol.First))
	began := d.clock.Now()
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), protocol.Heartbeat{Agent: "1-0-old", Attempt: 9, Since: began.Add(-time.Hour)}))
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), protocol.Heartbeat{Agent: "1-1-new", Attempt: 1, Since: began}))
	if rep := look(); !rep.Started().Equal(began) {
		t.Errorf("while it runs: began %s, want %s", rep.Started(), began)
	}
	d.join(j, 1, 0, protocol.Join{Agent: "1-1-new"})
	d.exit(j, 1, 0, protocol.Exit{Verdict: protocol.Done, Started: began.Add(time.Second)})
	d.pass(time.Minute)
	d.write(j, ended(1, job.Succeeded))
	if rep := look(); !rep.Started().Equal(began.Add(time.Second)) || !rep.Ended().Equal(d.clock.Now()) {
		t.Errorf("afterwards: began %s, ended %s", rep.Started(), rep.Ended())
	}
}

// More ranks than are asked for one by one are found by a listing.
func TestManyRanksAreReadByAListing(t *testing.T) {
	d := newDesk(t)
	j := d.submit(func(j *job.Job) { j.Spec.Nodes = 30 })
	d.write(j, opened(1, protocol.First))
	for _, rank := range []int{0, 7, 8, 29} {
		d.join(j, 1, rank, protocol.Join{Agent: fmt.Sprint("a", rank)})
	}
	d.create(protocol.AttemptKey(j.Path(), 1, "join", 30), protocol.Join{Agent: "beyond"}) // of no rank there is
	d.exit(j, 1, 29, protocol.Exit{Verdict: protocol.Done})
	rep, err := views.ReadReport(t.Context(), d.World, j.Path())
	d.check(err)
	if len(rep.Run.Joins) != 4 || rep.Run.Joins[29].Agent != "a29" || len(rep.Run.Exits) != 1 {
		t.Errorf("joins %v, exits %v", rep.Run.Joins, rep.Run.Exits)
	}
}

func TestTheNewestJobIsTheLastOne(t *testing.T) {
	d := newDesk(t)
	if _, ok, err := views.FindNewest(t.Context(), d.World, ""); ok || err != nil {
		t.Errorf("an empty store has a newest job (%v)", err)
	}
	var want []job.Path
	for i, project := range []string{"demo", "other", "demo"} {
		j := job.Job{V: job.Format, Spec: job.Spec{Project: project, Task: fmt.Sprint("t", i)}}
		d.check(tasks.NameJob(t.Context(), d.World, &j))
		if _, mine, err := tasks.SubmitJob(t.Context(), d.World, j, "cli"); err != nil || !mine {
			t.Fatal(mine, err)
		}
		want = append(want, j.Path())
		d.pass(time.Second)
	}
	got, err := views.ListJobs(t.Context(), d.World, "")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("all jobs (-want +got): %v\n%s", err, diff)
	}
	for project, newest := range map[string]job.Path{"": want[2], "demo": want[2], "other": want[1]} {
		if p, ok, err := views.FindNewest(t.Context(), d.World, project); p != newest || !ok || err != nil {
			t.Errorf("the newest of %q is %s (%v)", project, p, err)
		}
	}
	if _, ok, err := views.FindNewest(t.Context(), d.World, "none"); ok || err != nil {
		t.Errorf("a project without jobs has a newest one (%v)", err)
	}
}

// Rules D1 and D2 of docs/protocol.md: what counts as dead.
func TestAnAgentIsDeadWhenThereIsEvidence(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits", Job: "j"}
	w := liveness.NewObserver(d.World, p)
	counter := int64(0)
	beat := func() {
		counter++
		d.check(liveness.WriteHeartbeat(t.Context(), d.World, p, protocol.Heartbeat{Agent: "a", Counter: counter}))
	}
	look := func(want liveness.Death, what string) {
		t.Helper()
		d.check(w.ReadHeartbeats(t.Context(), []string{"a"}))
		if got := w.DeathOf("a"); got != want {
			t.Errorf("%s: death %d, want %d", what, got, want)
		}
	}
	look(liveness.Alive, "never seen")
	beat()
	d.pass(protocol.HeartbeatEvery)
	look(liveness.Alive, "its first heartbeat")
	for range 3 {
		d.pass(protocol.HeartbeatEvery)
		look(liveness.Alive, "silent for less than a lease")
	}
	d.pass(protocol.HeartbeatEvery)
	look(liveness.Dead, "silent for a lease")
	beat()
	d.pass(protocol.HeartbeatEvery)
	look(liveness.Alive, "heard of again")
	d.pass(10 * protocol.Lease)
	look(liveness.Alive, "the observer was away, not the agent")
	for range 3 {
		d.pass(protocol.HeartbeatEvery)
		look(liveness.Alive, "the lease counts anew")
	}
	d.pass(protocol.HeartbeatEvery)
	look(liveness.Dead, "and is over")
	w.NoteJoin(protocol.Join{Agent: "a", Nonce: "n"}, d.clock.Boot())
	look(liveness.Alive, "a join is a sign of life")

	w.EngineSays["b"] = liveness.Taken
	if w.DeathOf("b") != liveness.Taken {
		t.Error("the engine's word does not count")
	}
	if w.DeathOf("stranger") != liveness.Alive {
		t.Error("somebody nobody looked for is dead")
	}
	d.gone[7] = true
	w.NoteJoin(protocol.Join{Agent: "c", Nonce: "n", Host: protocol.Host{Boot: "here", PID: 7}}, d.clock.Boot())
	if w.DeathOf("c") != liveness.Alive {
		t.Error("a process was looked for after exits were read, not before")
	}
	if w.MarkDead(); w.DeathOf("c") != liveness.Dead {
		t.Error("a process that is gone from this machine lives")
	}
	w.NoteJoin(protocol.Join{Agent: "e", Nonce: "n", Host: protocol.Host{Boot: "there", PID: 7}}, d.clock.Boot())
	w.MarkDead()
	if w.DeathOf("e") != liveness.Alive {
		t.Error("a process of another machine was looked for on this one")
	}
}

// It was silent for a lease, came back, joined and ended before any read.
func TestTheJoinOfOneThatHasEndedIsASignOfLife(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits", Job: "j"}
	w := liveness.NewObserver(d.World, p)
	for range 5 {
		d.check(w.ReadHeartbeats(t.Context(), []string{"a0"}))
		d.pass(protocol.HeartbeatEvery)
	}
	if w.DeathOf("a0") != liveness.Dead {
		t.Fatal("it lives")
	}
	r := runs.Run{Nodes: 2, Attempts: []protocol.Attempt{{K: 1, Cause: protocol.First}},
		Joins: map[int]protocol.Join{0: {Agent: "a0"}, 1: {Agent: "a1"}}, Exits: map[int]protocol.Exit{0: {Verdict: protocol.Done}}}
	r.Joins[0] = protocol.Join{Agent: "a0", Nonce: "n"}
	d.check(runs.ObserveAgents(t.Context(), d.World, w, r, "a1"))
	if w.DeathOf("a0") != liveness.Alive {
		t.Error("it is dead, and has joined since")
	}
}

// An agent that is asked to stop writes its exit and is gone at once. A reader
// that reads exits first and checks the process later would take it for lost.
func TestWhoWroteHowItEndedIsNotMourned(t *testing.T) {
	d := newDesk(t)
	j := d.submit(nil)
	d.write(j, protocol.JobEntry{Placed: &protocol.Placed{Placement: 1, Agents: 1}}, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: "1-0-a", Host: protocol.Host{Boot: "here", PID: 7}})
	leaving := false
	d.Gone = func(protocol.Host) (bool, bool) {
		if leaving && len(d.keys(protocol.AttemptKey(j.Path(), 1, "exit", 0))) == 0 {
			d.exit(j, 1, 0, protocol.Exit{Agent: "1-0-a", Verdict: protocol.AskedToStop}) // the last it does
		}
		return leaving, true
	}
	k := attached.NewKeeper(d.World, j, "cli-1")
	rows := []attached.Machine{{Placement: 1, Alive: true}}
	for range 2 {
		if w, err := k.Poll(t.Context(), rows); err != nil || w.Interrupted || w.Start {
			t.Fatalf("while it runs: %+v, %v", w, err)
		}
	}
	leaving = true
	if w, err := k.Poll(t.Context(), rows); err != nil || !w.Interrupted || k.Run().Attempt() != 1 {
		t.Errorf("asked to stop, and gone: %+v in attempt %d, %v", w, k.Run().Attempt(), err)
	}
}

func TestAnAgentsIdSaysWhichMachineItIsOn(t *testing.T) {
	d := newDesk(t)
	a, b := liveness.NewAgentID(d.World, 3, 12), liveness.NewAgentID(d.World, 3, 12)
	if placement, index, ok := liveness.PlacementAndIndex(a); placement != 3 || index != 12 || !ok || a == b || !strings.HasPrefix(b, "3-12-") {
		t.Errorf("agents %s and %s: placement %d, index %d", a, b, placement, index)
	}
	for _, id := range []string{"", "a", "1", "1-", "1-x-y"} {
		if _, _, ok := liveness.PlacementAndIndex(id); ok {
			t.Errorf("%q is on a machine", id)
		}
	}
}
