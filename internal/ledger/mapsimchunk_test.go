package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// fold takes in an entry of a chunk's log, by our own reading of the rules, and
// compares with the real fold.
func (c *chunkTale) fold(e protocol.ChunkEntry) {
	s := c.t.s
	s.logf("%s chunk %s/%d by %s: %s", c.t.id, c.id, c.n-1, e.By, briefEntry(e))
	counts := !vandals(e.Header) && c.counts(e)
	if !counts {
		s.void(e.Header, "in chunk "+c.id, protocol.Encode(e))
	}
	if counts && c.t.settled != nil {
		s.violate("E5: %s wrote into chunk %s after %s had settled: %s", e.By, c.id, c.t.id, protocol.Encode(e))
	}
	c.real.Fold(e)
	c.compare(e)
	if a := s.agentNamed(e.By); counts && a != nil { // it may land long after its writer has fallen silent
		c.wrote[e.By] = min(e.At.Sub(epoch)-a.p.skew, s.now)
	}
	for i, st := range c.state {
		if try, won := c.t.won[i]; won && c.t.home[i] == c && st != job.ItemSucceeded {
			s.violate("M1: item %d had succeeded by %s and is %s after %s", i, try, st, protocol.Encode(e))
		}
	}
}

func (c *chunkTale) counts(e protocol.ChunkEntry) bool {
	s := c.t.s
	switch {
	case e.Again != nil:
		return c.again(e)
	case e.Ended != nil && e.Claim == 0:
		return c.stopped(e)
	case e.Claimed != nil:
		return c.claimed(e)
	case e.Claim != len(c.claims) || e.By != c.owner || c.closed:
		return false
	}
	claim := &c.claims[len(c.claims)-1]
	for _, r := range e.Results {
		if !c.result(e, r) {
			return false
		}
	}
	for _, i := range e.Starting {
		c.starting[i] = true
		claim.starting[i] = s.now
		s.seen["entry starting"]++
	}
	if e.Handed != nil && !c.handed(e) {
		return false
	}
	if e.Released != nil {
		c.released(e)
	}
	if e.Ended != nil {
		if e.Ended.By > 0 {
			return c.stopped(e)
		}
		if left := c.open(); len(left) > 0 {
			return false
		}
		s.seen["entry ended"]++
		c.over("own")
		c.close()
	}
	return true
}

// open are the items that have no result and were not handed on.
func (c *chunkTale) open() (items []int) {
	for _, i := range c.items {
		if c.state[i] == job.ItemPending {
			items = append(items, i)
		}
	}
	return items
}

func (c *chunkTale) close() { c.closed, c.owner, c.starting = true, "", map[int]bool{} }

// over ends the claim that stands.
func (c *chunkTale) over(by string) {
	if c.owner != "" {
		claim := &c.claims[len(c.claims)-1]
		claim.to, claim.by = c.t.s.now, by
	}
	c.owner = ""
}

func (c *chunkTale) claimed(e protocol.ChunkEntry) bool {
	s, k := c.t.s, *e.Claimed
	if c.closed || k.N != len(c.claims)+1 || k.Agent != e.By {
		return false
	}
	lost := k.Why == protocol.Silence || k.Why == protocol.TakenAway
	if lost != (c.owner != "") || k.Why == protocol.Untouched && k.N != 1 || k.Why == protocol.FreeAgain && k.N == 1 {
		return false
	}
	s.seen["claimed "+string(k.Why)]++
	if c.t.paused > 0 && s.now-c.t.paused > s.prompt() {
		s.checkAwake(e.By, c.t.paused, "J3: %s claimed chunk %s while the job was paused", e.By, c.id)
	}
	s.checkUndrained(c.t, e.By, "claims chunk "+c.id)
	if lost {
		s.checkDead(c, e.Header, k.Why)
	}
	if a := s.agentNamed(e.By); a != nil {
		s.checkOutdated(a, "J2: %s claims chunk %s with %s, and it is %s for long", e.By, c.id, a.code, c.t.code())
	}
	if wait := c.seed.Wait; k.N == 1 && s.now-c.born < wait {
		s.violate("M8: %s claimed chunk %s after %s, which is to wait for %s", e.By, c.id, s.now-c.born, wait)
	}
	switch k.Why {
	case protocol.Silence:
		c.accuse()
		for i := range c.starting {
			c.blame(i, c.owner)
		}
	case protocol.TakenAway:
		for i := range c.starting {
			c.interrupt(i)
		}
	}
	c.over("foreign")
	c.starting = map[int]bool{}
	c.owner = k.Agent
	claim := claimTale{agent: k.Agent, risk: k.Risk, suspects: map[int]bool{}, failed: map[int]bool{}, from: s.now, starting: map[int]time.Duration{}}
	open := c.open()
	for _, i := range open {
		if c.had[i].Suspicions >= leastSuspicions {
			claim.suspects[i] = true
		}
	}
	claim.isolated = len(open) > 0 && len(claim.suspects) == len(open)
	c.claims = append(c.claims, claim)
	return true
}

