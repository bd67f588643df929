package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// troubles are what may happen to the processes of a run.
var troubles = []trouble[*scene]{
	{"killed", 8, func(_ *scene, p *process) bool { return p.kill() }},
	{"paused", 5, func(s *scene, p *process) bool { return p.pause(s.between(5*time.Second, 50*time.Second)) }},
	{"paused beyond a lease", 8, func(s *scene, p *process) bool { return p.pause(s.between(65*time.Second, 4*time.Minute)) }},
	{"frozen for good", 3, (*scene).freeze},
	{"stuck", 4, func(s *scene, p *process) bool {
		return p.hold(s.between(time.Minute, 4*time.Minute), mainLoop, heartbeat)
	}},
	{"mute", 5, func(s *scene, p *process) bool { return p.hold(s.between(time.Minute, 4*time.Minute), heartbeat) }},
	{"deaf", 4, func(s *scene, p *process) bool { return p.hold(s.between(time.Minute, 4*time.Minute), mainLoop) }},
	{"noticed", 6, func(s *scene, p *process) bool { return s.toAgent(p, protocol.Interrupted, 2*time.Minute) }},
	{"asked to stop", 2, func(s *scene, p *process) bool { return s.toAgent(p, protocol.AskedToStop, time.Minute) }},
	{"taken", 4, (*scene).take},
	{"broken", 2, (*scene).fall},
	{"disowned", 2, (*scene).disown},
	{"disowned beside a deaf survivor", 5, (*scene).spare},
	{"lid closed", 2, func(s *scene, _ *process) bool { // the laptop's: all of them
		for _, p := range s.procs {
			p.pause(3*time.Minute + time.Duration(s.rng.IntN(1000))*time.Millisecond)
		}
		return true
	}},
	{"blob torn", 4, func(s *scene, _ *process) bool { return s.tear() }},
	{"cancelled", 2, func(s *scene, _ *process) bool { return s.somebody("canceller", s.canceller) }},
	{"interrupted by Ctrl-C", 4, func(s *scene, _ *process) bool { return s.somebody("ctrlC", s.interrupt) }},
	{"resumed", 4, func(s *scene, _ *process) bool { s.commandLine(s.newName("resume"), resume); return true }},
	{"run again", 2, func(s *scene, _ *process) bool { s.commandLine(s.newName("again"), submit); return true }},
	{"replaced", 1, func(s *scene, _ *process) bool { s.commandLine(s.newName("again"), replace); return true }},
}

func (s *scene) newName(what string) string { return fmt.Sprintf("%s%d", what, len(s.procs)) }

func (s *scene) somebody(name string, body func(*process)) bool {
	s.start(s.newName(name), body)
	return true
}

func (s *scene) toAgent(p *process, why protocol.Verdict, within time.Duration) bool {
	m := s.machineOf(p)
	return m != nil && s.tell(m, why, within)
}

// freeze holds a process up for longer than a world lasts. A machine that was never
// heard of is waited for, however long it takes (R3), so it is spared.
func (s *scene) freeze(p *process) bool {
	m := s.machineOf(p)
	return (m == nil || len(m.beats) > 0) && p.pause(24*time.Hour)
}

// take is an interruption without notice.
func (s *scene) take(p *process) bool {
	m := s.machineOf(p)
	if m == nil || p.dead {
		return false
	}
	m.taken = true
	return p.kill()
}

// fall is an agent that ends by a failure of drover's own.
func (s *scene) fall(p *process) bool {
	m := s.machineOf(p)
	if m == nil || p.dead {
		return false
	}
	m.broke = true
	return p.kill()
}

// disown is an engine that has lost a machine, on which the agent lives on.
func (s *scene) disown(p *process) bool {
	m := s.machineOf(p)
	if m == nil || p.dead || m.disowned {
		return false
	}
	m.disowned, m.disownedAt = true, s.now
	s.logf("%s is disowned", p.name)
	return true
}

// spare makes an agent that there is no rank for: one machine is disowned and
// replaced, and lives on; and a survivor does not come for the rank that is kept.
func (s *scene) spare(p *process) bool {
	for _, a := range s.built {
		for _, b := range s.built {
			if a != b && a.job == b.job && a.holds() && b.holds() && !a.p.dead && !a.disowned &&
				b.p.hold(s.between(4*time.Minute, 7*time.Minute), mainLoop) {
				return s.disown(a.p)
			}
		}
	}
	return false
}

