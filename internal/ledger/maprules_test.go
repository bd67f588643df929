package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// step folds entries of two agents, a and b, into a chunk of items 1 to 6.
func folded(entries ...protocol.ChunkEntry) *chunks.Chunk {
	c := chunks.NewChunk("000000", protocol.Seed{Items: protocol.Spans{{1, 6}}})
	for _, e := range entries {
		c.Fold(e)
	}
	return c
}

func claimedBy(agent string, n int, why protocol.Grounds) protocol.ChunkEntry {
	return protocol.ChunkEntry{Header: protocol.Header{By: agent}, Claimed: &protocol.Claimed{Agent: agent, N: n, Why: why, Risk: 10}}
}

func wrote(agent string, claim int, rs ...protocol.Result) protocol.ChunkEntry {
	return protocol.ChunkEntry{Header: protocol.Header{By: agent}, Claim: claim, Results: rs}
}

func statesOf(c *chunks.Chunk) (states []job.ItemState) {
	for item := range c.Items.All {
		s, _, _ := c.Item(item)
		states = append(states, s)
	}
	return states
}

func TestWhatCountsInAChunk(t *testing.T) {
	t.Parallel()
	a1 := claimedBy("a", 1, protocol.Untouched)
	for _, c := range []struct {
		name    string
		entries []protocol.ChunkEntry
		tally   job.Tally
		ignored []int
		owner   string
	}{
		{"results of the owner", []protocol.ChunkEntry{a1, wrote("a", 1, protocol.Result{Item: 1}, protocol.Result{Item: 2, Failed: true})},
			job.Tally{Items: 6, Succeeded: 1}, nil, "a"},
		{"results of nobody's claim", []protocol.ChunkEntry{wrote("a", 0, protocol.Result{Item: 1})}, job.Tally{Items: 6}, []int{0}, ""},
		{"a claim on what is owned, as if it were free", []protocol.ChunkEntry{a1, claimedBy("b", 2, protocol.FreeAgain)}, job.Tally{Items: 6}, []int{1}, "a"},
		{"the second of two first claims", []protocol.ChunkEntry{a1, claimedBy("b", 1, protocol.Untouched)}, job.Tally{Items: 6}, []int{1}, "a"},
		{"results after another's claim", []protocol.ChunkEntry{a1, claimedBy("b", 2, protocol.Silence), wrote("a", 1, protocol.Result{Item: 1}), wrote("b", 2, protocol.Result{Item: 2})},
			job.Tally{Items: 6, Succeeded: 1}, []int{2}, "b"},
		{"the same agent's older claim", []protocol.ChunkEntry{a1, {Header: protocol.Header{By: "a"}, Claim: 1, Released: &protocol.Released{}}, claimedBy("a", 2, protocol.FreeAgain), wrote("a", 1, protocol.Result{Item: 1})},
			job.Tally{Items: 6}, []int{3}, "a"},
		{"a second result", []protocol.ChunkEntry{a1, wrote("a", 1, protocol.Result{Item: 1}), wrote("a", 1, protocol.Result{Item: 1, Failed: true, Final: true})},
			job.Tally{Items: 6, Succeeded: 1}, []int{2}, "a"},
		{"an end with open items", []protocol.ChunkEntry{a1, {Header: protocol.Header{By: "a"}, Claim: 1, Ended: &protocol.Ended{}}}, job.Tally{Items: 6}, []int{1}, "a"},
		{"a stop", []protocol.ChunkEntry{a1, wrote("a", 1, protocol.Result{Item: 4}), {Header: protocol.Header{By: "x"}, Ended: &protocol.Ended{By: 3}}, wrote("a", 1, protocol.Result{Item: 5})},
			job.Tally{Items: 6, Succeeded: 1, Cancelled: 5}, []int{3}, ""},
		{"a reopen of an open chunk", []protocol.ChunkEntry{a1, {Header: protocol.Header{By: "x"}, Again: &protocol.Again{By: 2, Items: protocol.Spans{{1, 6}}}}}, job.Tally{Items: 6}, []int{1}, "a"},
		{"a stop older than the reopen", []protocol.ChunkEntry{{Header: protocol.Header{By: "x"}, Ended: &protocol.Ended{By: 3}}, {Header: protocol.Header{By: "x"}, Again: &protocol.Again{By: 5, Items: protocol.Spans{{1, 2}}}}, {Header: protocol.Header{By: "x"}, Ended: &protocol.Ended{By: 3}}},
			job.Tally{Items: 6, Cancelled: 4}, []int{2}, ""},
		{"items handed over", []protocol.ChunkEntry{a1, {Header: protocol.Header{By: "a"}, Claim: 1, Handed: &protocol.Handed{Seed: protocol.Seed{Items: protocol.Spans{{5, 6}}}}}, wrote("a", 1, protocol.Result{Item: 5})},
			job.Tally{Items: 4}, []int{2}, "a"},
		{"what is starting handed over", []protocol.ChunkEntry{a1, {Header: protocol.Header{By: "a"}, Claim: 1, Starting: []int{5}}, {Header: protocol.Header{By: "a"}, Claim: 1, Handed: &protocol.Handed{Seed: protocol.Seed{Items: protocol.Spans{{5, 6}}}}}},
			job.Tally{Items: 6}, []int{2}, "a"},
	} {
		got := folded(c.entries...)
		if got.Tally != c.tally || !slices.Equal(got.Ignored, c.ignored) || got.Owner != c.owner {
			t.Errorf("%s: %+v, ignored %v, owner %q; want %+v, %v, %q", c.name, got.Tally, got.Ignored, got.Owner, c.tally, c.ignored, c.owner)
		}
	}
}