// accuse counts a silent loss against what may have caused it, and sees that what
// really ran is among that: items that the owner had begun and not recorded. By M13
// these are the first of those that are open, as many as its risk, and those that
// have failed in this claim; of an isolated claim, the one that is named.
func (c *chunkTale) accuse() {
	s, claim := c.t.s, &c.claims[len(c.claims)-1]
	accused, fresh := map[int]bool{}, 0
	for _, i := range c.open() {
		switch {
		case claim.isolated:
			accused[i] = c.starting[i]
			continue
		case claim.suspects[i]:
			continue
		case !claim.failed[i]:
			if fresh++; fresh > claim.risk {
				s.seen["not suspected"]++
				continue
			}
		}
		accused[i] = true
		had := c.had[i]
		had.Suspicions++
		c.had[i] = had
		s.seen["suspected"]++
	}
	for _, try := range s.tries {
		if try.job == c.t.id && try.chunk == c.id && try.claim == len(c.claims) && c.state[try.item] == job.ItemPending && !try.recorded && !accused[try.item] {
			s.violate("M13: item %d had begun when %s fell silent, and is not suspected", try.item, c.owner)
		}
	}
}

func (c *chunkTale) blame(i int, owner string) {
	if c.state[i] != job.ItemPending {
		return
	}
	had := c.had[i]
	had.Blames++
	c.had[i] = had
	c.t.s.checkBlame(c, i, owner)
	if had.Blames == 3 {
		c.state[i], c.failed[i] = job.ItemQuarantined, c.t.s.now
		c.t.s.seen["quarantined"]++
	}
}

func (c *chunkTale) interrupt(i int) {
	if c.state[i] != job.ItemPending {
		return
	}
	had := c.had[i]
	had.Interruptions++
	c.had[i] = had
	if had.Interruptions > 20 {
		c.state[i], c.failed[i] = job.ItemFailed, c.t.s.now
		c.t.s.seen["interrupted too often"]++
	}
}

// result takes in one of an owner's.
func (c *chunkTale) result(e protocol.ChunkEntry, r protocol.Result) bool {
	s := c.t.s
	if c.state[r.Item] != job.ItemPending {
		return false
	}
	s.seen["entry results"]++
	delete(c.starting, r.Item)
	s.checkResult(c, e.Header, r)
	s.recorded[e.By]++
	if !r.Failed {
		c.state[r.Item], c.t.won[r.Item], c.ended[r.Item] = job.ItemSucceeded, r.Try, true
		return true
	}
	c.claims[len(c.claims)-1].failed[r.Item] = true
	had := c.had[r.Item]
	had.Failures++
	if r.Kind == job.FailMemory {
		had.OOMs++
	}
	c.had[r.Item] = had
	if once := s.failsOnce(r.Item, r.Kind == job.FailTime); once {
		s.seen["final by a rule"]++
		if !r.Final {
			s.violate("M13: item %d failed as %q and is to be tried again, which is for %v alone", r.Item, r.Kind, s.retryOn)
		}
		c.state[r.Item], c.failed[r.Item], c.ended[r.Item] = job.ItemFailed, s.now, true
		return true
	}
	if r.Final {
		c.ended[r.Item] = true
		c.state[r.Item], c.failed[r.Item] = job.ItemFailed, s.now
	}
	known := c.t.retries
	if try := s.names[c.t.id+"/"+r.Try]; try != nil { // what its agent had read binds (J2)
		known = try.retries
	}
	switch least, most := known[0]+1, known[1]+1; {
	case had.Failures > c.t.retries[1]+1:
		s.violate("M13: item %d has failed %d times and may %d times", r.Item, had.Failures, most)
	case r.Final && had.Failures < least:
		s.violate("M13: item %d was failed after %d failures of %d", r.Item, had.Failures, least)
	case !r.Final && had.Failures >= most:
		s.violate("M13: item %d is to be tried after %d failures of %d", r.Item, had.Failures, most)
	}
	return true
}

