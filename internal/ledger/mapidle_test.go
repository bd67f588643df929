package ledger

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// A small job is shared: an agent that comes up before the others takes no more than its
// part for a while, and then whatever is left.
func TestTheFirstAgentLeavesTheOthersTheirShare(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(16, 2, func(s *job.Spec) { s.Workers = 4 })
	h := d.hand(j, "1-0-a", fine)
	_, err := h.Poll(t.Context())
	d.check(err)
	seek := func() int {
		for range 8 {
			_, err := h.Seek(t.Context())
			d.check(err)
		}
		return len(h.Owned())
	}
	if n := seek(); n != 2 {
		t.Errorf("it took %d of 8 chunks at once; a quarter is 2", n)
	}
	if d.pass(mapagent.MaxPolite); seek() != 8 {
		t.Errorf("%s later it has %d chunks, and nobody else came", mapagent.MaxPolite, len(h.Owned()))
	}
}

// far is an agent among thousands, so that it surveys no job: what it does not look after
// by itself is left to others for minutes.
func (d *desk) far(j job.Job, id string) *mapagent.MapMember {
	m := mapagent.NewMapMember(d.World, j, id, protocol.Host{Boot: "here", PID: len(id)}, mapagent.MapOptions{Slots: 2})
	m.Scanner = false
	m.Ready()
	_, err := m.Poll(d.t.Context())
	d.check(err)
	return m
}

// What an owner hands over for a back-off comes back to it, where no other agent has
// anything to do with that.
func TestAnOwnerComesBackToWhatItHandedOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers, s.Retries = 1000, 3 })
	m := d.far(j, "1-0-a")
	h, err := m.Seek(t.Context())
	d.check(err)
	for range 4 {
		try, ok := h.Next()
		if !ok {
			t.Fatal("an item cannot begin")
		}
		h.Done(protocol.Result{Item: try.Item, Failed: try.Item == 3, Code: 1})
	}
	if fate, err := h.Flush(t.Context()); err != nil || fate != mapagent.Over {
		t.Fatalf("its chunk is %v, %v", fate, err)
	}
	for range 3 { // seconds: it is no spare yet
		d.pass(m.Again())
		_, err := m.Poll(t.Context())
		d.check(err)
		h, err := m.Seek(t.Context())
		d.check(err)
		if h == nil {
			continue
		}
		if try, ok := h.Next(); !ok || try.Item != 3 || try.N != 2 {
			t.Errorf("it begins %+v, %t", try, ok)
		}
		return
	}
	t.Error("nothing of it was claimed again")
}

// A claim with an outcome that stayed unknown is checked until its number is taken, also
// when the agent may claim nothing meanwhile: it may land at any time, and no other agent
// works on that chunk then (L1).
func TestAClaimThatWasGivenUpIsLookedAfterUntilItLands(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers = 1000 })
	other := d.far(j, "1-1-b")
	had, err := other.Seek(ctx)
	d.check(err)
	d.check(had.Release(ctx, true))
	m := d.far(j, "1-0-a")
	c := m.Inventory.ManifestChunk("000000")
	_, err = m.Inventory.ReadChunk(ctx, c, nil)
	d.check(err)
	m.AddUnsure(mapagent.UnsureClaim{Chunk: c, N: c.N})
	_, err = control.PauseMap(ctx, d.World, j.Path(), "cli", protocol.Paused{})
	d.check(err)
	for range 3 {
		_, err = m.Poll(ctx)
		d.check(err)
		if h, err := m.Seek(ctx); h != nil || err != nil {
			t.Fatalf("it claims in a paused job: %+v, %v", h, err)
		}
		d.pass(m.Again())
	}
	e := protocol.ChunkEntry{Header: protocol.Header{V: protocol.Format, By: m.ID}, Claimed: &protocol.Claimed{Agent: m.ID, N: 2, Why: protocol.FreeAgain}}
	d.check(d.Store.Put(ctx, m.Inventory.EntryKey(c, c.N), protocol.Encode(e))) // and now it lands
	_, err = control.ContinueMap(ctx, d.World, j.Path(), "cli")
	d.check(err)
	_, err = m.Poll(ctx)
	d.check(err)
	if h, err := m.Seek(ctx); h == nil || h.ID() != c.ID || err != nil {
		t.Errorf("it holds %v of what is its own, %v", m.Owned(), err)
	}
}

