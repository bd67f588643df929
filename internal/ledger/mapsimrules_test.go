package ledger

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// The times of docs/protocol.md as this file reads them: a mutant that moves one in the
// code is to be noticed here.
const (
	leaseTime    = 60 * time.Second
	readGapTime  = 30 * time.Second
	nearLicence  = time.Second
	farLicence   = 15 * time.Second
	nearFlush    = 50 * time.Millisecond
	farFlush     = 10 * time.Second
	crowdLicence = 45 * time.Second
	crowdFlush   = 30 * time.Second
	mostAttacks  = 5 // agents that one item may kill in one round (M13)
	leastBlames  = 3
	mostInterred = 20

	leastSuspicions = 2
)

func (s *yard) licence() time.Duration {
	if s.near {
		return nearLicence
	}
	if s.crowd {
		return crowdLicence
	}
	return farLicence
}

func (s *yard) flushTime() time.Duration {
	if s.near {
		return nearFlush
	}
	if s.crowd {
		return crowdFlush
	}
	return farFlush
}

// prompt is within what a living agent obeys the job's log: requests that the
// store refuses are sent again, which takes its time.
func (s *yard) prompt() time.Duration {
	if s.quiet {
		return 30 * time.Second
	}
	return 75 * time.Second
}

// awake says whether an agent's loop went on from one time to another.
func (a *mapAgent) awake(from, to time.Duration) bool {
	return a.p.awake(from, to) && !slices.ContainsFunc(a.wasFull, func(f span) bool { return f.to > from && f.from < to })
}

// checkAwake is a violation if the agent was awake since.
func (s *yard) checkAwake(agent string, since time.Duration, format string, args ...any) {
	if a := s.agentNamed(agent); a != nil && a.awake(since, s.now) {
		s.violate(format, args...)
	}
}

// checkBegin looks at a try that really begins.
func (s *yard) checkBegin(try *mapTry) {
	t, a := s.tales[try.job], try.agent
	c := t.chunks[try.chunk]
	if t.removed > 0 { // nothing of it is left to compare with
		s.checkStray(t, a.agent, fmt.Sprintf("begins item %d", try.item))
		return
	}
	if old := s.names[try.job+"/"+try.name]; old != nil {
		s.violate("M6: a try of item %d is called %s, as one of item %d was", try.item, try.name, old.item)
	}
	try.claim = a.claimOf(try.hold, c)
	if try.claim == 0 {
		s.violate("M1: %s begins item %d of chunk %s, which it never claimed", a.agent, try.item, c.id)
		return
	}
	claim := &c.claims[try.claim-1]
	s.checkOwned(try, c, claim)
	for n := try.hold.Chunk.N; n < c.n; n++ {
		if old := s.now - c.landed[n]; old > s.licence() {
			s.violate("M5: %s begins item %d, and has not read entry %d of chunk %s, which is there for %s", a.agent, try.item, n, c.id, old)
		}
	}
	s.checkCode(try)
	s.checkBound(try)
	s.checkIsolated(try, c, claim)
	if try.ooms != c.had[try.item].OOMs+s.unrecorded(try) && claim.to == 0 {
		s.violate("M13: item %d begins, and had too little memory %d times: it is told %d", try.item, c.had[try.item].OOMs+s.unrecorded(try), try.ooms)
	}
	open := 1
	for _, o := range a.running {
		if o.item == try.item {
			s.violate("M1: item %d runs twice on %s", try.item, a.agent)
		}
	}
	for _, o := range s.tries {
		if o.hold == try.hold && !o.recorded {
			open++
		}
	}
	if open > claim.risk {
		s.violate("M10: %d tries of chunk %s are not recorded, and %d may be lost", open, c.id, claim.risk)
	}
	for what, since := range map[string]time.Duration{"J3: paused": t.paused, "E5: stopped": t.stopSince(), "E5: settled": t.settledSince()} {
		if since > 0 && s.now-since > s.prompt() {
			s.checkAwake(a.agent, since, "%s %s ago, and %s begins item %d", what, s.now-since, a.agent, try.item)
		}
	}
	s.checkUndrained(t, a.agent, fmt.Sprintf("begins item %d", try.item))
	if had := c.had[try.item].Failures; had > 0 && claim.to == 0 {
		last := s.lastFailed(try)
		waited := last != nil && (last.hold == try.hold || c.seed.Wait > 0 && try.claim == 1)
		if wait := min(time.Second<<min(had-1, 6), time.Minute); waited && s.now-last.ended < wait {
			s.violate("M8: item %d begins %s after its failure number %d", try.item, s.now-last.ended, had)
		}
	}
}

