package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// mapTroubles are what may happen to the processes of a map. Agents that are paused
// beyond a lease are called dead and go on: no promise rests on a lease (D3).
var mapTroubles = []trouble[*yard]{
	{"killed", 8, func(_ *yard, p *process) bool { return p.kill() }},
	{"paused", 4, func(s *yard, p *process) bool { return p.pause(s.between(5*time.Second, 50*time.Second)) }},
	{"paused beyond a lease", 8, func(s *yard, p *process) bool { return p.pause(s.between(80*time.Second, 5*time.Minute)) }},
	{"paused with work in hand", 8, (*yard).catch},
	{"paused for hours", 3, func(s *yard, p *process) bool {
		return s.agentOf(p) != nil && p.pause(s.between(time.Hour, 2*time.Hour))
	}},
	{"lid closed", 5, (*yard).lid},
	{"stuck", 4, func(s *yard, p *process) bool {
		return p.hold(s.between(time.Minute, 4*time.Minute), mainLoop, heartbeat)
	}},
	{"mute", 4, func(s *yard, p *process) bool { return p.hold(s.between(time.Minute, 4*time.Minute), heartbeat) }},
	{"deaf", 4, func(s *yard, p *process) bool { return p.hold(s.between(5*time.Second, 4*time.Minute), mainLoop) }},
	{"noticed", 6, func(s *yard, p *process) bool { return s.toAgent(p, protocol.Interrupted, 2*time.Minute) }},
	{"asked to stop", 3, func(s *yard, p *process) bool { return s.toAgent(p, protocol.AskedToStop, time.Minute) }},
	{"taken", 4, (*yard).take},
	{"broken", 1, (*yard).fall},
	{"disowned", 2, (*yard).disown},
	{"cancelled", 3, func(s *yard, _ *process) bool { return s.somebody("canceller", s.canceller) }},
	{"drained", 3, func(s *yard, _ *process) bool { return s.somebody("drainer", s.drainer) }},
	{"paused by a person", 4, func(s *yard, _ *process) bool { return s.somebody("pauser", s.pauser) }},
	{"amended", 2, (*yard).amend},
	{"run again", 6, func(s *yard, _ *process) bool { s.commandLine(s.newName("again"), submit); return true }},
	{"run anew", 3, func(s *yard, _ *process) bool { s.commandLine(s.newName("anew"), force); return true }},
	{"resumed", 2, func(s *yard, _ *process) bool { s.commandLine(s.newName("resume"), resume); return true }},
	{"room made", 1, func(s *yard, _ *process) bool { s.bucket.Free(); return true }},
}

func mapTroubleOf(name string) trouble[*yard] {
	return mapTroubles[slices.IndexFunc(mapTroubles, func(t trouble[*yard]) bool { return t.name == name })]
}

func (s *yard) toAgent(p *process, why protocol.Verdict, within time.Duration) bool {
	a := s.agentOf(p)
	if a == nil || p.dead || a.told != "" || a.agent == "" {
		return false
	}
	a.told, a.toldAt = why, s.now
	s.logf("%s is told: %s", p.name, why)
	a.wake()
	s.at(s.now+s.between(within/2, within), func() {
		if !p.dead {
			a.taken = why == protocol.Interrupted
			p.kill()
		}
	})
	return true
}

// catch pauses an agent that has items which wait for a slot, for so long that
// another takes its chunk: it wakes with something to begin.
func (s *yard) catch(*process) bool {
	for _, a := range s.built {
		if !a.p.dead && a.member != nil && slices.ContainsFunc(a.member.OwnedChunks, func(h *mapagent.OwnedChunk) bool { return len(h.Queue) > 0 && !h.Over }) {
			if a.p.pause(s.between(100*time.Second, 5*time.Minute)) {
				return true
			}
		}
	}
	return false
}

// lid is a laptop that sleeps: the agent's items stand still with it.
func (s *yard) lid(p *process) bool {
	a := s.agentOf(p)
	d := s.between(20*time.Second, 5*time.Minute)
	if a == nil || !p.pause(d) {
		return false
	}
	a.frozen = s.now + d
	s.at(a.frozen+time.Millisecond, a.pump)
	return true
}

func (s *yard) take(p *process) bool {
	a := s.agentOf(p)
	if a == nil || p.dead {
		return false
	}
	a.taken = true
	return p.kill()
}

func (s *yard) fall(p *process) bool {
	a := s.agentOf(p)
	if a == nil || p.dead {
		return false
	}
	a.broke = true
	return p.kill()
}

