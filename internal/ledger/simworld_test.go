package ledger

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	stdhash "hash"
	"io"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	"github.com/drover-run/drover/store/mem"
)

// world is a deterministic machine room in virtual time: processes that crash
// and pause, one store that loses and delays, and a scheduler that runs one
// coroutine at a time. The same seed gives the same history.
type world struct {
	seed  uint64
	rng   *rand.Rand
	now   time.Duration
	queue wakes
	order int
	steps int
	most  int           // steps that it may take
	trip  time.Duration // a request takes at most so long each way
	late  bool          // a request may land long after its answer

	bucket  *flaky.Bucket
	under   store.Bucket             // the same, past the faults
	made    map[string]time.Duration // when a key first held an object
	procs   []*process
	current *coro
	trace   []string
	tracing bool
	broken  []string // violations
	// watch is told of each create: before it leaves, when it has arrived, and
	// when its answer is back. It may do anything to any process.
	watch func(*process, request)
	// read is told of each request for an agent's heartbeat or an entry of a chunk's log:
	// before it leaves, and when its answer is back.
	read func(*process, request)
	// refuse may answer a create in the store's place; nil: it does not.
	refuse func(p *process, r request) error
	// landed is told of each object that came to be, whatever its writer heard.
	landed func(key string)
	// deleted is told of each object that is there no more.
	deleted func(key string)
	// excused says whether a process may end of this error.
	excused func(p *process, why any) bool
	// history takes in every request of every process; nil: nothing compares it.
	history stdhash.Hash
}

// note takes a request, and what it sent and heard, into the history.
func (w *world) note(p *process, what, key string, sent []byte, heard string, err error) {
	if w.history != nil {
		fmt.Fprintf(w.history, "%d %s %s %s %x %s %v\n", w.now, p.name, what, key, sha256.Sum256(sent), heard, err)
	}
}

// request is a create under way.
type request struct {
	key   string
	kind  string // what is written: join, exit, blob, or the fact of an entry
	text  []byte // of an entry
	stage string
	err   error // the answer, once it has arrived
}

// The stages of a request.
const (
	leaving = "before"
	arrived = "at"
	back    = "after"
)

// process is one simulated operating-system process: several coroutines that
// crash and pause together.
type process struct {
	w      *world
	name   string
	dead   bool
	broke  bool // by an error of its own
	died   time.Duration
	until  time.Duration // paused until
	away   []span        // when it, or its main loop, stood still
	born   time.Duration
	offset time.Duration // of its boot clock
	skew   time.Duration // of its wall clock
	coros  []*coro
	atExit []func()
}

type span struct{ from, to time.Duration }

// awake says whether a process's main loop went on from one time to another.
func (p *process) awake(from, to time.Duration) bool {
	return !slices.ContainsFunc(p.away, func(a span) bool { return a.to > from && a.from < to })
}

type coro struct {
	p      *process
	yield  func(struct{}) bool
	next   func() (struct{}, bool)
	stop   func()
	until  time.Duration // stuck until
	asleep bool          // in a sleep that an event may cut short
	woken  int           // the order number of the wake-up it waits for
}

type wake struct {
	at    time.Duration
	order int
	c     *coro
	call  func()
}

type wakes []wake

func (q wakes) Len() int { return len(q) }
func (q wakes) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q wakes) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *wakes) Push(x any)   { *q = append(*q, x.(wake)) }
func (q *wakes) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// errCrashed unwinds a coroutine after its process was killed.
var errCrashed = errors.New("crashed")

// errDied unwinds a coroutine after its process ended because of an error.
var errDied = errors.New("died of an error")

func newWorld(seed uint64, plan flaky.Plan) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), made: map[string]time.Duration{}, most: endless, trip: 60 * time.Millisecond, late: plan.Late > 0,
		watch: func(*process, request) {}, read: func(*process, request) {}, refuse: func(*process, request) error { return nil }, landed: func(string) {},
		deleted: func(string) {}, excused: func(*process, any) bool { return false }}
	plan.Rand = w.rng.IntN
	plan.Clock = worldClock{w}
	w.under = spy{mem.At(worldClock{w}), w}
	w.bucket = flaky.New(w.under, plan)
	return w
}

// worldClock is the bucket's own clock: it has no process, so its delays are
// the simulator's latency instead.
type worldClock struct{ w *world }

func (c worldClock) Now() time.Time                             { return epoch.Add(c.w.now) }
func (c worldClock) Boot() time.Duration                        { return c.w.now }
func (c worldClock) Sleep(context.Context, time.Duration) error { return nil }

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) logf(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%10.3f ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

func (w *world) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.broken = append(w.broken, text)
	w.logf("VIOLATION %s", text)
}

// between is a random duration in [lo, hi).
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

// checkWithdrawn is T1: of a job with a submit that came too late nothing is left, unless an old
// request may still land.
func (w *world) checkWithdrawn(j job.Job, mine bool) {
	if mine || w.late {
		return
	}
	for _, key := range []string{protocol.JobKey(j.Path()), protocol.IDKey(j.Short)} {
		if _, there := w.made[key]; there {
			w.violate("T1: the submit of %s came too late, and %s is there", j.ID, key)
		}
	}
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) at(t time.Duration, call func()) {
	w.order++
	heap.Push(&w.queue, wake{at: t, order: w.order, call: call})
}

