package gc

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/commitseed"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	storemem "github.com/drover-run/drover/store/mem"
)

// room is a small machine room in virtual time: command lines that submit, agents
// that work and save, readers, and gcs, all over the real ledger and the real gc.
// One of them goes on at a time, from one request to the next; each may die before
// any request, and some are paused. The same seed gives the same history.
type room struct {
	seed    uint64
	rng     *rand.Rand
	now     time.Duration
	bucket  *storemem.Bucket
	way     store.Bucket // to the bucket: it may lose replies
	lag     time.Duration
	actors  []*actor
	pid     int
	broken  []string
	trace   []string
	loud    bool
	agents  map[job.Path]int // alive
	look    time.Duration    // when to look after them next
	rest    time.Duration    // until when none is started
	said    truth
	calm    bool   // no more deaths and pauses
	sweeper *actor // the gc that has announced the newest sweep
	seen    map[string]int
	reborn  map[string]bool // keys that were deleted once
}

// truth is what users were promised.
type truth struct {
	minAge    time.Duration
	asked     map[job.Path]bool // by name, of a gc
	accepted  map[job.Path]time.Duration
	states    map[string]int           // serial number of the newest promised state, by task
	serial    map[store.Digest]int     // of a state's list
	proposed  map[string]time.Duration // job -> when it was named
	collected map[string]time.Duration // by a gc's name: when it began to collect
}

// actor is one process.
type actor struct {
	r     *room
	name  string
	pid   int
	dead  bool
	until time.Duration // sleeps, or is paused
	due   time.Duration // a delete is under way, and reaches the store by then; 0: none
	nap   int           // steps until it is paused; 0: not
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

var errKilled = errors.New("killed")

func newRoom(seed uint64) *room {
	r := &room{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), agents: map[job.Path]int{}, seen: map[string]int{}, reborn: map[string]bool{}}
	r.bucket = storemem.At(roomClock{r})
	r.way = r.bucket
	if r.chance(40) {
		r.way = flaky.New(r.bucket, flaky.Plan{Rand: r.rng.IntN, Clock: roomClock{r}, Busy: 0.02, LoseRequest: 0.02, LoseReply: 0.02, Late: 0.01, Echo: 0.01, Conflict: 0.01})
	}
	if r.chance(25) {
		r.lag = time.Minute
	}
	r.said = truth{minAge: time.Duration(1+r.rng.IntN(6)) * time.Minute, asked: map[job.Path]bool{}, accepted: map[job.Path]time.Duration{},
		states: map[string]int{}, serial: map[store.Digest]int{}, proposed: map[string]time.Duration{}, collected: map[string]time.Duration{}}
	return r
}

func (r *room) chance(percent int) bool { return r.rng.IntN(100) < percent }

func (r *room) violate(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
	r.logf("VIOLATION "+format, args...)
}

func (r *room) logf(format string, args ...any) {
	if r.loud {
		r.trace = append(r.trace, fmt.Sprintf("%9.3f ", r.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// roomClock is the clock of all processes of a room; only the room moves it.
type roomClock struct{ r *room }

func (c roomClock) Now() time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(c.r.now)
}
func (c roomClock) Boot() time.Duration                        { return c.r.now }
func (c roomClock) Sleep(context.Context, time.Duration) error { return nil }

// actorClock lets the room go on while its actor sleeps.
type actorClock struct {
	roomClock
	a *actor
}

func (c actorClock) Sleep(ctx context.Context, d time.Duration) error {
	c.a.until = c.r.now + d
	c.a.turn()
	return context.Cause(ctx)
}

// turn lets others go on.
func (a *actor) turn() {
	if !a.yield(struct{}{}) {
		panic(errKilled)
	}
}

// enter starts a process.
func (r *room) enter(name string, body func(a *actor, w protocol.World)) *actor {
	r.pid++
	a := &actor{r: r, name: fmt.Sprintf("%s-%d", name, r.pid), pid: r.pid, until: r.now}
	w := protocol.World{Rand: roomRand{r}, Gone: r.gone}
	w.Store = store.New(steps{a}, store.Options{Clock: actorClock{roomClock{r}, a}, Rand: roomRand{r}})
	a.next, a.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			a.dead = true
			if x := recover(); x != nil && x != errKilled {
				r.violate("%s panicked: %v", a.name, x)
			}
		}()
		a.yield = yield
		body(a, w)
	})
	r.actors = append(r.actors, a)
	return a
}

