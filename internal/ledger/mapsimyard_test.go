package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// yard is one task in a world with maps as jobs: people, machines with agents,
// and the truth about what ran.
type yard struct {
	*world
	mapPlot
	machines  map[string]*mapAgent // by job/placement/index
	built     []*mapAgent          // the same, in order
	tries     []*mapTry
	names     map[string]*mapTry
	recorded  map[string]int      // results in the logs, by agent
	tales     map[string]*mapTale // by job
	live      string              // job of the task, by its log
	places    map[string][]int    // of each job
	deeds     map[string]int      // job/item -> agents it killed in this round
	stands    []*stand            // what people were told
	seers     int                 // looks of readers
	snares    []snare[*yard]
	reads     []snare[*yard]                 // that wait for a request which reads
	asked     map[*process]time.Duration     // when a process last asked for a heartbeat
	looks     map[*process]map[string][]look // answered, by the agent that was asked about
	scheduler *process
	started   func() // what happens once a job is submitted
	attending []*process
	calm      bool
	hasty     map[string]bool // appends that are given up, by process and place
	quiet     bool            // the store does what it should
	lost      map[string]bool // claims that were given up, by process and chunk
	losing    bool            // they often are
	removals  bool            // gc is to remove what has settled
	troubled  bool            // a process may die or stand still that is not killed by an item
	vandals   *coro
	seen      coverage
}

// mapPlot is what is drawn about a world before it begins.
type mapPlot struct {
	near          bool
	agents, slots int
	window        int // tries that wait in an agent's spawner
	risk          int
	few           int // agents that may all tend a job
	scouts        bool
	crowd         bool // agents take their time as thousands do
	items, size   int
	retries       int
	retryOn       job.RetryOn
	maxFails      string
	nature        map[string][]itemNature // by job: of item i at i-1
	work          time.Duration           // all of it takes about so long
	long          time.Duration           // an item takes at most
	tail          time.Duration           // one item takes so long; 1: it was drawn
	timeout       time.Duration           // of a try
	bounds        *rand.Rand              // draws what is to bind items; nil: only the number of retries changes
	retypes       *rand.Rand              // draws whether an amend names all settings; nil: it never does
	boot          time.Duration
	grace         time.Duration
	sameHost      bool // agents can see each other's processes
	slowEngine    bool // the driver tells of deaths late
	keeper        bool // a command line attends; else a small keeper of our own
	outputs       bool // tries leave outputs
	recodes       bool // a user mends the script
	codes         int  // so many times by now
	stillborn     int  // so many placements die before their agents begin
}

// itemNature is what an item does to its agent.
type itemNature struct {
	kind  string
	fails int           // so often it fails at first
	takes time.Duration // one try of it
}

// The kinds of items.
const (
	goodItem  = "good"
	badItem   = "always fails"
	onceItem  = "fails at first"
	killer    = "kills its agent"
	loneWolf  = "kills its agent when alone"
	crowdItem = "kills its agent unless alone"
	hanging   = "hangs"
)

// mapTry is one try of an item that really ran.
type mapTry struct {
	agent    *mapAgent
	hold     *mapagent.OwnedChunk
	job      string
	item     int
	name     string
	chunk    string
	claim    int
	nth      int
	alone    bool
	ooms     int
	begun    time.Duration
	ended    time.Duration
	retries  [2]int        // least and most that its agent knew to be allowed when it ended
	how      string        // "" while it runs; ok, failed, timed out, killed
	given    time.Duration // when its agent gave its result to its hold; 0: not yet
	recorded bool
	at       time.Duration // when it was recorded
	released bool
	dropped  bool // its agent had lost the chunk
}

// stand is what a person was told about a job's log.
type stand struct {
	job, what string
	stands    bool
	at        time.Duration
}

func newYard(seed uint64) *yard {
	p := mapPlan(seed)
	y := &yard{world: newWorld(seed, p), machines: map[string]*mapAgent{}, names: map[string]*mapTry{}, tales: map[string]*mapTale{},
		places: map[string][]int{}, deeds: map[string]int{}, started: func() {}, seen: coverage{}}
	y.hasty, y.refuse = map[string]bool{}, y.giveUp
	y.nature = map[string][]itemNature{}
	p.Rand, p.Clock = nil, nil
	y.most, y.quiet = 1_000_000, reflect.ValueOf(p).IsZero()
	y.watch, y.read, y.landed, y.deleted, y.excused = y.onCreate, y.onRead, y.onLanded, y.onDeleted, y.excusedOf
	y.lost, y.recorded = map[string]bool{}, map[string]int{}
	y.asked, y.looks = map[*process]time.Duration{}, map[*process]map[string][]look{}
	return y
}

