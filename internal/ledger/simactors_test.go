package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// scene is one task in a world: command lines that submit and attend, machines
// that run agents, and the truth about what they did.
type scene struct {
	*world
	nodes, retries int
	work           int         // steps the program takes
	failAt         map[int]int // start number of the whole run -> step at which rank fails
	sameHost       bool        // agents can see each other's processes
	slowEngine     bool        // the driver tells of deaths late

	machines map[string]*machine // by job/placement/index
	starts   []*start
	saves    []ack
	torn     map[store.Digest]bool // blobs of generations that were lost since
	// restoring counts agents between their choice of a generation and reading it.
	restoring int
	tokens    map[string]string // token -> job/attempt it was used in
	jobs      map[string]bool   // every job some submit was told is live
	cancels   []cancelled
	left      []departure
	calm      bool
	runsOf    map[string]int // job -> how many attempts' programs began
}

type machine struct {
	p      *process
	agent  string
	index  int
	placed int
	job    string
	died   time.Duration
	told   bool // had notice, or Ctrl-C
	member *Member
	beats  []time.Duration
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

type departure struct {
	at   time.Duration
	m    *machine
	done bool
}

var ctx = context.Background()

func (s *scene) gone(h Host) (bool, bool) {
	if !s.sameHost || h.PID == 0 || h.PID > len(s.procs) {
		return false, false
	}
	return s.procs[h.PID-1].dead, true
}

func (s *scene) ledgerOf(p *process) World { return p.ledger(s.gone) }

// commandLine is a person who types the command, follows the job, and whose
// laptop may die at any moment.
func (s *scene) commandLine(name string, submit bool) *process {
	return s.start(name, func(p *process) {
		w := s.ledgerOf(p)
		id, ok := s.submit(p, w, submit)
		if ok {
			s.attend(p, w, id, name)
		}
		p.end()
	})
}

func (s *scene) submit(p *process, w World, fresh bool) (string, bool) {
	path := job.Path{Project: "p", Task: "t"}
	if !fresh {
		t, err := w.Task(ctx, path)
		must(err)
		return t.Newest(), t.Live != ""
	}
	j := job.Job{V: 1, Spec: job.Spec{Project: "p", Task: "t", Nodes: s.nodes, Retries: s.retries, Grace: job.Duration(10 * time.Second)}}
	must(w.NameJob(ctx, &j))
	live, mine, err := w.Submit(ctx, j, p.name)
	must(err)
	s.logf("%s submit %s: live %s mine %v", p.name, j.ID, live, mine)
	s.jobs[live] = true
	if mine && live != j.ID {
		s.violate("submit said mine of another's job")
	}
	return live, true
}

// attend is package engine's loop: ask the driver, let the keeper decide, start.
func (s *scene) attend(p *process, w World, id, name string) {
	j, err := w.Load(ctx, job.Path{Project: "p", Task: "t", Job: id})
	if errors.Is(err, store.ErrNotExist) {
		return
	}
	must(err)
	k := w.NewKeeper(j, name)
	var rows []Machine
	for {
		watch, err := k.Poll(ctx, rows)
		must(err)
		if watch.Settled != nil {
			return
		}
		if watch.Start {
			p.sleep(s.between(time.Millisecond, 3*time.Second))
			s.driverStart(p, id, watch.Placed)
			p.sleep(s.between(time.Millisecond, time.Second))
		} else {
			p.sleep(s.between(200*time.Millisecond, 3*time.Second))
		}
		rows = s.driverStatus(id)
	}
}

// driverStart is idempotent by job and placement, as the contract says.
func (s *scene) driverStart(p *process, id string, placed Placed) {
	if _, ok := s.machines[fmt.Sprintf("%s/%d/0", id, placed.Placement)]; ok {
		return
	}
	for i := range placed.Agents {
		m := &machine{job: id, placed: placed.Placement, index: i}
		s.machines[fmt.Sprintf("%s/%d/%d", id, placed.Placement, i)] = m
		m.p = s.start(fmt.Sprintf("agent%d.%d", placed.Placement, i), func(p *process) { s.agent(p, m) })
		m.p.atExit = append(m.p.atExit, func() { m.died = s.now })
	}
	s.checkPlaced(id, placed)
}

func (s *scene) driverStatus(id string) []Machine {
	var rows []Machine
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
			rows = append(rows, Machine{Placement: placed, Index: i, Alive: !dead, Why: "gone"})
		}
	}
}

