package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// world is a map that the ledger's own code works on: agents that come and die, items
// that fail and kill, people that cancel, reopen and add.
type world struct {
	t      *testing.T
	r      *rand.Rand
	now    time.Duration
	w      protocol.World
	j      job.Job
	gone   map[int]bool // processes
	agents []*agent
	born   int
	seen   map[string]bool // what came to pass
}

type agent struct {
	*mapagent.MapMember
	pid   int
	tries []running
}

type running struct {
	h   *mapagent.OwnedChunk
	try mapagent.Try
}

func (w *world) Now() time.Time      { return time.Unix(1767322985, 0).Add(w.now) }
func (w *world) Boot() time.Duration { return w.now }
func (w *world) Sleep(_ context.Context, d time.Duration) error {
	w.now += d
	return nil
}

// Read makes the world's nonces: seeded, as all of it.
func (w *world) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(w.r.Uint32())
	}
	return len(b), nil
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), now: time.Hour, gone: map[int]bool{}, seen: map[string]bool{}}
	w.w = protocol.World{Store: store.New(mem.At(w), store.Options{Clock: w, Rand: w}), Rand: w,
		Gone: func(h protocol.Host) (gone, known bool) { return w.gone[h.PID], true }}
	n := 1 + w.r.IntN(30)
	w.j = job.Job{V: job.Format, ChunkSize: 1 + w.r.IntN(10), Manifest: job.Manifest{Count: n, From: 1, To: int64(n), Step: 1, Format: "lines"},
		Spec: job.Spec{Project: "demo", Task: "world", Verb: job.Map, Program: "work", Nodes: 1, Retries: w.r.IntN(3)}}
	w.j.Spec.Workers = 3
	w.check(tasks.NameJob(t.Context(), w.w, &w.j))
	w.check(tasks.ProposeJob(t.Context(), w.w, w.j))
	_, mine, err := tasks.SubmitJob(t.Context(), w.w, w.j, "cli")
	w.check(err)
	if !mine {
		t.Fatal("not submitted")
	}
	first := entry("cli", `"placed":{"placement":1,"agents":3,"target":"local"}`)
	_, _, err = w.w.Store.CreateOnce(t.Context(), w.j.Path().String()+"/log/00000000", []byte(first))
	w.check(err)
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// outcome is how a try of an item ends: some items always fail, some the first time.
func outcome(try mapagent.Try) protocol.Result {
	r := protocol.Result{Item: try.Item}
	if try.Item%7 == 0 || try.Item%5 == 0 && try.N == 1 {
		r.Failed, r.Code = true, 3
	}
	return r
}

const killer = 11 // the item that kills its agent

// round has agents work until the job has settled.
func (w *world) round(trouble int) {
	ctx := w.t.Context()
	for turn := 0; ; turn++ {
		if turn > 40_000 {
			w.t.Fatal("it does not end")
		}
		w.now += time.Duration(1+w.r.IntN(120)) * time.Millisecond
		if turn < 400 {
			w.trouble(trouble)
		}
		if len(w.agents) < 3 {
			w.born++
			pid := w.born
			a := &agent{pid: pid, MapMember: mapagent.NewMapMember(w.w, w.j, liveness.NewAgentID(w.w, pid, 0), protocol.Host{Boot: "b", PID: pid}, mapagent.MapOptions{Slots: 3, Near: w.r.IntN(2) == 0})}
			a.Ready()
			w.agents = append(w.agents, a)
		}
		if turn%100 == 99 {
			r, err := Verify(ctx, w.w.Store, w.j.Path(), nil)
			w.check(err)
			if !r.Sound() || r.Told > 0 {
				w.t.Fatalf("after %d turns: doubts %v\nnotes %v\n%s", turn, r.Findings, r.Ignored, w.story(r))
			}
		}
		a := w.agents[w.r.IntN(len(w.agents))]
		if w.turn(ctx, a) {
			w.drop(a)
			if s := a.Map().Settled; s != nil {
				w.check(a.Leave(ctx))
				w.agents = nil
				return
			}
		}
	}
}

func (w *world) drop(a *agent) {
	w.agents = slices.DeleteFunc(w.agents, func(o *agent) bool { return o == a })
}

// trouble is what people and machines do.
func (w *world) trouble(much int) {
	ctx, p := w.t.Context(), w.j.Path()
	if w.r.IntN(100) >= much {
		return
	}
	switch w.r.IntN(14) {
	case 0:
		_, err := control.CancelJob(ctx, w.w, p, "cli", "enough")
		w.check(err)
	case 1:
		_, err := control.AmendMap(ctx, w.w, p, "cli", protocol.Amended{Retries: new(w.r.IntN(4))})
		w.check(err)
	case 2, 3:
		w.reopen(&protocol.Reopened{}, nil)
	case 4:
		n := 1 + w.r.IntN(6)
		w.reopen(nil, &protocol.Extended{Manifest: job.Manifest{Count: n, From: 1, To: int64(n), Step: 1}, Size: 1 + w.r.IntN(4)})
	default:
		if len(w.agents) == 0 {
			return
		}
		a := w.agents[w.r.IntN(len(w.agents))]
		if w.r.IntN(2) == 0 { // it has notice
			for _, h := range a.Owned() {
				w.check(h.Release(ctx, false))
			}
		} else {
			w.gone[a.pid] = true
		}
		w.drop(a)
	}
}

