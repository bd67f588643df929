package flaky_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
	"github.com/drover-run/drover/store/flaky"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// mixes are the plans under which store.Store must keep its promises: each fault
// alone and often, and all of them.
var mixes = map[string]flaky.Plan{
	"calm":         {},
	"delays":       {Delay: 0.5},
	"busy":         {Busy: 0.5},
	"lost request": {LoseRequest: 0.5},
	"lost replies": {LoseReply: 0.5},
	"conflicts":    {Conflict: 0.5},
	"late":         {Late: 0.5},
	"echoes":       {Echo: 0.8},
	"failed syncs": {FailSync: 0.5},
	"old absence":  {StaleAbsent: 0.9, LoseReply: 0.2},
	"everything": {
		Delay: 0.3, Busy: 0.1, LoseRequest: 0.1, LoseReply: 0.1, Conflict: 0.1, Late: 0.2, Echo: 0.1, FailSync: 0.1,
		ShortList: 0.2, StaleList: 0.2, StaleAbsent: 0.5,
	},
}

func plan(mix string, r *rand.Rand, clock store.Clock) flaky.Plan {
	p := mixes[mix]
	p.Rand, p.Clock, p.MaxDelay, p.Absence = r.IntN, clock, 20*time.Second, 60*time.Second
	return p
}

func TestACalmOneIsAGoodBucket(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Bucket{
		"mem": func(*testing.T) store.Bucket { return mem.New() },
		"dir": func(t *testing.T) store.Bucket {
			b, err := dir.Open(t.TempDir(), dir.OS)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			handles := func(t *testing.T) (first, second store.Bucket) {
				b := open(t)
				calmed := flaky.New(b, plan("everything", rand.New(rand.NewPCG(1, 1)), &storetest.Clock{}))
				calmed.Calm()
				return calmed, flaky.New(b, flaky.Plan{})
			}
			storetest.Run(t, handles)
			if name == "mem" { // it has what a bucket may have beside
				storetest.RunPieces(t, handles)
			}
		})
	}
}

func TestStoreKeepsItsPromisesOverEveryMix(t *testing.T) {
	for mix := range mixes {
		t.Run(mix, func(t *testing.T) {
			var seeds atomic.Uint64
			storetest.RunStore(t, func(t *testing.T) (first, second store.Bucket) {
				b := mem.New()
				seed := seeds.Add(1)
				one, two := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
				return flaky.New(b, plan(mix, one, &storetest.Clock{})), flaky.New(b, plan(mix, two, &storetest.Clock{}))
			})
		})
	}
}

const (
	writers = 5
	entries = 4 // of each writer
)

// createOnce is what is tried: the real one, or one that is wrong.
type createOnce func(ctx context.Context, s *store.Store, b store.Bucket, key string, body []byte) (held []byte, mine bool, err error)

func real(ctx context.Context, s *store.Store, _ store.Bucket, key string, body []byte) ([]byte, bool, error) {
	return s.CreateOnce(ctx, key, body)
}

// simulate lets writers append to one log through flaky handles and says what
// went wrong, and all that happened.
func simulate(seed uint64, mix string, create createOnce) (wrong string, trace []string, counts map[string]int) {
	r := rand.New(rand.NewPCG(seed, 7))
	clock := &turns{r: r}
	space := mem.At(clock)
	told := map[string]string{} // what a number was said to hold
	winners := map[string][]string{}
	counts = map[string]int{}
	var handles []*flaky.Bucket
	var actors []func()
	for w := range writers {
		h := flaky.New(space, plan(mix, r, clock))
		handles = append(handles, h)
		s := store.New(h, store.Options{Clock: clock, Rand: drawn{r}})
		actors = append(actors, func() {
			number := 0
			for e := range entries {
				for body, mine := fmt.Sprintf("writer %d, entry %d", w, e), false; !mine; number++ {
					key := fmt.Sprintf("log/%08d", number)
					for range 2 { // a reader that polls, and is given old pages
						held, err := s.Get(context.Background(), key)
						if err == nil && told[key] != "" && told[key] != string(held) || err != nil && !errors.Is(err, store.ErrNotExist) {
							wrong = fmt.Sprintf("get %s: %q, %v", key, held, err)
						}
						_ = clock.Sleep(context.Background(), time.Duration(r.IntN(5))*time.Second)
					}
					held, is, err := create(context.Background(), s, h, key, []byte(body))
					trace = append(trace, fmt.Sprint(clock.now, " ", w, " ", key, " ", string(held), " ", is, " ", err))
					if old, known := told[key]; err != nil || known && old != string(held) {
						wrong = fmt.Sprintf("%s held %q, and for writer %d %q, %v", key, old, w, held, err)
					}
					told[key] = string(held)
					if mine = is; mine {
						winners[key] = append(winners[key], body)
					}
				}
			}
		})
	}
	clock.run(actors...)
	for _, h := range handles {
		h.Calm()
		h.Flush(context.Background())
		for name, n := range h.Counts() {
			counts[name] += n
		}
	}
	for key, body := range told {
		held, err := store.New(space, store.Options{}).Get(context.Background(), key)
		if err != nil || string(held) != body || len(winners[key]) != 1 || winners[key][0] != body {
			wrong = fmt.Sprintf("%s was said to hold %q, by %q, and holds %q, %v", key, body, winners[key], held, err)
		}
	}
	if len(told) != writers*entries && wrong == "" {
		wrong = fmt.Sprintf("%d numbers for %d entries", len(told), writers*entries)
	}
	return wrong, trace, counts
}

