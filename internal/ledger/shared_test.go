package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// inParts writes a state as text: what all began with, and what each rank saved.
func inParts(s states.Shared) store.Digest {
	var words []string
	base := s.Copies(func(rank int, own string, list store.Digest) {
		words = append(words, fmt.Sprintf("%d:%s=%s", rank, own, list))
	})
	return store.Digest(fmt.Sprintf("(%s %s)", base, strings.Join(words, " ")))
}

// united makes a list's name of what it was made of.
func united(s states.Shared) (store.Digest, int64, error) { return inParts(s), 1, nil }

// seat is one rank of an attempt that shares its state.
type seat struct {
	protocol.World
	p     job.Path
	rank  int
	me    protocol.Begun
	gens  *states.Generations
	begun protocol.Begun
}

func sit(w protocol.World, p job.Path, rank, place, attempt, nodes int) *seat {
	own := make([]string, nodes)
	for i := range own {
		own[i] = fmt.Sprintf("algo-%d", i+1)
	}
	return &seat{World: w, p: p, rank: rank,
		me: protocol.Begun{Job: fmt.Sprint("job", place), Submission: place, Attempt: attempt, Agent: fmt.Sprintf("%d-%d-%d", place, attempt, rank), Own: own}}
}

// begin is what an agent does before its program.
func (s *seat) begin(t *testing.T, since int) error {
	me := protocol.Restored{Job: s.me.Job, Submission: s.me.Submission, Attempt: s.me.Attempt, Agent: s.me.Agent}
	var err error
	if s.gens, _, err = states.RestoreState(t.Context(), s.World, s.p, s.rank, me, 0, all); err != nil {
		return err
	}
	s.begun, err = states.BeginShared(t.Context(), s.World, s.p, s.me, since, all, united)
	return err
}

func (s *seat) save(t *testing.T, list store.Digest) error {
	return s.gens.Save(t.Context(), protocol.Saved{State: list})
}

// Rule R9 of docs/protocol.md: the first `begun` of an attempt is that of all its ranks.
func TestAllRanksOfAnAttemptBeginWithTheSame(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits"}
	zero, one := sit(d.World, p, 0, 0, 1, 2), sit(d.World, p, 1, 0, 1, 2)
	d.check(zero.begin(t, -1))
	if zero.begun.State != "( )" {
		t.Fatalf("the first begins with %q", zero.begun.State)
	}
	d.check(zero.save(t, "a"))
	d.check(one.begin(t, -1)) // the other has saved meanwhile, and that is no part of it
	if one.begun.State != zero.begun.State {
		t.Errorf("they begin with %q and %q", zero.begun.State, one.begun.State)
	}
	d.check(one.save(t, "b"))
	d.check(zero.save(t, "c"))
	two := sit(d.World, p, 1, 0, 2, 2)
	d.check(two.begin(t, -1))
	if want := store.Digest("(( ) 0:algo-1=c 1:algo-2=b)"); two.begun.State != want {
		t.Errorf("the next begins with %q, want %q", two.begun.State, want)
	}
	// Fenced where the rank was taken over, and not newest where it was not yet.
	if err := one.save(t, "late"); !errors.Is(err, states.ErrFenced) {
		t.Errorf("a rank that was taken over saves: %v", err)
	}
	d.check(zero.save(t, "too late"))
	s, err := states.ReadShared(t.Context(), d.World, p, all)
	if d.check(err); inParts(s) != "((( ) 0:algo-1=c 1:algo-2=b) )" {
		t.Errorf("the state is %q", inParts(s))
	}
	if _, err := states.BeginShared(t.Context(), d.World, p, zero.me, -1, all, united); !errors.Is(err, states.ErrFenced) {
		t.Errorf("an attempt that is over begins: %v", err)
	}
}

func TestAnotherNumberOfRanksFindsAll(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits"}
	for rank := range 3 {
		s := sit(d.World, p, rank, 0, 1, 3)
		d.check(s.begin(t, -1))
		d.check(s.save(t, store.Digest(fmt.Sprint("s", rank))))
	}
	s := sit(d.World, p, 0, 2, 1, 1)
	d.check(s.begin(t, -1))
	if want := store.Digest("(( ) 0:algo-1=s0 1:algo-2=s1 2:algo-3=s2)"); s.begun.State != want {
		t.Errorf("one rank after three begins with %q, want %q", s.begun.State, want)
	}
	clean := sit(d.World, p, 0, 4, 1, 1)
	d.check(clean.begin(t, 3)) // --clean_state
	if clean.begun.State != "( )" {
		t.Errorf("a state that was to be empty is %q", clean.begun.State)
	}
}