func TestAReopenTakesNoSuccess(t *testing.T) {
	t.Parallel()
	c := folded(claimedBy("a", 1, protocol.Untouched), wrote("a", 1, protocol.Result{Item: 1}, protocol.Result{Item: 2, Failed: true, Final: true}),
		protocol.ChunkEntry{Header: protocol.Header{By: "x"}, Ended: &protocol.Ended{By: 3}}, protocol.ChunkEntry{Header: protocol.Header{By: "x"}, Again: &protocol.Again{By: 4, Items: protocol.Spans{{1, 3}}}})
	want := []job.ItemState{job.ItemSucceeded, job.ItemPending, job.ItemPending, job.ItemCancelled, job.ItemCancelled, job.ItemCancelled}
	if diff := cmp.Diff(want, statesOf(c)); diff != "" {
		t.Error(diff)
	}
	if _, had, _ := c.Item(2); had != (protocol.Carry{}) {
		t.Errorf("item 2 begins with %+v", had)
	}
}

func TestThreeSilentLossesFindTheCulprit(t *testing.T) {
	t.Parallel()
	c := folded(claimedBy("a", 1, protocol.Untouched))
	for n := 2; n <= 6; n++ {
		if careful := n > 3; c.Isolated() != careful {
			t.Fatalf("claim %d: careful %t", n, c.Isolated())
		}
		if c.Isolated() {
			c.Fold(protocol.ChunkEntry{Header: protocol.Header{By: c.Owner}, Claim: c.Claim, Starting: []int{4}})
		}
		if s, _, _ := c.Item(4); s != job.ItemLeased {
			t.Fatalf("claim %d: item 4 is %s", n, s)
		}
		c.Fold(claimedBy(string(rune('a'+n)), n, protocol.Silence))
	}
	if s, had, _ := c.Item(4); s != job.ItemQuarantined || had.Blames != 3 || c.Tally.Quarantined != 1 {
		t.Errorf("item 4 is %s with %+v", s, had)
	}
}

// Two owners that may begin two items at a time die in silence. Item 2 may have been
// running at the first death, item 3 and the failed item 4 at both, item 5 at the
// second and item 6 at none. So 3 and 4 run alone, and the others as ever.
func TestOnlyWhatMayHaveKilledTwoOwnersRunsAlone(t *testing.T) {
	t.Parallel()
	owner := func(agent string, n int, why protocol.Grounds) protocol.ChunkEntry {
		e := claimedBy(agent, n, why)
		e.Claimed.Risk = 2
		return e
	}
	c := folded(owner("a", 1, protocol.Untouched), wrote("a", 1, protocol.Result{Item: 1}, protocol.Result{Item: 4, Failed: true}),
		owner("b", 2, protocol.Silence), wrote("b", 2, protocol.Result{Item: 2}, protocol.Result{Item: 4, Failed: true}), owner("c", 3, protocol.Silence))
	suspicions := map[int]int{}
	for item := range c.Items.All {
		_, had, _ := c.Item(item)
		suspicions[item] = had.Suspicions
	}
	if diff := cmp.Diff(map[int]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 1, 6: 0}, suspicions); diff != "" {
		t.Errorf("suspicions (-want +got):\n%s", diff)
	}
	if c.Isolated() {
		t.Error("items 5 and 6 run alone, and cannot have killed both owners")
	}
	c.Fold(wrote("c", 3, protocol.Result{Item: 5}, protocol.Result{Item: 6}))
	c.Fold(protocol.ChunkEntry{Header: protocol.Header{By: "c"}, Claim: 3, Released: &protocol.Released{}})
	c.Fold(owner("d", 4, protocol.FreeAgain))
	if !c.Isolated() {
		t.Error("items 3 and 4 are all that is open, and do not run alone")
	}
	c.Fold(protocol.ChunkEntry{Header: protocol.Header{By: "d"}, Claim: 4, Starting: []int{3}})
	c.Fold(owner("e", 5, protocol.Silence))
	if _, three, _ := c.Item(3); three != (protocol.Carry{Suspicions: 2, Blames: 1}) {
		t.Errorf("item 3 has %+v behind it", three)
	}
	if _, four, _ := c.Item(4); four != (protocol.Carry{Failures: 2, Suspicions: 2}) {
		t.Errorf("item 4, which had not begun, has %+v behind it", four)
	}
}

