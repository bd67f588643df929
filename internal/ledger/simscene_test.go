package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// scene is one task in a world: command lines that submit and attend, machines
// that run agents, and the truth about what they did.
type scene struct {
	*world
	plot
	machines map[string]*machine // by job/placement/index
	built    []*machine          // the same, in order
	starts   []*start
	saves    []ack
	torn     map[store.Digest]bool // blobs of generations that were lost since
	// restoring counts agents between their choice of a generation and reading it.
	restoring int
	tokens    map[string]string // token or port -> job/attempt/rank it was used in
	jobs      map[string]bool   // every job some submit was told is live
	since     map[string]int    // job -> the first place with checkpoints that it may begin with
	cancels   []cancelled
	breaks    []ctrlC
	keepers   []*keeperOf
	left      []departure
	vandals   *coro
	tampered  map[string]bool // jobs with a job.json that is, or was, not the submitted one
	calm      bool
	logs      map[string]any // a *raw each
	snares    []snare[*scene]
	seen      coverage
}

// plot is what is drawn about a world before it begins.
type plot struct {
	nodes, retries int
	work           int           // steps the program takes
	failAt         map[int]int   // attempt -> step at which rank failRank fails
	failRank       int           //
	limit          time.Duration // --timeout; 0: none
	boot           time.Duration // a machine starts within
	sameHost       bool          // agents can see each other's processes
	slowEngine     bool          // the driver tells of deaths late
	unready        int           // percent of machines on which the program cannot start
	stillborn      int           // so many placements die before their agents join
	takenEarly     bool          // and the engine says that it took them
}

// machine is one place that the driver was asked for, and its agent.
type machine struct {
	p             *process
	agent         string
	index, placed int
	job           string
	died          time.Duration
	told          protocol.Verdict // Interrupted: notice. AskedToStop: Ctrl-C
	toldAt        time.Duration    //
	taken, broke  bool             // what the engine says once it is dead
	disowned      bool             // the engine says that it took it, and it lives on
	disownedAt    time.Duration
	member        *runagent.Member
	ready, joined time.Duration   // 0: not yet
	beats         []time.Duration // when its counter moved, in the store
	counter       int64
}

// start is one program process that really ran.
type start struct {
	at, end  time.Duration
	job      string
	attempt  int
	rank     int
	agent    string
	from, to int // progress
	code     int
	ended    bool // by itself
	late     bool // by its time limit
	joins    string
}

type ack struct {
	at       time.Duration
	job      string
	rank     int
	attempt  int
	progress int
	key      string
	blob     store.Digest
}

type cancelled struct {
	at     time.Duration
	job    string
	stands bool
}

// ctrlC is a person's interrupt: from when agents were told until all were gone,
// and one had said that it was asked to.
type ctrlC struct {
	from, to time.Duration
	job      string
}

type keeperOf struct {
	p           *process
	job         string
	born        time.Duration
	interrupted bool
}

type departure struct {
	at time.Duration
	m  *machine
}

var (
	ctx      = context.Background()
	taskPath = job.Path{Project: "p", Task: "t"}
)

func pathOf(id string) job.Path { return job.Path{Project: "p", Task: "t", Job: id} }

func newScene(seed uint64) *scene {
	s := &scene{world: newWorld(seed, plan(seed)), machines: map[string]*machine{}, tokens: map[string]string{},
		jobs: map[string]bool{}, since: map[string]int{}, torn: map[store.Digest]bool{}, tampered: map[string]bool{}, logs: map[string]any{}, seen: coverage{}}
	s.failAt = map[int]int{}
	s.watch, s.landed = s.onCreate, s.onLanded
	return s
}

func (s *scene) gone(h protocol.Host) (bool, bool) {
	if !s.sameHost || h.PID == 0 || h.PID > len(s.procs) {
		return false, false
	}
	return s.procs[h.PID-1].dead, true
}

func (s *scene) ledgerOf(p *process) protocol.World { return p.ledger(s.gone) }

// machineOf finds the machine of an agent's process.
func (s *scene) machineOf(p *process) *machine {
	for _, m := range s.built {
		if m.p == p {
			return m
		}
	}
	return nil
}

// agentNamed finds the machine of an agent.
func (s *scene) agentNamed(agent string) *machine {
	for _, m := range s.built {
		if m.agent == agent {
			return m
		}
	}
	return nil
}

