package ledger

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
)

var (
	seeds = flag.Int("seeds", 1000, "how many worlds TestSimulation plays")
	seed  = flag.Uint64("seed", 0, "play this world alone and print its history")
)

// TestSimulation plays whole histories of one task over the real ledger code:
// command lines and machines that crash, sleep and come back, a store that
// loses replies, a cancel that races the end. A violated promise prints the
// seed that replays it.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		s := simulate(*seed, true)
		t.Log("\n" + strings.Join(s.trace, "\n"))
		report(t, s)
		return
	}
	var next atomic.Uint64
	var mu sync.Mutex
	var seen coverage
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > uint64(*seeds) || t.Failed() {
					return
				}
				s := simulate(n, false)
				mu.Lock()
				report(t, s)
				seen.add(s)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d worlds, %s", *seeds, seen.String())
	if *seeds >= 1000 {
		seen.check(t)
	}
}

func report(t *testing.T, s *scene) {
	for _, text := range s.broken {
		t.Errorf("seed %d: %s\n  replay: go test ./internal/ledger -run TestSimulation -seed %d", s.seed, text, s.seed)
	}
}

// simulate plays one world to its end.
func simulate(seed uint64, trace bool) *scene {
	s := &scene{machines: map[string]*machine{}, tokens: map[string]string{}, jobs: map[string]bool{},
		runsOf: map[string]int{}, torn: map[store.Digest]bool{}, failAt: map[int]int{}}
	s.world = newWorld(seed, plan(seed))
	s.tracing = trace
	s.setScene()
	s.setFaults()
	troubles := 6 * time.Minute
	s.run(troubles)
	s.bucket.Calm()
	s.calm = true
	for i := range 90 {
		if s.rested() {
			break
		}
		if i%2 == 0 && len(s.broken) == 0 {
			s.commandLine(fmt.Sprintf("resume%d", i), false)
		}
		s.run(s.now + time.Minute)
	}
	s.run(s.now + 10*time.Second)
	for _, p := range s.procs {
		p.kill()
	}
	if len(s.broken) == 0 {
		s.checkEnd()
	}
	return s
}

func (s *scene) setScene() {
	s.nodes = []int{1, 1, 1, 2, 2, 3, 4}[s.rng.IntN(7)]
	s.retries = s.rng.IntN(3)
	s.work = 1 + s.rng.IntN(6)
	s.sameHost = s.chance(50)
	s.slowEngine = s.chance(30)
	if s.chance(35) {
		for k := range 1 + s.rng.IntN(4) {
			s.failAt[k+1] = 1 + s.rng.IntN(s.work)
		}
	}
	s.commandLine("cli1", true)
	if s.chance(50) {
		s.at(s.between(0, 90*time.Second), func() { s.commandLine("cli2", true) })
	}
	if s.chance(30) {
		s.at(s.between(0, 3*time.Minute), func() { s.start("canceller", s.canceller) })
	}
	if s.chance(30) {
		s.start("reader", s.reader)
	}
}

// canceller cancels the newest job, and cancels again when it dies half-way.
func (s *scene) canceller(p *process) {
	w := s.ledgerOf(p)
	path := job.Path{Project: "p", Task: "t"}
	t, err := w.Task(ctx, path)
	must(err)
	if path.Job = t.Newest(); path.Job == "" {
		p.end()
	}
	stands, err := w.Cancel(ctx, path, p.name, "enough")
	if errors.Is(err, ErrRemoved) {
		p.end()
	}
	must(err)
	s.logf("%s cancelled %s: %v", p.name, path.Job, stands)
	s.cancels = append(s.cancels, cancelled{s.now, path.Job, stands})
	p.end()
}

