package gc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// ofThree makes a job a map of three items in one chunk.
func ofThree(j *job.Job) {
	j.Spec.Verb, j.Spec.Items = job.Map, job.Items{From: "1-3", Workers: 1, Slots: 2}
	j.Manifest, j.ChunkSize = job.Manifest{Count: 3, Format: "range"}, 3
}

// stored is new code with a blob of its own.
func (w *ward) stored(text string) *protocol.Code {
	w.t.Helper()
	d, _, err := w.World.Store.PutBlob(w.t.Context(), strings.NewReader(text))
	w.check(err)
	return &protocol.Code{Code: job.Code{Blob: string(d), Digest: text}}
}

// works plays an agent of a map, with one item in flight.
func (w *ward) works(j job.Job, id string) (*mapagent.MapMember, *mapagent.OwnedChunk, mapagent.Try) {
	w.t.Helper()
	ctx := w.t.Context()
	m, err := chunks.ReadMap(ctx, w.World, j)
	w.check(err)
	a := mapagent.NewMapMember(w.World, m.Bind(j), id, protocol.Host{}, mapagent.MapOptions{Slots: 2})
	a.Ready()
	_, err = a.Poll(ctx)
	w.check(err)
	h, err := a.Seek(ctx)
	if w.check(err); h == nil {
		w.t.Fatalf("%s finds nothing to do", id)
	}
	try, ok := h.Next()
	if !ok {
		w.t.Fatalf("%s has nothing to begin", id)
	}
	return a, h, try
}

// settles has an agent find that nothing is left to do.
func (w *ward) settles(a *mapagent.MapMember) protocol.Settled {
	w.t.Helper()
	_, err := a.Seek(w.t.Context())
	w.check(err)
	o, err := a.Poll(w.t.Context())
	if w.check(err); o.Settled == nil {
		w.t.Fatalf("it has not settled: %+v", o)
	}
	w.check(a.Leave(w.t.Context()))
	return *o.Settled
}

func TestEveryCodeOfAMapStaysAsLongAsTheMap(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	ctx := t.Context()
	w.job("sums", job.Succeeded) // an older success, so that the map may go once it is named
	j := w.job("sums", job.Pending, ofThree)
	codes := []store.Digest{store.Digest(j.Code.Blob)}
	sweep := func(when string) {
		t.Helper()
		nobodys := w.stored("nobody's, " + when)
		w.pass(2 * time.Hour)
		for _, o := range []Options{{}, {Keep: 1}, {Older: 100 * time.Hour}} {
			w.collect(o)
		}
		for i, code := range codes {
			if err := readBlob(ctx, w.World.Store, code); err != nil {
				t.Errorf("%s: code %d: %v", when, i, err)
			}
		}
		if readBlob(ctx, w.World.Store, store.Digest(nobodys.Blob)) == nil {
			t.Errorf("%s: what nobody names is still there", when)
		}
	}
	a, h, one := w.works(j, "1-0-a")
	second := w.stored("second")
	if stands, err := control.AmendMap(ctx, w.World, j.Path(), "cli", protocol.Amended{Code: second}); err != nil || !stands {
		t.Fatalf("new code: %v, %v", stands, err)
	}
	codes = append(codes, store.Digest(second.Blob))
	sweep("an item runs with the first")
	h.Done(protocol.Result{Item: one.Item, Try: one.Name})
	if _, err := a.Poll(ctx); err != nil {
		t.Fatal(err)
	}
	w.check(h.Release(ctx, false))
	sweep("nobody works on it")
	b, h, two := w.works(j, "1-1-b")
	three, _ := h.Next()
	h.Done(protocol.Result{Item: two.Item, Try: two.Name})
	h.Done(protocol.Result{Item: three.Item, Try: three.Name, Failed: true, Code: 1, Final: true})
	_, err := h.Flush(ctx)
	w.check(err)
	if s := w.settles(b); s.State != job.Failed {
		t.Fatalf("settled %+v", s)
	}
	sweep("it has ended")
	third := w.stored("third")
	if _, ok, err := control.ReopenMap(ctx, w.World, j, "cli", control.Round{Again: &protocol.Reopened{}, Amend: &protocol.Amended{Code: third}}); err != nil || !ok {
		t.Fatalf("another round: %v, %v", ok, err)
	}
	codes = append(codes, store.Digest(third.Blob))
	sweep("it has another round")
	c, h, three := w.works(j, "2-0-c")
	h.Done(protocol.Result{Item: three.Item, Try: three.Name})
	_, err = h.Flush(ctx)
	w.check(err)
	if s := w.settles(c); s.State != job.Succeeded {
		t.Fatalf("settled %+v", s)
	}
	sweep("it has succeeded")

	w.collect(Options{Jobs: []job.Path{j.Path()}})
	for i, code := range codes {
		if readBlob(ctx, w.World.Store, code) == nil {
			t.Errorf("code %d outlives its job", i)
		}
	}
}