// checkIsolated is M13: an item that may have been running at two silent losses runs
// alone, and no other item does.
func (s *yard) checkIsolated(try *mapTry, c *chunkTale, claim *claimTale) {
	a := try.agent
	named, ok := claim.starting[try.item]
	switch {
	case claim.suspects[try.item] && (!claim.isolated || !ok || !try.alone || len(a.running) > 0):
		s.violate("M13: item %d begins in chunk %s and may have caused two silent losses: isolated %v, named %v (at %s), alone %v, beside %d others",
			try.item, c.id, claim.isolated, ok, named, try.alone, len(a.running))
	case claim.suspects[try.item]:
		s.seen["began alone"]++
	case try.alone:
		s.violate("M13: item %d begins alone in chunk %s, and did not cause two silent losses", try.item, c.id)
	case len(claim.suspects) > 0:
		s.seen["began at once, and others are suspects"]++
	}
}

// unrecorded counts the tries of an item, by the same hold, that had too little
// memory and are not in the log yet.
func (s *yard) unrecorded(try *mapTry) (n int) {
	for _, o := range s.tries {
		if o.hold == try.hold && o.item == try.item && o.how == "failed" && !o.recorded && o.item%3 == 0 {
			n++
		}
	}
	return n
}

func (t *mapTale) stopSince() time.Duration {
	if t.stop == nil {
		return 0
	}
	return t.stopAt
}

func (t *mapTale) settledSince() time.Duration {
	if t.settled == nil {
		return 0
	}
	return t.settledAt
}

// checkOwned is M1, M2 and M5.
func (s *yard) checkOwned(try *mapTry, c *chunkTale, claim *claimTale) {
	state := c.state[try.item]
	switch {
	case claim.to == 0 && state == itemHanded:
		s.violate("M2: %s begins item %d, which it has handed over", try.agent.agent, try.item)
	case claim.to == 0 && state != job.ItemPending:
		s.violate("M1: %s begins item %d, which is %s", try.agent.agent, try.item, state)
	case claim.to > 0 && claim.by == "own":
		s.violate("M1: %s begins item %d of chunk %s, which it has given back", try.agent.agent, try.item, c.id)
	case claim.to > 0 && s.now-claim.to > s.licence():
		s.violate("M5: %s begins item %d %s after chunk %s was no longer its own", try.agent.agent, try.item, s.now-claim.to, c.id)
	case claim.to > 0:
		s.seen["a zombie began an item"]++
	}
}

// claimOf is the number of the claim that a hold is of: the agent's last one when
// the hold was first seen; 0 when there is none.
func (a *mapAgent) claimOf(h *mapagent.OwnedChunk, c *chunkTale) int {
	if n, ok := a.holds[h]; ok {
		return n
	}
	for i, claim := range slices.Backward(c.claims) {
		if claim.agent == a.agent {
			if a.holds == nil {
				a.holds = map[*mapagent.OwnedChunk]int{}
			}
			a.holds[h] = i + 1
			return i + 1
		}
	}
	return 0
}

func (s *yard) lastFailed(try *mapTry) *mapTry {
	for _, o := range slices.Backward(s.tries) {
		if o.job == try.job && o.item == try.item && (o.how == "failed" || o.how == "timed out") {
			return o
		}
	}
	return nil
}

// checkResult looks at a result that counts.
func (s *yard) checkResult(c *chunkTale, e protocol.Header, r protocol.Result) {
	try := s.names[c.t.id+"/"+r.Try]
	switch {
	case try == nil || try.item != r.Item:
		s.violate("M6: item %d has a result of try %q, which is none of its", r.Item, r.Try)
		return
	case try.agent.agent != e.By || try.chunk != c.id || try.claim != len(c.claims):
		s.violate("M1: %s recorded try %s of claim %d in claim %d", e.By, try.name, try.claim, len(c.claims))
	case try.recorded:
		s.violate("M1: try %s was recorded twice", try.name)
	case r.Failed != (try.how == "failed" || try.how == "timed out") || !r.Failed && try.how != "ok":
		s.violate("M6: try %s is recorded as failed %v, and it %s", try.name, r.Failed, try.how)
	case !r.Failed && s.outputs && s.made[protocol.OutPrefix(pathOf(c.t.id), r.Item, r.Try)+"/o"] == 0:
		s.violate("M6: try %s was recorded before its output was stored", try.name)
	}
	try.recorded, try.at = true, s.now
	if try.agent.stale {
		s.seen["let an item end with old code"]++
	}
}