func TestJobsOfBothRulesFollowEachOther(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits"}
	for rank := range 2 { // drover's own
		g, _, err := states.RestoreState(t.Context(), d.World, p, rank, protocol.Restored{Attempt: 1, Agent: fmt.Sprint("a", rank)}, 0, all)
		d.check(err)
		d.check(g.Save(t.Context(), protocol.Saved{State: store.Digest(fmt.Sprint("old", rank))}))
	}
	if s, err := states.ReadShared(t.Context(), d.World, p, all); err != nil || s.Begun != nil || len(s.Saved) != 0 {
		t.Errorf("nobody has shared it, and it is %+v, %v", s, err)
	}
	s := sit(d.World, p, 0, 2, 1, 1)
	d.check(s.begin(t, -1))
	if want := store.Digest("( 0:=old0 1:=old1)"); s.begun.State != want {
		t.Errorf("it begins with %q, want %q", s.begun.State, want)
	}
	d.check(s.save(t, "new"))
	g, _, err := states.RestoreState(t.Context(), d.World, p, 1, protocol.Restored{Submission: 4, Attempt: 1, Agent: "b"}, 0, all)
	d.check(err)
	d.check(g.Save(t.Context(), protocol.Saved{State: "newest"}))
	if s, err := states.ReadShared(t.Context(), d.World, p, all); err != nil || inParts(s) != "( 1:=newest)" {
		t.Errorf("what counts is %q, %v", inParts(s), err)
	}
}

func TestAStateThatMissesABlobIsNotOffered(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits"}
	for attempt := range 2 {
		s := sit(d.World, p, 0, 0, attempt+1, 1)
		d.check(s.begin(t, -1))
		for i := range 2 {
			d.check(s.save(t, store.Digest(fmt.Sprintf("s%d%d", attempt+1, i))))
		}
	}
	base := store.Digest("(( ) 0:algo-1=s11)")
	for _, row := range []struct {
		missing []store.Digest
		want    store.Digest
	}{
		{nil, "(" + base + " 0:algo-1=s21)"},
		{[]store.Digest{"s21"}, "(" + base + " 0:algo-1=s20)"},
		{[]store.Digest{"s21", "s20"}, "(" + base + " )"},
		{[]store.Digest{base}, "(( ) 0:algo-1=s11)"},
		{[]store.Digest{base, "s11"}, "(( ) 0:algo-1=s10)"},
		{[]store.Digest{base, "( )", "s11"}, "( )"}, // ranks that began with what is gone are not believed either
	} {
		s, err := states.ReadShared(t.Context(), d.World, p, func(s protocol.Saved) (bool, error) { return !slices.Contains(row.missing, s.State), nil })
		if d.check(err); inParts(s) != row.want {
			t.Errorf("without %v it is %q, want %q", row.missing, inParts(s), row.want)
		}
	}
	// Checkpoints and files are a rank's own: what they miss takes nothing from the state.
	g := sit(d.World, p, 0, 0, 3, 1)
	d.check(g.begin(t, -1))
	d.check(g.gens.Save(t.Context(), protocol.Saved{State: "s3", Checkpoints: "gone"}))
	next := sit(d.World, p, 0, 0, 4, 1)
	whole := func(s protocol.Saved) (bool, error) { return s.Checkpoints != "gone", nil }
	begun, err := states.BeginShared(t.Context(), d.World, p, next.me, -1, whole, united)
	if want := "(" + g.begun.State + " 0:algo-1=s3)"; err != nil || begun.State != want {
		t.Errorf("without the checkpoints of a generation ranks begin with %q, want %q: %v", begun.State, want, err)
	}
	broken := errors.New("cannot look")
	if _, err := states.ReadShared(t.Context(), d.World, p, func(protocol.Saved) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("a look that failed: %v", err)
	}
}

func TestASharedStateIsPutByHandBetweenJobs(t *testing.T) {
	d := newDesk(t)
	one := d.submit(nil)
	place := func(id string) int {
		task, err := tasks.ReadTask(t.Context(), d.World, one.Path())
		d.check(err)
		n, _ := task.PlaceOf(id)
		return n
	}
	s := sit(d.World, one.Path(), 0, place(one.ID), 1, 1)
	d.check(s.begin(t, -1))
	d.check(s.save(t, "a"))
	for _, list := range []store.Digest{"hand", "better"} {
		d.check(states.PutShared(t.Context(), d.World, one.Path(), "cli-2", list, 3))
	}
	d.write(one, protocol.JobEntry{Settled: &protocol.Settled{State: job.Succeeded}})
	two := d.submit(nil)
	s = sit(d.World, one.Path(), 0, place(two.ID), 1, 1)
	d.check(s.begin(t, -1))
	if want := store.Digest("(better )"); s.begun.State != want {
		t.Errorf("the next job begins with %q, want %q", s.begun.State, want)
	}
	// A writer that read the task before that job was submitted, and writes after it began.
	stale := d.World
	stale.Store = store.New(&behind{Bucket: d.bucket, hide: protocol.TaskDir(one.Path()) + "/log/", from: place(two.ID)}, store.Options{Clock: d.clock})
	if err := states.PutShared(t.Context(), stale, one.Path(), "cli-3", "late", 3); !errors.Is(err, states.ErrFenced) {
		t.Errorf("a state was put under a job that has begun: %v", err)
	}
}

// behind is a store as it was before an entry of a log.
type behind struct {
	store.Bucket
	hide string
	from int
}

