package engine

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/ledger"
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
func (w *ward) stored(text string) *ledger.Code {
	w.t.Helper()
	d, _, err := w.World.Store.PutBlob(w.t.Context(), strings.NewReader(text))
	w.check(err)
	return &ledger.Code{Code: job.Code{Blob: string(d), Digest: text}}
}

// works plays an agent of a map, with one item in flight.
func (w *ward) works(j job.Job, id string) (*ledger.MapMember, *ledger.Hold, ledger.Try) {
	w.t.Helper()
	ctx := w.t.Context()
	m, err := w.World.MapOf(ctx, j)
	w.check(err)
	a := w.World.NewMapMember(m.Bind(j), id, ledger.Host{}, ledger.MapOptions{Slots: 2})
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
func (w *ward) settles(a *ledger.MapMember) ledger.Settled {
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
		for _, o := range []GCOptions{{}, {Keep: 1}, {Older: 100 * time.Hour}} {
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
	if stands, err := w.World.Amend(ctx, j.Path(), "cli", ledger.Amended{Code: second}); err != nil || !stands {
		t.Fatalf("new code: %v, %v", stands, err)
	}
	codes = append(codes, store.Digest(second.Blob))
	sweep("an item runs with the first")
	h.Done(ledger.Result{Item: one.Item, Try: one.Name})
	if _, err := a.Poll(ctx); err != nil {
		t.Fatal(err)
	}
	w.check(h.Release(ctx, false))
	sweep("nobody works on it")
	b, h, two := w.works(j, "1-1-b")
	three, _ := h.Next()
	h.Done(ledger.Result{Item: two.Item, Try: two.Name})
	h.Done(ledger.Result{Item: three.Item, Try: three.Name, Failed: true, Code: 1, Final: true})
	_, err := h.Flush(ctx)
	w.check(err)
	if s := w.settles(b); s.State != job.Failed {
		t.Fatalf("settled %+v", s)
	}
	sweep("it has ended")
	third := w.stored("third")
	if _, ok, err := w.World.Reopen(ctx, j, "cli", ledger.Round{Again: &ledger.Reopened{}, Amend: &ledger.Amended{Code: third}}); err != nil || !ok {
		t.Fatalf("another round: %v, %v", ok, err)
	}
	codes = append(codes, store.Digest(third.Blob))
	sweep("it has another round")
	c, h, three := w.works(j, "2-0-c")
	h.Done(ledger.Result{Item: three.Item, Try: three.Name})
	_, err = h.Flush(ctx)
	w.check(err)
	if s := w.settles(c); s.State != job.Succeeded {
		t.Fatalf("settled %+v", s)
	}
	sweep("it has succeeded")

	w.collect(GCOptions{Jobs: []job.Path{j.Path()}})
	for i, code := range codes {
		if readBlob(ctx, w.World.Store, code) == nil {
			t.Errorf("code %d outlives its job", i)
		}
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

// The new code was there, of a job that is gone, and nobody names it: gc comes while
// the round is being prepared. From the moment in which items may ask for the code, it
// is there, and stays.
func TestNewCodeThatGCTakesMeanwhileIsStoredAgain(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"/rounds/00000000", "/log/00000000", "/log/00000001"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			ctx := t.Context()
			dir := t.TempDir()
			w.check(os.WriteFile(filepath.Join(dir, "work.py"), []byte("print('new')\n"), 0o600))
			list, err := bundle.Scan(ctx, bundle.Source{Dir: dir})
			w.check(err)
			there, err := bundle.Put(ctx, w.World.Store, list)
			w.check(err)
			j := w.job("sums", job.Pending, ofThree)
			w.pass(2 * time.Hour)

			came := 0
			world := w.World
			world.Store = store.New(before{w.bucket, func(key string) {
				if came == 0 && strings.Contains(key, j.ID+moment) {
					came++
					w.collect(GCOptions{})
				}
				if strings.HasSuffix(key, j.ID+"/log/00000001") { // the round: the one before begins the log
					if err := readBlob(ctx, w.World.Store, there.Blob); err != nil {
						t.Errorf("the round begins: %v", err)
					}
				}
			}}, store.Options{Clock: w.clock})
			cli := New(Config{World: world, Caller: w.Caller})
			r := ledger.Round{Again: &ledger.Reopened{}}
			if _, ok, err := cli.Recode(ctx, j, NewCode{plan: Plan{Code: list, Script: "work.py"}}, r); err != nil || !ok {
				t.Fatalf("new code: %v, %v", ok, err)
			}
			if came != 1 {
				t.Fatal("gc did not come meanwhile")
			}
			m, err := w.World.MapOf(ctx, j)
			w.check(err)
			if c := m.Code(j); c.Blob != string(there.Blob) || c.Script != "work.py" {
				t.Errorf("items run with %+v", c)
			}
			for range 2 {
				if err := readBlob(ctx, w.World.Store, there.Blob); err != nil {
					t.Fatal(err)
				}
				w.pass(2 * time.Hour)
				w.collect(GCOptions{})
			}
		})
	}
}
