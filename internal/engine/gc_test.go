package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/engine/gc"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// What a gc meets that comes while a command is being carried out.

// ward is a store in virtual time, with a gc.
type ward struct {
	gc.Remover
	t      *testing.T
	clock  *storetest.Clock
	bucket *storemem.Bucket
}

func newWard(t *testing.T) *ward {
	w := &ward{t: t, clock: &storetest.Clock{}}
	w.bucket = storemem.At(w.clock)
	w.Remover = gc.Remover{By: "gc", Cache: t.TempDir(), World: protocol.World{Store: store.New(w.bucket, store.Options{Clock: w.clock}), Rand: rand.Reader,
		Gone: func(protocol.Host) (bool, bool) { return false, false }}}
	return w
}

func (w *ward) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) pass(d time.Duration) { w.check(w.clock.Sleep(w.t.Context(), d)) }

// mapOfThree submits a map of three items in one chunk.
func (w *ward) mapOfThree(task string) job.Job {
	w.t.Helper()
	ctx := w.t.Context()
	spec, err := job.Spec{Project: "demo", Task: task, Program: "train.py"}.Normal()
	w.check(err)
	j := job.Job{V: job.Format, Spec: spec, At: w.clock.Now()}
	w.check(tasks.NameJob(ctx, w.World, &j))
	code, _, err := w.World.Store.PutBlob(ctx, strings.NewReader("code of "+j.ID))
	w.check(err)
	j.Code.Blob = string(code)
	j.Spec.Verb, j.Spec.Items = job.Map, job.Items{From: "1-3", Workers: 1, Slots: 2}
	j.Manifest, j.ChunkSize = job.Manifest{Count: 3, Format: "range"}, 3
	_, mine, err := tasks.SubmitJob(ctx, w.World, j, "cli")
	if w.check(err); !mine {
		w.t.Fatalf("task %s has a live job", task)
	}
	return j
}

func (w *ward) collect(o gc.Options) gc.Freed {
	w.t.Helper()
	g, err := w.Leftovers(w.t.Context(), o)
	w.check(err)
	f, err := w.Collect(w.t.Context(), g, nil)
	w.check(err)
	return f
}

func readAll(ctx context.Context, s *store.Store, all []store.Digest) error {
	for _, d := range all {
		if err := readBlob(ctx, s, d); err != nil {
			return err
		}
	}
	return nil
}

func readBlob(ctx context.Context, s *store.Store, d store.Digest) error {
	r, err := s.OpenBlob(ctx, d)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// gcKeeps has a gc remove all that nothing names, however young, and says which of these went too.
func (d *desk) gcKeeps(named ...store.Digest) {
	d.t.Helper()
	ctx := d.t.Context()
	stray, _, err := d.World.Store.PutBlob(ctx, strings.NewReader("stray"))
	d.check(err)
	remover := gc.Remover{World: d.World, Drivers: d.Drivers, By: "gc"}
	g, err := remover.Leftovers(ctx, gc.Options{MinAge: -time.Hour})
	d.check(err)
	_, err = remover.Collect(ctx, g, nil)
	d.check(err)
	if err := readBlob(ctx, d.World.Store, stray); !errors.Is(err, store.ErrNotExist) {
		d.t.Errorf("the gc left what nothing names: %v", err)
	}
	for _, b := range named {
		if err := readBlob(ctx, d.World.Store, b); err != nil {
			d.t.Errorf("blob %s went: %v", b, err)
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

func TestAgentsOfEndedJobsGo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.submit(spec())
	_, err := d.Attend(t.Context(), p)
	d.check(err)
	began := make(chan [2]int, 1)
	d.does(untilTold(began))
	live := d.submit(spec(named))
	d.attend(t.Context(), d.Engine, live)
	<-began
	remover := gc.Remover{World: d.World, Drivers: d.Drivers, By: "gc", Cache: d.Caller.Cache}
	g, err := remover.Leftovers(t.Context(), gc.Options{})
	d.check(err)
	var agents []string
	for _, l := range g.Items {
		if l.Kind == gc.LeftAgents {
			agents = append(agents, l.Name+": "+l.Why)
		}
	}
	// A submit sweeps as well, so there may be none; never those of the live job.
	for _, a := range agents {
		if a != mem.Name+":v1:"+p.Job+":1: its job has succeeded" {
			t.Errorf("%s would go", a)
		}
	}
	_, err = remover.Collect(t.Context(), g, nil)
	d.check(err)
	held, err := d.mem.List(t.Context())
	if d.check(err); len(held) != 1 || held[0].Job != live.Job {
		t.Errorf("the place holds %v", held)
	}
	_, err = d.Cancel(t.Context(), live, "enough")
	d.check(err)
}

// The new code was there, of a job that is gone, and it is unnamed: gc comes while
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
			j := w.mapOfThree("sums")
			w.pass(2 * time.Hour)

			came := 0
			world := w.World
			world.Store = store.New(before{w.bucket, func(key string) {
				if came == 0 && strings.Contains(key, j.ID+moment) {
					came++
					w.collect(gc.Options{})
				}
				if strings.HasSuffix(key, j.ID+"/log/00000001") { // the round: the one before begins the log
					if err := readBlob(ctx, w.World.Store, there.Blob); err != nil {
						t.Errorf("the round begins: %v", err)
					}
				}
			}}, store.Options{Clock: w.clock})
			cli := New(session.Session{World: world, Caller: session.Caller{By: "cli", Cache: t.TempDir()}}, Passes{})
			r := control.Round{Again: &protocol.Reopened{}}
			if _, ok, err := cli.Recode(ctx, j, NewCode{plan: Plan{Code: list, Script: "work.py"}}, r); err != nil || !ok {
				t.Fatalf("new code: %v, %v", ok, err)
			}
			if came != 1 {
				t.Fatal("gc did not come meanwhile")
			}
			m, err := chunks.ReadMap(ctx, w.World, j)
			w.check(err)
			if c := m.Code(j); c.Blob != string(there.Blob) || c.Script != "work.py" {
				t.Errorf("items run with %+v", c)
			}
			for range 2 {
				if err := readBlob(ctx, w.World.Store, there.Blob); err != nil {
					t.Fatal(err)
				}
				w.pass(2 * time.Hour)
				w.collect(gc.Options{})
			}
		})
	}
}
