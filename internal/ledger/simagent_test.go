package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// agent is package agent's loop over a simulated program.
func (s *scene) agent(p *process, m *machine) {
	w := s.ledgerOf(p)
	p.sleep(s.between(10*time.Millisecond, s.boot)) // boot, environment
	if m.placed <= s.stillborn {
		m.taken, m.broke = s.takenEarly, !s.takenEarly
		s.seen["died before it joined"]++
		p.end()
	}
	path := pathOf(m.job)
	j, err := s.loadAccepted(w, m.job)
	if errors.Is(err, store.ErrNotExist) {
		p.end()
	}
	must(err)
	task, err := tasks.ReadTask(ctx, w, path)
	must(err)
	m.agent = liveness.NewAgentID(w, m.placed, m.index)
	s.checkAgentID(m)
	host := protocol.Host{Boot: "b", Namespace: "n"}
	for i, q := range s.procs {
		if q == p {
			host.PID = i + 1
		}
	}
	m.member = runagent.NewMember(w, j, m.agent, protocol.Join{Host: host, Address: m.agent})
	if m.index%2 == m.placed%2 { // far from the store
		m.member.Pace = protocol.Poll / 2
	}
	m.member.Joining = func(j *protocol.Join) error {
		j.Port = 1024 + s.rng.IntN(1<<30)
		return nil
	}
	p.spawn(func(p *process) { s.heart(p, m, s.ledgerOf(p), path, host) })
	r := &program{s: s, m: m, w: w, path: path, main: s.current, since: j.Since}
	r.place, _ = task.PlaceOf(m.job)
	prepared := s.now
	if r.unready = s.chance(s.unready); s.chance(30) {
		prepared += s.between(0, 10*time.Second)
	}
	for {
		if m.ready == 0 && s.now >= prepared {
			m.member.Ready()
			m.ready = s.now
		}
		if !r.once(p) {
			break
		}
		p.idle(min(s.between(time.Second, protocol.Poll), m.member.Again()))
	}
	s.logf("%s leaves", p.name)
	s.left = append(s.left, departure{s.now, m})
	p.end()
}

func (s *scene) heart(p *process, m *machine, w protocol.World, path job.Path, host protocol.Host) {
	for n := int64(1); ; n++ {
		must(liveness.WriteHeartbeat(ctx, w, path, protocol.Heartbeat{Agent: m.agent, Counter: n, Host: host}))
		p.sleep(protocol.HeartbeatEvery)
	}
}

// program is an agent's hold on the user's simulated process.
type program struct {
	s       *scene
	m       *machine
	w       protocol.World
	path    job.Path
	main    *coro
	place   int
	since   int  // of the job
	unready bool // what was prepared is of no use: it can only say so

	attempt  int // set up for
	gens     *states.Generations
	fenced   bool
	progress int
	count    int // in the state: generations of this rank, whatever the job
	saved    int
	run      *start
	saving   bool   // the saver is in the store
	last     *start // the saver of this program is to end
}

// once carries out orders until one of them is to wait; false when the agent is
// to leave.
func (r *program) once(p *process) bool {
	s := r.s
	for {
		if r.m.told != "" {
			r.leaveNow(p)
			return false
		}
		if r.run != nil && r.run.ended {
			r.record(p, r.verdict())
			continue
		}
		o, err := r.m.member.Poll(ctx)
		must(err)
		switch o.Do {
		case runagent.Launch:
			if r.attempt != o.Attempt {
				r.setUp(p, o)
				continue
			}
			if !r.fenced {
				r.launch(p, o)
			}
			return true
		case runagent.Halt:
			if r.run == nil {
				s.seen["halted before it began"]++
				must(r.m.member.Ended(ctx, protocol.Exit{Verdict: protocol.Halted, Reason: o.Why}))
				continue
			}
			r.end(p)
			r.record(p, protocol.Exit{Verdict: protocol.Halted, Code: 143, Reason: o.Why})
			continue
		case runagent.Yield:
			s.checkYield(r.m)
			r.m.told, r.m.toldAt = protocol.Interrupted, s.now
			r.leaveNow(p)
			return false
		case runagent.Finish:
			s.checkTold(p.name, r.m.job, *o.Settled)
			must(r.m.member.Leave(ctx))
			return false
		case runagent.Leave:
			return false
		}
		s.checkWaiting(r.m)
		return true
	}
}

// verdict is the one on a program that has ended by itself or by its limit.
func (r *program) verdict() protocol.Exit {
	switch {
	case r.run.late:
		return protocol.Exit{Verdict: protocol.TimedOut, Code: 124, Reason: "time limit reached"}
	case r.run.code != 0:
		return protocol.Exit{Verdict: protocol.Broke, Code: r.run.code, Reason: fmt.Sprintf("rank %d failed", r.run.rank)}
	}
	return protocol.Exit{Verdict: protocol.Done}
}

// leaveNow is the way out before the end.
func (r *program) leaveNow(p *process) {
	switch k, _ := r.m.member.Joined(); {
	case r.run != nil && r.run.ended: // in this very moment
		r.record(p, r.verdict())
		_, err := r.m.member.Poll(ctx)
		must(err)
	case r.run != nil:
		r.end(p)
		r.record(p, protocol.Exit{Verdict: r.m.told, Code: 143, Reason: "told to go"})
	case k > 0:
		must(r.m.member.Ended(ctx, protocol.Exit{Verdict: r.m.told, Reason: "told to go"}))
	}
}

