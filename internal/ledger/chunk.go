package ledger

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/job"
)

// The bounds of M13. An item that may have been running at two silent losses is a
// suspect, and runs alone; the third silent loss that finds it running alone
// quarantines it. So a poison item costs five agents at most.
const (
	isolateAfter    = 2
	quarantineAfter = 3
	// MaxItemInterruptions is how often an item may be interrupted for free.
	MaxItemInterruptions = 20
)

// Chunk is the fold of a chunk's log: a range of items, who owns it, and how each
// of its items stands.
type Chunk struct {
	ID string
	Seed
	N      int       // entries folded: the next one's number
	Claim  int       // number of the last claim
	Owner  string    // "": nobody's
	Host   Host      // of the owner
	Risk   int       // of the owner
	Wrote  time.Time // when the owner sealed its newest entry, by its own clock
	Closed bool      // ended, and not opened again since
	By     int       // what it was closed by: a number in the job's log, or 0
	Tally  job.Tally
	Old    int // of Tally: had failed before it was last opened again, and was not asked for
	// Children are the chunks that `handed` made.
	Children []Child
	// Losses counts claims that followed an owner's death, and Risked sums what
	// these owners had at risk: the bound on extra runs (M10).
	Losses, Risked int
	// Ignored lists the numbers of entries that were not allowed when written (L3).
	Ignored []int

	state    []itemState // by place in Items; nil: all are open
	carry    map[int]Carry
	starting []int // items that the owner named before they began
	isolated bool  // the owner claimed nothing but suspects: see Careful
	retried  []int // open items with a failure that the owner has recorded
}

// Child is a chunk that was handed over.
type Child struct {
	ID string `json:"id"`
	Handed
}

// itemState is an item's in its chunk.
type itemState uint8

const (
	itemOpen itemState = iota
	itemSucceeded
	itemFailed
	itemQuarantined
	itemCancelled
	itemHandedOn // it is in a child
)

var itemStates = [...]job.ItemState{itemHandedOn: "", itemOpen: job.ItemPending, itemSucceeded: job.ItemSucceeded, itemFailed: job.ItemFailed,
	itemQuarantined: job.ItemQuarantined, itemCancelled: job.ItemCancelled}

// NewChunk is a chunk that nobody has touched.
func NewChunk(id string, s Seed) *Chunk {
	c := &Chunk{ID: id, Seed: s, carry: map[int]Carry{}, Tally: job.Tally{Items: s.Items.Len()}}
	for item, had := range s.Carry {
		c.carry[item] = had
	}
	return c
}

// ChunkID names chunk k of the manifest, counted from 0, or of the extension that
// entry ext of the job's log made; ext is 0 for the manifest's own.
func ChunkID(ext, k int) string {
	if ext > 0 {
		return fmt.Sprintf("x%d-%06d", ext, k)
	}
	return fmt.Sprintf("%06d", k)
}

// childID names the chunk that entry n of its parent's log has handed over.
func childID(parent string, n int) string { return fmt.Sprintf("%s.%d", parent, n) }