// wish is what a person types.
type wish int

const (
	resume  wish = iota // go on with what is there
	submit              // run it: attach, or a new job
	force               // a new job that begins anew, whatever was before
	replace             // cancel what is there, then run
)

// commandLine is a person that types a command and follows the job, on a laptop that
// may die at any moment.
func (s *scene) commandLine(name string, what wish) *process {
	return s.start(name, func(p *process) {
		w := s.ledgerOf(p)
		if what == replace {
			s.cancel(p, w)
		}
		for {
			id, mine, ok := s.submit(p, w, what)
			if !ok {
				break
			}
			s.attend(p, w, id)
			if what != replace || mine {
				break
			}
			p.sleep(time.Second)
		}
		p.end()
	})
}

// submit applies the second-command rule; ok is false when there is nothing to do.
func (s *scene) submit(p *process, w protocol.World, what wish) (id string, mine, ok bool) {
	t, err := tasks.ReadTask(ctx, w, taskPath)
	must(err)
	if what == resume {
		return t.Newest(), false, t.Live != ""
	}
	j := job.Job{V: job.Format, Spec: job.Spec{Project: "p", Task: "t", Nodes: s.nodes, Retries: s.retries, Grace: job.Duration(10 * time.Second)}}
	if newest := t.Newest(); newest != "" {
		rep, err := views.ReadReport(ctx, w, pathOf(newest))
		must(err)
		place, _ := t.PlaceOf(newest)
		j.Since = rep.Job.Since
		if rep.State == job.Succeeded || what == force {
			j.Since = place + 1
		}
		if rep.Run.Settled == nil && s.chance(50) {
			return newest, false, true // the rest races for the place
		}
	}
	must(tasks.NameJob(ctx, w, &j))
	s.since[j.ID] = j.Since
	live, mine, err := tasks.SubmitJob(ctx, w, j, p.name)
	must(err)
	s.logf("%s submit %s (since %d): live %s mine %v", p.name, j.ID, j.Since, live, mine)
	s.jobs[live] = true
	if mine && live != j.ID {
		s.violate("T1: submit said mine of another's job")
	}
	s.checkWithdrawn(j, mine)
	return live, mine, true
}

// cancel ends the newest job.
func (s *scene) cancel(p *process, w protocol.World) {
	t, err := tasks.ReadTask(ctx, w, taskPath)
	must(err)
	id := t.Newest()
	if id == "" {
		return
	}
	began := s.now
	stands, err := control.CancelJob(ctx, w, pathOf(id), p.name, "enough")
	must(err)
	s.logf("%s cancelled %s: %v", p.name, id, stands)
	s.cancels = append(s.cancels, cancelled{s.now, id, stands})
	if st := s.storyOf(id); !stands && st.settled != nil && st.settledAt >= began {
		s.seen["cancel lost to the end"]++
	}
}

// canceller is a person that only cancels.
func (s *scene) canceller(p *process) {
	s.cancel(p, s.ledgerOf(p))
	p.end()
}

// attend is package engine's loop: ask the driver, let the keeper decide, start.
func (s *scene) attend(p *process, w protocol.World, id string) {
	j, err := s.loadAccepted(w, id)
	if errors.Is(err, store.ErrNotExist) {
		return
	}
	must(err)
	k := attached.NewKeeper(w, j, p.name)
	k.Far = len(s.keepers)%2 == 1
	me := &keeperOf{p: p, job: id, born: s.now}
	s.keepers = append(s.keepers, me)
	pace := s.between(2*time.Second, 6*time.Second)
	var rows []attached.Machine
	for {
		watch, err := k.Poll(ctx, rows)
		must(err)
		switch {
		case watch.Settled != nil:
			s.checkTold(p.name, id, *watch.Settled)
			return
		case watch.Interrupted:
			s.logf("%s: interrupted", p.name)
			me.interrupted = true
			s.checkInterrupted(me)
			return
		case watch.Start:
			if k.Run().Stop != nil {
				s.violate("J1: placement %d of %s is started, and it was stopped", watch.Placed.Placement, id)
			}
			p.sleep(s.between(time.Millisecond, 3*time.Second))
			s.driverStart(p, id, watch.Placed)
			p.sleep(s.between(time.Millisecond, time.Second))
		default:
			p.sleep(s.between(500*time.Millisecond, pace))
		}
		rows = s.driverStatus(id)
	}
}

