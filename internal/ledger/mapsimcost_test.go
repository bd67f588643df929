package ledger

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

var mapCosts = flag.Int("mapcosts", 0, "how many worlds of 10,000 agents and a million items TestWhatAMapCosts plays; 0: small ones")

// TestWhatAMapCosts plays maps as large as they may be, by the pace of an object
// store, over the real ledger code, and counts what they ask of it: left alone,
// with agents that die, and cancelled halfway.
func TestWhatAMapCosts(t *testing.T) {
	worlds, agents, items := *mapCosts, 10_000, 1_000_000
	switch {
	case worlds == 0 && raceOn:
		worlds, agents, items = int(fieldPlots), 50, 5000
	case worlds == 0:
		worlds, agents, items = int(fieldPlots), 300, 30_000
	}
	for seed := range worlds {
		f := newField(uint64(seed), agents, items)
		f.play()
		t.Logf("seed %d\n%s", seed, f.report())
		for _, text := range f.broken {
			t.Errorf("seed %d: %s", seed, text)
		}
	}
}

// The limits of E8, per second and prefix of the store.
const (
	mostWrites = 3500
	mostReads  = 5500
)

// fieldPlot is what befalls a field.
type fieldPlot int

const (
	leftAlone   fieldPlot = iota
	agentsDie             // a tenth of them, at any time
	isCancelled           // halfway
	networkLost           // for two minutes, to all of them
	comeAtOnce            // in one instant
	fieldPlots
)

// field is one large map in a world: agents with items that only take their time.
type field struct {
	*world
	plot              fieldPlot
	agents, items     int
	shortest, longest time.Duration // that an item takes
	j                 job.Job
	store             *fieldBucket
	left              int // agents that have not departed
	died              int
	minutes           float64       // that agents lived, all together
	ran               int           // tries
	workedUntil       time.Duration // the last item ended
	staff             []*fieldAgent
	flushes           int
	settled           *protocol.Settled
	memory            uint64
}

func newField(seed uint64, agents, items int) *field {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 17)), made: map[string]time.Duration{}, most: 1 << 60,
		watch: func(*process, request) {}, landed: func(string) {}}
	f := &field{world: w, plot: fieldPlot(seed % uint64(fieldPlots)), agents: agents, items: items, left: agents,
		shortest: 5 * time.Second, longest: 85 * time.Second}
	f.store = &fieldBucket{w: w, objects: map[string][]byte{}, folders: map[string]*shelf{},
		total: map[string]int{}, second: map[string]int{}, peak: map[string]int{}}
	f.j = job.Job{V: job.Format, ID: "job", Short: "j", Manifest: job.Manifest{Count: items, Digest: "x", Format: "range"}, ChunkSize: chunks.ChunkSize(items, agents),
		Spec: job.Spec{Project: "p", Task: "t", Verb: job.Map, Nodes: 1, Items: job.Items{From: "1-9", Workers: agents, Slots: 8}}}
	return f
}

// play has all agents come, within a minute, and the job go to its end.
func (f *field) play() {
	boss := f.start("boss", func(p *process) {
		live, mine, err := tasks.SubmitJob(ctx, f.world0(p), f.j, "boss")
		must(err)
		if live != f.j.ID || !mine {
			f.violate("T1: %s is live", live)
		}
		p.end()
	})
	for !boss.dead {
		f.run(f.now + time.Second)
	}
	if f.plot == networkLost {
		f.store.lost = span{f.now + 4*time.Minute, f.now + 6*time.Minute}
	}
	for i := range f.agents {
		comes := f.between(0, time.Minute)
		if f.plot == comeAtOnce {
			comes = time.Second
		}
		f.at(f.now+comes, func() {
			began := f.now
			a := &fieldAgent{f: f, n: i}
			f.staff = append(f.staff, a)
			p := f.start(fmt.Sprintf("agent%d", i), func(p *process) { a.p = p; a.run() })
			p.atExit = append(p.atExit, func() {
				f.left--
				f.minutes += (f.now - began).Minutes()
			})
			if f.plot == agentsDie && f.chance(10) {
				f.at(f.now+f.between(0, 10*time.Minute), func() {
					if p.kill() {
						f.died++
					}
				})
			}
		})
	}
	if f.plot == isCancelled {
		f.at(f.now+6*time.Minute, func() {
			f.start("person", func(p *process) {
				if stands, err := control.CancelJob(ctx, f.world0(p), f.j.Path(), "person", "enough"); err != nil || !stands {
					f.violate("E1: to cancel gave %v, %v", stands, err)
				}
				p.end()
			})
		})
	}
	for f.left > 0 && f.now < 24*time.Hour && len(f.broken) == 0 {
		f.run(f.now + time.Minute)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.memory = max(f.memory, m.HeapAlloc)
	}
	f.check()
}

