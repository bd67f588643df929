package ledger

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// look is one request for an agent's heartbeat, sent by a process and answered.
type look struct{ sent, answered time.Duration }

// onRead keeps when heartbeats were asked for, and springs the snares that wait for a
// read. Requests that only read have no other trace in the store.
func (s *yard) onRead(p *process, r request) {
	if r.kind == heartbeatRead {
		agent := r.key[strings.LastIndexByte(r.key, '/')+1:]
		switch r.stage {
		case leaving:
			s.asked[p] = s.now
		case back:
			if s.looks[p] == nil {
				s.looks[p] = map[string][]look{}
			}
			s.looks[p][agent] = append(s.looks[p][agent], look{s.asked[p], s.now})
		}
	}
	if s.calm {
		return
	}
	r.kind = s.readWhat(p, r)
	for i := range s.reads {
		n := &s.reads[i]
		if n.springs(r) {
			s.seen["snare "+n.kind]++
			s.strike(n.trouble, p)
		}
	}
}

// The moments at which an answer that comes late does harm.
const (
	readSilent = "silent agent is looked at"
	readLost   = "claim that was given up is looked after"
)

// readWhat says what a read is about: an agent that may soon be called dead, or a chunk
// with a claim that this process has given up.
func (s *yard) readWhat(p *process, r request) string {
	switch part := strings.Split(r.key, "/"); r.kind {
	case heartbeatRead:
		if a := s.agentNamed(part[4]); a != nil && len(a.beats) > 0 && s.now-a.beats[len(a.beats)-1] > leaseTime/2 {
			return readSilent
		}
	case chunkRead:
		if s.lost[p.name+" "+part[5]] {
			return readLost
		}
	}
	return r.kind
}

// setReads draws snares for requests that read: a process stands still after the store
// has answered, and acts on an answer that is old by then. The draws have randomness of
// their own: worlds without stay what they were.
func (s *yard) setReads() {
	rng := rand.New(rand.NewPCG(s.seed, 31))
	if rng.IntN(4) != 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		kind := []string{heartbeatRead, chunkRead, readSilent, readSilent, readLost}[rng.IntN(5)]
		nth := 1 + rng.IntN(100)
		if kind == readSilent || kind == readLost {
			nth = 1 + rng.IntN(3)
		}
		trouble := []string{"paused", "paused", "paused beyond a lease"}[rng.IntN(3)]
		if kind == readLost {
			trouble, s.losing = "paused beyond a lease", true
		}
		s.reads = append(s.reads, snare[*yard]{kind, []string{leaving, back, back}[rng.IntN(3)], nth, false, mapTroubleOf(trouble)})
	}
}

// setSleep draws whether everything sleeps at once: one laptop runs all of it. On waking
// every heartbeat is old, and none of the agents is dead (D2).
func (s *yard) setSleep() {
	rng := rand.New(rand.NewPCG(s.seed, 37))
	if rng.IntN(8) != 0 {
		return
	}
	for range 1 + rng.IntN(2) {
		at, d := time.Duration(rng.Int64N(int64(s.troubledFor()))), 31*time.Second+time.Duration(rng.Int64N(int64(90*time.Second)))
		s.at(at, func() { s.sleepAll(d) })
	}
}

func (s *yard) sleepAll(d time.Duration) {
	if s.calm {
		return
	}
	s.troubled = true
	s.seen["all slept"]++
	for _, p := range s.procs {
		p.pause(d)
	}
	for _, a := range s.built {
		if !a.p.dead {
			a.frozen = max(a.frozen, s.now+d)
			s.at(a.frozen+time.Millisecond, a.pump)
		}
	}
}

// checkLooks is D1 and D2 as their letter is: the observer that decided had asked for the
// owner's heartbeat, and when that question was sent the counter had stood still for a
// lease, in which the observer never stopped reading for long. It says false when no such
// question was asked, or when it does not prove a death.
func (s *yard) checkLooks(e protocol.Header, owner *mapAgent) bool {
	slack := time.Second // a counter may move while the question is under way
	if !s.quiet {
		slack = 8 * time.Second // and the store may have refused the question, which is then asked again
	}
	for p, decided := range s.decided(e) {
		last, known := look{}, false
		for _, l := range s.looks[p][owner.agent] {
			if l.answered <= decided+time.Millisecond {
				last, known = l, true
			}
		}
		if !known {
			continue
		}
		since := owner.joined
		for _, beat := range owner.beats {
			if beat <= last.sent {
				since = max(since, beat)
			}
		}
		for _, gap := range p.away {
			if gap.to <= last.sent && gap.to-gap.from > readGapTime+2*time.Second {
				since = max(since, gap.to)
			}
		}
		if last.sent-since >= leaseTime-slack {
			return true
		}
	}
	return false
}