func (s *yard) gone(h protocol.Host) (bool, bool) {
	if !s.sameHost || h.PID == 0 || h.PID > len(s.procs) {
		return false, false
	}
	return s.procs[h.PID-1].dead, true
}

func (s *yard) ledgerOf(p *process) protocol.World { return p.ledger(s.gone) }

func (s *yard) agentNamed(agent string) *mapAgent {
	for _, a := range s.built {
		if a.agent == agent {
			return a
		}
	}
	return nil
}

func (s *yard) agentOf(p *process) *mapAgent {
	for _, a := range s.built {
		if a.p == p {
			return a
		}
	}
	return nil
}

// newest is the task's last job.
func (s *yard) newest() (id string) {
	last := -1
	for j, places := range s.places {
		if n := places[len(places)-1]; n > last {
			id, last = j, n
		}
	}
	return id
}

func (s *yard) newName(what string) string { return fmt.Sprintf("%s%d", what, len(s.procs)) }

func (s *yard) somebody(name string, body func(*process)) bool {
	s.start(s.newName(name), body)
	return true
}

// newJob draws a map.
func (s *yard) newJob() job.Job {
	return job.Job{V: job.Format, Manifest: job.Manifest{Count: s.items, Digest: "x", Format: "range"}, ChunkSize: s.size, Code: job.Code{Digest: ownCode},
		Spec: job.Spec{Project: "p", Task: "t", Verb: job.Map, Nodes: 1, Retries: s.retries, Grace: job.Duration(s.grace),
			Items: job.Items{From: "1-9", Workers: s.agents, Slots: s.slots, MaxFails: s.maxFails, RetryOn: s.retryOn, ItemTimeout: job.Duration(s.timeout)}}}
}

// submit makes a new job, or finds that another is live.
func (s *yard) submit(p *process, w protocol.World) (id string) {
	j := s.newJob()
	must(tasks.NameJob(ctx, w, &j))
	for range s.items {
		s.nature[j.ID] = append(s.nature[j.ID], s.drawNature())
	}
	s.tales[j.ID] = s.newTale(j)
	live, mine, err := tasks.SubmitJob(ctx, w, j, p.name)
	must(err)
	s.logf("%s submit %s: live %s mine %v", p.name, j.ID, live, mine)
	if mine != (live == j.ID) || len(s.places[live]) == 0 {
		s.violate("T1: submit of %s said %s is live, mine %v; places %v", j.ID, live, mine, s.places)
	}
	s.checkWithdrawn(j, mine)
	return live
}

// commandLine is a person that runs the map, again and again the same command: it
// attaches, or opens the job again, or goes on with what is there.
func (s *yard) commandLine(name string, what wish) *process {
	return s.start(name, func(p *process) {
		w := s.ledgerOf(p)
		id := s.newest()
		switch {
		case id == "" && what == resume:
			p.end()
		case id == "" || what == force && s.tales[id].settled != nil:
			id = s.submit(p, w)
		case what == submit:
			id = s.reopen(p, w, id)
		}
		if s.keeper {
			s.attend(p, w, id)
		}
		p.end()
	})
}

// reopen is the same command again, with other items perhaps: the failed run
// again, and the new ones.
func (s *yard) reopen(p *process, w protocol.World, id string) string {
	t := s.tales[id]
	var again *protocol.Reopened
	var more *protocol.Extended
	if s.chance(75) {
		again = &protocol.Reopened{}
		switch s.rng.IntN(5) {
		case 0:
			again.States = []job.ItemState{job.ItemFailed}
		case 1:
			again.Items = protocol.Spans{{1 + s.rng.IntN(t.total), t.total}}
		}
	}
	if again == nil || s.chance(30) {
		n := 1 + s.rng.IntN(6)
		more = &protocol.Extended{Manifest: job.Manifest{Count: n, Digest: "y", Format: "range"}, Size: 1 + s.rng.IntN(4)}
		for range n {
			// The first to extend has these; natures are drawn for all that may.
			s.nature[id] = append(s.nature[id], s.drawNature())
		}
	}
	r := control.Round{Again: again, More: more}
	s.recode(&r)
	live, ok, err := control.ReopenMap(ctx, w, t.j, p.name, r)
	must(err)
	s.logf("%s reopen %s (%v, %v): live %s %v", p.name, id, again, more != nil, live, ok)
	if ok != (live == id) {
		s.violate("T2: reopen of %s said that %s is live, and %v", id, live, ok)
	}
	return live
}

