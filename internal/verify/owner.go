package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// foldOwnEntry folds what a chunk's owner wrote: facts of one entry in the order in which they
// are decided (L4). What another agent wrote does not count (L3).
func (c *chunk) foldOwnEntry(n int, e protocol.ChunkEntry) {
	if c.closed || e.Claim != c.claims || e.By != c.owner {
		c.foldForeign(n, e)
		return
	}
	for _, r := range e.Results {
		c.foldResult(n, e, r)
	}
	c.foldStart(n, e)
	if e.Handed != nil {
		c.foldHandoff(n, e)
	}
	if e.Released != nil {
		c.foldRelease(n, e)
	}
	switch {
	case e.Ended == nil:
	case e.Ended.By > 0:
		c.foldEnded(n, e)
	default:
		c.foldOwnEnd(n, e)
	}
}

// foldForeign is an entry of a claim that is over, or was never its writer's.
func (c *chunk) foldForeign(n int, e protocol.ChunkEntry) {
	if c.closed && len(e.Results) > 0 {
		c.addFinding(RuleEnded, n, e, e.Results[0].Item, "it has results, and the chunk had ended")
		return
	}
	c.addNote(n, e, "its writer took the chunk as number %d, and by then number %d had it: %s", e.Claim, c.claims, orNobody(c.owner))
	for _, r := range e.Results {
		c.discarded++
		if place, ok := c.g.placeOfItem(r.Item); ok && c.stands[place] == open && (!r.Failed || r.Final) {
			c.late[r.Item] = late{n, r.Failed}
		}
	}
}

func orNobody(agent string) string {
	if agent == "" {
		return "nobody"
	}
	return agent
}

// foldResult is one try of an item (M1, M13).
func (c *chunk) foldResult(n int, e protocol.ChunkEntry, r protocol.Result) {
	place, ok := c.g.placeOfItem(r.Item)
	switch {
	case !ok || c.stands[place] == handedOn:
		c.addFinding(RuleResult, n, e, r.Item, "it has a result of an item that is not this chunk's")
		return
	case c.stands[place] != open:
		c.addFinding(RuleTwice, n, e, r.Item, "it has a result of an item that %s", c.stands[place])
		return
	}
	c.checkResult(n, e, r)
	named := slices.Contains(c.starting, r.Item)
	switch {
	case c.isSuspect(r.Item) && !c.isolated:
		c.addFinding(RuleCareful, n, e, r.Item, "it ran beside others, after %d silent losses that it may have caused", suspectFrom)
	case c.isolated && !named:
		c.addFinding(RuleCareful, n, e, r.Item, "it ran without being named before, after %d silent losses that it may have caused", suspectFrom)
	}
	c.starting = slices.DeleteFunc(c.starting, func(item int) bool { return item == r.Item })
	c.runs++
	c.w.run.addItem(r.Item)
	c.w.ended.addItem(r.Item)
	c.counted = append(c.counted, r)
	if !r.Failed {
		c.moveItem(place, succeeded)
		return
	}
	had := c.behind[r.Item]
	had.Failures++
	if r.Kind == job.FailMemory {
		had.OOMs++
	}
	c.behind[r.Item] = had
	switch {
	case r.Final && had.Failures <= c.w.fewest && !c.w.endsItem(r):
		c.addFinding(RuleRetries, n, e, r.Item, "it has failed for good after %s, with %s", numbered(had.Failures, "try", "tries"), numbered(c.w.fewest, "retry allowed", "retries allowed"))
	case !r.Final && had.Failures > c.w.most:
		c.addFinding(RuleRetries, n, e, r.Item, "it has failed %s and may be tried again, with %s", numbered(had.Failures, "time", "times"), numbered(c.w.most, "retry allowed", "retries allowed"))
	case !r.Final && c.w.endsAlways(r):
		c.addFinding(RuleRetries, n, e, r.Item, "it may be tried again after %s, and no rule of the job says so", failureOf(r))
	case had.Failures > c.w.most+1:
		c.addFinding(RuleRetries, n, e, r.Item, "it has failed %s, with %s", numbered(had.Failures, "time", "times"), numbered(c.w.most, "retry allowed", "retries allowed"))
	}
	if c.retried[r.Item] = true; r.Final {
		c.moveItem(place, failed)
	}
}

// failureOf is what a rule of retry would go by.
func failureOf(r protocol.Result) string {
	if r.Kind != "" {
		return r.Kind
	}
	return fmt.Sprintf("exit status %d", r.Code)
}

// checkResult says what cannot be of one result.
func (c *chunk) checkResult(n int, e protocol.ChunkEntry, r protocol.Result) {
	switch {
	case !r.Failed && (r.Code != 0 || r.Signal != "" || r.Final):
		c.addFinding(RuleResult, n, e, r.Item, "it says a success, with %s", endedBy(r))
	case len(r.Outputs) > 0 && (r.Try == "" || strings.ContainsRune(r.Try, '/')):
		c.addFinding(RuleResult, n, e, r.Item, "it has outputs of a try without a name")
	}
}