// An item of a chunk in isolated mode that failed, and that the same entry names for its
// next try, runs when its owner dies: results take effect before starting (L4).
func TestAnItemThatStartsAgainInOneEntryIsBlamed(t *testing.T) {
	t.Parallel()
	c := chunks.NewChunk("000000", protocol.Seed{Items: protocol.Spans{{4, 4}}, Carry: map[int]protocol.Carry{4: {Suspicions: 2}}})
	c.Fold(claimedBy("a", 1, protocol.Untouched))
	c.Fold(protocol.ChunkEntry{Header: protocol.Header{By: "a"}, Claim: 1, Starting: []int{4}})
	c.Fold(protocol.ChunkEntry{Header: protocol.Header{By: "a"}, Claim: 1, Results: []protocol.Result{{Item: 4, Failed: true}}, Starting: []int{4}})
	c.Fold(claimedBy("b", 2, protocol.Silence))
	if _, had, _ := c.Item(4); had != (protocol.Carry{Failures: 1, Blames: 1, Suspicions: 2}) {
		t.Errorf("it has %+v behind it", had)
	}
}

// What an engine calls an interruption blames no item, and is free twenty times.
func TestInterruptionsAreFreeTwentyTimes(t *testing.T) {
	t.Parallel()
	c := folded(claimedBy("a", 1, protocol.Untouched))
	for n := 2; n <= 22; n++ {
		c.Fold(protocol.ChunkEntry{Header: protocol.Header{By: c.Owner}, Claim: c.Claim, Starting: []int{4}})
		if s, _, _ := c.Item(4); s != job.ItemLeased {
			t.Fatalf("claim %d: item 4 is %s", n, s)
		}
		c.Fold(claimedBy("b", n, protocol.TakenAway))
	}
	if s, had, _ := c.Item(4); s != job.ItemFailed || had.Interruptions != 21 || had.Suspicions != 0 {
		t.Errorf("item 4 is %s with %+v", s, had)
	}
}

func TestWhatCountsInAMapsLog(t *testing.T) {
	t.Parallel()
	stop, fail := protocol.JobEntry{Cancelled: &protocol.Stop{}}, protocol.JobEntry{Failing: &protocol.Stop{}}
	settled := func(s job.State, place int) protocol.JobEntry {
		return protocol.JobEntry{Settled: &protocol.Settled{State: s, Submission: place}}
	}
	more := func(first int) protocol.JobEntry {
		return protocol.JobEntry{Extended: &protocol.Extended{Manifest: job.Manifest{Count: 5}, First: first, Size: 2}}
	}
	again := func(place int) protocol.JobEntry {
		return protocol.JobEntry{Reopened: &protocol.Reopened{Submission: place}}
	}
	for _, c := range []struct {
		name    string
		entries []protocol.JobEntry
		ignored []int
		items   int
		live    bool
	}{
		{"extended", []protocol.JobEntry{more(11), more(16)}, nil, 20, true},
		{"extended from elsewhere", []protocol.JobEntry{more(11), more(11)}, []int{1}, 15, true},
		{"extended while a stop stands", []protocol.JobEntry{stop, more(11)}, []int{1}, 10, false},
		{"extended after the end", []protocol.JobEntry{settled(job.Succeeded, 0), more(11)}, []int{1}, 10, false},
		{"the second stop", []protocol.JobEntry{stop, fail}, []int{1}, 10, false},
		{"success after a stop", []protocol.JobEntry{stop, settled(job.Succeeded, 0)}, []int{1}, 10, false},
		{"reopened while a stop stands", []protocol.JobEntry{stop, again(0)}, []int{1}, 10, false},
		{"reopened after the end", []protocol.JobEntry{stop, settled(job.Cancelled, 0), again(2), more(11)}, nil, 15, true},
		{"reopened for a place it was settled for", []protocol.JobEntry{settled(job.Failed, 0), settled(job.Failed, 2), again(2)}, []int{2}, 10, false},
		{"settled twice", []protocol.JobEntry{settled(job.Failed, 0), settled(job.Succeeded, 0)}, []int{1}, 10, false},
		{"settled in the round before", []protocol.JobEntry{settled(job.Failed, 0), again(2), settled(job.Failed, 0)}, []int{2}, 10, true},
	} {
		m := chunks.NewMap(job.Job{Manifest: job.Manifest{Count: 10}, ChunkSize: 4})
		for _, e := range c.entries {
			m.Fold(e)
		}
		live := m.Settled == nil && m.Stop == nil
		if !slices.Equal(m.Ignored, c.ignored) || m.Items() != c.items || live != c.live {
			t.Errorf("%s: ignored %v, %d items, live %t; want %v, %d, %t", c.name, m.Ignored, m.Items(), live, c.ignored, c.items, c.live)
		}
	}
}

