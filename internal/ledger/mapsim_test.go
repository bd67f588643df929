package ledger

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/commitseed"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store/flaky"
)

var (
	mapFrom  = flag.Uint64("mapfrom", 0, "how many worlds TestMapSimulation leaves out first")
	mapSeeds = flag.Int("mapseeds", defaultMapSeeds(), "how many worlds TestMapSimulation plays")
	mapSeed  = flag.Uint64("mapseed", 0, "play this world of a map alone and print its history")
)

// normalMapSeeds are enough for every kind of event to occur, and for every mutant
// to be caught but a few.
const normalMapSeeds = 3000

func defaultMapSeeds() int {
	if raceOn {
		return normalMapSeeds / 10
	}
	return commitseed.Fewer(mapHistories, normalMapSeeds)
}

// TestMapSimulation plays whole histories of maps over the real ledger code: up to
// eight agents and forty items, that fail, hang and kill; agents that die, sleep
// for hours and come back; users that cancel, pause, run it again; a store that
// loses replies. A violated promise prints the seed that replays it.
func TestMapSimulation(t *testing.T) {
	if *mapSeed != 0 {
		s := simulateMap(*mapSeed, true)
		t.Log("\n" + strings.Join(s.trace, "\n"))
		reportMap(t, *mapSeed, s.broken)
		return
	}
	seen := playWorlds(t, *mapFrom, uint64(*mapSeeds), func(seed uint64) coverage {
		o := playOnce(&playedMaps, seed, func() outcome { s := simulateMap(seed, false); return outcome{s.broken, s.seen} })
		reportMap(t, seed, o.broken)
		return o.seen
	})
	if *mapFrom == 0 && *mapSeeds >= normalMapSeeds {
		seen.checkMaps(t)
	}
}

func reportMap(t *testing.T, seed uint64, broken []string) {
	for _, text := range broken {
		t.Errorf("seed %d: %s\n  replay: go test ./internal/ledger -run TestMapSimulation -mapseed %d", seed, text, seed)
	}
}

// simulateMap plays one world to its end.
func simulateMap(seed uint64, trace bool) *yard {
	s := newYard(seed)
	s.tracing = trace
	return s.play()
}

// play plays a world to its end.
func (s *yard) play() *yard {
	s.setScene()
	s.run(s.troubledFor())
	s.bucket.Calm()
	s.calm = true
	for i := range 180 { // minutes: a job that is not done by then never will be (M12)
		if s.rested() {
			if s.removals {
				s.removeAll()
			}
			s.run(s.lastWake() + time.Minute) // a zombie that wakes after the end must do no harm
			if s.rested() {
				break
			}
			continue
		}
		s.care(i)
		s.run(s.now + time.Minute)
	}
	if len(s.broken) == 0 {
		s.checkEnd()
	}
	s.tracing = false
	for _, p := range s.procs {
		p.kill()
	}
	s.count()
	return s
}

// care is a user that comes back after all faults, and sees that the job goes on.
func (s *yard) care(minute int) {
	if t := s.tales[s.newest()]; t != nil && t.paused > 0 {
		s.start(s.newName("wake"), func(p *process) { s.goOn(p); p.end() })
	}
	attended := slices.ContainsFunc(s.attending, func(p *process) bool { return !p.dead && p.until < s.now })
	if minute%5 == 0 && (!attended || minute > 30) {
		s.commandLine(s.newName("last"), resume)
	}
	if p := s.scheduler; !s.keeper && (p == nil || p.dead) {
		s.scheduler = s.start(s.newName("scheduler"), s.smallKeeper)
	}
}

// troubledFor is how long things go wrong in a world.
func (s *yard) troubledFor() time.Duration {
	if s.near {
		return 100 * time.Second
	}
	return 8 * time.Minute
}

// rested says whether every accepted job has settled and the task knows.
func (s *yard) rested() bool {
	for id := range s.places {
		if s.tales[id].settled == nil {
			return false
		}
	}
	return s.live == "" && len(s.places) > 0
}

// lastWake is when the last process that stands still comes back.
func (s *yard) lastWake() time.Duration {
	last := s.now
	for _, p := range s.procs {
		for _, a := range p.away {
			if !p.dead {
				last = max(last, a.to)
			}
		}
	}
	return last
}

