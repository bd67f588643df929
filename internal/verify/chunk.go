package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// The bounds of M13.
const (
	suspectFrom      = 2  // silent losses that may have found an item begun, after which it runs alone
	blamesAllowed    = 2  // silent losses that found an item starting; the next one quarantines it
	interruptionsCap = 20 // of an item; more have failed it
)

// standing is how an item of a chunk stands.
type standing uint8

const (
	open standing = iota
	succeeded
	failed
	quarantined
	cancelled
	handedOn
)

// chunk is the fold of one chunk's log, with what is wrong in it said on the way.
type chunk struct {
	w    *walk
	id   string
	seed protocol.Seed
	g    ground

	n        int // entries folded
	claims   int
	owner    string
	risk     int
	closed   bool
	mark     int          // number in the job's log that the chunk stands at
	isolated bool         // its owner claimed suspects alone
	retried  map[int]bool // open items with a failure of this claim
	stands   []standing   // by place
	tally    job.Tally
	behind   map[int]protocol.Carry
	starting []int
	children []child

	// late holds results that do not count, by item, and the numbers of their entries.
	late map[int]late
	// rounds is how many of the job's rounds the chunk was counted for.
	rounds int
	// ends says how it stood after every entry that left it closed.
	ends  []ending
	snaps []*snapshot

	counted   []protocol.Result // of the entry that was just folded
	cut       bool              // its log could not be read to its end
	runs      int               // recorded tries that count, and of them
	breaks    int               // those without a result
	discarded int               // recorded tries that do not count
}

type child struct {
	id   string
	seed protocol.Seed
}

type late struct {
	entry  int
	failed bool
}

type ending struct {
	n, mark, children int
	tally             job.Tally
}

func newChunk(w *walk, id string, s protocol.Seed, g ground) *chunk {
	c := &chunk{w: w, id: id, seed: s, g: g, mark: s.Mark, retried: map[int]bool{}, stands: make([]standing, g.n),
		tally: job.Tally{Items: g.n}, behind: maps.Clone(s.Carry), late: map[int]late{}}
	if c.behind == nil {
		c.behind = map[int]protocol.Carry{}
	}
	for c.rounds < len(w.settled) && w.settled[c.rounds].at < s.Mark {
		c.rounds++ // it came to be later
	}
	return c
}

func (c *chunk) addFinding(rule Rule, n int, e protocol.ChunkEntry, item int, why string, args ...any) {
	c.w.v.addFinding(rule, report.VerifyNote{Log: c.id, Entry: n, Item: item, By: e.By, Why: fmt.Sprintf(why, args...)})
}

func (c *chunk) addNote(n int, e protocol.ChunkEntry, why string, args ...any) {
	c.w.v.addNote(report.VerifyNote{Log: c.id, Entry: n, By: e.By, Why: fmt.Sprintf(why, args...)})
}

// foldEntry folds entry n. foreign says that it holds a fact of another log.
func (c *chunk) foldEntry(n int, e protocol.ChunkEntry, foreign bool) {
	c.n, c.counted = n+1, nil
	own := count(len(e.Results) > 0, len(e.Starting) > 0, e.Handed != nil, e.Released != nil, e.Ended != nil)
	switch {
	case foreign:
		c.addFinding(RuleEntry, n, e, 0, "it holds a fact that does not belong in the log of a chunk")
	case e.Again != nil && own == 0 && e.Claimed == nil && e.Claim == 0:
		c.foldReopened(n, e)
	case e.Claimed != nil && own == 0 && e.Again == nil && e.Claim == 0:
		c.foldClaim(n, e)
	case e.Ended != nil && own == 1 && e.Claimed == nil && e.Again == nil && e.Claim == 0:
		c.foldEnded(n, e)
	case own > 0 && e.Claimed == nil && e.Again == nil && e.Claim > 0 && (e.Released == nil || e.Ended == nil):
		c.foldOwnEntry(n, e)
	default:
		c.addFinding(RuleEntry, n, e, 0, "it is empty, or holds facts that cannot be in one entry")
	}
	if c.closed {
		c.ends = append(c.ends, ending{n, c.mark, len(c.children), c.tally})
	}
}