func (a *actor) host() protocol.Host { return protocol.Host{Boot: "here", PID: a.pid} }

// gone is what one process of the machine knows of another.
func (r *room) gone(h protocol.Host) (gone, known bool) {
	if h.Boot == "" {
		return false, false
	}
	for _, a := range r.actors {
		if a.pid == h.PID {
			return a.dead, true
		}
	}
	return true, true
}

type roomRand struct{ r *room }

func (x roomRand) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(x.r.rng.Uint32())
	}
	return len(b), nil
}

// steps is an actor's way to the store: others go on before each request.
type steps struct{ a *actor }

func (s steps) String() string { return "room" }

func (s steps) before(what, key string) {
	r := s.a.r
	if strings.HasPrefix(key, "blobs/") && what == "delete" {
		s.a.due = r.now + 10*time.Second // sweepMargin is more
	}
	s.a.turn()
	s.a.due = 0
	r.logf("%s %s %s", s.a.name, what, key)
}

func (s steps) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.before("create", key)
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	s.a.r.watch(s.a, key, text)
	return s.a.r.way.Create(ctx, key, bytes.NewReader(text))
}

func (s steps) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	s.before("put", key)
	return s.a.r.way.Put(ctx, key, body)
}

func (s steps) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	s.before("get", key)
	return s.a.r.way.Get(ctx, key, off, n)
}

func (s steps) Delete(ctx context.Context, key string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.before("delete", key)
	if o, _, err := s.a.r.bucket.List(ctx, key, "", 1); err == nil && len(o) == 1 && strings.HasPrefix(key, "blobs/") {
		s.a.r.seen["blob deleted"]++
		// One that another gc took since, and a saver stored again, is young.
		age := (roomClock{s.a.r}).Now().Sub(o[0].Time)
		if age < s.a.r.said.minAge && !s.a.r.reborn[key] {
			s.a.r.violate("%s deleted a blob of %s, younger than %s", s.a.name, age, s.a.r.said.minAge)
		}
	}
	s.a.r.reborn[key] = true
	err := s.a.r.way.Delete(ctx, key)
	if strings.HasPrefix(key, "blobs/") {
		s.a.r.between(s.a)
	}
	return err
}

// List may not show what is younger than the room's lag.
func (s steps) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	s.before("list", prefix)
	page, more, err := s.a.r.way.List(ctx, prefix, after, limit)
	if s.a.r.lag == 0 || len(page) == 0 || more {
		return page, more, err
	}
	known := (roomClock{s.a.r}).Now().Add(-time.Duration(s.a.r.rng.Int64N(int64(s.a.r.lag))))
	var shown []store.Object
	for _, o := range page {
		if !o.Time.After(known) {
			shown = append(shown, o)
		}
	}
	return shown, more, err
}

// play lets the room go on until a time, or until all are done.
func (r *room) play(until time.Duration) {
	for steps := 0; len(r.broken) == 0 && r.now < until; steps++ {
		if steps > 60_000 {
			r.violate("no end in sight")
			return
		}
		if r.look <= r.now {
			r.supervise()
		}
		var ready []*actor
		soonest := until
		for _, a := range r.actors {
			switch {
			case a.dead:
			case a.due > 0 && a.due <= r.now+time.Second:
				ready = []*actor{a}
			case a.until <= r.now:
				ready = append(ready, a)
			default:
				soonest = min(soonest, a.until)
			}
			if len(ready) == 1 && ready[0].due > 0 && ready[0].due <= r.now+time.Second {
				break
			}
		}
		if len(ready) == 0 {
			if soonest == until && !r.busy() {
				r.now = until
				return
			}
			soonest = min(soonest, r.look)
			r.now = soonest
			continue
		}
		r.step(ready[r.rng.IntN(len(ready))])
		r.now += time.Duration(r.rng.IntN(int(300 * time.Millisecond)))
	}
}