// attend is package engine's loop: ask the driver, let the keeper decide, start.
func (s *yard) attend(p *process, w protocol.World, id string) {
	j, err := tasks.LoadJob(ctx, w, pathOf(id))
	if errors.Is(err, store.ErrNotExist) {
		return
	}
	must(err)
	k := attached.NewMapKeeper(w, j, p.name)
	s.attending = append(s.attending, p)
	pace := s.between(4*time.Second, 15*time.Second)
	var rows []attached.Machine
	for {
		watch, err := k.Poll(ctx, rows)
		must(err)
		switch {
		case watch.Settled != nil:
			s.checkTold(p.name, id, *watch.Settled)
			return
		case watch.Interrupted:
			s.seen["keeper interrupted"]++
			return
		case watch.Start:
			s.checkPlaced(k, id, watch.Placed)
			p.sleep(s.between(time.Millisecond, 3*time.Second))
			s.driverStart(id, watch.Placed)
			p.sleep(s.between(time.Millisecond, time.Second))
		default:
			p.sleep(s.between(500*time.Millisecond, pace))
		}
		rows = s.driverStatus(id)
	}
}

// smallKeeper starts agents without a word in any log, and others for those that
// died, as a scheduler's job array would.
func (s *yard) smallKeeper(p *process) {
	for n := 1; ; n++ {
		if id := s.live; id != "" && s.tales[id].settled == nil {
			there := 0
			for _, a := range s.built {
				if a.job == id && !a.p.dead {
					there++
				}
			}
			if missing := s.agents - there; missing > 0 && (there == 0 || s.chance(60)) {
				s.driverStart(id, protocol.Placed{Placement: n, Agents: missing})
			}
		}
		p.sleep(s.between(10*time.Second, 40*time.Second))
	}
}

// driverStart is idempotent by job and placement, as the contract says.
func (s *yard) driverStart(id string, placed protocol.Placed) {
	if _, ok := s.machines[fmt.Sprintf("%s/%d/0", id, placed.Placement)]; ok {
		return
	}
	for i := range placed.Agents {
		a := &mapAgent{s: s, job: id, placed: placed.Placement, index: i}
		s.machines[fmt.Sprintf("%s/%d/%d", id, placed.Placement, i)] = a
		s.built = append(s.built, a)
		a.p = s.start(fmt.Sprintf("agent%d.%d", placed.Placement, i), a.run)
		a.p.atExit = append(a.p.atExit, a.onDeath)
	}
}

func (s *yard) driverStatus(id string) (rows []attached.Machine) {
	for placed := 1; ; placed++ {
		if _, ok := s.machines[fmt.Sprintf("%s/%d/0", id, placed)]; !ok {
			return rows
		}
		for i := 0; ; i++ {
			a, ok := s.machines[fmt.Sprintf("%s/%d/%d", id, placed, i)]
			if !ok {
				break
			}
			dead := a.p.dead && !(s.slowEngine && !s.calm && s.now-a.died < 3*time.Minute)
			r := attached.Machine{Placement: placed, Index: i, Alive: !dead && !a.disowned}
			if !r.Alive {
				r.Taken, r.Broke, r.Why = a.taken || a.disowned, a.broke || a.p.broke, "gone"
			}
			rows = append(rows, r)
		}
	}
}

// running is the try of an item that runs now.
func (s *yard) running(chunk string, item int) *mapTry {
	for _, try := range slices.Backward(s.tries) {
		if try.item == item && try.chunk == chunk && try.how == "" {
			return try
		}
	}
	return nil
}

// lastTry is an agent's last try of an item.
func (s *yard) lastTry(job string, item int, agent string) *mapTry {
	for _, try := range slices.Backward(s.tries) {
		if try.item == item && try.job == job && try.agent.agent == agent {
			return try
		}
	}
	return nil
}

// full says whether an error is that the store has no room: its receiver waits.
func full(err error) bool { return fault.KindOf(err) == fault.Full }