// foldClaim is M1: a claim says why it may be made.
func (c *chunk) foldClaim(n int, e protocol.ChunkEntry) {
	x := *e.Claimed
	why := map[protocol.Grounds]bool{protocol.Untouched: c.claims == 0, protocol.FreeAgain: c.claims > 0 && c.owner == "",
		protocol.Silence: c.owner != "", protocol.TakenAway: c.owner != ""}
	switch {
	case c.closed:
		c.addNote(n, e, "it takes a chunk that had ended")
		return
	case x.Agent != e.By || x.N != c.claims+1 || x.Risk < 0:
		c.addFinding(RuleClaim, n, e, 0, "it takes the chunk as number %d, for agent %s, and should do so as number %d, for its writer", x.N, x.Agent, c.claims+1)
		return
	case !why[x.Why]:
		c.addFinding(RuleClaim, n, e, 0, "it takes the chunk as %q, which it was not", x.Why)
		return
	}
	if c.owner != "" {
		c.countLoss(x.Why == protocol.Silence)
	}
	c.claims, c.owner, c.risk, c.starting = x.N, x.Agent, x.Risk, nil
	clear(c.retried)
	items := c.openItems()
	c.isolated = len(items) > 0 && !slices.ContainsFunc(items, func(item int) bool { return !c.isSuspect(item) })
	c.w.v.r.Claims++
}

// isSuspect says whether an item may run alone only (M13).
func (c *chunk) isSuspect(item int) bool { return c.behind[item].Suspicions >= suspectFrom }

// accuseStarting counts a silent loss against the items that may have caused it: those that
// the owner may have begun, which it does in the order of their numbers, and no more
// than its risk before their results are in the log; and those that it tries again.
func (c *chunk) accuseStarting() {
	if c.isolated {
		return // what is named is blamed
	}
	fresh := 0
	for _, item := range c.openItems() {
		if c.isSuspect(item) {
			continue
		}
		if !c.retried[item] {
			if fresh++; c.risk > 0 && fresh > c.risk {
				continue
			}
		}
		had := c.behind[item]
		had.Suspicions++
		c.behind[item] = had
	}
}

// countLoss counts what the owner's death means for the items it was starting (M13).
func (c *chunk) countLoss(silent bool) {
	c.w.v.r.Losses++
	c.w.v.r.Bound += c.risk
	c.w.risk += c.risk
	if silent {
		c.accuseStarting()
	}
	for _, item := range c.starting {
		place, ok := c.g.placeOfItem(item)
		if !ok || c.stands[place] != open {
			continue
		}
		had := c.behind[item]
		if silent {
			had.Blames++
		} else {
			had.Interruptions++
		}
		c.recordBroken(item, place, had)
	}
}

// recordBroken records a try that came to no result.
func (c *chunk) recordBroken(item, place int, had protocol.Carry) {
	c.behind[item] = had
	c.breaks++
	c.w.run.addItem(item)
	switch {
	case had.Blames > blamesAllowed:
		c.moveItem(place, quarantined)
	case had.Interruptions > interruptionsCap:
		c.moveItem(place, failed)
	}
}

// moveItem moves an item and the counts.
func (c *chunk) moveItem(place int, to standing) {
	for _, change := range []struct {
		s  standing
		by int
	}{{c.stands[place], -1}, {to, 1}} {
		switch change.s {
		case succeeded:
			c.tally.Succeeded += change.by
		case failed:
			c.tally.Failed += change.by
		case quarantined:
			c.tally.Quarantined += change.by
		case cancelled:
			c.tally.Cancelled += change.by
		case handedOn:
			c.tally.Items -= change.by
		}
	}
	c.stands[place] = to
}

// openItems are those without a result that were not handed on.
func (c *chunk) openItems() (items []int) {
	c.g.eachItem(func(item, place int) {
		if c.stands[place] == open {
			items = append(items, item)
		}
	})
	return items
}

func (c *chunk) closeChunk() { c.closed, c.owner, c.starting = true, "", nil }

// foldEnded is `ended(n)` by any writer (E2). It is void in a chunk with a higher mark, and in
// an ended one it only dismisses a reopen.
func (c *chunk) foldEnded(n int, e protocol.ChunkEntry) {
	by := e.Ended.By
	switch {
	case by == 0:
		c.addNote(n, e, "it ends the chunk without a stop, and its writer does not say that it owns it")
		return
	case by <= c.mark:
		c.addNote(n, e, "it ends the chunk by entry %d of the job's log, and the chunk stands at %d", by, c.mark)
		return
	case !c.w.stops[by]:
		c.addFinding(RuleEnded, n, e, 0, "it ends the chunk by entry %d of the job's log, which is not a stop in force", by)
	}
	if !c.closed {
		for _, item := range c.openItems() {
			place, _ := c.g.placeOfItem(item)
			c.moveItem(place, cancelled)
		}
		c.closeChunk()
	}
	c.mark = by
}