// setScene draws a world.
func (s *yard) setScene() {
	s.near = s.chance(15)
	s.agents = []int{1, 1, 2, 2, 3, 3, 4, 5, 6, 8}[s.rng.IntN(10)]
	s.slots = 1 + s.rng.IntN(3)
	s.window = s.rng.IntN(3)
	s.risk = s.slots + s.window + s.rng.IntN(8)
	if s.seed%8 == 3 { // a chunk is more than an owner may have begun of it
		s.risk, s.size = 1+int(s.seed/8%4), s.size+4
	}
	s.few, s.scouts = []int{0, mapagent.FewAgents}[s.rng.IntN(2)], s.rng.IntN(2) == 0
	s.crowd = !s.near && s.seed%8 == 5
	s.items = 1 + s.rng.IntN(40)
	s.size += 1 + s.rng.IntN(8)
	if s.seed > normalMapSeeds && s.seed%16 != 0 { // most of a long run is small, and so are most bugs
		s.agents, s.items, s.size = min(s.agents, 1+s.rng.IntN(3)), 1+s.rng.IntN(8), 1+s.rng.IntN(4)
	}
	s.retries = s.rng.IntN(3)
	if s.chance(25) {
		s.retryOn = []job.RetryOn{{job.FailMemory}, {"1"}, {job.FailTime, "1-3"}}[s.rng.IntN(3)]
	}
	s.boot = 15 * time.Second
	s.grace = 10 * time.Second
	s.sameHost = s.chance(40)
	s.slowEngine = s.chance(30)
	s.keeper = s.chance(65)
	s.outputs = s.chance(40)
	s.timeout = s.between(20*time.Second, 90*time.Second)
	if s.near {
		s.trip = 3 * time.Millisecond
		s.agents, s.boot = min(s.agents, 3), 2*time.Second
	}
	// The whole is to take about so long, that troubles find it at work.
	s.work = s.between(s.troubledFor()/20, s.troubledFor()*2/3)
	s.long = min(3*time.Minute, max(50*time.Millisecond, 2*s.work*time.Duration(s.agents*s.slots)/time.Duration(s.items)))
	if s.chance(15) {
		s.maxFails = []string{"0", "1", "2", "10%"}[s.rng.IntN(4)]
	}
	if s.keeper && s.chance(4) {
		s.stillborn = []int{1, 2, 1000}[s.rng.IntN(3)]
	}
	s.at(s.between(20*time.Second, time.Minute), s.makeRoom)
	s.setCodes()
	s.setBounds()
	s.setDrains()
	s.setReads()
	s.setSleep()
	s.setRemovals()
	switch n := s.rng.IntN(100); {
	case n < 12 && !s.near:
		s.setZombies()
	case n < 24 && !s.near:
		s.setTail()
	case n < 88:
		s.setPeople()
		s.setTroubles()
		s.setSnares()
	default:
		s.setPeople()
	}
}

// setZombies has agents stand still just when they have something to begin, beside
// others that have nothing: they wake up while another works on what was theirs.
func (s *yard) setZombies() {
	s.agents, s.slots, s.size = 3+s.rng.IntN(3), 1, 4+s.rng.IntN(5)
	s.items, s.long = s.size*(1+s.rng.IntN(2)), s.between(20*time.Second, time.Minute)
	s.stillborn, s.troubled = 0, true
	s.setRunners()
	for range 1 + s.rng.IntN(2) {
		s.snares = append(s.snares, snare[*yard]{[]string{"claimed", "results", "handed"}[s.rng.IntN(3)], []string{arrived, back}[s.rng.IntN(2)],
			1 + s.rng.IntN(3), false, mapTroubleOf("paused beyond a lease")})
	}
}