// disown is an engine that has lost a machine, on which the agent lives on.
func (s *yard) disown(p *process) bool {
	a := s.agentOf(p)
	if a == nil || p.dead || a.disowned || !s.keeper {
		return false
	}
	a.disowned = true
	return true
}

func (s *yard) say(p *process, what string, f func(w protocol.World, id string) (bool, error)) {
	id := s.newest()
	if id == "" {
		p.end()
	}
	stands, err := f(s.ledgerOf(p), id)
	must(err)
	s.logf("%s: %s %s: %v", p.name, what, id, stands)
	s.stands = append(s.stands, &stand{id, what, stands, s.now})
}

func (s *yard) canceller(p *process) {
	s.say(p, "cancel", func(w protocol.World, id string) (bool, error) {
		return control.CancelJob(ctx, w, pathOf(id), p.name, "enough")
	})
	p.end()
}

// drainer cancels and lets run what runs; some lose patience and have it ended.
func (s *yard) drainer(p *process) {
	s.say(p, "cancel", func(w protocol.World, id string) (bool, error) {
		return control.DrainJob(ctx, w, pathOf(id), p.name, "enough")
	})
	if s.chance(40) {
		p.sleep(s.between(time.Second, 2*time.Minute))
		s.canceller(p)
	}
	p.end()
}

// pauser pauses a job, and lets it go on some time later; if it dies meanwhile,
// another process does in the end.
func (s *yard) pauser(p *process) {
	s.say(p, "pause", func(w protocol.World, id string) (bool, error) {
		return control.PauseMap(ctx, w, pathOf(id), p.name, protocol.Paused{Reason: "wait"})
	})
	p.sleep(s.between(20*time.Second, 3*time.Minute))
	s.goOn(p)
	p.end()
}

func (s *yard) goOn(p *process) {
	s.say(p, "go on", func(w protocol.World, id string) (bool, error) {
		return control.ContinueMap(ctx, w, pathOf(id), p.name)
	})
}

func (s *yard) amend(*process) bool {
	n := s.rng.IntN(4)
	a := protocol.Amended{Retries: &n}
	s.newBound(&a)
	whole := s.retypes != nil && s.retypes.IntN(2) == 0
	return s.somebody("amender", func(p *process) {
		s.say(p, "amend", func(w protocol.World, id string) (bool, error) {
			return control.AmendMap(ctx, w, pathOf(id), p.name, a)
		})
		if whole {
			p.sleep(time.Duration(s.retypes.Int64N(int64(30 * time.Second))))
			s.say(p, "settings", func(w protocol.World, id string) (bool, error) {
				return control.AmendMap(ctx, w, pathOf(id), p.name, s.retyped(id))
			})
		}
		p.end()
	})
}

func (s *yard) drawTrouble() trouble[*yard] { return drawTrouble(s.world, mapTroubles) }

func (s *yard) strike(t trouble[*yard], p *process) {
	s.troubled = true
	strike(s, s.world, s.seen, t, p, mapTroubles)
}

// victim draws a living process: agents that hold a chunk more often than others.
func (s *yard) victim() *process {
	var dear []*process
	for _, a := range s.built {
		if a.member != nil && len(a.member.OwnedChunks) > 0 {
			dear = append(dear, a.p)
		}
	}
	return s.drawVictim(dear)
}

var mapMoments = []string{"claimed", "claimed", "claimed", "results", "results", "results", "starting", "handed", "handed", "released", "released",
	"ended", "ended", "ended", "again", "settled", "settled", "placed", "submitted", "closed", "cancelled", "reopened", "reopened", "extended", "gone", "paused"}

func (s *yard) setSnares() {
	if s.chance(15) { // an entry stands long before its writer hears of it
		s.snares = append(s.snares, snare[*yard]{[]string{"claimed", "results", "handed"}[s.rng.IntN(3)], arrived,
			1 + s.rng.IntN(4), false, mapTroubleOf("paused beyond a lease")})
	}
	for range s.rng.IntN(5) {
		s.snares = append(s.snares, snare[*yard]{mapMoments[s.rng.IntN(len(mapMoments))], []string{leaving, arrived, back}[s.rng.IntN(3)],
			1 + s.rng.IntN(6), s.chance(30), s.drawTrouble()})
	}
}

// onCreate springs the snares that wait for r.
func (s *yard) onCreate(p *process, r request) {
	if s.calm {
		return
	}
	if v := s.vandals; v != nil && r.stage == arrived && p != v.p && r.text != nil && s.chance(10) {
		v.poke()
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
		s.seen["snare "+n.kind]++
		s.strike(n.trouble, who)
	}
}