// setFaults draws crashes, pauses and notices for the time of troubles.
func (s *scene) setFaults() {
	n := s.rng.IntN(6)
	storm := s.chance(2)
	if storm {
		n = 120 // more interruptions than a run may have
		s.work = 60
	}
	if s.chance(10) {
		s.at(s.between(time.Minute, 4*time.Minute), s.tear)
	}
	for range n {
		s.at(s.between(0, 6*time.Minute), func() {
			p := s.procs[s.rng.IntN(len(s.procs))]
			if p.dead {
				return
			}
			kind := s.rng.IntN(10)
			if storm {
				kind = 9
				p = s.procs[len(s.procs)-1]
			}
			switch kind {
			case 0, 1, 2, 3:
				p.kill()
			case 4:
				p.stick(s.between(time.Minute, 4*time.Minute))
			case 5, 6:
				p.pause(s.between(5*time.Second, 4*time.Minute))
			case 7:
				for _, p := range s.procs { // the laptop's lid
					if !p.dead {
						p.pause(3*time.Minute + time.Duration(s.rng.IntN(1000))*time.Millisecond)
					}
				}
			default:
				s.notice(p)
			}
		})
	}
}

// tear loses the blob of the newest generation: it is torn, and the one before
// it must be offered.
func (s *scene) tear() {
	if len(s.saves) == 0 || s.restoring > 0 {
		return // what goes after it was looked for was rightly offered
	}
	d := s.saves[len(s.saves)-1].blob
	s.torn[d] = true
	must(s.under.Delete(ctx, "blobs/"+string(d)))
	s.logf("blob %s is lost", d)
}

// notice tells an agent that its machine goes away, and takes it soon after.
func (s *scene) notice(p *process) {
	for _, m := range s.machines {
		if m.p == p {
			m.told = true
			s.logf("%s has notice", p.name)
			p.coros[0].poke()
			s.at(s.now+s.between(time.Second, 2*time.Minute), p.kill)
		}
	}
}

// rested says whether every accepted job has settled and the task knows.
func (s *scene) rested() bool {
	for id := range s.jobs {
		if settled, _, _, _, _, _ := s.settledOf(id); settled == nil {
			return false
		}
	}
	_, live := s.placeOf("")
	return live == "" && len(s.jobs) > 0
}

// plan draws the store's manners for a world: a third of them is calm.
func plan(seed uint64) flaky.Plan {
	rng := rand.New(rand.NewPCG(seed, 11))
	if rng.IntN(3) == 0 {
		return flaky.Plan{}
	}
	some := func() float64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return rng.Float64() * 0.12
	}
	p := flaky.Plan{Busy: some(), LoseRequest: some(), LoseReply: some(), Conflict: some(), Late: some(), Echo: some(),
		FailSync: some(), ShortList: some(), StaleList: some()}
	if rng.IntN(30) == 0 {
		p.Room = int64(2000 + rng.IntN(60000))
	}
	return p
}

// coverage counts what happened, so that a quiet simulator is noticed.
type coverage map[string]int

func (c *coverage) add(s *scene) {
	if *c == nil {
		*c = coverage{}
	}
	m := *c
	m["steps"] += s.steps
	for id := range s.jobs {
		settled, _, stop, _, attempts, _ := s.settledOf(id)
		if settled != nil {
			m[string(settled.State)]++
		}
		if stop != nil && stop.Failing != nil {
			m["failing"]++
		}
		for _, a := range attempts {
			m["attempt "+string(a.Attempt.Cause)]++
		}
	}
	if len(s.jobs) > 1 {
		m["second job"]++
	}
	m["saved"] += len(s.saves)
	m["torn"] += len(s.torn)
	for _, r := range s.starts {
		if r.from > 0 {
			m["resumed from a checkpoint"]++
		}
	}
	for k, n := range s.bucket.Counts() {
		m["store "+k] += n
	}
}

func (c coverage) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, c[k]))
	}
	return strings.Join(parts, ", ")
}

func (c coverage) check(t *testing.T) {
	for _, want := range []string{"SUCCEEDED", "FAILED", "CANCELLED", "failing", "second job", "saved", "torn", "resumed from a checkpoint",
		"attempt first", "attempt lost", "attempt notice", "attempt failure"} {
		if c[want] == 0 {
			t.Errorf("in all worlds nothing ever was %q", want)
		}
	}
}
