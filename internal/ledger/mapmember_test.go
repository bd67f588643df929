package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// mapJob submits a map of n items in chunks of size.
func (d *desk) mapJob(n, size int, change func(*job.Spec)) job.Job {
	return d.submit(func(j *job.Job) {
		j.Spec.Verb, j.Spec.Workers = job.Map, 1
		j.Manifest, j.ChunkSize = job.Manifest{Count: n, Digest: "x"}, size
		if change != nil {
			change(&j.Spec)
		}
	})
}

// hand is an agent of a map with items that do what outcome says.
type hand struct {
	*mapagent.MapMember
	d       *desk
	outcome func(mapagent.Try) protocol.Result
	ran     map[int]int
	status  *int
}

func (d *desk) hand(j job.Job, id string, outcome func(mapagent.Try) protocol.Result) *hand {
	h := &hand{d: d, outcome: outcome, ran: map[int]int{}}
	h.MapMember = mapagent.NewMapMember(d.World, j, id, protocol.Host{Boot: "here", PID: len(id)}, mapagent.MapOptions{Slots: 2, Near: true})
	h.Ready()
	return h
}

// turn is one turn of an agent's loop, with items that take no time.
func (h *hand) turn() {
	t, ctx := h.d.t, h.d.t.Context()
	t.Helper()
	o, err := h.Poll(ctx)
	h.d.check(err)
	if o.Do == mapagent.Depart {
		h.status = &o.Status
		return
	}
	for _, hold := range h.Owned() {
		if o.Do == mapagent.Cease {
			h.d.check(hold.Wind(ctx))
			continue
		}
		for range 2 {
			if try, ok := hold.Next(); ok {
				h.ran[try.Item]++
				hold.Done(h.outcome(try))
			}
		}
		if hold.Due() == 0 {
			_, err := hold.Flush(ctx)
			h.d.check(err)
		}
	}
	if len(h.Owned()) == 0 {
		_, err := h.Seek(ctx)
		h.d.check(err)
	}
}

func fine(t mapagent.Try) protocol.Result { return protocol.Result{Item: t.Item} }

func TestOneAgentDoesAMap(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3, 10, 100} {
		d := newDesk(t)
		j := d.mapJob(20, size, func(s *job.Spec) { s.Retries = 1 })
		h := d.hand(j, "1-0-a", func(try mapagent.Try) protocol.Result {
			r := protocol.Result{Item: try.Item}
			if try.Item == 7 || try.Item == 8 && try.N == 1 {
				r.Failed, r.Code = true, 3
			}
			return r
		})
		for range 2000 {
			if h.turn(); h.status != nil {
				break
			}
			d.pass(20 * time.Millisecond)
		}
		s := h.Map().Settled
		if s == nil || s.State != job.Failed || s.Code != 1 || *s.Tally != (job.Tally{Items: 20, Succeeded: 19, Failed: 1}) {
			t.Fatalf("size %d: settled %+v %v", size, s, s.Tally)
		}
		for i := 1; i <= 20; i++ {
			want := 1
			if i == 7 || i == 8 {
				want = 2
			}
			if h.ran[i] != want {
				t.Errorf("size %d: item %d ran %d times, want %d", size, i, h.ran[i], want)
			}
		}
		v := views.NewMapView(d.World, j)
		rep, err := v.Refresh(t.Context())
		d.check(err)
		if rep.State != job.Failed || rep.Tally != *s.Tally {
			t.Errorf("size %d: view %s %v", size, rep.State, rep.Tally)
		}
		n := 0
		d.check(v.Each(t.Context(), func(r views.ItemReport) error {
			n++
			if r.N != n || r.Result == nil || r.Result.Failed != (n == 7) {
				return fmt.Errorf("item %d: %+v", n, r)
			}
			return nil
		}))
		one, err := v.One(t.Context(), 8)
		d.check(err)
		if len(one.Tries) != 2 || one.State != job.ItemSucceeded || one.Failures != 1 {
			t.Errorf("item 8: %+v", one)
		}
		if task, err := tasks.ReadTask(t.Context(), d.World, j.Path()); err != nil || task.Live != j.ID {
			t.Errorf("task %+v, %v", task, err)
		}
		d.check(h.Leave(t.Context()))
		again, ok, err := control.ReopenMap(t.Context(), d.World, j, "cli-2", control.Round{Again: &protocol.Reopened{}, More: &protocol.Extended{Manifest: job.Manifest{Count: 3, Digest: "y"}, Size: 2}})
		if err != nil || !ok || again != j.ID {
			t.Fatalf("reopen: %s %t %v", again, ok, err)
		}
		h2 := d.hand(j, "2-0-b", fine)
		for range 2000 {
			if h2.turn(); h2.status != nil {
				break
			}
			d.pass(20 * time.Millisecond)
		}
		if s := h2.Map().Settled; s == nil || s.State != job.Succeeded || s.Tally.Items != 23 || len(h2.ran) != 4 {
			t.Fatalf("size %d: second round: %+v, ran %v", size, s, h2.ran)
		}
	}
}