// reopen asks for more, where the job is not being stopped: that would wait.
func (w *world) reopen(again *protocol.Reopened, more *protocol.Extended) {
	v, err := views.NewMapView(w.w, w.j).Refresh(w.t.Context())
	w.check(err)
	if v.Map.Stop == nil || v.Map.Settled != nil {
		_, _, err := control.ReopenMap(w.t.Context(), w.w, w.j, "cli", control.Round{Again: again, More: more})
		w.check(err)
	}
}

// turn is one turn of an agent's loop; true: it leaves.
func (w *world) turn(ctx context.Context, a *agent) bool {
	o, err := a.Poll(ctx)
	w.check(err)
	switch o.Do {
	case mapagent.Depart:
		return true
	case mapagent.Cease, mapagent.Drain:
		a.tries = nil
		for _, h := range a.Owned() {
			w.check(h.Wind(ctx))
		}
	}
	var left []running
	for _, x := range a.tries {
		switch {
		case x.try.Item == killer && w.r.IntN(3) > 0:
			w.gone[a.pid] = true
			w.seen["killed"] = true
			w.drop(a)
			return false
		case w.r.IntN(2) == 0:
			x.h.Done(outcome(x.try))
		default:
			left = append(left, x)
		}
	}
	a.tries = left
	for _, h := range a.Owned() {
		for len(a.tries) < 3 {
			try, ok := h.Next()
			if !ok {
				break
			}
			a.tries = append(a.tries, running{h, try})
		}
		if h.Due() == 0 {
			fate, err := h.Flush(ctx)
			w.check(err)
			if fate != mapagent.Holding {
				a.tries = slices.DeleteFunc(a.tries, func(x running) bool { return x.h == h })
			}
		}
	}
	if len(a.tries) < 3 {
		_, err := a.Seek(ctx)
		w.check(err)
	}
	return false
}

// TestWhatTheLedgerWritesIsSound: two writings of one protocol agree on whole
// histories, and on the state in the middle of them.
func TestWhatTheLedgerWritesIsSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(*seeds / 40) {
		w := newWorld(t, seed)
		for round := range 3 {
			if round > 0 {
				w.reopen(&protocol.Reopened{}, nil)
			}
			w.round(int(seed%4) * 2)
			r, err := Verify(t.Context(), w.w.Store, w.j.Path(), nil)
			w.check(err)
			v, err := views.NewMapView(w.w, w.j).Refresh(t.Context())
			w.check(err)
			if !r.Sound() || r.Told > 0 || v.Map.Settled == nil || r.State != v.State || r.Tally != v.Tally || r.Rounds < round+1 {
				t.Fatalf("seed %d round %d: %s %s, the ledger says %s %s\ndoubts %v\nnotes %v\n%s", seed, round, r.State, tallied(r.Tally), v.State, tallied(v.Tally), r.Findings, r.Ignored, w.story(r))
			}
			for what, is := range map[string]bool{"losses": r.Losses > 0, "handed": r.Handed > 0, "quarantined": r.Tally.Quarantined > 0,
				"cancelled": r.Tally.Cancelled > 0, "failed": r.Tally.Failed > 0, "succeeded": r.State == job.Succeeded,
				"retried": r.Extra.Retries > 0, "interrupted": r.Extra.Interrupted > 0, "extended": r.Items > w.j.Manifest.Count} {
				seen[what] = seen[what] || is
			}
		}
	}
	for _, what := range []string{"losses", "handed", "quarantined", "cancelled", "failed", "succeeded", "retried", "interrupted", "extended"} {
		if !seen[what] {
			t.Errorf("no world had one %s", what)
		}
	}
}

// story is all entries of the logs that a report doubts.
func (w *world) story(r report.Verified) string {
	var b strings.Builder
	dir := w.j.Path().String()
	for o, err := range w.w.Store.List(w.t.Context(), dir+"/") {
		w.check(err)
		rest := strings.TrimPrefix(o.Key, dir+"/")
		named := strings.HasPrefix(rest, "log/") || slices.ContainsFunc(r.Findings, func(d report.Finding) bool { return strings.Contains(rest, "/"+d.Log+"/") })
		if named {
			text, err := w.w.Store.Get(w.t.Context(), o.Key)
			w.check(err)
			fmt.Fprintf(&b, "%s %s\n", rest, text)
		}
	}
	return b.String()
}