// setDeaf has a run cancelled, in some worlds, while an agent that has joined is deaf:
// it reads nothing and does nothing, and its heartbeat goes on. So a stopped run waits
// for an exit that does not come, until R8's time is over.
func (s *scene) setDeaf() {
	rng := rand.New(rand.NewPCG(s.seed, 31))
	if rng.IntN(6) == 0 {
		s.at(time.Duration(rng.Int64N(int64(2*time.Minute))), s.deafen)
	}
}

// deafen waits for an agent that can be made deaf, and cancels its run.
func (s *scene) deafen() {
	i := slices.IndexFunc(s.built, func(m *machine) bool {
		return m.holds() && !m.p.dead && s.storyOf(m.job).open() && m.p.hold(s.between(3*time.Minute, 5*time.Minute), mainLoop)
	})
	switch {
	case i >= 0:
		s.logf("%s is deaf", s.built[i].p.name)
		s.seen["deaf beside a cancel"]++
		s.somebody("canceller", s.canceller)
	case s.now < 3*time.Minute:
		s.at(s.now+s.between(time.Second, 5*time.Second), s.deafen)
	}
}

// tamperedProgram is what a changed job.json would have run.
const tamperedProgram = "tampered"

// setTamperer has job.json changed in some worlds by a process that may write to the
// store and is none of drover's, while the job lives, and has it put back later.
func (s *scene) setTamperer() {
	rng := rand.New(rand.NewPCG(s.seed, 37))
	if rng.IntN(6) > 0 {
		return
	}
	for at := time.Duration(0); at < troubledFor/2; {
		at += time.Duration(rng.Int64N(int64(time.Minute)))
		lasts := time.Second + time.Duration(rng.Int64N(int64(2*time.Minute)))
		s.at(at, func() { s.tamper(lasts) })
	}
}

// tamper changes the newest job's job.json for a while.
func (s *scene) tamper(lasts time.Duration) {
	_, id := s.order()
	key := protocol.JobKey(pathOf(id))
	if _, there := s.made[key]; id == "" || !there {
		return
	}
	var j job.Job
	s.peek(key, &j)
	if j.Spec.Program == tamperedProgram {
		return // it is changed already
	}
	sound := s.text(key)
	j.Spec.Program = tamperedProgram
	s.tampered[id] = true
	s.seen["job.json changed"]++
	s.logf("job.json of %s is changed for %s", id, lasts)
	must(s.under.Put(ctx, key, bytes.NewReader(protocol.Encode(j))))
	s.at(s.now+lasts, func() {
		s.logf("job.json of %s is put back", id)
		must(s.under.Put(ctx, key, bytes.NewReader(sound)))
	})
}

// tear loses the blob of the newest generation: it is torn, and the one before
// it must be offered.
func (s *scene) tear() bool {
	if len(s.saves) == 0 || s.restoring > 0 {
		return false // what goes after it was looked for was rightly offered
	}
	d := s.saves[len(s.saves)-1].blob
	s.torn[d] = true
	must(s.under.Delete(ctx, "blobs/"+string(d)))
	s.logf("blob %s is lost", d)
	return true
}

func (s *scene) drawTrouble() trouble[*scene] { return drawTrouble(s.world, troubles) }

func (s *scene) strike(t trouble[*scene], p *process) {
	s.seen["faults"]++
	if p.dead {
		s.seen["faults to the dead"]++
	}
	if !strike(s, s.world, s.seen, t, p, troubles) {
		s.seen["faults in vain"]++
	}
}

// victim draws a living process: agents that hold a rank more often than others.
func (s *scene) victim() *process {
	var dear []*process
	for _, m := range s.built {
		if m.holds() {
			dear = append(dear, m.p)
		}
	}
	return s.drawVictim(dear)
}

// moments are what snares wait for, the interesting more often.
var moments = []string{"attempt", "attempt", "join", "join", "join", "exit", "exit", "exit", "saved", "saved", "restored", "restored",
	"settled", "settled", "placed", "placed", "submitted", "closed", "cancelled", "blob"}

