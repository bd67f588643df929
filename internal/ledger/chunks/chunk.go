package chunks

import (
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
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

// Chunk is the fold of a chunk's log: a range of items, its owner, and how each
// of its items stands.
type Chunk struct {
	ID string
	protocol.Seed
	N      int           // entries folded: the next one's number
	Claim  int           // number of the last claim
	Owner  string        // "": none
	Host   protocol.Host // of the owner
	Risk   int           // of the owner
	Wrote  time.Time     // when the owner sealed its newest entry, by its own clock
	Closed bool          // ended, and not opened again since
	By     int           // what it was closed by: a number in the job's log, or 0
	Tally  job.Tally
	Old    int // of Tally: had failed before it was last opened again, and was not asked for
	// Children are the chunks that `handed` made.
	Children []Child
	// Ignored lists the numbers of entries that were not allowed when written (L3).
	Ignored []int

	States   []itemState // by place in Items; nil: all are open
	History  map[int]protocol.Carry
	starting []int // items that the owner named before they began
	isolated bool  // the owner claimed nothing but suspects: see Isolated
	retried  []int // open items with a failure that the owner has recorded
}

// Child is a chunk that was handed over.
type Child struct {
	ID string `json:"id"`
	protocol.Handed
}

// itemState is an item's in its chunk.
type itemState uint8

const (
	itemOpen itemState = iota
	StateSucceeded
	StateFailed
	itemQuarantined
	itemCancelled
	StateHandedOn // it is in a child
)

var itemStates = [...]job.ItemState{StateHandedOn: "", itemOpen: job.ItemPending, StateSucceeded: job.ItemSucceeded, StateFailed: job.ItemFailed,
	itemQuarantined: job.ItemQuarantined, itemCancelled: job.ItemCancelled}

// NewChunk is a chunk that no agent has touched.
func NewChunk(id string, s protocol.Seed) *Chunk {
	c := &Chunk{ID: id, Seed: s, History: map[int]protocol.Carry{}, Tally: job.Tally{Items: s.Items.Len()}}
	for item, had := range s.Carry {
		c.History[item] = had
	}
	return c
}

// Fold takes the next entry in and gives those of its results that count: others
// are of a claim that is over, or come after the item's own (L3).
func (c *Chunk) Fold(e protocol.ChunkEntry) (counted []protocol.Result) {
	n := c.N
	c.N++
	ok := true
	switch {
	case e.Again != nil:
		ok = c.applyAgain(*e.Again)
	case e.Ended != nil && e.Claim == 0:
		ok = c.endByStop(e.Ended.By)
	case e.Claimed != nil:
		ok = c.applyClaimed(*e.Claimed)
	case e.Claim != c.Claim || e.By != c.Owner || c.Closed:
		ok = false // fenced: another has the chunk
	default:
		counted, ok = c.applyOwners(n, e)
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

// applyOwners takes what an owner wrote in: facts of one entry in the order in which
// they were decided (L4).
func (c *Chunk) applyOwners(n int, e protocol.ChunkEntry) (counted []protocol.Result, ok bool) {
	counted = e.Results[:0:0]
	for i := range e.Results {
		switch counts := c.applyResult(&e.Results[i]); {
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
		ok = c.applyHanded(protocol.ChildID(c.ID, n), *e.Handed) && ok
	}
	if e.Released != nil {
		for _, item := range e.Released.Flight {
			c.countInterruption(item)
		}
		c.Owner, c.starting = "", nil
	}
	if e.Ended != nil {
		ok = c.endByOwner(e.Ended.By) && ok
	}
	return counted, ok
}

// applyClaimed makes an agent the owner and counts what the one before it lost (M13).
func (c *Chunk) applyClaimed(e protocol.Claimed) bool {
	grounds := map[protocol.Grounds]bool{protocol.Untouched: c.Claim == 0, protocol.FreeAgain: c.Claim > 0 && c.Owner == "",
		protocol.Silence: c.Owner != "", protocol.TakenAway: c.Owner != ""}
	if c.Closed || e.N != c.Claim+1 || !grounds[e.Why] {
		return false
	}
	switch e.Why {
	case protocol.Silence:
		for _, item := range c.mayHaveBegun() {
			c.countSuspicion(item)
		}
		for _, item := range c.starting {
			c.countBlame(item)
		}
	case protocol.TakenAway:
		for _, item := range c.starting {
			c.countInterruption(item)
		}
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
		case c.StateOf(item) != itemOpen || c.IsSuspect(item): // suspects never begin beside others
		case slices.Contains(c.retried, item):
			items = append(items, item)
		case left > 0:
			items = append(items, item)
			left--
		}
	}
	return items
}

// countSuspicion counts a silent loss against an item that may have caused it.
func (c *Chunk) countSuspicion(item int) {
	had := c.History[item]
	had.Suspicions++
	c.History[item] = had
}

// IsSuspect says whether an item is a suspect.
func (c *Chunk) IsSuspect(item int) bool { return c.History[item].Suspicions >= isolateAfter }

// onlySuspects says whether items are open and every one of them is a suspect.
func (c *Chunk) onlySuspects() bool {
	open := c.Tally.Open()
	if open == 0 || len(c.History) < open {
		return false
	}
	for item := range c.History {
		if c.IsSuspect(item) && c.StateOf(item) == itemOpen {
			open--
		}
	}
	return open == 0
}

// MayKill says whether an open item may have caused a silent loss.
func (c *Chunk) MayKill() bool {
	for item, had := range c.History {
		if had.Suspicions > 0 && c.StateOf(item) == itemOpen {
			return true
		}
	}
	return false
}

func (c *Chunk) applyResult(r *protocol.Result) bool {
	if c.StateOf(r.Item) != itemOpen || !c.Items.Has(r.Item) {
		return false
	}
	if len(c.starting) > 0 {
		c.starting = slices.DeleteFunc(c.starting, func(i int) bool { return i == r.Item })
	}
	if !r.Failed {
		c.setState(r.Item, StateSucceeded)
		return true
	}
	had := c.History[r.Item]
	had.Failures++
	if r.Kind == job.FailMemory {
		had.OOMs++
	}
	c.History[r.Item] = had
	if r.Final {
		c.setState(r.Item, StateFailed)
	} else if !slices.Contains(c.retried, r.Item) {
		c.retried = append(c.retried, r.Item)
	}
	return true
}

func (c *Chunk) countBlame(item int) {
	if c.StateOf(item) != itemOpen || !c.Items.Has(item) {
		return
	}
	had := c.History[item]
	had.Blames++
	c.History[item] = had
	if had.Blames >= quarantineAfter {
		c.setState(item, itemQuarantined)
	}
}

func (c *Chunk) countInterruption(item int) {
	if c.StateOf(item) != itemOpen || !c.Items.Has(item) {
		return
	}
	had := c.History[item]
	had.Interruptions++
	c.History[item] = had
	if had.Interruptions > MaxItemInterruptions {
		c.setState(item, StateFailed)
	}
}

// applyHanded moves items that are not running to a chunk of their own.
func (c *Chunk) applyHanded(id string, h protocol.Handed) bool {
	for item := range h.Items.All {
		if c.StateOf(item) != itemOpen || !c.Items.Has(item) || slices.Contains(c.starting, item) {
			return false
		}
	}
	for item := range h.Items.All {
		c.setState(item, StateHandedOn)
	}
	c.Children = append(c.Children, Child{id, h})
	return true
}

// endByOwner closes a chunk for its owner: nothing of it is open, or the job was stopped.
func (c *Chunk) endByOwner(by int) bool {
	if by > 0 {
		return c.endByStop(by)
	}
	if c.Tally.Open() > 0 {
		return false
	}
	c.closeBy(0)
	return true
}

// endByStop closes a chunk because the job was stopped by entry by of its log (E2). In
// a closed one it dismisses a reopen that came before.
func (c *Chunk) endByStop(by int) bool {
	if by <= c.Mark {
		return false
	}
	if !c.Closed {
		for item := range c.Items.All {
			if c.StateOf(item) == itemOpen {
				c.setState(item, itemCancelled)
			}
		}
		c.closeBy(by)
	}
	c.Mark = by
	return true
}

func (c *Chunk) closeBy(by int) { c.Closed, c.By, c.Owner, c.starting = true, by, "", nil }

// applyAgain opens a closed chunk for some of its items, with fresh budgets (M4).
func (c *Chunk) applyAgain(a protocol.Again) bool {
	if !c.Closed || a.By <= c.Mark {
		return false
	}
	for item := range a.Items.All {
		switch c.StateOf(item) {
		case StateFailed, itemQuarantined, itemCancelled:
			c.setState(item, itemOpen)
			delete(c.History, item)
		}
	}
	c.Closed, c.By, c.Mark = false, 0, a.By
	c.Old = c.Tally.Failed + c.Tally.Quarantined
	return true
}

// indexOf is an item's in Items.
func (c *Chunk) indexOf(item int) (at int, ok bool) {
	for _, r := range c.Items {
		if item <= r[1] {
			return at + item - r[0], item >= r[0]
		}
		at += r[1] - r[0] + 1
	}
	return 0, false
}

func (c *Chunk) StateOf(item int) itemState {
	at, ok := c.indexOf(item)
	if !ok || c.States == nil {
		return itemOpen
	}
	return c.States[at]
}

func (c *Chunk) setState(item int, s itemState) {
	at, _ := c.indexOf(item)
	if c.States == nil {
		c.States = make([]itemState, c.Items.Len())
	}
	count := func(s itemState, by int) {
		switch s {
		case StateSucceeded:
			c.Tally.Succeeded += by
		case StateFailed:
			c.Tally.Failed += by
		case itemQuarantined:
			c.Tally.Quarantined += by
		case itemCancelled:
			c.Tally.Cancelled += by
		case StateHandedOn:
			c.Tally.Items -= by
		}
	}
	count(c.States[at], -1)
	count(s, 1)
	c.States[at] = s
}

// Item says how an item of the chunk stands, and what it has behind it; here is
// false for one that was handed on or never was in it.
func (c *Chunk) Item(item int) (s job.ItemState, had protocol.Carry, here bool) {
	st := c.StateOf(item)
	if !c.Items.Has(item) || st == StateHandedOn {
		return "", protocol.Carry{}, false
	}
	s = itemStates[st]
	if st == itemOpen && c.Owner != "" {
		s = job.ItemLeased
	}
	return s, c.History[item], true
}

// Open are the items that have no result and were not handed on, in order.
func (c *Chunk) Open() (items []int) {
	for item := range c.Items.All {
		if c.StateOf(item) == itemOpen {
			items = append(items, item)
		}
	}
	return items
}

// Isolated says that the chunk is in isolated mode (M13): all of its items that were
// open when its owner claimed it are suspects; of a chunk without an owner, all that
// are open now. They run one at a time, each after an entry that names it, on an agent
// that runs nothing else. Of a chunk with other items, too, the owner begins only
// these, and hands the suspects over.
func (c *Chunk) Isolated() bool {
	if c.Owner != "" {
		return c.isolated
	}
	return c.onlySuspects()
}

// Free says whether the chunk may be claimed, and why (M1).
func (c *Chunk) Free(death func(agent string) liveness.Death) (why protocol.Grounds, ok bool) {
	switch {
	case c.Closed:
		return "", false
	case c.Claim == 0:
		return protocol.Untouched, true
	case c.Owner == "":
		return protocol.FreeAgain, true
	}
	switch death(c.Owner) {
	case liveness.Dead:
		return protocol.Silence, true
	case liveness.Taken:
		return protocol.TakenAway, true
	}
	return "", false
}

// Sign is what the log says of the owner.
func (c *Chunk) Sign() liveness.Sign {
	return liveness.Sign{Agent: c.Owner, Host: c.Host, Chunk: c.ID, N: c.N, Wrote: c.Wrote}
}

// carriedBy is what a handed chunk inherits of these items (M3).
func (c *Chunk) carriedBy(items protocol.Spans) (had map[int]protocol.Carry) {
	for item := range items.All {
		if h := c.History[item]; h != (protocol.Carry{}) {
			if had == nil {
				had = map[int]protocol.Carry{}
			}
			had[item] = h
		}
	}
	return had
}

// ChildSeed is that of items which their owner hands over.
func (c *Chunk) ChildSeed(items []int, wait time.Duration) protocol.Seed {
	s := protocol.SpansOf(items)
	return protocol.Seed{Items: s, Carry: c.carriedBy(s), Mark: c.Mark, Wait: wait}
}