// world0 is what a process has of the code under test.
func (f *field) world0(p *process) protocol.World {
	s := store.New(fieldWay{f.store, p}, store.Options{Clock: simClock{p}, Rand: randReader{p.w}})
	return protocol.World{Store: s, Rand: randReader{p.w}, Gone: func(protocol.Host) (bool, bool) { return false, false }}
}

// check holds what the map has asked for against what it may.
func (f *field) check() {
	s := f.settled
	if s == nil {
		f.violate("I6: the map has not settled in a day")
		return
	}
	switch got := s.Tally; f.plot {
	case isCancelled:
		if s.State != job.Cancelled || got.Succeeded == 0 || got.Succeeded+got.Cancelled != f.items {
			f.violate("E2: a map that was cancelled ended as %v", s)
		}
	default:
		// A dead agent loses what runs, and what ended since its last flush.
		if most := f.items + 4*f.died*f.j.Spec.Slots; s.State != job.Succeeded || got.Succeeded != f.items || f.ran > most {
			f.violate("M10: %d items were run %d times, %d at most, and ended as %v", f.items, f.ran, most, s)
		}
	}
	// Each chunk has its snapshot, those that were handed over, too; of four requests for
	// it one may be a claim that came too late.
	if writes, chunks := f.store.total["create chunks"], f.store.total["create results"]; writes > 4*chunks+f.flushes+2*f.died {
		f.violate("E8: %d writes for %d chunks with %d flushes", writes, chunks, f.flushes)
	}
	// An estimate foresees no cancel, nor how much is asked for because of the dead.
	if asked, plan := f.asked(), f.estimate(); (f.plot == leftAlone || f.plot == comeAtOnce) && !roughly(asked, plan) {
		f.violate("--plan says %+v, and it was %+v", plan, asked)
	}
	for prefix, n := range f.store.peak {
		if kind, _, _ := strings.Cut(prefix, " "); kind == "writes" && n > mostWrites || kind == "reads" && n > mostReads {
			f.violate("E8: %d %s in one second", n, prefix)
		}
	}
}

// asked is what the store was asked for and takes money for.
func (f *field) asked() report.Requests {
	l := f.line()
	return report.Requests{Writes: l.Writes, Lists: l.Lists, Reads: l.Reads}
}

// estimate is what Estimate says of it.
func (f *field) estimate() report.Requests {
	whole, minute := mapagent.Estimate(f.items, chunks.ChunksIn(f.items, f.j.ChunkSize), f.agents)
	return whole.Add(minute.Times(f.minutes / float64(f.agents)))
}

// roughly says that an estimate is no more than twice as much, nor less than half: of
// what is dear together, and of all.
func roughly(got, want report.Requests) bool {
	near := func(a, b int) bool { return a <= 2*b && b <= 2*a }
	return near(got.Writes+got.Lists, want.Writes+want.Lists) && near(got.Sum(), want.Sum())
}

// idled is how long agents had no work before the last item ended: all together as a
// part of what they lived until then, and the one that did longest.
func (f *field) idled() (part float64, most time.Duration) {
	sum := time.Duration(0)
	for _, a := range f.staff {
		sum += f.workedUntil - a.worked
		most = max(most, f.workedUntil-a.worked)
	}
	return float64(sum) / float64(len(f.staff)) / float64(f.workedUntil), most
}

func (f *field) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d agents, %d of which died, %d items in chunks of %d: work ended after %s, settled after %s, all gone after %s; %d MB\n", f.agents, f.died, f.items, f.j.ChunkSize,
		f.workedUntil.Round(time.Second), f.store.settled.Round(time.Second), f.now.Round(time.Second), f.memory>>20)
	chunks := (f.items + f.j.ChunkSize - 1) / f.j.ChunkSize
	fmt.Fprintf(&b, "%d chunks: %.1f writes each, %.1f flushes each\n", chunks, float64(f.store.total["create chunks"])/float64(chunks), float64(f.flushes)/float64(chunks))
	part, most := f.idled()
	fmt.Fprintf(&b, "before work ended an agent was without for %.2f %% of the time, and for %s at most\n", 100*part, most.Round(100*time.Millisecond))
	sum := 0
	for _, k := range sortedKeys(f.store.total) {
		sum += f.store.total[k]
		fmt.Fprintf(&b, "%-20s %9d  %.3f an item\n", k, f.store.total[k], float64(f.store.total[k])/float64(f.items))
	}
	fmt.Fprintf(&b, "%-20s %9d  %.3f an item\n", "all requests", sum, float64(sum)/float64(f.items))
	fmt.Fprintf(&b, "%+v, and --plan says %+v; most claims in a second %d; %d MB up, %d MB down\n", f.asked(), f.estimate(), f.line().PeakClaims, f.store.up>>20, f.store.out>>20)
	var peaks []string
	for k, n := range f.store.peak {
		peaks = append(peaks, fmt.Sprintf("%9d %s", n, k))
	}
	slices.SortFunc(peaks, func(a, b string) int { return strings.Compare(b, a) })
	fmt.Fprintf(&b, "most in one second:\n%s", strings.Join(peaks[:min(8, len(peaks))], "\n"))
	return b.String()
}