// start makes a process with one coroutine.
func (w *world) start(name string, body func(p *process)) *process {
	p := &process{w: w, name: name, until: -1, born: w.now, offset: w.between(0, time.Hour), skew: w.between(-time.Minute, time.Minute)}
	w.procs = append(w.procs, p)
	p.spawn(body)
	return p
}

// spawn adds a coroutine to a living process.
func (p *process) spawn(body func(p *process)) *coro {
	c := &coro{p: p}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			switch r := recover(); r {
			case nil, errCrashed:
			case errDied:
				p.broke = true
				p.die(c)
			default:
				if p.w.excused(p, r) {
					p.die(c)
					return
				}
				p.w.violate("ERROR: %s ended by %v", p.name, r)
				p.w.logf("%s", debug.Stack())
				p.die(c)
			}
		}()
		c.yield = yield
		p.w.current = c
		body(p)
	})
	p.coros = append(p.coros, c)
	p.w.resume(c, 0)
	return c
}

func (w *world) resume(c *coro, in time.Duration) {
	w.order++
	c.woken = w.order
	heap.Push(&w.queue, wake{at: w.now + in, order: w.order, c: c})
}

// endless is more steps than a world takes that comes to rest: the longest of
// 50,000 took a third of it.
const endless = 150_000

// run lets the world go on until nothing is left to do or the deadline.
func (w *world) run(deadline time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= deadline && len(w.broken) == 0 {
		e := heap.Pop(&w.queue).(wake)
		w.now = e.at
		if w.steps++; w.steps == w.most {
			w.violate("I6: no end in sight after %d steps", w.steps)
		}
		switch {
		case e.call != nil:
			e.call()
		case e.c.p.dead || e.c.woken != e.order:
		case max(e.c.p.until, e.c.until) > w.now:
			e.at = max(e.c.p.until, e.c.until)
			heap.Push(&w.queue, e)
		default:
			w.step(e.c)
		}
	}
	if w.now < deadline {
		w.now = deadline
	}
}

func (w *world) step(c *coro) {
	prev := w.current
	w.current = c
	c.next()
	w.current = prev
}

// kill ends a process as kill -9 does: between two instructions, no defer of
// its own runs anything. A process may be killed while it runs itself.
func (p *process) kill() bool {
	if p.dead {
		return false
	}
	p.w.logf("%s killed", p.name)
	if c := p.w.current; c != nil && c.p == p {
		p.end()
	}
	p.die(nil)
	return true
}

// pause stops a process for d, as SIGSTOP or a sleeping laptop does.
func (p *process) pause(d time.Duration) bool {
	if p.dead || p.until > p.w.now {
		return false
	}
	p.until = p.w.now + d
	p.away = append(p.away, span{p.w.now, p.until})
	p.w.logf("%s paused for %s", p.name, d)
	return true
}

// The coroutines of an agent that may be held up alone. Its program and its saver
// come after them.
const (
	mainLoop = iota
	heartbeat
	parts
)

// hold stops parts of an agent for d, while its program goes on: requests that
// hang.
func (p *process) hold(d time.Duration, held ...int) bool {
	if p.dead || p.until > p.w.now || len(p.coros) < parts {
		return false
	}
	for _, part := range held { // one that hangs already does so for as long as it will
		p.coros[part].until = max(p.coros[part].until, p.w.now+d)
		if part == mainLoop {
			p.away = append(p.away, span{p.w.now, p.w.now + d})
		}
	}
	p.w.logf("%s: parts %v hang for %s", p.name, held, d)
	return true
}

// end is a process that leaves by itself; called from one of its coroutines.
func (p *process) end() {
	p.die(p.w.current)
	panic(errCrashed)
}

// die ends all coroutines but the one that calls it, which unwinds by itself.
func (p *process) die(me *coro) {
	p.dead, p.died = true, p.w.now
	for _, c := range p.coros {
		if c != me {
			c.stop()
		}
	}
	for _, f := range p.atExit {
		f()
	}
}

// sleep lets the world go on for d.
func (p *process) sleep(d time.Duration) {
	c := p.w.current
	p.w.resume(c, d)
	if !c.yield(struct{}{}) {
		panic(errCrashed)
	}
}

// idle is a sleep that poke may cut short.
func (p *process) idle(d time.Duration) {
	c := p.w.current
	c.asleep = true
	p.sleep(d)
	c.asleep = false
}

// poke wakes a coroutine that sleeps.
func (c *coro) poke() {
	if c.asleep && !c.p.dead {
		c.asleep = false
		c.p.w.resume(c, 0)
	}
}

// simClock is a process's own clock.
type simClock struct{ p *process }

func (c simClock) Now() time.Time      { return epoch.Add(c.p.w.now + c.p.skew) }
func (c simClock) Boot() time.Duration { return c.p.w.now + c.p.offset }
func (c simClock) Sleep(_ context.Context, d time.Duration) error {
	c.p.sleep(d)
	return nil
}