// agent is package agent's loop over a simulated program.
func (s *scene) agent(p *process, m *machine) {
	w := s.ledgerOf(p)
	p.sleep(s.between(10*time.Millisecond, 20*time.Second)) // boot, environment
	path := job.Path{Project: "p", Task: "t", Job: m.job}
	j, err := w.Load(ctx, path)
	if errors.Is(err, store.ErrNotExist) {
		p.end()
	}
	must(err)
	m.agent = w.AgentID(m.placed, m.index)
	pid := 0
	for i, q := range s.procs {
		if q == p {
			pid = i + 1
		}
	}
	host := Host{Boot: "b", Namespace: "n", PID: pid}
	m.member = w.NewMember(j, m.agent, Join{Host: host})
	p.spawn(func(p *process) { s.heart(p, m, s.ledgerOf(p), path, host) })
	r := &program{s: s, m: m, w: w, path: path, main: s.current}
	task, err := w.Task(ctx, path)
	must(err)
	r.place, _ = task.PlaceOf(m.job)
	m.member.Ready()
	for r.once(p) {
		p.idle(s.between(500*time.Millisecond, Poll))
	}
	s.left = append(s.left, departure{s.now, m, true})
	p.end()
}

func (s *scene) heart(p *process, m *machine, w World, path job.Path, host Host) {
	for n := int64(1); ; n++ {
		must(w.Beat(ctx, path, Beat{Agent: m.agent, Counter: n, Host: host}))
		m.beats = append(m.beats, s.now)
		p.sleep(Heartbeat)
	}
}

// program is an agent's hold on the user's simulated process.
type program struct {
	s     *scene
	m     *machine
	w     World
	path  job.Path
	main  *coro
	place int

	attempt  int // restored for
	gens     *Generations
	fenced   bool
	progress int
	saved    int
	run      *start
	saving   bool   // the saver is in the store
	last     *start // the saver of this program is to end
}

// once carries out one order; false when the agent is to leave.
func (r *program) once(p *process) bool {
	if r.m.told {
		return r.leaveNow(p)
	}
	o, err := r.m.member.Poll(ctx)
	must(err)
	switch o.Do {
	case Launch:
		if r.attempt != o.Attempt {
			r.restore(p, o)
			return r.once(p)
		}
		if r.fenced {
			return true
		}
		r.launch(o)
	case Halt:
		r.stop()
		r.report(p, Exit{Verdict: Halted, Code: 143})
	case Finish:
		must(r.m.member.Leave(ctx))
		return false
	case Leave:
		return false
	}
	if r.run != nil && r.run.ended {
		e := Exit{Verdict: Done}
		if r.run.code != 0 {
			e = Exit{Verdict: Broke, Code: r.run.code, Reason: "program failed"}
		}
		r.lastSave(p)
		r.report(p, e)
	}
	return true
}

func (r *program) leaveNow(p *process) bool {
	if r.run != nil {
		r.lastSave(p)
		r.stop()
		r.report(p, Exit{Verdict: Interrupted, Code: 143})
	} else if k, _ := r.m.member.Joined(); k > 0 {
		r.report(p, Exit{Verdict: Interrupted, Code: 143})
	}
	return false
}