func (s *scene) setSnares() {
	if s.chance(15) { // the last act of a process
		s.snares = append(s.snares, snare[*scene]{"exit", back, 1 + s.rng.IntN(3), false, troubles[0]})
	}
	if s.chance(12) { // the canceller is slow
		s.snares = append(s.snares, snare[*scene]{"cancelled", leaving, 1, false, troubles[1]})
	}
	for range s.rng.IntN(4) {
		s.snares = append(s.snares, snare[*scene]{moments[s.rng.IntN(len(moments))], []string{leaving, arrived, back}[s.rng.IntN(3)],
			1 + s.rng.IntN(4), s.chance(35), s.drawTrouble()})
	}
}

// onCreate springs the snares that wait for r, and notes what is to be noted.
func (s *scene) onCreate(p *process, r request) {
	if r.stage == arrived {
		s.note(p, r)
	}
	if s.calm {
		return
	}
	for i := range s.snares {
		n := &s.snares[i]
		if !n.springs(r) {
			continue
		}
		who := p
		if other := s.victim(); n.other && other != nil {
			who = other
		}
		s.seen["fault "+n.stage+" "+n.kind]++
		s.strike(n.trouble, who)
	}
}

// note counts what follows from one write.
func (s *scene) note(p *process, r request) {
	switch {
	case errors.Is(r.err, store.ErrExists) && r.text != nil:
		held := s.text(r.key)
		if string(held) != string(r.text) {
			s.seen[r.kind+" behind "+factOf(held)]++
		}
	case s.vandals != nil && p != s.vandals.p && (r.kind == "cancelled" || r.kind == "failing" || r.text != nil && s.chance(25)):
		s.vandals.poke()
	}
}

// onLanded sees what came to be: a join, an exit, a heartbeat, or a blob that came
// back, by a late write of it.
func (s *scene) onLanded(key string) {
	part := strings.Split(key, "/") // p, t, job, attempts, k, join or exit, rank
	switch {
	case part[0] == "blobs":
		delete(s.torn, store.Digest(part[1]))
	case len(part) == 5 && part[3] == "agents":
		var b protocol.Heartbeat
		s.peek(key, &b)
		if m := s.agentNamed(b.Agent); b.Counter != m.counter {
			m.counter, m.beats = b.Counter, append(m.beats, s.now)
		}
	case len(part) == 7 && part[3] == "attempts":
		s.onRecord(key, part)
	}
}

func (s *scene) onRecord(key string, part []string) {
	var who struct{ Agent string }
	s.peek(key, &who)
	m := s.agentNamed(who.Agent)
	k, err := strconv.Atoi(part[4])
	must(err)
	rank, err := strconv.Atoi(part[6])
	must(err)
	st := s.storyOf(m.job)
	late := k < len(st.attempts) || st.settled != nil
	if late {
		s.seen["late "+part[5]]++
	}
	if part[5] == "join" {
		if m.joined == 0 && !late { // it takes part in nothing by a late one
			m.joined = s.now
		}
		s.checkJoin(m, st, k, rank)
	}
}

// setTroubles draws what happens at random times, to processes that live then.
func (s *scene) setTroubles() {
	n := s.rng.IntN(6)
	at := time.Duration(0)
	for range n {
		at += s.between(time.Second, 70*time.Second)
		s.at(min(at, troubledFor-time.Second), func() {
			if p := s.victim(); p != nil {
				s.strike(s.drawTrouble(), p)
			}
		})
	}
}

// setStorm takes a run more often than it may be interrupted.
func (s *scene) setStorm() {
	s.work, s.boot, s.slowEngine, s.limit, s.failAt = 60, 2*time.Second, false, 0, map[int]int{}
	asked := s.chance(50)
	for at := 5 * time.Second; at < troubledFor; at += s.between(3*time.Second, 9*time.Second) {
		s.at(at, func() {
			if !slices.ContainsFunc(s.keepers, func(k *keeperOf) bool { return !k.p.dead }) {
				s.commandLine(s.newName("resume"), resume)
			}
			i := slices.IndexFunc(s.built, func(m *machine) bool { return m.holds() && !m.p.dead && m.told == "" })
			switch {
			case i < 0:
			case asked && s.chance(20):
				s.tell(s.built[i], protocol.AskedToStop, 10*time.Second)
			case s.chance(50):
				s.tell(s.built[i], protocol.Interrupted, 10*time.Second)
			default:
				s.take(s.built[i].p)
			}
		})
	}
}

// holds says whether the machine's agent has joined an attempt.
func (m *machine) holds() bool {
	if m.member == nil {
		return false
	}
	k, _ := m.member.Joined()
	return k > 0
}