// checkDead is D1 and D2: a process that takes over, or ends, what another owns has
// evidence against the owner.
func (s *yard) checkDead(c *chunkTale, e protocol.Header, why protocol.Grounds) {
	by, woke := e.By, s.woke(e)
	a := s.agentNamed(c.owner)
	taken, told := c.t.told[c.owner]
	// A late reader of a heartbeat believes it to be as old as its request, and does not
	// know one that came after its last read.
	slack, looked := time.Second, 25*time.Second
	if !s.quiet {
		slack, looked = 20*time.Second, 45*time.Second
	}
	silent := min(s.now-c.wrote[c.owner], a.silence(s.now-looked, s.now))
	for _, decided := range s.decided(e) { // it may have slept since, and the owner be awake again
		silent = max(silent, min(decided-c.wrote[c.owner], a.silence(decided-looked, decided)))
	}
	switch {
	case why == protocol.TakenAway && !taken:
		s.violate("D1: %s says that %s was taken, and the engine does not", by, c.owner)
	case told:
		s.seen["evidence: told"]++
	case s.sameHost && a.p.dead:
		s.seen["evidence: gone"]++
	case woke < leaseTime-slack-time.Second && woke > 3*s.trip: // else it slept between looking and deciding
		s.violate("D2: %s took chunk %s (%s) from %s, and had woken up %s before", by, c.id, why, c.owner, woke)
	case silent < leaseTime-slack:
		s.violate("D1: %s took chunk %s (%s) from %s, which was heard of %s ago", by, c.id, why, c.owner, silent)
	case !a.p.dead && !s.checkLooks(e, a): // an agent that has ended is wronged by nothing
		s.violate("D1: %s took chunk %s (%s) from %s, and had not asked for its heartbeat when it had stood still for a lease", by, c.id, why, c.owner)
	case !a.p.dead:
		s.seen["evidence: silent, and it lives"]++
	default:
		s.seen["evidence: silent"]++
	}
}

// woke is how long before it decided on an entry an agent, or a command line, last
// came back from having stood still for so long that it knew of no agent's silence
// since. The entry may land much later: it is sent again.
func (s *yard) woke(e protocol.Header) time.Duration {
	longest := time.Duration(0)
	for p, decided := range s.decided(e) {
		came := -forever / 2
		for _, gap := range p.away {
			if gap.to <= decided && gap.to-gap.from > protocol.ReadGap+2*time.Second {
				came = max(came, gap.to)
			}
		}
		longest = max(longest, decided-came)
	}
	return longest
}

// decided is when the process that signed an entry decided. Two command lines may share
// a name: it was one of them.
func (s *yard) decided(e protocol.Header) iter.Seq2[*process, time.Duration] {
	return func(yield func(*process, time.Duration) bool) {
		for _, p := range s.procs {
			a := s.agentOf(p)
			if (p.name == e.By || a != nil && a.agent == e.By) && !yield(p, min(s.now, e.At.Sub(epoch)-p.skew)) {
				return
			}
		}
	}
}

// saidGoodbye says whether an agent's last heartbeat stands: an older one may have
// landed after it.
func (s *yard) saidGoodbye(a *mapAgent) bool {
	var b protocol.Heartbeat
	s.peek(protocol.AgentKey(pathOf(a.job), a.agent), &b)
	return b.Phase == protocol.Left
}

// silence is how long, at most, an agent's counter had stood still at some moment
// between two times.
func (a *mapAgent) silence(from, to time.Duration) (d time.Duration) {
	last := a.joined
	for _, at := range append(slices.Clone(a.beats), to) {
		if at >= from {
			d = max(d, at-last)
		}
		last = at
	}
	return d
}

// checkBlame: no item is blamed for what another did.
func (s *yard) checkBlame(c *chunkTale, item int, owner string) {
	a := s.agentNamed(owner)
	s.seen["blamed"]++
	if a.killedBy != 0 && a.killedBy != item {
		s.violate("M13: item %d is blamed for the death of %s, which item %d has killed", item, owner, a.killedBy)
	}
}

// checkDeed counts the agents that one item kills.
func (s *yard) checkDeed(try *mapTry) {
	t, a := s.tales[try.job], try.agent
	c := t.chunks[try.chunk]
	if try.claim == 0 {
		return
	}
	claim := c.claims[try.claim-1]
	if claim.to > 0 || a.told != "" || a.disowned || t.told[a.agent] || !a.awake(try.begun, s.now) {
		return // its death says nothing
	}
	key := fmt.Sprintf("%s/%d/%d", try.job, c.mark, try.item)
	if s.deeds[key]++; s.deeds[key] > mostAttacks {
		s.violate("M13: item %d has killed %d agents", try.item, s.deeds[key])
	}
	s.seen["killed by an item"]++
}