// giveUp has an agent give up an append with an outcome that it does not know: there is no
// room, says the store, and all the same it lands some time later.
func (s *yard) giveUp(p *process, r request) error {
	key := p.name + " " + r.key
	switch {
	case s.hasty[key]:
		delete(s.hasty, key)
		return fault.New(fault.Full, "", "write: no space left on device")
	case s.calm || s.quiet || s.agentOf(p) == nil || !strings.Contains(r.key, "/chunks/"):
		return nil
	case r.kind == "claimed" && s.losing && s.chance(20), r.kind == "handed" && s.chance(25), s.chance(2):
	default:
		return nil
	}
	s.hasty[key] = true
	if r.kind == "claimed" {
		s.lost[p.name+" "+strings.Split(r.key, "/")[5]] = true
	}
	s.seen["given up"]++
	s.at(s.now+s.between(0, 4*time.Second), func() {
		if err := s.under.Create(ctx, r.key, bytes.NewReader(r.text)); err == nil {
			s.seen["given up, and landed"]++
		}
	})
	return store.ErrUnclear
}

// reader looks at a map again and again, as status and results do: a success that
// the reader has seen stays as it is, and no success is shown that is in no log (V1).
func (s *yard) reader(p *process) {
	w := s.ledgerOf(p)
	seen := map[string]string{}
	for {
		p.sleep(s.between(2*time.Second, time.Minute))
		id := s.newest()
		if id == "" {
			continue
		}
		t := s.tales[id]
		v := views.NewMapView(w, t.j)
		must(v.Each(ctx, func(r views.ItemReport) error {
			if t.removed > 0 { // while it was read
				return nil
			}
			key := fmt.Sprintf("%s/%d", id, r.N)
			won := ""
			if r.State == job.ItemSucceeded {
				won = r.Result.Try
			}
			if before := seen[key]; before != "" && won != before {
				s.violate("M1: item %d was shown as succeeded by %q, and now as %s by %q", r.N, before, r.State, won)
			}
			if won != "" && t.won[r.N] != won {
				s.violate("V1: item %d is shown as succeeded by %q, and the log says %q", r.N, won, t.won[r.N])
			}
			seen[key] = won
			return nil
		}))
		s.look(v, t)
	}
}

// look is one look at the counts.
func (s *yard) look(v *views.MapView, t *mapTale) {
	before := len(t.said)
	r, err := v.Refresh(ctx)
	must(err)
	switch sum := t.tally(); {
	case t.removed > 0:
	case r.Tally.Succeeded > sum.Succeeded:
		s.violate("V1: %d items are shown as succeeded, and %d have", r.Tally.Succeeded, sum.Succeeded)
	case r.Map.Settled != nil && len(t.said) == 0:
		s.violate("V1: %s is shown as settled", t.id)
	case r.Map.Settled == nil && t.settled != nil && before == len(t.said) && t.settledAt < s.now-time.Minute:
		s.violate("V1: %s has settled and is not shown so", t.id)
	}
	s.seers++
}

// vandal writes into the logs what no process may write there: an older drover, or a
// bug. A reader is to ignore it (L3).
func (s *yard) vandal(p *process) {
	w := s.ledgerOf(p)
	s.vandals = s.current
	for range 24 {
		p.idle(s.between(time.Second, time.Minute))
		id := s.newest()
		if id == "" {
			continue
		}
		t := s.tales[id]
		ch := chunks.NewInventory(w, t.j, "vandal")
		must(ch.ReadJobLog(ctx))
		if s.chance(75) {
			c := t.chunks[t.order[s.rng.IntN(len(t.order))]]
			real := chunks.NewChunk(c.id, c.seed)
			_, err := ch.ReadChunk(ctx, real, nil)
			must(err)
			writeWrong(s, w, ch.EntryKey(real, real.N), s.wrongInChunk(real))
			continue
		}
		writeWrong(s, w, ch.JobLog.EntryKey(ch.Map.N), s.wrongInMap(ch.Map))
	}
	p.end()
}

// writeWrong writes one of wrong entries.
func writeWrong[E protocol.Entry](s *yard, w protocol.World, key string, wrong []E) {
	if len(wrong) == 0 {
		return
	}
	e := wrong[s.rng.IntN(len(wrong))]
	h := protocol.HeaderOf(&e)
	h.V, h.Nonce = protocol.Format, "vandal"
	_, mine, err := w.Store.CreateOnce(ctx, key, protocol.Encode(e))
	must(err)
	if mine {
		s.seen["wrong entry"]++
	}
}