// setUp makes ready for one attempt with what the newest generation holds.
func (r *program) setUp(p *process, o runagent.Order) {
	r.attempt, r.gens, r.fenced = o.Attempt, nil, false
	if r.unready {
		must(r.m.member.Ended(ctx, protocol.Exit{Verdict: protocol.Setup, Code: 125, Reason: "no environment"}))
		return
	}
	s := r.s
	s.restoring++
	defer func() { s.restoring-- }()
	me := protocol.Restored{Job: r.m.job, Submission: r.place, Attempt: o.Attempt, Agent: r.m.agent}
	g, saved, err := states.RestoreState(ctx, r.w, r.path, o.Rank, me, r.since, r.complete)
	if errors.Is(err, states.ErrFenced) {
		r.fenced = true
		s.seen["fenced before it began"]++
		return
	}
	must(err)
	r.gens, r.progress, r.count = g, 0, 0
	if saved != nil {
		r.progress, r.count = s.read(r.w, saved.Checkpoints, o.Rank), s.read(r.w, saved.State, o.Rank)
	}
	r.saved = r.progress
	s.checkRestored(r, o, saved)
}

func (r *program) complete(g protocol.Saved) (bool, error) {
	for _, d := range []store.Digest{g.State, g.Checkpoints} {
		if ok, err := r.w.Store.HasBlob(ctx, d); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// launch starts the program: it takes steps, and a saver watches it.
func (r *program) launch(p *process, o runagent.Order) {
	s := r.s
	run := &start{at: s.now, job: r.m.job, attempt: o.Attempt, rank: o.Rank, agent: r.m.agent, from: r.progress}
	for _, j := range o.Joins {
		run.joins += j.Token + " "
	}
	r.run = run
	s.starts = append(s.starts, run)
	s.checkStart(run, o)
	r.m.member.Started()
	s.logf("%s starts program %s/%d rank %d at step %d", p.name, r.m.job, o.Attempt, o.Rank, r.progress)
	p.spawn(func(p *process) { r.saver(p, run) })
	p.spawn(func(p *process) { r.steps(p, run) })
	if s.limit > 0 {
		p.spawn(func(p *process) {
			p.sleep(s.limit)
			if r.run == run && !run.ended {
				run.late = true
				r.ends(run)
			}
		})
	}
}

func (r *program) steps(p *process, run *start) {
	failAt, fails := r.s.failAt[run.attempt]
	for r.progress < r.s.work {
		p.sleep(r.s.between(time.Second, 15*time.Second))
		if r.run != run || run.ended {
			return
		}
		r.progress++
		if fails && run.rank == r.s.failRank && r.progress >= failAt {
			run.code = 7
			break
		}
	}
	r.ends(run)
}

// ends is a program that ends by itself, or by its limit.
func (r *program) ends(run *start) {
	run.ended, run.end, run.to = true, r.s.now, r.progress
	r.main.poke()
}

// end ends the program, as gently as the grace allows.
func (r *program) end(p *process) {
	run := r.run
	if r.s.chance(50) {
		p.sleep(r.s.between(0, 10*time.Second))
	}
	if !run.ended {
		run.ended, run.end, run.to = true, r.s.now, -1
	}
}

// record is what an agent does when its program is gone: save, store what it
// made, say so.
func (r *program) record(p *process, e protocol.Exit) {
	r.last = r.run
	for r.saving {
		p.sleep(10 * time.Millisecond)
	}
	r.save()
	if e.Verdict == protocol.Done {
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
		r.save()
		r.saving = false
	}
}

// save stores a generation's blobs, then says so.
func (r *program) save() {
	if r.gens == nil || r.progress <= r.saved {
		return
	}
	s, progress, attempt, gens := r.s, r.progress, r.attempt, r.gens
	_, rank := r.m.member.Joined()
	put := func(n int, what string) store.Digest {
		d, _, err := r.w.Store.PutBlob(ctx, blob(fmt.Sprintf("%d %s of %s rank %d by %s in attempt %d", n, what, r.m.job, rank, r.m.agent, attempt)))
		must(err)
		return d
	}
	g := protocol.Saved{Checkpoints: put(progress, "checkpoint"), State: put(r.count+1, "state")}
	err := gens.Save(ctx, g)
	if errors.Is(err, states.ErrFenced) {
		r.gens = nil
		s.seen["fenced while it ran"]++
		return
	}
	must(err)
	r.saved = progress
	r.count++
	n := len(gens.Log.Entries) - 1
	s.saves = append(s.saves, ack{s.now, r.m.job, rank, attempt, progress, gens.Log.EntryKey(n), g.Checkpoints})
}

// read reads the number that a blob of a generation begins with.
func (s *scene) read(w protocol.World, d store.Digest, rank int) (n int) {
	if d == "" {
		return 0
	}
	rd, err := w.Store.OpenBlob(ctx, d)
	if err != nil {
		s.violate("R6: a torn generation was offered: %v", err)
		return 0
	}
	var what, of string
	var whose int
	if _, err := fmt.Fscanf(rd, "%d %s of %s rank %d", &n, &what, &of, &whose); err != nil || whose != rank {
		s.violate("R6: rank %d was given the %s of rank %d (%v)", rank, what, whose, err)
	}
	_ = rd.Close()
	return n
}