func (b *behind) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if number, ok := strings.CutPrefix(key, b.hide); ok && number >= fmt.Sprintf("%08d", b.from) {
		return nil, store.ErrNotExist
	}
	return b.Bucket.Get(ctx, key, off, n)
}

// TestASharedStateOverAStoreThatLies plays attempts with ranks that begin at once, save
// and die, and zombies of the attempt before, over stores that lose requests and
// replies, write late and list too little.
func TestASharedStateOverAStoreThatLies(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		playShared(t, uint64(seed))
	}
}

func playShared(t *testing.T, seed uint64) {
	r := mathrand.New(mathrand.NewPCG(seed, 1))
	clock := &storetest.Clock{}
	under := mem.At(clock)
	handle := func() protocol.World {
		own := mathrand.New(mathrand.NewPCG(seed, r.Uint64()))
		plan := flaky.Plan{Rand: own.IntN, Clock: clock, Busy: .05, LoseRequest: .05, LoseReply: .1, Conflict: .05, Late: .05, Echo: .05, ShortList: .3, StaleList: .3}
		return protocol.World{Store: store.New(flaky.New(under, plan), store.Options{Clock: clock}), Rand: rand.Reader, Gone: func(protocol.Host) (bool, bool) { return false, false }}
	}
	p := job.Path{Project: "demo", Task: "digits"}
	var zombies []*seat
	want := store.Digest("( )") // what the next attempt begins with
	place, attempt := 0, 0
	for round := range 6 {
		if attempt++; r.IntN(3) == 0 {
			place, attempt = place+2, 1
		}
		nodes := 1 + r.IntN(4)
		seats := make([]*seat, nodes)
		var all sync.WaitGroup
		for rank := range seats {
			seats[rank] = sit(handle(), p, rank, place, attempt, nodes)
			all.Go(func() {
				if err := seats[rank].begin(t, -1); err != nil {
					t.Errorf("seed %d, round %d, rank %d: %v", seed, round, rank, err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			t.FailNow()
		}
		saved := map[int]protocol.Saved{}
		for rank, s := range seats {
			if s.begun.State != want {
				t.Fatalf("seed %d, round %d: rank %d begins with\n%q\nwant\n%q", seed, round, rank, s.begun.State, want)
			}
			for n := range r.IntN(3) {
				list := store.Digest(fmt.Sprintf("r%d.%d.%d", round, rank, n))
				if err := s.save(t, list); err != nil {
					t.Fatalf("seed %d, round %d, rank %d: %v", seed, round, rank, err)
				}
				saved[rank] = protocol.Saved{State: list}
			}
		}
		for _, z := range zombies { // what it saves may be kept, and never counts
			if err := z.save(t, "zombie"); err != nil && !errors.Is(err, states.ErrFenced) {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
		}
		zombies = seats
		begun := seats[0].begun
		now := inParts(states.Shared{Begun: &begun, Saved: saved})
		s, err := states.ReadShared(t.Context(), handle(), p, func(protocol.Saved) (bool, error) { return true, nil })
		if diff := cmp.Diff(now, inParts(s)); err != nil || diff != "" {
			t.Fatalf("seed %d, round %d: %v (-want +got):\n%s", seed, round, err, diff)
		}
		want = now
	}
}

// TestTheFirstWhoBeginsDecides: another rank comes, finds more, and is quicker.
func TestTheFirstWhoBeginsDecides(t *testing.T) {
	d := newDesk(t)
	p := job.Path{Project: "demo", Task: "digits"}
	old := sit(d.World, p, 0, 0, 1, 2)
	d.check(old.begin(t, -1))
	d.check(old.save(t, "a"))
	slow, quick := sit(d.World, p, 1, 0, 2, 2), sit(d.World, p, 0, 0, 2, 2)
	asked := 0
	begun, err := states.BeginShared(t.Context(), d.World, p, slow.me, -1, all, func(s states.Shared) (store.Digest, int64, error) {
		if asked++; asked == 1 {
			d.check(old.save(t, "b"))
			d.check(quick.begin(t, -1))
		}
		return united(s)
	})
	if want := store.Digest("(( ) 0:algo-1=b)"); err != nil || begun.State != want || quick.begun.State != want {
		t.Errorf("they begin with %q and %q, want %q (%v)", begun.State, quick.begun.State, want, err)
	}
}

func TestABeginningThatComesTooLateIsIgnored(t *testing.T) {
	at := func(place, attempt int, state store.Digest) protocol.StateEntry {
		return protocol.StateEntry{Begun: &protocol.Begun{Submission: place, Attempt: attempt, State: state}}
	}
	var counted []store.Digest
	for _, b := range states.FoldBegun([]protocol.StateEntry{at(0, 1, "a"), at(0, 1, "twice"), at(2, 1, "b"), at(0, 2, "late"), {}, at(2, 2, "c")}) {
		counted = append(counted, b.State)
	}
	if diff := cmp.Diff([]store.Digest{"a", "b", "c"}, counted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