func (s *yard) wrongInMap(m *chunks.Map) []protocol.JobEntry {
	settled := func(st job.State, place int) protocol.JobEntry {
		return protocol.JobEntry{Settled: &protocol.Settled{State: st, Submission: place, Tally: &job.Tally{}}}
	}
	switch {
	case m.Settled != nil:
		return []protocol.JobEntry{settled(job.Failed, m.Settled.Submission), settled(job.Succeeded, m.Settled.Submission), {Cancelled: &protocol.Stop{Drain: true}}, {Failing: &protocol.Stop{}},
			{Reopened: &protocol.Reopened{Submission: m.Settled.Submission}}, {Extended: &protocol.Extended{First: m.Items() + 1, Size: 1, Manifest: job.Manifest{Count: 1}}}}
	case m.Stop != nil:
		return []protocol.JobEntry{settled(job.Succeeded, m.Place), {Cancelled: &protocol.Stop{Drain: true}}, {Failing: &protocol.Stop{}}, {Reopened: &protocol.Reopened{Submission: 1 << 20}},
			{Extended: &protocol.Extended{First: m.Items() + 1, Size: 1, Manifest: job.Manifest{Count: 1}}}}
	}
	return []protocol.JobEntry{settled(job.Cancelled, m.Place), settled(job.Succeeded, m.Place+7), {Extended: &protocol.Extended{First: 1, Size: 1, Manifest: job.Manifest{Count: 1}}}}
}

func (s *yard) wrongInChunk(c *chunks.Chunk) []protocol.ChunkEntry {
	item := c.Items[0][0]
	result := []protocol.Result{{Item: item, Try: "v"}}
	over := []protocol.Result{{Item: item, Try: "v", Failed: true, Final: true}}
	wrong := []protocol.ChunkEntry{
		{Header: protocol.Header{By: "vandal"}, Claim: c.Claim + 1, Results: result},
		{Header: protocol.Header{By: "vandal"}, Claimed: &protocol.Claimed{Agent: "vandal", N: c.Claim + 2, Why: protocol.Silence}},
		{Header: protocol.Header{By: "vandal"}, Claimed: &protocol.Claimed{Agent: "vandal", N: c.Claim, Why: protocol.FreeAgain}},
		{Header: protocol.Header{By: "vandal"}, Ended: &protocol.Ended{}},
	}
	if c.Claim > 1 {
		wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: c.Owner}, Claim: c.Claim - 1, Results: over})
	}
	if c.Claim > 0 {
		wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claimed: &protocol.Claimed{Agent: "vandal", N: c.Claim + 1, Why: protocol.Untouched}},
			protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claim: c.Claim, Results: result},
			protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claim: c.Claim, Released: &protocol.Released{Flight: []int{item}}},
			protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claim: c.Claim, Starting: []int{item}},
			protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claim: c.Claim, Handed: &protocol.Handed{Seed: protocol.Seed{Items: protocol.Spans{{item, item}}}}})
	}
	for i := range c.Items.All {
		if c.StateOf(i) == chunks.StateSucceeded && c.Claim > 0 {
			wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: c.Owner}, Claim: c.Claim, Results: []protocol.Result{{Item: i, Try: "v", Failed: true, Final: true}}})
		}
	}
	if c.Owner != "" {
		wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claimed: &protocol.Claimed{Agent: "vandal", N: c.Claim + 1, Why: protocol.FreeAgain}})
	}
	if c.Owner != "" && c.Tally.Open() > 0 {
		wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: c.Owner}, Claim: c.Claim, Ended: &protocol.Ended{}})
	}
	if c.Mark > 0 {
		wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Ended: &protocol.Ended{By: c.Mark}}, protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Again: &protocol.Again{By: c.Mark, Items: c.Items}})
	}
	if !c.Closed {
		wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Again: &protocol.Again{By: 1 << 20, Items: c.Items}})
	}
	if c.Closed && c.By == 0 && c.Claim > 0 {
		wrong = append(wrong, protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claim: c.Claim, Ended: &protocol.Ended{}}, protocol.ChunkEntry{Header: protocol.Header{By: "vandal"}, Claimed: &protocol.Claimed{Agent: "vandal", N: c.Claim + 1, Why: protocol.FreeAgain}})
	}
	return slices.DeleteFunc(wrong, func(e protocol.ChunkEntry) bool { return e.By == "" })
}