// checkTelling is D1b: what a command line writes of the engine's word is what the engine
// has said.
func (t *mapTale) checkTelling(e protocol.JobEntry) {
	s := t.s
	for agent, taken := range e.Gone {
		a := s.agentNamed(agent)
		switch {
		case a == nil || !a.p.dead && !a.disowned:
			s.violate("D1: %s writes that %s is gone, and the engine calls it alive", e.By, agent)
		case taken != (a.taken || a.disowned):
			s.violate("D1: %s writes that %s was taken: %v; the engine says %v", e.By, agent, taken, a.taken || a.disowned)
		}
	}
}

// checkFreed is M13: what is given back with a chunk is what runs there, all of it.
func (c *chunkTale) checkFreed(a *mapAgent, r *protocol.Released) {
	s := c.t.s
	var flight []int
	for _, try := range s.tries {
		if try.job == c.t.id && try.chunk == c.id && try.claim == len(c.claims) && !try.recorded && !try.dropped {
			flight = append(flight, try.item)
		}
	}
	slices.Sort(flight)
	flight = slices.Compact(flight)
	if a.told == protocol.AskedToStop {
		if r.Stopped != len(flight) {
			s.violate("M13: %s was stopped by a person with %v in flight of chunk %s, and says that there were %d", a.agent, flight, c.id, r.Stopped)
		}
		return
	}
	if !slices.Equal(flight, r.Flight) {
		s.violate("M13: %s gives chunk %s back with %v in flight, and names %v", a.agent, c.id, flight, r.Flight)
	}
}

// checkSnapshot is V1: a snapshot says what the log says, up to the entry it is named by.
func (t *mapTale) checkSnapshot(key string) {
	s := t.s
	var shot protocol.Snapshot
	s.peek(key, &shot)
	c := t.chunks[shot.ID]
	if c == nil || shot.N >= c.n || shot.N < 0 {
		s.violate("V1: snapshot %s stands before the entry that it is named by", key)
		return
	}
	s.seen["snapshot"]++
	sum, ok := c.sums[shot.N]
	if !ok {
		s.violate("V1: snapshot %s is of an entry that closed nothing", key)
		return
	}
	b, ok := chunks.ParseSnapshotName(key[strings.LastIndexByte(key, '/')+1:])
	if !ok || b.N != shot.N || b.Tally != sum.tally || b.Mark != sum.mark || b.Children != sum.children {
		s.violate("V1: snapshot %s is named by %+v; the log says %+v", key, b, sum)
	}
	if shot.Cut {
		return
	}
	had := map[int]bool{}
	for _, r := range shot.Results {
		try := s.names[t.id+"/"+r.Try]
		if had[r.Item] || try == nil || try.item != r.Item || !try.recorded {
			s.violate("V1: snapshot %s has a result of item %d by %q, which no entry has", key, r.Item, r.Try)
		}
		had[r.Item] = true
	}
	if want := sum.results; len(had) != want {
		s.violate("V1: snapshot %s holds %d results and says that it is whole; there are %d", key, len(had), want)
	}
}

// closing is what an entry left a chunk with that closed it.
type closing struct {
	tally    job.Tally
	mark     int
	children int
	results  int // items with a result that counts for good
}

// noteClosing keeps what the chunk is like after the entry that was folded last.
func (c *chunkTale) noteClosing() {
	if !c.closed {
		return
	}
	if c.sums == nil {
		c.sums = map[int]closing{}
	}
	sum := closing{tally: c.tally(), mark: c.mark, children: len(c.children)}
	for _, i := range c.items {
		if c.ended[i] {
			sum.results++
		}
	}
	c.sums[c.n-1] = sum
}

// checkIdle is M12: an agent that leaves a job which has not settled had nothing to do for
// as long as it takes to learn of a death, and knows of no chunk that waits for its time.
func (s *yard) checkIdle(a *mapAgent) {
	if idle := s.now - max(a.found, a.joined); idle < leaseTime {
		s.violate("M12: %s leaves %s, and found work %s ago", a.agent, a.job, idle)
	}
	for _, c := range s.tales[a.job].chunks {
		if wait := c.seed.Wait; wait > 0 && len(c.claims) == 0 && !c.closed && a.member.Inventory.ChunksRead[c.id] != nil {
			s.violate("M12: %s leaves %s, and chunk %s, which waits for %s, is to be claimed", a.agent, a.job, c.id, wait)
		}
	}
}

// checkUnheld is L1 and M1: an agent that looked for work and found none holds every chunk
// that was its own before it looked.
func (a *mapAgent) checkUnheld(from time.Duration) {
	s := a.s
	var unheld *chunkTale
	for _, c := range s.tales[a.job].chunks {
		if n := len(c.claims); c.owner == a.agent && c.claims[n-1].from < from &&
			!slices.ContainsFunc(a.member.OwnedChunks, func(h *mapagent.OwnedChunk) bool { return h.Chunk.ID == c.id }) {
			unheld = c
		}
	}
	if unheld == nil || a.order.Do != mapagent.Work {
		a.unheld = 0
		return
	}
	if a.unheld++; a.unheld > 8 {
		s.violate("L1: %s owns chunk %s, and has looked for work %d times without taking it up", a.agent, unheld.id, a.unheld)
	}
}