// One claim that may still land, in a chunk that may not be claimed now, does not keep the
// agent from another that has landed; and a claim is looked after once, however often it
// was sent.
func TestAClaimThatCannotLandYetKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(8, 4, func(s *job.Spec) { s.Workers = 1000 })
	other := d.far(j, "1-1-b")
	had, err := other.Seek(ctx)
	d.check(err)
	m := d.far(j, "1-0-a")
	held := m.Inventory.ManifestChunk(had.ID()) // another agent's: it cannot be claimed
	landed := m.Inventory.ManifestChunk(map[string]string{"000000": "000001", "000001": "000000"}[had.ID()])
	for _, c := range []*chunks.Chunk{held, landed} {
		_, err = m.Inventory.ReadChunk(ctx, c, nil)
		d.check(err)
		m.AddUnsure(mapagent.UnsureClaim{Chunk: c, N: c.N})
		m.AddUnsure(mapagent.UnsureClaim{Chunk: c, N: c.N})
	}
	e := protocol.ChunkEntry{Header: protocol.Header{V: protocol.Format, By: m.ID}, Claimed: &protocol.Claimed{Agent: m.ID, N: 1, Why: protocol.Untouched}}
	d.check(d.Store.Put(ctx, m.Inventory.EntryKey(landed, landed.N), protocol.Encode(e)))
	h, err := m.ResolveUnsure(ctx)
	if h == nil || h.ID() != landed.ID || err != nil {
		t.Fatalf("it holds %v of what is its own, %v", m.Owned(), err)
	}
	if want := []mapagent.UnsureClaim{{Chunk: held, N: held.N}}; !slices.Equal(m.Unsure, want) {
		t.Errorf("it looks after %d claims, want that of %s alone", len(m.Unsure), held.ID)
	}
}

// An owner with a first heartbeat still on its way is heard of for the first time when
// its claim is read: it has a lease from then on (D1).
func TestAnOwnerWithoutAHeartbeatHasALease(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(4, 4, nil)
	owner, other := d.hand(j, "1-0-a", fine), d.hand(j, "1-1-bb", fine)
	owner.Self = protocol.Host{Boot: "elsewhere"}
	_, err := owner.Poll(t.Context())
	d.check(err)
	_, err = owner.Seek(t.Context())
	d.check(err)
	for waited := time.Duration(0); waited < protocol.Lease-protocol.HeartbeatEvery; waited += protocol.HeartbeatEvery {
		_, err := other.Poll(t.Context())
		d.check(err)
		if h, err := other.Seek(t.Context()); h != nil || err != nil {
			t.Fatalf("after %s its chunk is another's: %v", waited, err)
		}
		d.pass(protocol.HeartbeatEvery)
	}
}

// A chunk has an eighth of an agent's part, and no more items than an agent's log can
// name in reasonable entries (M7).
func TestSizesOfChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ items, agents, want int }{
		{1, 1, 1}, {8, 1, 1}, {9, 1, 2}, {1000, 10, 13}, {5, 100, 1}, {10_000_000, 100, 4096}, {10_000_000, 1, 4096},
	} {
		if got := chunks.ChunkSize(c.items, c.agents); got != c.want {
			t.Errorf("%d items of %d agents: chunks of %d, want %d", c.items, c.agents, got, c.want)
		}
	}
}

// Failures that a reopen does not select are of the round before, and do not count
// against the bound of the round that it begins (M4, E1).
func TestFailuresThatAreNotRunAgainAreOld(t *testing.T) {
	t.Parallel()
	fail := func(i int) protocol.Result { return protocol.Result{Item: i, Failed: true, Final: true, Code: 1} }
	c := folded(claimedBy("a", 1, protocol.Untouched), wrote("a", 1, fail(1), fail(2), fail(3), protocol.Result{Item: 4}, protocol.Result{Item: 5}, protocol.Result{Item: 6}),
		protocol.ChunkEntry{Header: protocol.Header{By: "a"}, Claim: 1, Ended: &protocol.Ended{}}, protocol.ChunkEntry{Header: protocol.Header{By: "b"}, Again: &protocol.Again{By: 5, Items: protocol.Spans{{2, 2}}}})
	if c.Closed || c.Tally.Failed != 2 || c.Old != 2 {
		t.Errorf("closed %t, %+v, of which %d are old", c.Closed, c.Tally, c.Old)
	}
}

// An agent of a run looks at the job's log within five seconds (R7).
func TestAnAgentOfARunLooksAgainSoon(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit(nil)
	m := runagent.NewMember(d.World, j, "1-0-a", protocol.Join{})
	_, err := m.Poll(t.Context())
	d.check(err)
	if again := m.Again(); again <= 0 || again > 5*time.Second {
		t.Errorf("it looks again after %s", again)
	}
	d.pass(2 * time.Second)
	if again := m.Again(); again > 3*time.Second {
		t.Errorf("2s after a look it looks again after %s", again)
	}
}

// A job that is not the live one is closed already: nothing is written for it, whatever
// has been submitted since (T1).
func TestAJobIsClosedOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.submit(nil)
	d.write(first, opened(1, protocol.First), ended(1, job.Succeeded))
	d.check(tasks.CloseJob(t.Context(), d.World, first.Path(), "a"))
	d.submit(nil)
	before := d.keys(protocol.TaskDir(first.Path()) + "/log/")
	d.check(tasks.CloseJob(t.Context(), d.World, first.Path(), "b"))
	if after := d.keys(protocol.TaskDir(first.Path()) + "/log/"); len(after) != len(before) {
		t.Errorf("the task's log was %q and is %q", before, after)
	}
}