// failsOnce says whether the rules of retry make a failure final: one in three items
// fails for want of memory, if it does not take too long.
func (s *yard) failsOnce(item int, late bool) bool {
	if len(s.retryOn) == 0 {
		return false
	}
	kind := "1"
	switch {
	case late:
		kind = job.FailTime
	case item%3 == 0:
		kind = job.FailMemory
	}
	on := s.retryOn
	return !slices.Contains(on, kind) && !(kind == "1" && slices.Contains(on, "1-3"))
}

// handed is M2, M3 and M8.
func (c *chunkTale) handed(e protocol.ChunkEntry) bool {
	s, h := c.t.s, *e.Handed
	var items []int
	for i := range h.Items.All {
		if c.state[i] != job.ItemPending || c.starting[i] {
			return false
		}
		if try := s.running(c.t.id, i); try != nil && try.agent.agent == e.By {
			s.violate("M2: item %d was handed over and runs as %s", i, try.name)
		}
		if h.Carry[i] != c.had[i] {
			s.violate("M3: item %d was handed over with %+v and has %+v behind it", i, h.Carry[i], c.had[i])
		}
		items = append(items, i)
	}
	if h.Mark != c.mark {
		s.violate("M3: chunk %s was handed over with mark %d, and has %d", c.id, h.Mark, c.mark)
	}
	if claim := c.claims[len(c.claims)-1]; claim.isolated {
		s.violate("M13: items of chunk %s run alone, and it hands %v over", c.id, h.Items)
	} else if len(claim.suspects) > 0 && claim.suspects[items[0]] {
		s.seen["handed suspects over"]++
	}
	for _, i := range items {
		c.state[i] = itemHanded
	}
	child := c.t.newChunk(fmt.Sprintf("%s.%d", c.id, c.n-1), items, h.Seed)
	c.children = append(c.children, child)
	if s.seen["entry handed"]++; h.Wait > 0 {
		s.seen["handed for a back-off"]++
	}
	return true
}

func (c *chunkTale) released(e protocol.ChunkEntry) {
	s := c.t.s
	a := s.agentNamed(e.By)
	c.checkFreed(a, e.Released)
	for _, i := range e.Released.Flight {
		if try := s.lastTry(c.t.id, i, e.By); try == nil || try.recorded {
			s.violate("M13: %s interrupted item %d, which did not run there", e.By, i)
		}
		c.interrupt(i)
	}
	for _, try := range s.tries {
		if try.job == c.t.id && try.chunk == c.id && try.claim == len(c.claims) {
			try.released = true
		}
	}
	switch {
	case a.yields && len(e.Released.Flight) > 0:
		s.violate("J2: %s left of its own accord, and %v, which ran, may end", e.By, e.Released.Flight)
	case a.told == "" && !a.yields:
		s.violate("M12: %s gave chunk %s back, and nobody had told it to go", e.By, c.id)
	case a.told == protocol.AskedToStop && len(e.Released.Flight) > 0:
		s.violate("M13: %s was stopped by a person, and %v are counted as interrupted", e.By, e.Released.Flight)
	}
	s.seen["entry released"]++
	c.over("own")
	c.starting = map[int]bool{}
}

// stopped is E2: the job was stopped by an entry of its log.
func (c *chunkTale) stopped(e protocol.ChunkEntry) bool {
	s, by := c.t.s, e.Ended.By
	if by <= c.mark {
		return false
	}
	stop := c.t.stops[by]
	switch {
	case stop == nil || c.t.stop == nil || c.t.stopN != by:
		s.violate("L5: %s ended chunk %s because of entry %d, which is not a stop in force", e.By, c.id, by)
	case c.owner == "":
	case c.owner == e.By:
		c.checkWound(e)
	case stop.Drain:
		s.checkDead(c, e.Header, "drain")
	case s.now-c.t.hardAt < 30*time.Second:
		s.checkDead(c, e.Header, "stop")
	default:
		s.seen["ended for a slow owner"]++
	}
	if s.seen["entry ended by a stop"]++; c.closed {
		s.seen["a reopen was dismissed"]++
	}
	if !c.closed {
		for _, i := range c.open() {
			c.state[i] = job.ItemCancelled
		}
		way := "stop"
		if e.By == c.owner {
			way = "own"
		}
		c.over(way)
		c.close()
	}
	c.mark = by
	return true
}