// drawn is a source of random bytes for a Store.
type drawn struct{ r *rand.Rand }

func (d drawn) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(d.r.Uint32())
	}
	return len(p), nil
}

func TestOneWriterIsToldThatANumberIsHisThroughEveryMix(t *testing.T) {
	total := map[string]int{}
	for mix := range mixes {
		for seed := range uint64(60) {
			wrong, _, counts := simulate(seed, mix, real)
			if wrong != "" {
				t.Fatalf("%s, seed %d: %s", mix, seed, wrong)
			}
			for name, n := range counts {
				total[name] += n
			}
		}
	}
	for _, name := range []string{"Delay", "Busy", "LoseRequest", "LoseReply", "Conflict", "Late", "Landed", "Refused", "Echo", "FailSync", "StaleAbsent"} {
		if total[name] < 100 {
			t.Errorf("%s happened only %d times", name, total[name])
		}
	}
}

func TestTheSimulationFindsAWriterWhoBelievesAnswers(t *testing.T) {
	for name, wrong := range map[string]createOnce{
		"exists means somebody else": func(ctx context.Context, s *store.Store, b store.Bucket, key string, body []byte) ([]byte, bool, error) {
			err := b.Create(ctx, key, bytes.NewReader(body))
			if errors.Is(err, store.ErrExists) {
				held, err := s.Get(ctx, key)
				return held, false, err
			}
			return s.CreateOnce(ctx, key, body)
		},
		"unclear and then absent means not written": func(ctx context.Context, s *store.Store, b store.Bucket, key string, body []byte) ([]byte, bool, error) {
			err := b.Create(ctx, key, bytes.NewReader(body))
			if errors.Is(err, store.ErrUnclear) {
				if _, err := s.Get(ctx, key); errors.Is(err, store.ErrNotExist) {
					return s.CreateOnce(ctx, key, append(body, " again"...))
				}
			}
			return s.CreateOnce(ctx, key, body)
		},
		"unclear means done": func(ctx context.Context, s *store.Store, b store.Bucket, key string, body []byte) ([]byte, bool, error) {
			err := b.Create(ctx, key, bytes.NewReader(body))
			if errors.Is(err, store.ErrUnclear) {
				return body, true, nil
			}
			return s.CreateOnce(ctx, key, body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				if why, _, _ := simulate(seed, "everything", wrong); why != "" {
					return
				}
			}
			t.Error("not found in 200 seeds")
		})
	}
}

func TestASeedIsARun(t *testing.T) {
	for seed := range uint64(20) {
		_, trace, counts := simulate(seed, "everything", real)
		_, again, countsAgain := simulate(seed, "everything", real)
		if diff := cmp.Diff(trace, again) + cmp.Diff(counts, countsAgain); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

// always is a Rand under which whatever may happen happens.
func always(int) int { return 0 }

func TestEachFaultDoesWhatItsFieldSays(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name    string
		plan    flaky.Plan
		err     error
		done    bool
		getErr  error
		flushed bool
	}{
		{name: "Busy", plan: flaky.Plan{Busy: 1}, err: store.ErrBusy, getErr: store.ErrBusy},
		{name: "LoseRequest", plan: flaky.Plan{LoseRequest: 1}, err: store.ErrUnclear, getErr: store.ErrBusy},
		{name: "LoseReply", plan: flaky.Plan{LoseReply: 1}, err: store.ErrUnclear, done: true, getErr: store.ErrBusy},
		{name: "Conflict", plan: flaky.Plan{Conflict: 1}, err: store.ErrUnclear, getErr: store.ErrNotExist},
		{name: "Late", plan: flaky.Plan{Late: 1}, err: store.ErrUnclear, flushed: true},
		{name: "Echo", plan: flaky.Plan{Echo: 1}, err: store.ErrExists, done: true},
		{name: "FailSync", plan: flaky.Plan{FailSync: 1}, err: store.ErrUnclear, done: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			space := mem.New()
			c.plan.Rand = always
			b := flaky.New(space, c.plan)
			if err := b.Create(ctx, "log/0", strings.NewReader("x")); !errors.Is(err, c.err) {
				t.Errorf("create: %v", err)
			}
			if _, err := space.Get(ctx, "log/0", 0, -1); (err == nil) != c.done {
				t.Errorf("it is there: %v, want %v", err == nil, c.done)
			}
			if c.flushed {
				b.Flush(ctx)
			}
			if _, err := b.Get(ctx, "log/0", 0, -1); !errors.Is(err, c.getErr) {
				t.Errorf("get: %v", err)
			}
			if b.Counts()[c.name] == 0 {
				t.Errorf("counted %v", b.Counts())
			}
			b.Calm()
			if err := b.Create(ctx, "log/1", strings.NewReader("x")); err != nil {
				t.Errorf("create when calm: %v", err)
			}
		})
	}
}