// A run is given up after placements in a row that came to nothing: one from which an
// agent joined begins the count anew (K2).
func TestPlacementsThatCameToNothingAreCountedInARow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit(nil)
	k := attached.NewKeeper(d.World, j, "cli-1")
	var rows []attached.Machine
	place := func(alive bool) {
		t.Helper()
		if w := d.keep(k, rows); !w.Start || w.Placed.Placement != len(rows)+1 {
			t.Fatalf("placement %d was not asked for: %+v, stop %+v", len(rows)+1, w, k.Run().Stop)
		}
		rows = append(rows, attached.Machine{Placement: len(rows) + 1, Alive: alive})
	}
	for range attached.MaxFailedPlacements - 1 {
		place(false)
	}
	place(true)
	d.write(j, opened(1, protocol.First))
	d.join(j, 1, 0, protocol.Join{Agent: "3-0-a"})
	d.keep(k, rows)
	rows[len(rows)-1].Alive = false
	for range attached.MaxFailedPlacements - 1 {
		place(false)
	}
	if d.keep(k, rows); k.Run().Stop != nil {
		t.Errorf("it was given up: %+v", k.Run().Stop)
	}
}

// The items of a chunk that handed some over are those of its own snapshot and of the
// other chunk's: what was handed over is not left out (V1).
func TestASnapshotIsNotAllOfAChunkThatHandedItemsOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers, s.Retries = 1000, 3 })
	m := d.far(j, "1-0-a")
	for range 10 {
		_, err := m.Poll(ctx)
		d.check(err)
		h, err := m.Seek(ctx)
		d.check(err)
		for h != nil {
			try, ok := h.Next()
			if !ok {
				break
			}
			h.Done(protocol.Result{Item: try.Item, Failed: try.Item == 3 && try.N == 1, Code: try.N % 2})
		}
		if h != nil {
			_, err = h.Flush(ctx)
			d.check(err)
		}
		d.pass(m.Again())
	}
	v := views.NewMapView(d.World, j)
	parts, err := v.Parts(ctx)
	d.check(err)
	if len(parts) != 1 || parts[0].Seal == "" || v.Inventory.NamedChunks["000000"].Children != 1 {
		t.Fatalf("parts %+v, %+v", parts, v.Inventory.NamedChunks)
	}
	var ended []int
	d.check(v.Ended(ctx, parts[0], func(r views.ItemReport) { ended = append(ended, r.N) }))
	slices.Sort(ended)
	if !slices.Equal(ended, []int{1, 2, 3, 4}) {
		t.Errorf("items %v have ended", ended)
	}
}

// A membership listing of the round before does not tell which agents are there in this one: all
// that moved between the two may have left at that round's end (M12).
func TestAMembershipListingIsOfOneRound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers = 1000 })
	m := d.far(j, "1-0-a")
	beat := func(phase string) {
		for i := range 60 { // more than the standbys, and than agents of which it reads whether they left
			d.check(liveness.WriteHeartbeat(ctx, d.World, j.Path(), protocol.Heartbeat{Agent: "1-" + strconv.Itoa(i+1) + "-b", Counter: int64(d.clock.Boot()), Phase: phase}))
		}
	}
	beat("idle")
	d.check(m.ListMembers(ctx))
	d.pass(mapagent.ListMembersEvery)
	beat(protocol.Left)
	m.Inventory.Map.Round = 7 // reopened since
	d.check(m.ListMembers(ctx))
	if m.Members.Known {
		t.Errorf("%d agents of the round before count, of which each has left", len(m.Members.Moved))
	}
}

// The number of standbys is that of the most agents that moved at once in the round: those
// that leave take no standby along (M12).
func TestStandbysStayWhileOthersLeave(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers = 1000 })
	m := d.far(j, "1-0-a")
	m.ListAtLeast = 10_000 // it lists all
	roll := func(agents int) {
		for i := range agents {
			d.check(liveness.WriteHeartbeat(ctx, d.World, j.Path(), protocol.Heartbeat{Agent: "1-" + strconv.Itoa(i+1) + "-b", Counter: int64(d.clock.Boot()), Phase: "idle"}))
		}
		d.check(m.ListMembers(ctx))
		d.pass(mapagent.ListMembersEvery)
	}
	roll(300)
	roll(300)
	roll(20)
	if n := m.StandbyCount(); n != 6 {
		t.Errorf("of 300 agents, of which 20 are left, %d stay; 2 %% are 6", n)
	}
	m.Inventory.Map.Round = 7 // reopened since
	roll(20)
	roll(20)
	if n := m.StandbyCount(); n != mapagent.StandbysLeast {
		t.Errorf("of 20 agents of a new round %d stay", n)
	}
}

// After each stop an agent of many ends its share of the chunks once, in a later round as
// in the first (E5).
func TestEachStopHasItsShares(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers = 1000 })
	m := d.far(j, "1-7-a")
	for _, stop := range []int{3, 9} {
		m.Inventory.Map.Stop, m.Inventory.Map.StopAt = &protocol.Stop{}, stop
		if mine, ok := m.ScanTurn(); !ok || mine != (chunks.Share{At: 7, Of: 1000, Blind: true}) {
			t.Errorf("after stop %d its share is %+v, %t", stop, mine, ok)
		}
		if mine, ok := m.ScanTurn(); ok {
			t.Errorf("after stop %d it has a second share: %+v", stop, mine)
		}
	}
}