// setTail is a job with one agent that works on for long, while others, with
// nothing to do, die, sleep, and may think that there are enough of them.
func (s *yard) setTail() {
	s.agents, s.slots, s.size, s.keeper = 3+s.rng.IntN(4), 1, 1, false
	s.items, s.long = s.agents, s.between(5*time.Second, 30*time.Second)
	s.stillborn, s.troubled, s.tail = 0, true, s.between(4*time.Minute, 8*time.Minute)
	s.commandLine("cli1", submit)
	s.started = func() { s.driverStart(s.live, protocol.Placed{Placement: 1, Agents: s.agents}) }
	if s.chance(50) {
		s.at(s.between(40*time.Second, time.Minute), s.oversleep)
		return
	}
	for range 1 + s.rng.IntN(5) {
		s.at(s.between(20*time.Second, 5*time.Minute), func() {
			if p := s.idler(); p != nil {
				s.strike(mapTroubleOf([]string{"killed", "killed", "noticed", "paused beyond a lease", "lid closed"}[s.rng.IntN(5)]), p)
			}
		})
	}
}

// oversleep has all die that have nothing to do, but for one that sleeps for long.
func (s *yard) oversleep() {
	sleeper := s.idler()
	if sleeper == nil || !sleeper.pause(s.between(200*time.Second, 5*time.Minute)) {
		return
	}
	s.at(s.now+20*time.Second, func() {
		for _, a := range s.built {
			if a.p != sleeper && !a.p.dead && a.member != nil && len(a.member.OwnedChunks) == 0 {
				a.p.kill()
			}
		}
	})
}

// makeRoom empties a full store again and again.
func (s *yard) makeRoom() {
	s.bucket.Free()
	s.at(s.now+s.between(20*time.Second, time.Minute), s.makeRoom)
}

// idler draws an agent that lives and holds nothing.
func (s *yard) idler() *process {
	var who []*process
	for _, a := range s.built {
		if !a.p.dead && a.member != nil && len(a.member.OwnedChunks) == 0 {
			who = append(who, a.p)
		}
	}
	if len(who) == 0 {
		return nil
	}
	return who[s.rng.IntN(len(who))]
}

// drawNature draws what one more item does.
func (s *yard) drawNature() itemNature {
	n := itemNature{kind: goodItem, takes: s.between(s.long/10, s.long)}
	if s.tail > 0 { // all is well with them, and one takes long
		n.takes, s.tail = max(n.takes, s.tail-1), 1
		return n
	}
	if s.chance(10) {
		n.takes *= 4
	}
	switch p := s.rng.IntN(100); {
	case p < 4:
		n.kind = badItem
	case p < 10:
		n.kind, n.fails = onceItem, 1+s.rng.IntN(2)
	case p < 12:
		n.kind = hanging
	case p < 15 && s.killers() == 0:
		n.kind = []string{killer, killer, loneWolf, crowdItem}[s.rng.IntN(4)]
	}
	return n
}

// killers counts the items that kill. Each costs up to five agents and their
// leases, so a world has few.
func (s *yard) killers() (n int) {
	for _, items := range s.nature {
		for _, i := range items {
			if i.kind == killer || i.kind == loneWolf || i.kind == crowdItem {
				n++
			}
		}
	}
	return n
}

// setRunners has a user run the map, and agents come.
func (s *yard) setRunners() {
	s.commandLine("cli1", submit)
	if !s.keeper {
		s.scheduler = s.start("scheduler", s.smallKeeper)
	}
}

// setPeople draws the users and their actions.
func (s *yard) setPeople() {
	s.setRunners()
	if s.chance(30) {
		for range 1 + s.rng.IntN(3) {
			s.at(s.between(0, s.troubledFor()), func() { s.commandLine(s.newName("cli"), []wish{submit, submit, force}[s.rng.IntN(3)]) })
		}
	}
	if s.chance(20) {
		who := []func(*process){s.canceller, s.drainer, s.pauser}[s.rng.IntN(3)]
		s.at(s.between(0, s.troubledFor()), func() { s.start(s.newName("person"), who) })
	}
	if s.chance(12) {
		s.start("reader", s.reader)
	}
	if s.chance(15) {
		s.start("vandal", s.vandal)
	}
}

// setTroubles draws what happens at random times, to processes that live then.
func (s *yard) setTroubles() {
	at := time.Duration(0)
	for range s.rng.IntN(9) {
		at += s.between(time.Second, s.work/3)
		s.at(min(at, s.troubledFor()-time.Second), func() {
			if p := s.victim(); p != nil {
				s.strike(s.drawTrouble(), p)
			}
		})
	}
}