func TestLateWritesLandDuringLaterCalls(t *testing.T) {
	space := mem.New()
	b := flaky.New(space, flaky.Plan{Rand: always, Late: 1})
	_ = b.Put(t.Context(), "agents/1", strings.NewReader("old"))
	if err := space.Put(t.Context(), "agents/1", strings.NewReader("new")); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), "agents/1", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(r); string(body) != "old" || b.Counts()["Landed"] != 1 {
		t.Errorf("read %q, %v", body, b.Counts())
	}
}

func TestFullDiskIsFullUntilItIsFreed(t *testing.T) {
	b := flaky.New(mem.New(), flaky.Plan{Room: 10})
	create := func(key string) error { return b.Create(t.Context(), key, strings.NewReader("123456")) }
	if err := create("a"); err != nil {
		t.Error(err)
	}
	s := store.New(b, store.Options{Clock: &storetest.Clock{}})
	if _, _, err := s.CreateOnce(t.Context(), "b", []byte("123456")); fault.KindOf(err) != fault.Full || errors.Is(err, store.ErrUnclear) {
		t.Errorf("the second of two: %v", err)
	}
	b.Free()
	if err := create("b"); err != nil {
		t.Error(err)
	}
}

func TestOldAbsenceEndsByTimeOrByOnesOwnWriteInTheFolder(t *testing.T) {
	for _, end := range []string{"", "time", "create", "another folder"} {
		t.Run(end, func(t *testing.T) {
			clock, space := &storetest.Clock{}, mem.New()
			b := flaky.New(space, flaky.Plan{Rand: always, Clock: clock, StaleAbsent: 1, Absence: time.Minute})
			read := func() error { _, err := b.Get(t.Context(), "log/0", 0, -1); return err }
			if err := read(); !errors.Is(err, store.ErrNotExist) {
				t.Fatal(err)
			}
			if err := space.Create(t.Context(), "log/0", strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
			_ = clock.Sleep(t.Context(), 59*time.Second)
			switch end {
			case "time":
				_ = clock.Sleep(t.Context(), time.Second)
			case "create":
				_ = b.Create(t.Context(), "log/0", strings.NewReader("y"))
			case "another folder":
				_ = b.Create(t.Context(), "log/deeper/0", strings.NewReader("y"))
			}
			if seen := read() == nil; seen != (end == "time" || end == "create") {
				t.Errorf("seen: %v", seen)
			}
		})
	}
}

func TestListingsTellTooLittle(t *testing.T) {
	space := mem.New()
	for i := range 10 {
		if err := space.Create(t.Context(), fmt.Sprint("k/", i), strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, p := range []flaky.Plan{{ShortList: 1}, {StaleList: 1}} {
		p.Rand = r.IntN
		b := flaky.New(space, p)
		for range 50 {
			page, more, err := b.List(t.Context(), "k/", "", 5)
			if err != nil || len(page) > 5 || more && len(page) == 0 {
				t.Fatalf("%d objects, more is %v, %v", len(page), more, err)
			}
		}
		if n := b.Counts()["ShortList"] + b.Counts()["StaleList"]; n != 50 {
			t.Errorf("counted %v", b.Counts())
		}
	}
}

func TestCorruptBlobsAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := store.New(flaky.New(mem.New(), flaky.Plan{Rand: r.IntN, Corrupt: 1}), store.Options{})
	d, _, err := s.PutBlob(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	blob, err := s.OpenBlob(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(blob); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
}

func TestAContextThatEndsDuringADelayLeavesAWriteUnclear(t *testing.T) {
	why := errors.New("time limit")
	for slept, unclear := range map[int]bool{1: false, 2: true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		clock := &cancelling{after: slept, cancel: func() { cancel(why) }}
		space := mem.New()
		b := flaky.New(space, flaky.Plan{Rand: func(n int) int { return min(1, n-1) }, Clock: clock, Delay: 1, MaxDelay: time.Second})
		err := b.Create(ctx, "a", strings.NewReader("x"))
		if !errors.Is(err, why) || errors.Is(err, store.ErrUnclear) != unclear {
			t.Errorf("in delay %d: %v", slept, err)
		}
		if _, err := space.Get(t.Context(), "a", 0, -1); (err == nil) != unclear {
			t.Errorf("in delay %d: it is there: %v", slept, err == nil)
		}
	}
}

// cancelling ends a context during one of its sleeps.
type cancelling struct {
	storetest.Clock
	after  int
	cancel func()
}

func (c *cancelling) Sleep(ctx context.Context, d time.Duration) error {
	if c.after--; c.after == 0 {
		c.cancel()
	}
	return c.Clock.Sleep(ctx, d)
}