func TestChunksCoverAllItemsOnce(t *testing.T) {
	t.Parallel()
	m := chunks.NewMap(job.Job{Manifest: job.Manifest{Count: 10}, ChunkSize: 4})
	m.Fold(protocol.JobEntry{Extended: &protocol.Extended{Manifest: job.Manifest{Count: 5}, First: 11, Size: 2}})
	next := 1
	for i := range m.Chunks() {
		id, s := m.Seed(i)
		for item := range s.Items.All {
			if item != next {
				t.Errorf("chunk %s holds item %d, want %d", id, item, next)
			}
			next++
		}
	}
	if next != 16 {
		t.Errorf("chunks end at item %d", next-1)
	}
}

// A process that would close an ended job after another submit races with one that
// reopens it: one number of the job's own log decides, for all of them (T2).
func TestAReopenAndACloseRaceForOneNumber(t *testing.T) {
	t.Parallel()
	for _, closeFirst := range []bool{true, false} {
		d := newDesk(t)
		j := d.mapJob(4, 2, nil)
		d.write(j, protocol.JobEntry{Settled: &protocol.Settled{State: job.Failed, Tally: &job.Tally{Items: 4, Failed: 4}}})
		d.check(tasks.CloseJob(t.Context(), d.World, j.Path(), "cli-1"))
		writeTo(d, d.TaskLog(j.Path(), "test"), protocol.TaskEntry{Submitted: &protocol.Submitted{Job: j.ID}}) // and its writer sleeps
		if closeFirst {
			d.check(tasks.CloseJob(t.Context(), d.World, j.Path(), "cli-2"))
		}
		d.write(j, protocol.JobEntry{Reopened: &protocol.Reopened{Submission: 2}}) // the process wakes up
		d.check(tasks.CloseJob(t.Context(), d.World, j.Path(), "cli-2"))
		task, err := tasks.ReadTask(t.Context(), d.World, j.Path())
		d.check(err)
		rep, err := views.NewMapView(d.World, j).Refresh(t.Context())
		d.check(err)
		if live := task.Live == j.ID; live == closeFirst || (rep.Map.Settled == nil) == closeFirst {
			t.Errorf("close first %t: live by the task's log %t, settled by its own %+v", closeFirst, live, rep.Map.Settled)
		}
	}
}

func TestAnOwnerHandsOverToWhoIsIdle(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(40, 40, func(s *job.Spec) { s.Workers = 2 })
	busy, idle := d.hand(j, "1-0-a", fine), d.hand(j, "1-1-b", fine)
	for n := 0; n < 4000 && (busy.status == nil || idle.status == nil); n++ {
		if n%20 == 0 && busy.status == nil { // twenty times as slow
			busy.turn()
		}
		if n > 0 && idle.status == nil {
			idle.turn()
		}
		d.pass(turnTime)
	}
	if s := busy.Map().Settled; s == nil || s.State != job.Succeeded || len(busy.ran)+len(idle.ran) != 40 || len(idle.ran) < 20 {
		t.Errorf("settled %+v; the slow one ran %d, the fast one %d of 40", s, len(busy.ran), len(idle.ran))
	}
}