// An agent knows what has failed with itself before an entry says so: it begins nothing
// more, and its next Flush and Poll end the job.
func TestNothingBeginsOnceTooManyHaveFailed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(40, 20, func(s *job.Spec) { s.MaxFails = "3" })
	h := d.hand(j, "1-0-a", nil)
	for len(h.Owned()) == 0 {
		h.turn()
	}
	hold, ran := h.Owned()[0], 0
	for try, ok := hold.Next(); ok; try, ok = hold.Next() {
		ran++
		hold.Done(protocol.Result{Item: try.Item, Failed: ran > 2, Code: 1})
	}
	if ran != 6 || !h.TooMany() || hold.Due() != 0 {
		t.Fatalf("%d began; too many: %t; due in %v", ran, h.TooMany(), hold.Due())
	}
	_, err := hold.Flush(ctx)
	d.check(err)
	o, err := h.Poll(ctx)
	d.check(err)
	if o.Do != mapagent.Cease || h.TooMany() {
		t.Errorf("order %v; too many: %t", o.Do, h.TooMany())
	}
	for range 2000 {
		if h.turn(); h.status != nil {
			break
		}
		d.pass(20 * time.Millisecond)
	}
	if s := h.Map().Settled; s == nil || *s.Tally != (job.Tally{Items: 40, Succeeded: 2, Failed: 4, Cancelled: 34}) {
		t.Errorf("settled %+v", s)
	}
}

// An agent that falls silent just after it wrote an entry, which no reader reads before
// its lease is over, is not believed to have written it now.
func TestTheChunkOfASilentAgentIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(20, 10, nil)
	lost, other := d.hand(j, "1-0-a", fine), d.hand(j, "1-1-bb", fine)
	beat := protocol.Heartbeat{Agent: lost.ID, Counter: 1, Host: protocol.Host{Boot: "elsewhere"}, Phase: "running"}
	lost.turn()
	lost.FillHeartbeat(&beat)
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, j.Path(), beat))
	for recorded := lost.Owned()[0].Chunk.N; lost.Owned()[0].Chunk.N == recorded; d.pass(turnTime) {
		lost.turn()
	}
	other.turn()
	for range 80 { // it is at work, and looks at others' heartbeats as it goes
		d.pass(time.Second)
		_, err := other.Poll(t.Context())
		d.check(err)
	}
	had := len(other.Owned())
	h, err := other.Seek(t.Context())
	if d.check(err); h == nil || h.Chunk.Claim != 2 || len(other.Owned()) != had+1 {
		t.Fatalf("it holds %d chunks, and found %+v", had, h)
	}
}

// turnTime is how long a turn of an agent's loop takes in these tests.
const turnTime = 20 * time.Millisecond