func sortedKeys(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// fieldAgent is the map runner's loop, as lean as it can be.
type fieldAgent struct {
	f       *field
	p       *process
	n       int
	m       *mapagent.MapMember
	running []fieldTry
	worked  time.Duration // its last item ended
}

type fieldTry struct {
	h    *mapagent.OwnedChunk
	try  mapagent.Try
	from time.Duration
	ends time.Duration
}

func (a *fieldAgent) run() {
	f, w := a.f, a.f.world0(a.p)
	a.p.sleep(mapagent.Stagger(a.n))
	a.identify(w)
	id := liveness.NewAgentID(w, 1, a.n)
	a.m = mapagent.NewMapMember(w, f.j, id, protocol.Host{}, mapagent.MapOptions{Slots: f.j.Spec.Slots})
	a.p.spawn(func(p *process) {
		for n := int64(1); ; n++ {
			b := protocol.Heartbeat{Agent: id, Counter: n, Phase: "running"}
			a.m.FillHeartbeat(&b)
			must(liveness.WriteHeartbeat(ctx, w, f.j.Path(), b))
			p.sleep(protocol.HeartbeatEvery)
		}
	})
	a.m.Ready()
	var order mapagent.MapOrder
	pollAt, seekAt := f.now, f.now
	for {
		a.reap()
		if f.now >= pollAt {
			var err error
			order, err = a.m.Poll(ctx)
			must(err)
			pollAt = f.now + protocol.HeartbeatEvery
		}
		if order.Do == mapagent.Depart {
			break
		}
		if order.Do == mapagent.Cease {
			a.running = nil
			for _, h := range a.m.Owned() {
				must(h.Wind(ctx))
			}
		}
		a.fill()
		for _, h := range a.m.Owned() {
			if h.Due() <= 0 {
				fate, err := h.Flush(ctx)
				must(err)
				if f.flushes++; fate == mapagent.Fenced && f.plot != isCancelled {
					f.violate("M1: %s was fenced, and nobody has died", id)
				}
			}
		}
		a.fill()
		if len(a.running) < f.j.Spec.Slots && f.now >= seekAt {
			h, err := a.m.Seek(ctx)
			must(err)
			if a.fill(); h == nil {
				seekAt = f.now + a.m.Again()
			}
		}
		a.p.sleep(a.rest(pollAt, seekAt))
	}
	if s := order.Settled; s != nil {
		f.settled = s
		must(a.m.Leave(ctx))
	}
	a.p.end()
}

// identify reads what an agent reads that has just been started.
func (a *fieldAgent) identify(w protocol.World) {
	j, err := tasks.LoadJob(ctx, w, a.f.j.Path())
	must(err)
	_, err = chunks.ReadMap(ctx, w, j)
	must(err)
	_, err = tasks.ReadTask(ctx, w, a.f.j.Path())
	must(err)
}

func (a *fieldAgent) rest(pollAt, seekAt time.Duration) time.Duration {
	d := pollAt - a.f.now
	if len(a.running) < a.f.j.Spec.Slots {
		d = min(d, seekAt-a.f.now)
	}
	for _, h := range a.m.Owned() {
		d = min(d, h.Due())
	}
	for _, r := range a.running {
		d = min(d, r.ends-a.f.now)
	}
	return max(d, time.Millisecond)
}

func (a *fieldAgent) reap() {
	f := a.f
	a.running = slices.DeleteFunc(a.running, func(r fieldTry) bool {
		if r.ends > f.now {
			return false
		}
		r.h.Done(protocol.Result{Item: r.try.Item, Ended: f.now.Microseconds(), Wall: (r.ends - r.from).Microseconds()})
		f.workedUntil, a.worked = f.now, f.now
		return true
	})
}

func (a *fieldAgent) fill() {
	for _, h := range a.m.Owned() {
		for len(a.running) < a.f.j.Spec.Slots {
			try, ok := h.Next()
			if !ok {
				break
			}
			a.f.ran++
			a.running = append(a.running, fieldTry{h, try, a.f.now, a.f.now + a.f.between(a.f.shortest, a.f.longest)})
		}
	}
}
