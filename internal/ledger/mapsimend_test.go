package ledger

import "time"

// checkEnd looks at the whole history once everything has come to rest.
func (s *yard) checkEnd() {
	for id := range s.places {
		t := s.tales[id]
		if t.settled == nil {
			s.violate("I6: job %s was accepted and has not settled", id)
			for _, c := range t.chunksInOrder() {
				s.logf("chunk %s: closed %v, owner %q, %d claims", c.id, c.closed, c.owner, len(c.claims))
			}
			continue
		}
		s.checkExtra(t)
	}
	for _, p := range s.stands {
		if t := s.tales[p.job]; p.stands && p.what == "cancel" && len(t.stops) == 0 {
			s.violate("E1: a cancel of %s stood and is not there", p.job)
		}
	}
	for _, a := range s.built {
		if t := s.tales[a.job]; !a.p.dead && t.settled != nil && a.awake(s.now-s.prompt(), s.now) && s.now-t.settledAt > 2*s.prompt() {
			s.violate("R1: %s is still there, and %s has settled", a.p.name, a.job)
		}
	}
}

// checkExtra is M10 and M9: tries without a recorded result are those that an
// agent's loss, or a stop, has cost.
func (s *yard) checkExtra(t *mapTale) {
	lost := map[*claimTale]int{}
	for _, try := range s.tries {
		if try.job != t.id || try.recorded || try.released || try.claim == 0 {
			continue
		}
		claim := &t.chunks[try.chunk].claims[try.claim-1]
		lost[claim]++
		s.seen["extra run"]++
		s.checkUnrecorded(t, claim, try)
	}
	for c, k := range t.claimsOf {
		claim := &c.claims[k-1]
		if n := lost[claim]; n > claim.risk {
			s.violate("M10: %d tries of claim %d of chunk %s were lost, and %d were at risk", n, k, c.id, claim.risk)
		}
	}
}

// checkUnrecorded: what has ended is recorded within one flush by an agent that
// goes on.
func (s *yard) checkUnrecorded(t *mapTale, claim *claimTale, try *mapTry) {
	a := try.agent
	// Beside the flush: a turn of the loop, with a poll, and what the store refuses.
	slack := 10 * time.Second
	if !s.quiet {
		slack = 75 * time.Second
	}
	due := try.ended + s.flushTime() + slack
	over := claim.to
	if over == 0 {
		over = t.settledAt
	}
	switch {
	case try.how == "" && !a.p.dead:
		s.violate("M10: item %d runs on as %s, and %s has settled", try.item, try.name, t.id)
	case over <= due, a.p.dead && a.died <= due, a.told != "" && a.toldAt <= due, !a.awake(try.ended, due):
	default:
		s.violate("M9: item %d ended as %s at %s and was not recorded (%s), chunk %s was over at %s", try.item, try.name, try.ended, try.how, try.chunk, over)
	}
}