// spy notes when each object came to be, whatever process wrote it and whenever it landed.
type spy struct {
	store.Bucket
	w *world
}

func (s spy) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	err := s.Bucket.Create(ctx, key, body)
	if err == nil {
		s.w.made[key] = s.w.now
		s.w.landed(key)
	}
	return err
}

func (s spy) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	err := s.Bucket.Put(ctx, key, body)
	if err == nil {
		s.w.landed(key)
	}
	return err
}

func (s spy) Delete(ctx context.Context, key string) error {
	err := s.Bucket.Delete(ctx, key)
	if _, there := s.w.made[key]; there && err == nil {
		delete(s.w.made, key)
		s.w.deleted(key)
	}
	return err
}

// simBucket is a process's way to the store: each request takes time on the
// way there and on the way back, and the process may die in between.
type simBucket struct {
	p *process
	b store.Bucket
}

func (s simBucket) trip() { s.p.sleep(s.p.w.between(s.p.w.trip/60, s.p.w.trip)) }

func (s simBucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	r := request{key: key, stage: leaving}
	r.kind, r.text = kindOf(key, body)
	s.p.w.watch(s.p, r)
	s.trip()
	if r.err = s.p.w.refuse(s.p, r); r.err == nil {
		r.err = s.b.Create(ctx, key, body)
	}
	if s.p.w.tracing {
		s.p.w.logf("%s create %s (%s): %v", s.p.name, key, r.kind, r.err)
	}
	s.p.w.note(s.p, "create", key, bodyOf(body), "", r.err)
	r.stage = arrived
	s.p.w.watch(s.p, r)
	s.trip()
	r.stage = back
	s.p.w.watch(s.p, r)
	return r.err
}

// facts are the names of what an entry may say.
var facts = []string{"submitted", "closed", "placed", "attempt", "cancelled", "failing", "settled", "restored", "saved",
	"extended", "reopened", "amended", "paused", "resumed", "gone", "drained",
	"claimed", "again", "handed", "ended", "released", "starting", "results"}

// kindOf says what a create is about, and an entry's text.
func kindOf(key string, body io.ReadSeeker) (string, []byte) {
	switch {
	case strings.HasPrefix(key, "blobs/"):
		return "blob", nil
	case strings.Contains(key, "/join/"):
		return "join", nil
	case strings.Contains(key, "/exit/"):
		return "exit", nil
	case strings.Contains(key, "/log/"), strings.Contains(key, "/state/"), strings.Contains(key, "/chunks/"):
		text, err := io.ReadAll(body)
		must(err)
		return factOf(text), text
	}
	return "", nil
}

// The kinds of reads that a world is told of.
const (
	heartbeatRead = "heartbeat is read"
	chunkRead     = "chunk is read"
)

func readOf(key string) string {
	switch {
	case strings.Contains(key, "/agents/"):
		return heartbeatRead
	case strings.Contains(key, "/chunks/"):
		return chunkRead
	}
	return ""
}

func factOf(text []byte) string {
	for _, f := range facts {
		if i := bytes.Index(text, []byte(`"`+f+`":`)); i >= 0 && bytes.IndexByte([]byte("{["), text[i+len(f)+3]) >= 0 {
			return f
		}
	}
	return ""
}

func (s simBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	s.trip()
	err := s.b.Put(ctx, key, body)
	s.p.w.note(s.p, "put", key, bodyOf(body), "", err)
	s.trip()
	return err
}

// bodyOf is what a request sends.
func bodyOf(body io.ReadSeeker) []byte {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	b, _ := io.ReadAll(body)
	return b
}

func (s simBucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	asked := request{key: key, kind: readOf(key), stage: leaving}
	if asked.kind != "" {
		s.p.w.read(s.p, asked)
	}
	s.trip()
	r, err := s.b.Get(ctx, key, off, n)
	s.p.w.note(s.p, "get", key, nil, fmt.Sprint(off, n), err)
	s.trip()
	if asked.stage = back; asked.kind != "" {
		s.p.w.read(s.p, asked)
	}
	return r, err
}

func (s simBucket) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	s.trip()
	o, more, err := s.b.List(ctx, prefix, after, limit)
	s.p.w.note(s.p, "list", prefix, nil, fmt.Sprint(after, limit, len(o), more), err)
	s.trip()
	return o, more, err
}

func (s simBucket) Delete(ctx context.Context, key string) error {
	s.trip()
	err := s.b.Delete(ctx, key)
	s.p.w.note(s.p, "delete", key, nil, "", err)
	return err
}

func (s simBucket) String() string { return "sim" }

// randReader is the world's randomness as a process reads it.
type randReader struct{ w *world }

func (r randReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.w.rng.Uint32())
	}
	return len(b), nil
}

// ledger is what a process has of the code under test.
func (p *process) ledger(gone func(protocol.Host) (bool, bool)) protocol.World {
	s := store.New(simBucket{p, p.w.bucket}, store.Options{Clock: simClock{p}, Rand: randReader{p.w}})
	return protocol.World{Store: s, Rand: randReader{p.w}, Gone: gone}
}