// vandal writes into the logs what no process may write there: an older drover, or a
// bug. A reader is to ignore it (L3).
func (s *scene) vandal(p *process) {
	w := s.ledgerOf(p)
	s.vandals = s.current
	for range 16 {
		p.idle(s.between(time.Second, time.Minute))
		t, err := tasks.ReadTask(ctx, w, taskPath)
		must(err)
		id := t.Newest()
		if id == "" {
			continue
		}
		rank := s.rng.IntN(s.nodes)
		switch s.rng.IntN(4) {
		case 0:
			vandalise(s, w.TaskLog(taskPath, "vandal"), func(entries []protocol.TaskEntry) []protocol.TaskEntry { return wrongInTask(tasks.FoldTask(entries)) })
		case 1, 2:
			vandalise(s, w.JobLog(pathOf(id), "vandal"), func(entries []protocol.JobEntry) []protocol.JobEntry { return wrongInJob(runs.FoldRun(entries)) })
		default:
			vandalise(s, w.StateLog(taskPath, rank, "vandal"), wrongInState)
		}
	}
	p.end()
}

// vandalise appends one of the entries that are wrong after those that a log holds.
func vandalise[E protocol.Entry](s *scene, l *protocol.Log[E], wrongIn func(entries []E) []E) {
	must(l.Read(ctx))
	wrong := wrongIn(l.Entries)
	if len(wrong) == 0 {
		return
	}
	mine, err := l.Append(ctx, wrong[s.rng.IntN(len(wrong))])
	must(err)
	if mine {
		s.seen["wrong entry"]++
	}
}

func wrongInTask(t tasks.Task) []protocol.TaskEntry {
	wrong := []protocol.TaskEntry{{Closed: &protocol.Closed{Job: "nobody"}}}
	if t.Live != "" {
		wrong = append(wrong, protocol.TaskEntry{Submitted: &protocol.Submitted{Job: "ghost"}})
	}
	return wrong
}

func wrongInJob(r runs.Run) []protocol.JobEntry {
	k := r.Attempt()
	settled := func(k int, st job.State) protocol.JobEntry {
		return protocol.JobEntry{Settled: &protocol.Settled{State: st, Attempt: k}}
	}
	attempt := func(k int) protocol.JobEntry {
		return protocol.JobEntry{Attempt: &protocol.Attempt{K: k, Cause: protocol.Lost, Ranks: []int{0}}}
	}
	wrong := []protocol.JobEntry{attempt(k + 2), attempt(k), settled(k+1, job.Succeeded)}
	if r.Stop == nil && r.Settled == nil {
		if k > 0 { // there is no attempt -1: such an entry is damage, and stops its readers
			wrong = append(wrong, settled(k-1, job.Succeeded))
		}
		return append(wrong, settled(k, job.Cancelled))
	}
	wrong = append(wrong, attempt(k+1), settled(k, job.Succeeded), protocol.JobEntry{Failing: &protocol.Stop{Reason: "vandal"}}, protocol.JobEntry{Cancelled: &protocol.Stop{Reason: "vandal"}})
	if r.Settled != nil {
		return append(wrong, settled(k, job.Failed), settled(k, job.Cancelled))
	}
	if r.Failing {
		return append(wrong, settled(k, job.Cancelled))
	}
	return append(wrong, settled(k, job.Failed))
}

// wrongInState are generations without a holder of the rank.
func wrongInState(entries []protocol.StateEntry) []protocol.StateEntry {
	h, ok := states.CurrentHolder(entries)
	if !ok {
		return []protocol.StateEntry{{Saved: &protocol.Saved{Agent: "vandal", Checkpoints: "v"}}}
	}
	old := protocol.Saved{Job: h.Job, Submission: h.Submission, Attempt: h.Attempt - 1, Agent: h.Agent}
	other := protocol.Saved{Job: h.Job, Submission: h.Submission, Attempt: h.Attempt, Agent: "vandal"}
	return []protocol.StateEntry{{Saved: &old}, {Saved: &other}, {Restored: &protocol.Restored{Job: h.Job, Submission: h.Submission, Attempt: h.Attempt - 1, Agent: "vandal"}},
		{Restored: &protocol.Restored{Job: h.Job, Submission: h.Submission, Attempt: h.Attempt, Agent: "vandal"}}}
}