// Far away, and of many agents, what is handed over is worth a chunk of its own, by how
// long the owner's tries took; a few agents, and those of items that take long, hand
// over what fills another's slots.
func TestWhatIsHandedOverIsWorthAChunk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workers, waiting int
		takes            time.Duration
		want             int
	}{
		{20, 100, 100 * time.Millisecond, 50}, // half, for an idle agent: two seconds are 40 items of two slots
		{20, 80, 100 * time.Millisecond, 40},
		{20, 79, 100 * time.Millisecond, 0},
		{20, 3, 100 * time.Millisecond, 0},
		{16, 3, 100 * time.Millisecond, 2},
		{20, 3, 3 * time.Second, 2},
		{20, 1, 3 * time.Second, 1},
		{20, 3, 0, 2}, // it is not known yet how long they take
	} {
		d := newDesk(t)
		j := d.mapJob(c.waiting+1, c.waiting+1, func(s *job.Spec) { s.Workers = c.workers })
		d.write(j, protocol.JobEntry{Placed: &protocol.Placed{Placement: 1, Agents: c.workers}})
		m := mapagent.NewMapMember(d.World, j, "1-0-a", protocol.Host{}, mapagent.MapOptions{Slots: 2})
		d.check(d.Store.Put(t.Context(), m.IdleKey("1-1-b"), nil))
		d.check(d.Store.Put(t.Context(), m.IdleFlagKey(), nil))
		m.Ready()
		_, err := m.Poll(t.Context())
		d.check(err)
		h, err := m.Seek(t.Context())
		d.check(err)
		try, _ := h.Next()
		h.Done(protocol.Result{Item: try.Item, Wall: c.takes.Microseconds()})
		d.pass(time.Minute)
		_, err = h.Flush(t.Context())
		d.check(err)
		got := 0
		for _, child := range h.Chunk.Children {
			got += child.Items.Len()
		}
		if got != c.want {
			t.Errorf("%+v: it handed %d items over", c, got)
		}
	}
}

// An owner's entry of an earlier claim may be in flight for long: it is no word that it
// has been silent since it was sealed.
func TestWhatLandsLateMakesNobodyOlder(t *testing.T) {
	t.Parallel()
	at := func(seconds int64, e protocol.ChunkEntry) protocol.ChunkEntry {
		e.At = time.Unix(seconds, 0)
		return e
	}
	c := chunks.NewChunk("000001", protocol.Seed{Items: protocol.Spans{{1, 6}}})
	for i, step := range []struct {
		e    protocol.ChunkEntry
		want int64
	}{
		{at(10, claimedBy("a", 1, protocol.Untouched)), 10},
		{at(30, claimedBy("b", 2, protocol.Silence)), 30},
		{at(20, claimedBy("a", 3, protocol.Silence)), 20},
		{at(25, wrote("a", 3, protocol.Result{Item: 1})), 25},
		{at(12, wrote("a", 1, protocol.Result{Item: 2})), 25},
	} {
		if c.Fold(step.e); c.Wrote.Unix() != step.want {
			t.Errorf("after entry %d the owner wrote at %d, want %d", i, c.Wrote.Unix(), step.want)
		}
	}
}

// A spare that is told to go after the others have listed the agents is no spare: an agent
// that would have left the job to it stays, and takes its place.
func TestNobodyLeavesAJobToWhoIsGone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(10, 10, nil)
	_, err := d.hand(j, "1-0-owner", fine).Seek(t.Context()) // takes all there is
	d.check(err)
	beat := func(phase string, ids ...string) {
		for _, id := range ids {
			d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), protocol.Heartbeat{Agent: id, Counter: d.clock.Now().UnixMicro(), Host: protocol.Host{Boot: id}, Phase: phase}))
		}
	}
	idle := d.hand(j, "1-1-late", fine)
	for ; !idle.MayLeave(); d.pass(5 * time.Second) {
		beat("running", "1-0-owner", idle.ID, "1-2-a", "1-3-b") // it is the last by its hash
		_, err := idle.Poll(t.Context())
		d.check(err)
		_, err = idle.Seek(t.Context())
		d.check(err)
	}
	beat(protocol.Left, idle.Members.StandbysAhead[0])
	if o, err := idle.Poll(t.Context()); err != nil || o.Do != mapagent.Work {
		t.Errorf("it leaves the job to who is gone: %+v, %v", o, err)
	}
}