// busy says whether a job has not come to its end.
func (r *room) busy() bool {
	for _, n := range r.agents {
		if n > 0 {
			return true
		}
	}
	r.supervise()
	for _, n := range r.agents {
		if n > 0 {
			return true
		}
	}
	return false
}

// step lets one actor do one request, or something worse.
func (r *room) step(a *actor) {
	switch n := r.rng.IntN(1000); {
	case r.calm || a.due > 0 || a.yield == nil: // it has not begun
	case n < 4:
		r.kill(a)
		return
	case n < 8 || a.nap == 1:
		a.nap = 0
		a.until = r.now + r.upTo(20*time.Minute)
		r.logf("%s paused until %s", a.name, a.until)
		return
	}
	a.nap = max(0, a.nap-1)
	if _, more := a.next(); !more {
		a.dead = true
	}
}

func (r *room) kill(a *actor) {
	r.logf("%s killed", a.name)
	r.seen["killed "+strings.SplitN(a.name, "-", 2)[0]]++
	a.dead = true
	a.stop()
}

// gcNormal is enough for every kind of event to occur.
const gcNormal = 2000

// gcRare is enough for the mutants that need two processes at one entry.
const gcRare = 7000

var (
	gcSeeds = flag.Int("gcseeds", commitseed.Fewer(gcNormal/3, gcNormal), "how many histories TestGCSimulation plays")
	gcFrom  = flag.Uint64("gcfrom", gcFirst(), "how many histories TestGCSimulation leaves out first")
	gcSeed  = flag.Uint64("gcseed", 0, "the one history to play, with every request shown")
)

// gcFirst is before the histories of the commit that make test plays.
func gcFirst() uint64 {
	n, _ := commitseed.Number()
	return n
}

// TestGCSimulation plays histories. One that fails is played again with -gcseed N.
func TestGCSimulation(t *testing.T) {
	if *gcSeed > 0 {
		r := newRoom(*gcSeed)
		r.loud = true
		r.history()
		t.Logf("seed %d: %q\n%s", *gcSeed, r.broken, strings.Join(r.trace, "\n"))
		if len(r.broken) > 0 {
			t.Fail()
		}
		return
	}
	if raceOn {
		*gcSeeds = min(*gcSeeds, gcNormal/10)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // rooms are small and short
	var next atomic.Uint64
	next.Store(*gcFrom)
	var mu sync.Mutex
	var all sync.WaitGroup
	total := map[string]int{}
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1); seed <= *gcFrom+uint64(*gcSeeds) && !t.Failed(); seed = next.Add(1) {
				r := newRoom(seed)
				r.history()
				mu.Lock()
				for what, n := range r.seen {
					total[what] += n
				}
				mu.Unlock()
				if len(r.broken) > 0 {
					t.Errorf("seed %d: %s", seed, strings.Join(r.broken, "\n"))
				}
			}
		})
	}
	all.Wait()
	if t.Failed() || *gcSeeds < gcNormal {
		return
	}
	t.Log(total)
	// A quiet room proves nothing.
	for _, what := range []string{"blob deleted", "job removed", "submit removed", "killed gc", "killed agent", "killed cli", "stored again",
		"state restored", "outputs read", "chained", "succeeded", "failed", "waited for a sweep", "kept for another",
		"saved and died while a gc swept"} {
		if total[what] == 0 {
			t.Errorf("it never happened: %s", what)
		}
	}
}
