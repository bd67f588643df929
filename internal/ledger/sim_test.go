package ledger

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/commitseed"
	"github.com/drover-run/drover/store/flaky"
)

var (
	from  = flag.Uint64("from", 0, "how many worlds TestSimulation leaves out first")
	seeds = flag.Int("seeds", commitseed.Fewer(runHistories, normalSeeds), "how many worlds TestSimulation plays")
	seed  = flag.Uint64("seed", 0, "play this world alone and print its history")
)

const (
	// normalSeeds are enough for every kind of event to occur, and for every
	// mutant to be caught.
	normalSeeds = 2000
	// troubledFor is how long things go wrong in a world.
	troubledFor = 6 * time.Minute
)

// TestSimulation plays whole histories of one task over the real ledger code:
// command lines and machines that crash, sleep and come back, a store that
// loses replies, a cancel that races the end. A violated promise prints the
// seed that replays it.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		s := simulate(*seed, true)
		t.Log("\n" + strings.Join(s.trace, "\n"))
		reportBroken(t, *seed, s.broken)
		return
	}
	seen := playWorlds(t, *from, uint64(*seeds), func(seed uint64) coverage {
		o := playOnce(&playedRuns, seed, func() outcome { s := simulate(seed, false); return outcome{s.broken, s.seen} })
		reportBroken(t, seed, o.broken)
		return o.seen
	})
	if *from == 0 && *seeds >= normalSeeds {
		seen.check(t)
	}
}

// freshWorlds is how many worlds of runs, and of maps, a commit plays that no other one does.
const freshWorlds = 2000

// TestFreshWorlds plays worlds that begin at the number of the commit.
func TestFreshWorlds(t *testing.T) {
	first, ok := commitseed.Number()
	if !ok {
		t.Skip("make test plays it")
	}
	playWorlds(t, first, freshWorlds, func(seed uint64) coverage {
		s := simulate(seed, false)
		reportBroken(t, seed, s.broken)
		return s.seen
	})
	playWorlds(t, first, freshWorlds, func(seed uint64) coverage {
		s := simulateMap(seed, false)
		reportMap(t, seed, s.broken)
		return s.seen
	})
}

func reportBroken(t *testing.T, seed uint64, broken []string) {
	for _, text := range broken {
		t.Errorf("seed %d: %s\n  replay: go test ./internal/ledger -run TestSimulation -seed %d", seed, text, seed)
	}
}

// simulate plays one world to its end.
func simulate(seed uint64, trace bool) *scene {
	s := newScene(seed)
	s.tracing = trace
	return s.play()
}

// play plays a world to its end.
func (s *scene) play() *scene {
	s.setScene()
	s.run(troubledFor)
	s.bucket.Calm()
	s.calm = true
	for i := range 90 {
		if jobs := len(s.jobs); s.rested() {
			s.run(s.lastWake() + 45*time.Second) // a zombie that wakes after the end must do no harm
			if s.rested() && len(s.jobs) == jobs {
				break
			}
			continue // a job that it submitted needs time to end, too
		}
		if i%2 == 0 {
			s.commandLine(fmt.Sprintf("last%d", i), resume)
		}
		s.run(s.now + time.Minute)
	}
	if len(s.broken) == 0 {
		s.checkEnd()
	}
	for _, p := range s.procs {
		p.kill()
	}
	s.count()
	return s
}

// lastWake is when the last process that is held up comes back.
func (s *scene) lastWake() time.Duration {
	last := s.now
	for _, p := range s.procs {
		for _, a := range p.away {
			if !p.dead && a.to < s.now+time.Hour {
				last = max(last, a.to)
			}
		}
	}
	return last
}

// rested says whether every accepted job has settled and the task knows.
func (s *scene) rested() bool {
	for id := range s.jobs {
		if s.storyOf(id).settled == nil {
			return false
		}
	}
	_, live := s.order()
	return live == "" && len(s.jobs) > 0
}

// setScene draws a world.
func (s *scene) setScene() {
	s.nodes = []int{1, 1, 1, 2, 2, 2, 3, 4}[s.rng.IntN(8)]
	s.retries = s.rng.IntN(3)
	s.work = 1 + s.rng.IntN(6)
	s.boot = 20 * time.Second
	s.sameHost = s.chance(50)
	s.slowEngine = s.chance(30)
	s.failRank = s.rng.IntN(s.nodes)
	if s.chance(35) {
		for k := range 1 + s.rng.IntN(4) {
			s.failAt[k+1] = 1 + s.rng.IntN(s.work)
		}
	}
	if s.chance(8) {
		s.limit = s.between(20*time.Second, 60*time.Second)
	}
	if s.chance(4) {
		s.unready = 50
	}
	if s.chance(5) {
		if s.stillborn = []int{1, 2, 3, 1000}[s.rng.IntN(4)]; s.stillborn < 1000 {
			s.takenEarly = s.chance(40)
		}
	}
	s.setDrains()
	s.setDeaf()
	s.setTamperer()
	s.setPeople()
	if s.chance(3) {
		s.setStorm()
		return
	}
	s.setTroubles()
	s.setSnares()
}

// setPeople draws the users and their actions.
func (s *scene) setPeople() {
	s.commandLine("cli1", submit)
	if s.chance(50) {
		s.at(s.between(0, 3*time.Minute), func() { s.commandLine("cli2", []wish{submit, submit, submit, force, replace}[s.rng.IntN(5)]) })
	}
	if s.chance(25) {
		s.at(s.between(0, 3*time.Minute), func() { s.start("canceller", s.canceller) })
	}
	if s.chance(30) {
		s.start("reader", s.reader)
	}
	if s.chance(12) {
		s.start("vandal", s.vandal)
	}
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