// plays plays an agent that works until nothing is left of a map.
func (w *ward) plays(j job.Job, id string, failed bool) protocol.Settled {
	w.t.Helper()
	a, h, try := w.works(j, id)
	for ok := true; ok; try, ok = h.Next() {
		h.Done(protocol.Result{Item: try.Item, Try: try.Name, Failed: failed, Final: failed})
	}
	_, err := h.Flush(w.t.Context())
	w.check(err)
	return w.settles(a)
}

// A gc has chosen a failed map that newer jobs let go. Before it writes that down, the
// map is retried: with a result of its own by then, or only about to begin.
func TestAMapThatComesBackMeanwhileStays(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("done ", done), func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			ctx := t.Context()
			j := w.job("sums", job.Pending, ofThree)
			if s := w.plays(j, "1-0-a", true); s.State != job.Failed {
				t.Fatalf("settled %+v", s)
			}
			w.job("sums", job.Succeeded)
			w.pass(2 * time.Hour)
			g := w.leftovers(Options{Keep: 1})
			came := 0
			world := w.World
			world.Store = store.New(before{w.bucket, func(key string) {
				if came > 0 || !strings.HasPrefix(key, "demo/sums/log/") {
					return
				}
				came++
				if _, ok, err := control.ReopenMap(ctx, w.World, j, "cli", control.Round{Again: &protocol.Reopened{}}); err != nil || !ok {
					t.Errorf("retry: %v, %v", ok, err)
				}
				if done {
					w.plays(j, "2-0-b", false)
				}
			}}, store.Options{Clock: w.clock})
			freed, err := (&Remover{World: world, By: w.By, Cache: w.Cache}).Collect(ctx, g, nil)
			w.check(err)
			if came != 1 || g.Items[0].Kind != LeftJob || len(freed.Items) > 0 || len(freed.Kept) != 1 {
				t.Errorf("it was retried %d times; of %q was removed %q, and kept %q", came, says(g.Items), says(freed.Items), says(freed.Kept))
			}
			if why := w.get(j); why != "" {
				t.Error(why)
			}
		})
	}
}

// A map was submitted again, and its command is about to reopen it: that it has settled
// is of the round before.
func TestAMapThatIsAboutToBeReopenedStays(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	ctx := t.Context()
	j := w.job("sums", job.Pending, ofThree)
	w.plays(j, "1-0-a", true)
	w.job("sums", job.Succeeded)
	w.job("sums", job.Succeeded)
	w.pass(2 * time.Hour)
	if g := w.leftovers(Options{Jobs: []job.Path{j.Path()}}); g.Items[0].Kind != LeftJob {
		t.Fatalf("before: %q", says(g.Items))
	}
	came := 0
	world := w.World
	world.Store = store.New(before{w.bucket, func(key string) {
		if !strings.HasPrefix(key, "demo/sums/"+j.ID+"/log/") {
			return
		}
		came++
		for _, o := range []Options{{Keep: 1}, {Jobs: []job.Path{j.Path()}}} {
			for _, l := range w.collect(o).Items {
				if l.Name == j.Path().String() {
					t.Errorf("gc removes it: %s", l.Why)
				}
			}
		}
	}}, store.Options{Clock: w.clock})
	if _, ok, err := control.ReopenMap(ctx, world, j, "cli", control.Round{Again: &protocol.Reopened{}}); err != nil || !ok || came == 0 {
		t.Fatalf("retry: %v, %v; gc came %d times", ok, err, came)
	}
	if s := w.plays(j, "2-0-b", false); s.State != job.Succeeded {
		t.Errorf("settled %+v", s)
	}
}

// before is a store in memory that does something before it takes a key.
type before struct {
	*storemem.Bucket
	do func(key string)
}

func (b before) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	b.do(key)
	return b.Bucket.Create(ctx, key, body)
}