// chunkDir is where a chunk's log lies below its job. The two hex digits spread
// the logs over a bucket's partitions; of the manifest's own they are the low byte
// of its number, so that a page of a listing says which of them nobody has touched.
func chunkDir(id string) string {
	if k, err := strconv.Atoi(id); err == nil {
		return fmt.Sprintf("chunks/%02x/%s", k&0xff, id)
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return fmt.Sprintf("chunks/%02x/%s", h.Sum32()&0xff, id)
}

// Fold takes the next entry in and gives those of its results that count: others
// are of a claim that is over, or come after the item's own (L3).
func (c *Chunk) Fold(e Entry) (counted []Result) {
	n := c.N
	c.N++
	ok := true
	switch {
	case e.Again != nil:
		ok = c.again(*e.Again)
	case e.Ended != nil && e.Claim == 0:
		ok = c.stop(e.Ended.By)
	case e.Claimed != nil:
		ok = c.claimed(*e.Claimed)
	case e.Claim != c.Claim || e.By != c.Owner || c.Closed:
		ok = false // fenced: another has the chunk
	default:
		counted, ok = c.own(n, e)
	}
	if !ok {
		c.Ignored = append(c.Ignored, n)
	}
	// What the owner sealed under an earlier claim may land after what it wrote since.
	if claims := ok && e.Claimed != nil; claims || e.By == c.Owner && e.At.After(c.Wrote) {
		c.Wrote = e.At
	}
	return counted
}

// own takes what an owner wrote in: facts of one entry in the order in which
// they were decided (L4).
func (c *Chunk) own(n int, e Entry) (counted []Result, ok bool) {
	counted = e.Results[:0:0]
	for i := range e.Results {
		switch counts := c.result(&e.Results[i]); {
		case counts && len(counted) == i: // as ever: nothing is copied
			counted = e.Results[: i+1 : i+1]
		case counts:
			counted = append(counted, e.Results[i])
		}
	}
	ok = len(counted) == len(e.Results)
	for _, item := range e.Starting {
		if !slices.Contains(c.starting, item) { // one that never began is named again
			c.starting = append(c.starting, item)
		}
	}
	if e.Handed != nil {
		ok = c.hand(childID(c.ID, n), *e.Handed) && ok
	}
	if e.Released != nil {
		for _, item := range e.Released.Flight {
			c.interrupted(item)
		}
		c.Owner, c.starting = "", nil
	}
	if e.Ended != nil {
		ok = c.end(e.Ended.By) && ok
	}
	return counted, ok
}

// claimed makes an agent the owner and counts what the one before it lost (M13).
func (c *Chunk) claimed(e Claimed) bool {
	grounds := map[Grounds]bool{Untouched: c.Claim == 0, FreeAgain: c.Claim > 0 && c.Owner == "",
		Silence: c.Owner != "", TakenAway: c.Owner != ""}
	if c.Closed || e.N != c.Claim+1 || !grounds[e.Why] {
		return false
	}
	switch e.Why {
	case Silence:
		for _, item := range c.mayHaveBegun() {
			c.suspect(item)
		}
		for _, item := range c.starting {
			c.blame(item)
		}
	case TakenAway:
		for _, item := range c.starting {
			c.interrupted(item)
		}
	}
	if c.Owner != "" {
		c.Losses++
		c.Risked += c.Risk
	}
	c.starting, c.retried = nil, nil
	c.Claim, c.Owner, c.Host, c.Risk = e.N, e.Agent, e.Host, e.Risk
	c.isolated = c.onlySuspects()
	return true
}

// mayHaveBegun lists the open items, in order, that may have been running or had
// just ended when the owner died. An owner begins the items of a claim in the order
// of their numbers, and lets no more than Risk begin that have no result in the log.
// So the first Risk open items are all that can have begun, and beside them those
// that failed in this claim, which are tried again at any time. Nothing else can have
// killed the owner. In an isolated claim that is the item that `starting` names, and
// it is blamed.
func (c *Chunk) mayHaveBegun() (items []int) {
	if c.isolated {
		return nil
	}
	left := c.Risk
	if left == 0 { // the claim of an older drover, which kept to some bound and did not name it
		left = c.Tally.Items
	}
	for item := range c.Items.All {
		switch {
		case c.stateOf(item) != itemOpen || c.suspected(item): // suspects never begin beside others
		case slices.Contains(c.retried, item):
			items = append(items, item)
		case left > 0:
			items = append(items, item)
			left--
		}
	}
	return items
}

// suspect counts a silent loss against an item that may have caused it.
func (c *Chunk) suspect(item int) {
	had := c.carry[item]
	had.Suspicions++
	c.carry[item] = had
}

// suspected says whether an item is a suspect.
func (c *Chunk) suspected(item int) bool { return c.carry[item].Suspicions >= isolateAfter }

// onlySuspects says whether items are open and every one of them is a suspect.
func (c *Chunk) onlySuspects() bool {
	open := c.Tally.Open()
	if open == 0 || len(c.carry) < open {
		return false
	}
	for item := range c.carry {
		if c.suspected(item) && c.stateOf(item) == itemOpen {
			open--
		}
	}
	return open == 0
}

// mayKill says whether an open item may have caused a silent loss.
func (c *Chunk) mayKill() bool {
	for item, had := range c.carry {
		if had.Suspicions > 0 && c.stateOf(item) == itemOpen {
			return true
		}
	}
	return false
}

func (c *Chunk) result(r *Result) bool {
	if c.stateOf(r.Item) != itemOpen || !c.Items.Has(r.Item) {
		return false
	}
	if len(c.starting) > 0 {
		c.starting = slices.DeleteFunc(c.starting, func(i int) bool { return i == r.Item })
	}
	if !r.Failed {
		c.set(r.Item, itemSucceeded)
		return true
	}
	had := c.carry[r.Item]
	had.Failures++
	if r.Kind == job.FailMemory {
		had.OOMs++
	}
	c.carry[r.Item] = had
	if r.Final {
		c.set(r.Item, itemFailed)
	} else if !slices.Contains(c.retried, r.Item) {
		c.retried = append(c.retried, r.Item)
	}
	return true
}

func (c *Chunk) blame(item int) {
	if c.stateOf(item) != itemOpen || !c.Items.Has(item) {
		return
	}
	had := c.carry[item]
	had.Blames++
	c.carry[item] = had
	if had.Blames >= quarantineAfter {
		c.set(item, itemQuarantined)
	}
}

func (c *Chunk) interrupted(item int) {
	if c.stateOf(item) != itemOpen || !c.Items.Has(item) {
		return
	}
	had := c.carry[item]
	had.Interruptions++
	c.carry[item] = had
	if had.Interruptions > MaxItemInterruptions {
		c.set(item, itemFailed)
	}
}

// hand moves items that are not running to a chunk of their own.
func (c *Chunk) hand(id string, h Handed) bool {
	for item := range h.Items.All {
		if c.stateOf(item) != itemOpen || !c.Items.Has(item) || slices.Contains(c.starting, item) {
			return false
		}
	}
	for item := range h.Items.All {
		c.set(item, itemHandedOn)
	}
	c.Children = append(c.Children, Child{id, h})
	return true
}

// end closes a chunk for its owner: nothing of it is open, or the job was stopped.
func (c *Chunk) end(by int) bool {
	if by > 0 {
		return c.stop(by)
	}
	if c.Tally.Open() > 0 {
		return false
	}
	c.close(0)
	return true
}

// stop closes a chunk because the job was stopped by entry by of its log (E2). In
// a closed one it dismisses a reopen that came before.
func (c *Chunk) stop(by int) bool {
	if by <= c.Mark {
		return false
	}
	if !c.Closed {
		for item := range c.Items.All {
			if c.stateOf(item) == itemOpen {
				c.set(item, itemCancelled)
			}
		}
		c.close(by)
	}
	c.Mark = by
	return true
}

func (c *Chunk) close(by int) { c.Closed, c.By, c.Owner, c.starting = true, by, "", nil }

// again opens a closed chunk for some of its items, with fresh budgets (M4).
func (c *Chunk) again(a Again) bool {
	if !c.Closed || a.By <= c.Mark {
		return false
	}
	for item := range a.Items.All {
		switch c.stateOf(item) {
		case itemFailed, itemQuarantined, itemCancelled:
			c.set(item, itemOpen)
			delete(c.carry, item)
		}
	}
	c.Closed, c.By, c.Mark = false, 0, a.By
	c.Old = c.Tally.Failed + c.Tally.Quarantined
	return true
}

// place is an item's in Items.
func (c *Chunk) place(item int) (at int, ok bool) {
	for _, r := range c.Items {
		if item <= r[1] {
			return at + item - r[0], item >= r[0]
		}
		at += r[1] - r[0] + 1
	}
	return 0, false
}

func (c *Chunk) stateOf(item int) itemState {
	at, ok := c.place(item)
	if !ok || c.state == nil {
		return itemOpen
	}
	return c.state[at]
}

func (c *Chunk) set(item int, s itemState) {
	at, _ := c.place(item)
	if c.state == nil {
		c.state = make([]itemState, c.Items.Len())
	}
	count := func(s itemState, by int) {
		switch s {
		case itemSucceeded:
			c.Tally.Succeeded += by
		case itemFailed:
			c.Tally.Failed += by
		case itemQuarantined:
			c.Tally.Quarantined += by
		case itemCancelled:
			c.Tally.Cancelled += by
		case itemHandedOn:
			c.Tally.Items -= by
		}
	}
	count(c.state[at], -1)
	count(s, 1)
	c.state[at] = s
}

// Item says how an item of the chunk stands, and what it has behind it; here is
// false for one that was handed on or never was in it.
func (c *Chunk) Item(item int) (s job.ItemState, had Carry, here bool) {
	st := c.stateOf(item)
	if !c.Items.Has(item) || st == itemHandedOn {
		return "", Carry{}, false
	}
	s = itemStates[st]
	if st == itemOpen && c.Owner != "" {
		s = job.ItemLeased
	}
	return s, c.carry[item], true
}

// Open are the items that have no result and were not handed on, in order.
func (c *Chunk) Open() (items []int) {
	for item := range c.Items.All {
		if c.stateOf(item) == itemOpen {
			items = append(items, item)
		}
	}
	return items
}

// Careful says that the chunk is in isolated mode (M13): all of its items that were
// open when its owner claimed it are suspects; of a chunk without an owner, all that
// are open now. They run one at a time, each after an entry that names it, on an agent
// that runs nothing else. Of a chunk with other items, too, the owner begins only
// these, and hands the suspects over.
func (c *Chunk) Careful() bool {
	if c.Owner != "" {
		return c.isolated
	}
	return c.onlySuspects()
}

// Free says whether the chunk may be claimed, and why (M1).
func (c *Chunk) Free(death func(agent string) Death) (why Grounds, ok bool) {
	switch {
	case c.Closed:
		return "", false
	case c.Claim == 0:
		return Untouched, true
	case c.Owner == "":
		return FreeAgain, true
	}
	switch death(c.Owner) {
	case Dead:
		return Silence, true
	case Taken:
		return TakenAway, true
	}
	return "", false
}

// carried is what a handed chunk inherits of these items (M3).
func (c *Chunk) carried(items Spans) (had map[int]Carry) {
	for item := range items.All {
		if h := c.carry[item]; h != (Carry{}) {
			if had == nil {
				had = map[int]Carry{}
			}
			had[item] = h
		}
	}
	return had
}

// childSeed is that of items which their owner hands over.
func (c *Chunk) childSeed(items []int, wait time.Duration) Seed {
	s := spansOf(items)
	return Seed{Items: s, Carry: c.carried(s), Mark: c.Mark, Wait: wait}
}