// foldStart names items before they begin (M13).
func (c *chunk) foldStart(n int, e protocol.ChunkEntry) {
	for _, item := range e.Starting {
		place, ok := c.g.placeOfItem(item)
		if !ok || c.stands[place] != open {
			c.addFinding(RuleCareful, n, e, item, "it starts an item that is not this chunk's, or has ended")
			continue
		}
		if !slices.Contains(c.starting, item) {
			c.starting = append(c.starting, item)
		}
	}
	if c.isolated && len(c.starting) > 1 && len(e.Starting) > 0 {
		c.addFinding(RuleCareful, n, e, c.starting[1], "it starts beside item %d, in a chunk whose items run alone", c.starting[0])
	}
}

// foldHandoff makes a chunk of items that do not run (M2), with all they have behind
// them (M3).
func (c *chunk) foldHandoff(n int, e protocol.ChunkEntry) {
	s := e.Handed.Seed
	g, ok := groundOf(s.Items)
	if !ok || g.n == 0 || !c.g.containsAll(g) {
		c.addFinding(RuleHanded, n, e, 0, "it gives an idle agent items that are not this chunk's")
		return
	}
	bad, want := 0, map[int]protocol.Carry{}
	g.eachItem(func(item, _ int) {
		place, _ := c.g.placeOfItem(item)
		if c.stands[place] != open || slices.Contains(c.starting, item) {
			bad = item
		}
		if had := c.behind[item]; had != (protocol.Carry{}) {
			want[item] = had
		}
	})
	switch {
	case bad > 0:
		c.addFinding(RuleHanded, n, e, bad, "it gives an idle agent an item that has ended, runs or was given away before")
		return
	case c.isolated:
		c.addFinding(RuleCareful, n, e, 0, "it gives an idle agent items of a chunk whose items run alone")
	}
	if item := differs(s.Carry, want); item > 0 {
		c.addFinding(RuleHanded, n, e, item, "it takes along %s, and the log has %s of it", counts(s.Carry[item]), counts(want[item]))
	}
	if s.Mark != c.mark || s.Wait < 0 {
		c.addFinding(RuleHanded, n, e, 0, "it takes mark %d along, and the chunk stands at %d", s.Mark, c.mark)
	}
	g.eachItem(func(item, _ int) {
		place, _ := c.g.placeOfItem(item)
		c.moveItem(place, handedOn)
		delete(c.behind, item)
	})
	// What follows is told by what the items have, whatever the entry says.
	s.Carry, s.Mark = want, c.mark
	c.children = append(c.children, child{childOf(c.id, n), s})
	c.w.v.r.Handed++
}

// differs finds an item of which two say something else; 0: none.
func differs(a, b map[int]protocol.Carry) (item int) {
	for _, m := range []map[int]protocol.Carry{a, b} {
		for i := range m {
			if a[i] != b[i] && (item == 0 || i < item) {
				item = i
			}
		}
	}
	return item
}

// foldRelease gives the chunk back; what was in flight was interrupted (M13), or stopped by
// a person, and will run again (M10).
func (c *chunk) foldRelease(n int, e protocol.ChunkEntry) {
	left := len(c.openItems())
	for i, item := range e.Released.Flight {
		place, ok := c.g.placeOfItem(item)
		if !ok || c.stands[place] != open || slices.Contains(e.Released.Flight[:i], item) {
			c.addFinding(RuleReleased, n, e, item, "it was in flight, and is not this chunk's, has ended or is named twice")
			continue
		}
		had := c.behind[item]
		had.Interruptions++
		c.recordBroken(item, place, had)
	}
	switch stopped := e.Released.Stopped; {
	case stopped < 0 || stopped+len(e.Released.Flight) > left:
		c.addFinding(RuleReleased, n, e, 0, "it ended %s that a person stopped, of %s that were open", numbered(stopped, "try", "tries"), numbered(left, "item", "items"))
	default:
		c.w.v.r.Stopped += stopped
		c.w.v.r.Bound += stopped
	}
	c.owner, c.starting = "", nil
}

// foldOwnEnd closes the chunk for its owner. Ended with open items it does not count (L3),
// but for one case: its owner went by results that do not count.
func (c *chunk) foldOwnEnd(n int, e protocol.ChunkEntry) {
	items := c.openItems()
	explained := len(items) > 0
	for _, item := range items {
		_, ok := c.late[item]
		explained = explained && ok
	}
	switch {
	case explained:
		l := c.late[items[0]]
		c.addFinding(RuleForeign, n, e, items[0], "it ends the chunk by the result of entry %d, whose writer had lost the chunk by then", l.entry)
		for _, item := range items {
			place, _ := c.g.placeOfItem(item)
			if c.moveItem(place, succeeded); c.late[item].failed {
				c.moveItem(place, failed)
			}
		}
	case len(items) > 0:
		c.addNote(n, e, "it ends the chunk, and item %d and %d more were open", items[0], len(items)-1)
		return
	}
	c.closeChunk()
}