// checkWound is E2: an owner that ends its chunk because of a stop records what it has
// before, or in the same entry. What it was given once that entry was made comes too late.
func (c *chunkTale) checkWound(e protocol.ChunkEntry) {
	s, a := c.t.s, c.t.s.agentNamed(e.By)
	if a == nil || e.Claim != len(c.claims) {
		return
	}
	made := e.At.Sub(epoch) - a.p.skew
	for _, try := range s.tries {
		if try.job == c.t.id && try.chunk == c.id && try.claim == e.Claim && try.given > 0 && try.given < made && !try.recorded {
			s.violate("E2: %s ends chunk %s, and item %d, which ended as %s, is not recorded", e.By, c.id, try.item, try.name)
		}
	}
}

// again is M4.
func (c *chunkTale) again(e protocol.ChunkEntry) bool {
	s, a := c.t.s, *e.Again
	if !c.closed || a.By <= c.mark {
		return false
	}
	want := c.selected(a.By)
	if got := slices.Collect(a.Items.All); !slices.Equal(got, want) {
		s.violate("M4: %s opened chunk %s by entry %d for %v, which selects %v", e.By, c.id, a.By, got, want)
	}
	if _, ok := c.t.reopens[a.By]; !ok {
		s.violate("L5: %s opened chunk %s by entry %d, which is not a reopen", e.By, c.id, a.By)
	}
	if since := c.t.stopSince(); since > 0 && s.now-since > s.prompt() {
		s.checkAwake(e.By, since, "E2: %s opened chunk %s, and the job was stopped %s ago", e.By, c.id, s.now-since)
	}
	if len(want) == 0 {
		s.violate("M4: %s opened chunk %s for nothing", e.By, c.id)
	}
	for i := range a.Items.All {
		c.state[i] = job.ItemPending
		delete(c.ended, i)
		delete(c.had, i)
	}
	s.seen["entry again"]++
	c.closed, c.mark = false, a.By
	return true
}

// compare sees that the real fold says the same.
func (c *chunkTale) compare(e protocol.ChunkEntry) {
	s, r := c.t.s, c.real
	if r.Closed != c.closed || r.Owner != c.owner || r.Mark != c.mark || r.Claim != len(c.claims) || r.Tally != c.tally() {
		s.violate("L3: after %s chunk %s is %v %q mark %d claim %d tally %+v by the fold, and %v %q mark %d claim %d tally %+v",
			protocol.Encode(e), c.id, r.Closed, r.Owner, r.Mark, r.Claim, r.Tally, c.closed, c.owner, c.mark, len(c.claims), c.tally())
	}
	for _, i := range c.items {
		st, had, here := r.Item(i)
		want := c.state[i]
		if here != (want != itemHanded) {
			s.violate("L3: after %s item %d is in chunk %s: %v, by the fold; it is %s", protocol.Encode(e), i, c.id, here, want)
			continue
		}
		if want == job.ItemPending && c.owner != "" {
			want = job.ItemLeased
		}
		if here && (st != want || had != c.had[i]) {
			s.violate("L3: after %s item %d is %s %+v by the fold, and %s %+v", protocol.Encode(e), i, st, had, want, c.had[i])
		}
	}
}

// claimsOf yields every claim of the job: its chunk and its number.
func (t *mapTale) claimsOf(yield func(*chunkTale, int) bool) {
	for _, id := range t.order {
		for k := range t.chunks[id].claims {
			if !yield(t.chunks[id], k+1) {
				return
			}
		}
	}
}

// chunksInOrder are all chunks, by their ids.
func (t *mapTale) chunksInOrder() (all []*chunkTale) {
	for _, id := range slices.Sorted(maps.Keys(t.chunks)) {
		all = append(all, t.chunks[id])
	}
	return all
}