// gc deletes the entries by which a sleeping agent's chunk was taken away, so an absent
// number says no longer that the chunk is still its own: the agent that wakes up begins
// nothing, whether it reads the log, appends to it, or claims another chunk (E6, M5).
func TestNothingBeginsOnceItsJobWasRemoved(t *testing.T) {
	t.Parallel()
	for _, wakes := range []string{"reads", "appends", "claims"} {
		d := newDesk(t)
		ctx := t.Context()
		j := d.mapJob(20, 10, nil)
		zombie := d.hand(j, "1-0-a", fine)
		_, err := zombie.Poll(ctx)
		d.check(err)
		h, err := zombie.Seek(ctx)
		d.check(err)
		if wakes == "appends" {
			try, _ := h.Next()
			h.Done(fine(try))
		}
		d.write(j, protocol.JobEntry{Cancelled: &protocol.Stop{}})
		d.write(j, protocol.JobEntry{Settled: &protocol.Settled{State: job.Cancelled, Tally: &job.Tally{Items: 20, Cancelled: 20}}})
		d.pass(time.Hour)
		d.check(removal.RemoveJob(ctx, d.World, j.Path(), 0, tasks.Place{}, "gc"))
		if wakes == "claims" {
			_, err = zombie.Seek(ctx)
		} else {
			_, err = h.Flush(ctx)
		}
		d.check(err)
		for _, h := range append(zombie.Owned(), h) {
			if try, ok := h.Next(); ok {
				t.Errorf("an agent that %s after the removal begins item %d", wakes, try.Item)
			}
		}
		if o, err := zombie.Poll(ctx); err != nil || o.Do != mapagent.Depart {
			t.Errorf("its next order is %v, %v", o, err)
		}
	}
}

// Another process ended the chunk after a stop of a round that is over, and the owner's
// items still run when it finds out: it claims nothing beside them (M1).
func TestNothingIsClaimedBesideItemsOfAChunkThatWasEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	h := d.hand(d.mapJob(4, 2, nil), "1-0-a", fine)
	_, err := h.Poll(t.Context())
	d.check(err)
	first, err := h.Seek(t.Context())
	d.check(err)
	if _, ok := first.Next(); !ok {
		t.Fatal("an item cannot begin")
	}
	writeTo(d, d.ChunkLog(h.Inventory.Path, first.ID(), "test"), protocol.ChunkEntry{Ended: &protocol.Ended{By: 1}})
	_, err = h.Inventory.ReadChunk(t.Context(), first.Chunk, nil)
	d.check(err)
	if second, err := h.Seek(t.Context()); second != nil || err != nil {
		t.Errorf("it claims chunk %s while an item of chunk %s runs: %v", second.ID(), first.ID(), err)
	}
	if fate, err := first.Flush(t.Context()); fate != mapagent.Over || err != nil {
		t.Errorf("its fate is %d: %v", fate, err)
	}
	if second, err := h.Seek(t.Context()); second == nil || err != nil {
		t.Errorf("it claims nothing more: %v", err)
	}
}

// Of items in back-off that are handed over together each waits for its own: the chunk
// waits for the longest, which need not be that of the first item (M8).
func TestAChunkWaitsForTheLongestBackOff(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	h := d.hand(d.mapJob(2, 2, func(s *job.Spec) { s.Retries = 3 }), "1-0-a", fine)
	_, err := h.Poll(t.Context())
	d.check(err)
	hold, err := h.Seek(t.Context())
	d.check(err)
	for range 2 {
		try, ok := hold.Next()
		if !ok {
			t.Fatal("an item cannot begin")
		}
		d.pass(300 * time.Millisecond)
		hold.Done(protocol.Result{Item: try.Item, Failed: true, Code: 1})
	}
	_, err = hold.Flush(t.Context())
	d.check(err)
	if c := hold.Chunk.Children; len(c) != 1 || c[0].Wait != mapagent.BackOff(1) {
		t.Errorf("it handed over %+v", c)
	}
}

// On a remote store a search is given up after pages in a row without a free chunk: one
// that shows some begins the count anew (M11).
func TestAPageWithAFreeChunkIsNoMiss(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	m := d.far(d.mapJob(1000, 1, func(s *job.Spec) { s.Workers = 1000 }), "1-0-a")
	m.Cursor.DivideChunks(1000, 1000, m.ID)
	for range 2 * mapagent.EmptyPages {
		if d.check(m.ListFreeChunks(t.Context(), 1000)); !m.MayListMore() {
			t.Fatalf("it gives up after %d pages, each of which has shown free chunks", len(m.Cursor.Pages))
		}
	}
}