// interrupt is Ctrl-C on a target that keeps its agents beside the command line:
// package engine asks all agents to go, and waits until they have.
func (s *scene) interrupt(p *process) {
	w := s.ledgerOf(p)
	t, err := tasks.ReadTask(ctx, w, taskPath)
	must(err)
	id := t.Live
	if id == "" {
		p.end()
	}
	b := ctrlC{from: s.now, job: id}
	s.logf("%s: Ctrl-C", p.name)
	for _, m := range s.built {
		if m.job == id && !m.p.dead && !m.disowned && !s.tell(m, protocol.AskedToStop, 30*time.Second) && m.told == "" {
			m.p.kill() // it has not begun
		}
	}
	for _, m := range s.built {
		for m.job == id && !m.p.dead && !m.disowned {
			p.sleep(200 * time.Millisecond)
		}
	}
	b.to = s.now
	k := len(s.storyOf(id).attempts)
	for rank := range s.nodes {
		e, ok := s.exitAt(id, k, rank, s.now)
		if m := s.agentNamed(e.Agent); ok && e.Verdict == protocol.AskedToStop && m.toldAt >= b.from {
			s.breaks = append(s.breaks, b)
			break
		}
	}
	p.end()
}

// tell gives an agent notice; within the time given its machine takes it.
func (s *scene) tell(m *machine, why protocol.Verdict, within time.Duration) bool {
	if m.p.dead || m.told != "" || m.agent == "" {
		return false
	}
	m.told, m.toldAt = why, s.now
	s.logf("%s is told: %s", m.p.name, why)
	m.p.coros[mainLoop].poke()
	s.at(s.now+s.between(within/2, within), func() {
		if m.p.dead {
			return
		}
		m.taken = why == protocol.Interrupted
		m.p.kill()
	})
	return true
}

// loadAccepted is how agents and engines read the job that they go on with: T1a, it is the
// one that was submitted. A process that meets another one ends, as a real one does.
func (s *scene) loadAccepted(w protocol.World, id string) (job.Job, error) {
	j, err := tasks.LoadAccepted(ctx, w, pathOf(id))
	if s.tampered[id] && errors.Is(err, protocol.ErrUnreadable) {
		s.seen["a changed job.json was refused"]++
		panic(errDied)
	}
	if err == nil && j.Spec.Program == tamperedProgram {
		s.violate("T1a: a process goes on with a job.json of %s that was changed after its submit", id)
	}
	return j, err
}

// driverStart is idempotent by job and placement, as the contract says.
func (s *scene) driverStart(p *process, id string, placed protocol.Placed) {
	if _, ok := s.machines[fmt.Sprintf("%s/%d/0", id, placed.Placement)]; ok {
		return
	}
	for i := range placed.Agents {
		m := &machine{job: id, placed: placed.Placement, index: i}
		s.machines[fmt.Sprintf("%s/%d/%d", id, placed.Placement, i)] = m
		s.built = append(s.built, m)
		m.p = s.start(fmt.Sprintf("agent%d.%d", placed.Placement, i), func(p *process) { s.agent(p, m) })
		m.p.atExit = append(m.p.atExit, func() { m.died = s.now })
	}
	s.checkPlaced(id, placed)
	s.countAgents(id)
}

func (s *scene) driverStatus(id string) (rows []attached.Machine) {
	for placed := 1; ; placed++ {
		if _, ok := s.machines[fmt.Sprintf("%s/%d/0", id, placed)]; !ok {
			return rows
		}
		for i := 0; ; i++ {
			m, ok := s.machines[fmt.Sprintf("%s/%d/%d", id, placed, i)]
			if !ok {
				break
			}
			dead := m.p.dead && !(s.slowEngine && !s.calm && s.now-m.died < 3*time.Minute)
			r := attached.Machine{Placement: placed, Index: i, Alive: !dead && !m.disowned}
			if !r.Alive {
				r.Taken, r.Broke, r.Why = m.taken || m.disowned, m.broke || m.p.broke, "gone"
			}
			rows = append(rows, r)
		}
	}
}

// must ends the process with an error it can do nothing about: a full disk.
func must(err error) {
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Full:
		panic(errDied)
	default:
		panic(err)
	}
}