// count adds up what a world was once it is over.
func (s *yard) count() {
	s.seen["steps"] += s.steps
	s.seen["tries"] += len(s.tries)
	s.seen["looks"] += s.seers
	if len(s.places) > 1 {
		s.seen["second job"]++
	}
	for k, n := range s.bucket.Counts() {
		s.seen["store "+k] += n
	}
	for _, t := range s.tales {
		if len(t.said) > 1 {
			s.seen["second round"]++
		}
		for _, c := range t.chunks {
			for _, st := range c.state {
				s.seen["ended as "+string(st)]++
			}
		}
	}
}

// wantedOfMaps is what must have happened at least once in a normal test run.
func wantedOfMaps() []string {
	all := []string{"second job", "second round", "wrong entry", "looks", "extra run", "began alone", "killed by an item", "quarantined", "blamed",
		"suspected", "not suspected", "handed suspects over", "began at once, and others are suspects",
		"licence ran out", "a zombie began an item", "waited for room", "given up", "given up, and landed", "left an unsettled job", "declined", "died before it began", "keeper interrupted",
		"evidence: told", "evidence: gone", "evidence: silent", "evidence: silent, and it lives", "ended for a slow owner", "a reopen was dismissed",
		"new code", "new code with a round", "code as it once was", "began with new code", "left for new code", "drained an agent", "left as it was drained", "let an item end with old code",
		"new limits", "new settings", "began with new limits", "handed for a back-off", "cancelled with drain", "cancelled after a drain", "final by a rule", "reopened live", "reopened after " + string(job.Succeeded), "reopened after " + string(job.Failed), "reopened after " + string(job.Cancelled),
		"failing: too many items", "failing: nothing came to live"}
	for _, e := range []string{"submitted", "closed", "placed", "amended", "extended", "paused", "resumed", "cancelled", "failing", "settled", "gone", "drained", "reopened",
		"results", "starting", "handed", "released", "ended", "ended by a stop", "again"} {
		all = append(all, "entry "+e)
	}
	for _, g := range []protocol.Grounds{protocol.Untouched, protocol.FreeAgain, protocol.Silence, protocol.TakenAway} {
		all = append(all, "claimed "+string(g))
	}
	for _, d := range []mapagent.MapDo{mapagent.Work, mapagent.Rest, mapagent.Drain, mapagent.Cease, mapagent.Depart, mapagent.Quit} {
		all = append(all, fmt.Sprintf("order %d", d))
	}
	for _, f := range []mapagent.Outcome{mapagent.Holding, mapagent.Over, mapagent.Fenced} {
		all = append(all, fmt.Sprintf("fate %d", f))
	}
	for _, k := range []string{goodItem, badItem, onceItem, killer, loneWolf, crowdItem, hanging} {
		all = append(all, "item "+k)
	}
	for _, st := range []job.ItemState{job.ItemSucceeded, job.ItemFailed, job.ItemQuarantined, job.ItemCancelled} {
		all = append(all, "ended as "+string(st))
	}
	for _, f := range []string{"Busy", "LoseRequest", "LoseReply", "Conflict", "Late", "Echo", "FailSync", "ShortList", "StaleList", "Room", "Landed", "Refused"} {
		all = append(all, "store "+f)
	}
	for _, t := range mapTroubles {
		all = append(all, "fault "+t.name)
	}
	all = append(all, "all slept", "removed", "outlived its job", "left as its job was removed", "snapshot", "snare "+heartbeatRead, "snare "+chunkRead, "snare "+readSilent, "snare "+readLost)
	for _, m := range mapMoments {
		all = append(all, "snare "+m)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c coverage) checkMaps(t *testing.T) {
	for _, want := range wantedOfMaps() {
		if c[want] == 0 {
			t.Errorf("in all worlds this never was: %s", want)
		}
	}
}

// mapPlan draws the store's manners for a world: as for runs, and more often it has
// no room for a while, and then its answers are late as well.
func mapPlan(seed uint64) flaky.Plan {
	p := plan(seed)
	rng := rand.New(rand.NewPCG(seed, 13))
	if rng.IntN(10) == 0 {
		p.Room, p.Late = int64(2000+rng.IntN(30000)), 0.05+rng.Float64()/5
	}
	return p
}