func (r *program) restore(p *process, o Order) {
	r.s.restoring++
	defer func() { r.s.restoring-- }()
	me := Restored{Job: r.m.job, Place: r.place, Attempt: o.Attempt, Agent: r.m.agent}
	g, saved, err := r.w.Restore(ctx, r.path, o.Rank, me, 0, func(s Saved) (bool, error) { return r.w.Store.HasBlob(ctx, s.Checkpoints) })
	r.attempt, r.gens, r.fenced = o.Attempt, g, false
	if errors.Is(err, ErrFenced) {
		r.fenced = true
		return
	}
	must(err)
	r.progress = 0
	if saved != nil {
		r.progress = r.s.read(p, r.w, saved.Checkpoints)
	}
	r.saved = r.progress
	r.s.checkRestored(r.path, o, r.m, r.progress, saved)
}

func (r *program) launch(o Order) {
	s := r.s
	joins := ""
	for _, j := range o.Joins {
		joins += j.Token + " "
	}
	r.run = &start{at: s.now, job: r.m.job, attempt: o.Attempt, rank: o.Rank, agent: r.m.agent, from: r.progress, joins: joins}
	s.starts = append(s.starts, r.run)
	s.checkStart(r.run, o)
	r.m.member.Started()
	run := r.run
	key := fmt.Sprintf("%s/%d", r.m.job, o.Attempt)
	if o.Rank == 0 {
		s.runsOf[r.m.job]++
	}
	failAt, fails := s.failAt[o.Attempt]
	s.logf("%s starts program %s rank %d at step %d", r.m.p.name, key, o.Rank, r.progress)
	r.m.p.spawn(func(p *process) { r.saver(p, run) })
	r.m.p.spawn(func(p *process) {
		for r.progress < s.work {
			p.sleep(s.between(time.Second, 15*time.Second))
			if r.run != run {
				return
			}
			r.progress++
			if fails && o.Rank == s.nodes-1 && r.progress >= failAt {
				run.code, run.to = 7, r.progress
				break
			}
		}
		run.ended, run.end, run.to = true, s.now, r.progress
		r.main.poke()
	})
}

func (r *program) stop() {
	if r.run != nil {
		r.run.end = r.s.now
	}
	r.run = nil
}

func (r *program) report(p *process, e Exit) {
	if e.Verdict == Done {
		d, _, err := r.w.Store.PutBlob(ctx, blob(fmt.Sprintf("out %s %d %d", r.m.job, r.attempt, r.run.rank)))
		must(err)
		e.Outputs = map[string]store.Digest{"model": d}
	}
	must(r.m.member.Ended(ctx, e))
	r.run = nil
}

// saver saves on its own while the program runs, whatever the main loop does.
func (r *program) saver(p *process, run *start) {
	for {
		p.sleep(r.s.between(time.Second, 8*time.Second))
		if r.run != run || r.last == run {
			return
		}
		r.saving = true
		r.save(p)
		r.saving = false
	}
}

// lastSave ends the saver, then saves what is left.
func (r *program) lastSave(p *process) {
	r.last = r.run
	for r.saving {
		p.sleep(10 * time.Millisecond)
	}
	r.save(p)
}

// save stores the checkpoint's blob, then says so.
func (r *program) save(p *process) {
	if r.gens == nil || r.progress <= r.saved {
		return
	}
	progress, attempt, gens := r.progress, r.attempt, r.gens
	_, rank := r.m.member.Joined()
	d, _, err := r.w.Store.PutBlob(ctx, blob(fmt.Sprintf("%d checkpoint of %s rank %d by %s", progress, r.m.job, rank, r.m.agent)))
	must(err)
	err = gens.Save(ctx, Saved{Checkpoints: d})
	if errors.Is(err, ErrFenced) {
		r.gens = nil
		return
	}
	must(err)
	r.saved = progress
	n := len(gens.log.Entries) - 1
	r.s.checkSaved(ack{r.s.now, r.m.job, rank, attempt, progress, gens.log.key(n), d})
}

func (s *scene) read(p *process, w World, d store.Digest) int {
	rd, err := w.Store.OpenBlob(ctx, d)
	if err != nil {
		s.violate("R6: a torn generation was offered: %v", err)
		return 0
	}
	var n int
	_, _ = fmt.Fscanf(rd, "%d", &n)
	_ = rd.Close()
	return n
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