// checkFailing: a job fails by itself only because more items have failed in this
// round than may, or because nothing comes to live.
func (t *mapTale) checkFailing() {
	s := t.s
	if t.stop.Code == fault.ExitDrover {
		s.seen["failing: nothing came to live"]++
		for _, a := range s.built {
			if a.job == t.id && !a.p.dead && !a.disowned {
				s.violate("E1: %s fails because nothing comes to live, and %s lives", t.id, a.p.name)
			}
		}
		return
	}
	s.seen["failing: too many items"]++
	bad := 0
	for _, c := range t.chunks {
		for i, at := range c.failed {
			if st := c.state[i]; (st == job.ItemFailed || st == job.ItemQuarantined) && at >= t.roundAt {
				bad++
			}
		}
	}
	if limit, limited := t.j.Spec.FailLimit(t.total); !limited || bad <= limit {
		s.violate("E1: %s fails because of %d items in this round (%s); %d may", t.id, bad, t.stop.Reason, limit)
	}
}

// checkSettled: when a job settles, every item has ended, once.
func (t *mapTale) checkSettled(sum job.Tally) {
	s := t.s
	for _, c := range t.chunksInOrder() {
		items := c.selected(t.n)
		switch {
		case !c.closed:
			s.violate("E2: %s has settled and chunk %s is open", t.id, c.id)
		case len(items) > 0:
			s.violate("M4: %s has settled, and %v in chunk %s are to run again", t.id, items, c.id)
		}
	}
	if sum.Items != t.total || sum.Open() > 0 || t.settled.Tally == nil || *t.settled.Tally != sum {
		s.violate("E3: %s has settled with %v; its %d items are %v", t.id, t.settled.Tally, t.total, sum)
	}
	for i := 1; i <= t.total; i++ {
		if st := t.home[i].state[i]; st == itemHanded || st == job.ItemPending {
			s.violate("E3: %s has settled and item %d is %s", t.id, i, st)
		} else if t.stop == nil {
			t.checkNature(i, st)
		}
	}
}

// checkNature: without a stop an item ends as it must, whatever befell its agents.
func (t *mapTale) checkNature(i int, st job.ItemState) {
	s, n, had := t.s, t.s.nature[t.id][i-1], t.home[i].had[i]
	right := false
	switch {
	case st == job.ItemSucceeded:
		right = n.kind != badItem && n.kind != hanging && n.kind != killer
	case st == job.ItemQuarantined:
		// An agent may die by chance while an item runs alone.
		right = had.Blames >= leastBlames && (s.troubled || n.kind == killer || n.kind == loneWolf)
	case st == job.ItemFailed && had.Interruptions > mostInterred:
		right = true
	case st == job.ItemFailed:
		right = n.kind == badItem || n.kind == hanging || n.kind == onceItem && (n.fails > t.retries[0] || s.failsOnce(i, false))
	case st == job.ItemCancelled:
		right = t.round > 0 // by an earlier round's end, and not asked for again
	}
	if !right {
		s.violate("M13: item %d %s and is %s with %+v", i, n.kind, st, had)
	}
}

// checkTold: what an agent or a person is told of the end is so.
func (s *yard) checkTold(who, id string, told protocol.Settled) {
	t := s.tales[id]
	if t.removed > 0 {
		return // gc has taken the logs away that it is told from
	}
	if !slices.ContainsFunc(t.said, func(o protocol.Settled) bool { return o.State == told.State && *o.Tally == *told.Tally }) {
		s.violate("I1: %s was told that %s is %v, and its rounds were %v", who, id, told, t.said)
	}
}

// checkPlaced: J1, agents are started only once placed stands, and of no job that the
// keeper k has read to be stopped: they would come for nothing.
func (s *yard) checkPlaced(k *attached.MapKeeper, id string, p protocol.Placed) {
	if k.Inventory.Map.Stop != nil {
		s.violate("J1: placement %d of %s is started, and entry %d has stopped it", p.Placement, id, k.Inventory.Map.StopAt)
	}
	if t := s.tales[id]; p.Placement > t.placed {
		s.violate("J1: placement %d of %s is started, and %d were placed", p.Placement, id, t.placed)
	}
}

// checkLeft is M12: an agent that leaves a job that has not settled leaves spares.
func (s *yard) checkLeft(a *mapAgent) {
	// Its death need not be known yet: a roll is compared with the one before.
	const recently = 125 * time.Second
	if s.tales[a.job].removed > 0 {
		return // it has settled, though this agent had not read that
	}
	s.seen["left an unsettled job"]++
	spares := 0
	asked := a.member.Members.Asked - a.p.offset
	for _, o := range s.built {
		if o.job == a.job && o.leftAt > 0 && o.leftAt < asked && len(o.beats) > 0 && s.saidGoodbye(o) {
			continue // that could be read
		}
		if o != a && o.job == a.job && o.agent != "" && len(o.beats) > 0 && (!o.p.dead || s.now-max(o.died, o.beats[len(o.beats)-1]) < recently) {
			spares++
		}
	}
	s.checkIdle(a)
	if t := s.tales[a.job]; t.settled == nil && spares < 2 {
		s.violate("M12: %s leaves %s, which has not settled, to %d spares", a.agent, a.job, spares)
	}
}
