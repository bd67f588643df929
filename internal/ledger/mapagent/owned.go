package mapagent

import (
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Outcome is what has become of a chunk that an agent holds.
type Outcome int

// The fates. Over and Fenced end the hold.
const (
	Holding Outcome = iota
	Over            // every item has ended or was handed on, or the job was stopped
	Fenced          // another agent has it: end its items, drop it
)

// Try is one try of an item that may begin now.
type Try struct {
	Item int
	N    int // of the item's tries: 1, 2, ...
	// Name is never used by another try: outputs go to out/<item>/<Name>/ (M6).
	Name string
	// Alone: nothing else runs beside it (M13).
	Alone bool
	// OOMs is for how many of those before it the item had too little memory.
	OOMs int
}

// OwnedChunk is a chunk that this agent owns: what it may start of it, and what it has
// still to record. Its methods are called by the caller of the MapMember's, one
// at a time.
type OwnedChunk struct {
	m     *MapMember
	Chunk *chunks.Chunk
	claim int // number of our claim: the chunk may have another owner by now

	Queue    []int                 // items that have not begun, in order
	suspects []int                 // suspects beside them, which another chunk is to be made of (M13)
	later    map[int]time.Duration // items in back-off, and when they may begin
	flight   map[int]bool
	begun    int // tries of this claim, for names

	results []protocol.Result
	fails   map[int]int   // failures in buffer, by item
	ooms    map[int]int   // of these, for want of memory
	bytes   int           // of buffer, about
	oldest  time.Duration // when its first result came
	naming  int           // item that the next entry names (M13); 0: none
	named   int           // item that was named and may begin

	Unsure   []byte        // an entry that may have landed, or may yet: it may hand over what waits here
	lastRead time.Duration // when the request left that last read the log to its end, or appended to it
	balanced time.Duration // when idle agents were last looked for
	Over     bool
	outcome  Outcome

	encoded []byte // for the snapshot, encoded
	kept    int    // bytes of them
	cut     bool
}

// What an owned chunk keeps to. An agent's death may cost no more than risk tries (M10),
// so risk must be larger than the windows of its slots, and is a cap on them.
const (
	riskEach   = 16  // tries for each slot
	riskLeast  = 512 // tries
	flushBytes = 256 << 10
)

func (m *MapMember) newOwned(c *chunks.Chunk, sent time.Duration) *OwnedChunk {
	h := &OwnedChunk{m: m, Chunk: c, claim: c.Claim, Queue: c.Open(), later: map[int]time.Duration{}, flight: map[int]bool{}, fails: map[int]int{}, ooms: map[int]int{}, lastRead: sent}
	if !c.Isolated() {
		for _, item := range h.Queue {
			if c.IsSuspect(item) {
				h.suspects = append(h.suspects, item)
			}
		}
		h.Queue = slices.DeleteFunc(h.Queue, c.IsSuspect)
	}
	return h
}

// ID names the chunk.
func (h *OwnedChunk) ID() string { return h.Chunk.ID }

// Items are those the chunk began with.
func (h *OwnedChunk) Items() protocol.Spans { return h.Chunk.Items }

// Isolated says that its items run one at a time, beside nothing else.
func (h *OwnedChunk) Isolated() bool { return h.Chunk.Isolated() }

// Flight is how many of its tries run, or wait in a spawner.
func (h *OwnedChunk) Flight() int { return len(h.flight) }

// Waiting is how many of its items could begin.
func (h *OwnedChunk) Waiting() int { return len(h.Queue) }

// StartDeadline is the boot time until which items may begin (M5).
func (h *OwnedChunk) StartDeadline() time.Duration { return h.lastRead + h.m.Pace.StartFor }

// Soon are the items that Next is about to give, n at most, in order: what they need
// can be got ready. Nothing follows from it, and another may be handed them.
func (h *OwnedChunk) Soon(n int) []int {
	if h.Over {
		return nil
	}
	h.endBackOffs(h.m.Inventory.Now())
	return slices.Clone(h.Queue[:min(n, len(h.Queue))])
}

// Next is the item to start now; ok is false when there is none, or none yet: a
// flush must come before, or a back-off end.
func (h *OwnedChunk) Next() (t Try, ok bool) { return h.NextAt(h.m.Inventory.Now()) }

// NextAt is Next at a boot time that was read a moment ago, for a caller that starts thousands
// and has the licence looked at once more when each begins.
func (h *OwnedChunk) NextAt(now time.Duration) (t Try, ok bool) {
	h.endBackOffs(now)
	switch {
	case h.Over || h.Unsure != nil || !h.m.mayBegin() || len(h.Queue) == 0 || now >= h.StartDeadline():
		return t, false
	case len(h.flight)+len(h.results) >= h.m.Risk:
		return t, false
	case h.Chunk.Isolated():
		return h.nextIsolated()
	}
	return h.beginItem(h.Queue[0], false), true
}

// nextIsolated lets one item begin, after an entry that names it (M13).
func (h *OwnedChunk) nextIsolated() (t Try, ok bool) {
	switch {
	case len(h.flight) > 0 || len(h.m.OwnedChunks) > 1:
		return t, false
	case h.named == h.Queue[0]:
		return h.beginItem(h.named, true), true
	}
	h.naming = h.Queue[0]
	return t, false
}

func (h *OwnedChunk) beginItem(item int, alone bool) Try {
	h.Queue, h.named = h.Queue[1:], 0
	h.flight[item] = true
	h.begun++
	had := h.Chunk.History[item]
	return Try{Item: item, N: 1 + h.failuresOf(item) + had.Interruptions + had.Blames, Alone: alone, OOMs: had.OOMs + h.ooms[item],
		Name: h.Chunk.ID + "-" + strconv.Itoa(h.claim) + "-" + strconv.Itoa(h.begun)}
}

// endBackOffs makes items ready again after their back-off is over.
func (h *OwnedChunk) endBackOffs(now time.Duration) {
	if len(h.later) == 0 {
		return
	}
	for _, item := range sortedItems(h.later) {
		if h.later[item] <= now {
			delete(h.later, item)
			h.Queue = append(h.Queue, item)
		}
	}
}

func sortedItems[V any](m map[int]V) (items []int) {
	for item := range m {
		items = append(items, item)
	}
	slices.Sort(items)
	return items
}

// Done takes the result of a try; its outputs are stored and verified. It says
// itself whether a failure is final, unless the result does.
func (h *OwnedChunk) Done(r protocol.Result) {
	if h.Over || !h.flight[r.Item] {
		return
	}
	delete(h.flight, r.Item)
	h.m.timeTry(r)
	if r.Failed {
		had := h.failuresOf(r.Item) + 1
		if r.Final = r.Final || h.m.Inventory.Map.IsFinal(r, had); !r.Final {
			h.later[r.Item] = h.m.Inventory.Now() + BackOff(had)
		}
		h.fails[r.Item]++
		if r.Kind == job.FailMemory {
			h.ooms[r.Item]++
		}
	}
	if r.FailedForGood() {
		h.m.room--
	}
	if len(h.results) == 0 {
		h.oldest = h.m.Inventory.Now()
	}
	h.results = append(h.results, r)
	h.bytes += size(r)
}

// failuresOf counts those of an item, recorded or not yet.
func (h *OwnedChunk) failuresOf(item int) int {
	return h.Chunk.History[item].Failures + h.fails[item]
}

// size is about how long a result is in an entry.
func size(r protocol.Result) int {
	n := 64 + len(r.Head) + len(r.Tail) + len(r.Why)
	for _, o := range r.Outputs {
		n += 96 + len(o.Name)
	}
	return n
}

// Back takes an item back that never began.
func (h *OwnedChunk) Back(item int) {
	if h.flight[item] {
		delete(h.flight, item)
		h.Queue = slices.Insert(h.Queue, 0, item)
	}
}

// Due is how long until Flush should be called; 0: now.
func (h *OwnedChunk) Due() time.Duration { return h.DueAt(h.m.Inventory.Now()) }

// DueAt is Due at a boot time that was read a moment ago.
func (h *OwnedChunk) DueAt(now time.Duration) time.Duration {
	p := h.m.Pace
	h.endBackOffs(now)
	idle := len(h.flight) == 0 && len(h.Queue) == 0 && (len(h.later) == 0 || !h.Chunk.Isolated())
	switch {
	case h.Over, h.Unsure != nil, h.bytes >= flushBytes && !h.nearEnd():
		return 0
	case h.m.Inventory.Map.Stop != nil && len(h.results) > 0:
		return max(0, h.oldest+p.flush-now)
	case h.m.Inventory.Map.Stop != nil:
		return p.StartFor // the rest is for Wind
	case len(h.suspects) > 0, h.handsAllOver(), h.m.TooMany() && len(h.results) > 0:
		return 0
	case h.naming > 0, idle, len(h.flight)+len(h.results) >= h.m.Risk && len(h.results) > 0:
		return 0
	}
	due := h.lastRead + p.StartFor/2 // renew it while items wait
	if len(h.Queue) == 0 {
		due = h.lastRead + 10*p.StartFor // only to learn that another has it
	} else if !h.Chunk.Isolated() { // of which nothing is handed over
		due = min(due, h.balanced+p.balance)
	}
	if len(h.results) > 0 {
		due = min(due, h.oldest+p.flush)
	}
	for _, at := range h.later {
		due = min(due, at)
	}
	return max(0, due-now)
}

// nearEnd says that all but the last few items have ended: the entry that ends the chunk
// takes the results along, though they are a little more than an entry should have.
func (h *OwnedChunk) nearEnd() bool {
	return len(h.Queue) == 0 && len(h.later) == 0 && 8*len(h.flight) < len(h.results) && 8*h.bytes < 9*flushBytes
}