// foldReopened is a chunk's `reopened(n)` (M4).
func (c *chunk) foldReopened(n int, e protocol.ChunkEntry) {
	x := *e.Again
	if !c.closed || x.By <= c.mark {
		c.addNote(n, e, "it has items of a chunk run again that has not ended, or has entry %d of the job's log behind it", c.mark)
		return
	}
	if !c.w.isReopening(x.By) {
		c.addFinding(RuleReopened, n, e, 0, "it follows from entry %d of the job's log, by which nothing is to run again", x.By)
	} else {
		c.countInRounds(x.By)
	}
	g, ok := groundOf(x.Items)
	if !ok || !c.g.containsAll(g) {
		c.addFinding(RuleReopened, n, e, 0, "it has items run again that are not this chunk's")
		return
	}
	want := c.selectedItems(x.By)
	var fresh []int
	said := false
	g.eachItem(func(item, _ int) {
		place, _ := c.g.placeOfItem(item)
		switch s := c.stands[place]; {
		case s == failed || s == quarantined || s == cancelled:
			fresh = append(fresh, item)
		case !said:
			said = true
			c.addFinding(RuleReopened, n, e, item, "it has an item run again that %s", s)
		}
	})
	if !said && c.w.isReopening(x.By) && !slices.Equal(fresh, want) {
		c.addFinding(RuleReopened, n, e, 0, "it has %s run again, and %d were selected", numbered(len(fresh), "item", "items"), len(want))
	}
	for _, item := range fresh {
		place, _ := c.g.placeOfItem(item)
		c.moveItem(place, open)
		delete(c.behind, item)
	}
	c.closed, c.mark = false, x.By
}

// String is what a doubt says of an item.
func (s standing) String() string {
	return [...]string{"has not ended", "has succeeded", "has failed", "was quarantined", "was cancelled", "was given to another chunk"}[s]
}

// selectedItems are the items that the job's reopens above the mark, up to n, select as
// they stand now.
func (c *chunk) selectedItems(n int) (items []int) {
	states := map[standing]job.ItemState{failed: job.ItemFailed, quarantined: job.ItemQuarantined, cancelled: job.ItemCancelled}
	var asked []reopen
	for _, r := range c.w.reopens {
		if r.n > c.mark && r.n <= n && !r.None {
			asked = append(asked, r)
		}
	}
	if len(asked) == 0 || c.tally.Succeeded == c.tally.Items {
		return nil
	}
	c.g.eachItem(func(item, place int) {
		state, ended := states[c.stands[place]]
		if ended && slices.ContainsFunc(asked, func(r reopen) bool {
			in := func(s [2]int) bool { return s[0] <= item && item <= s[1] }
			return (len(r.States) == 0 || slices.Contains(r.States, state)) && (len(r.Items) == 0 || slices.ContainsFunc(r.Items, in))
		}) {
			items = append(items, item)
		}
	})
	return items
}

// countInRounds adds the chunk, as it stands, to the rounds of the job that settled before
// entry n of its log: all of them were settled when every chunk had ended (E3).
func (c *chunk) countInRounds(n int) {
	for c.rounds < len(c.w.settled) && c.w.settled[c.rounds].at < n {
		r := &c.w.settled[c.rounds]
		c.rounds++
		t := c.tally
		r.tally = job.Tally{Items: r.tally.Items + t.Items, Succeeded: r.tally.Succeeded + t.Succeeded, Failed: r.tally.Failed + t.Failed,
			Quarantined: r.tally.Quarantined + t.Quarantined, Cancelled: r.tally.Cancelled + t.Cancelled}
		note := report.VerifyNote{Log: c.id, Entry: -1}
		switch {
		case c.cut:
		case !c.closed:
			r.early = true
			note.Why = fmt.Sprintf("it has not ended, and entry %d of the job's log has ended the job", r.at)
			c.w.v.addFinding(RuleSettled, note)
		case len(c.selectedItems(r.at)) > 0:
			r.early = true
			note.Why = fmt.Sprintf("items of it were to run again and did not, and entry %d of the job's log has ended the job", r.at)
			c.w.v.addFinding(RuleSettled, note)
		}
	}
}
