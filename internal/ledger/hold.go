package ledger

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Fate is what has become of a chunk that an agent holds.
type Fate int

// The fates. Over and Fenced end the hold.
const (
	Holding Fate = iota
	Over         // every item has ended or was handed on, or the job was stopped
	Fenced       // another agent has it: end its items, drop it
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

// Hold is a chunk that this agent owns: what it may start of it, and what it has
// still to record. Its methods are called by whoever calls the MapMember's, one
// at a time.
type Hold struct {
	m     *MapMember
	c     *Chunk
	claim int // number of our claim: the chunk may have another owner by now

	queue  []int                 // items that have not begun, in order
	apart  []int                 // suspects beside them, which another chunk is to be made of (M13)
	later  map[int]time.Duration // items in back-off, and when they may begin
	flight map[int]bool
	begun  int // tries of this claim, for names

	buffer []Result
	fails  map[int]int   // failures in buffer, by item
	ooms   map[int]int   // of these, for want of memory
	bytes  int           // of buffer, about
	oldest time.Duration // when its first result came
	naming int           // item that the next entry names (M13); 0: none
	named  int           // item that was named and may begin

	unsure   []byte        // an entry that may have landed, or may yet: it may hand over what waits here
	fresh    time.Duration // when the request left that last read the log to its end, or appended to it
	balanced time.Duration // when idle agents were last looked for
	over     bool
	fate     Fate

	results []byte // for the snapshot, encoded
	kept    int    // bytes of them
	cut     bool
}

// What a hold keeps to. Nobody may lose more than risk tries with an agent (M10),
// so risk must be larger than the windows of its slots, and is a cap on them.
const (
	riskEach   = 16  // tries for each slot
	riskLeast  = 512 // tries
	flushBytes = 256 << 10
)

// pace is how often a hold turns to the store (M5, M8, M9).
type pace struct {
	flush   time.Duration // results wait so long at most
	licence time.Duration // items begin so long after the log was read, at most: longer than flush
	balance time.Duration // between two looks for idle agents
	worth   time.Duration // of work that is handed over at least; 0: what fills all slots once
}

var nearPace = pace{flush: 50 * time.Millisecond, licence: time.Second, balance: 200 * time.Millisecond}

// farPace is that of agents which share an object store: the more there are, the
// longer results wait, from 10 s for a few to 30 s for thousands. What is written is
// most of what a store costs, and an agent that dies takes no more with it than its
// risk. A few hand over whatever there is: it costs little, and their job ends sooner.
// The licence stays below a Lease: who slept through one starts nothing.
func farPace(agents int) pace {
	const least, most = 10 * time.Second, 30 * time.Second
	flush := least
	for n := fewAgents; n < agents && flush < most; n *= 2 {
		flush += 4 * time.Second
	}
	flush = min(flush, most)
	p := pace{flush: flush, licence: flush * 3 / 2, balance: flush}
	if agents > fewAgents {
		p.worth = 2 * time.Second
	}
	return p
}

// backOff is how long an item waits after its nth failure.
func backOff(n int) time.Duration { return min(time.Second<<min(n-1, 6), time.Minute) }

func (m *MapMember) newHold(c *Chunk, sent time.Duration) *Hold {
	h := &Hold{m: m, c: c, claim: c.Claim, queue: c.Open(), later: map[int]time.Duration{}, flight: map[int]bool{}, fails: map[int]int{}, ooms: map[int]int{}, fresh: sent}
	if !c.Careful() {
		for _, item := range h.queue {
			if c.suspected(item) {
				h.apart = append(h.apart, item)
			}
		}
		h.queue = slices.DeleteFunc(h.queue, c.suspected)
	}
	return h
}

// ID names the chunk.
func (h *Hold) ID() string { return h.c.ID }

// Items are those the chunk began with.
func (h *Hold) Items() Spans { return h.c.Items }

// Careful says that its items run one at a time, beside nothing else.
func (h *Hold) Careful() bool { return h.c.Careful() }

// Flight is how many of its tries run, or wait in a spawner.
func (h *Hold) Flight() int { return len(h.flight) }

// Waiting is how many of its items could begin.
func (h *Hold) Waiting() int { return len(h.queue) }

// Licence is the boot time until which items may begin (M5).
func (h *Hold) Licence() time.Duration { return h.fresh + h.m.pace.licence }

// Soon are the items that Next is about to give, n at most, in order: what they need
// can be got ready. Nothing follows from it, and another may be handed them.
func (h *Hold) Soon(n int) []int {
	if h.over {
		return nil
	}
	h.ripen(h.m.t.now())
	return slices.Clone(h.queue[:min(n, len(h.queue))])
}

// Next is the item to start now; ok is false when there is none, or none yet: a
// flush must come before, or a back-off end.
func (h *Hold) Next() (t Try, ok bool) { return h.NextAt(h.m.t.now()) }

// NextAt is Next at a boot time that was read a moment ago, for who starts thousands
// and has the licence looked at once more when each begins.
func (h *Hold) NextAt(now time.Duration) (t Try, ok bool) {
	h.ripen(now)
	switch {
	case h.over || h.unsure != nil || !h.m.live() || len(h.queue) == 0 || now >= h.Licence():
		return t, false
	case len(h.flight)+len(h.buffer) >= h.m.risk:
		return t, false
	case h.c.Careful():
		return h.careful()
	}
	return h.begin(h.queue[0], false), true
}

// careful lets one item begin, after an entry that names it (M13).
func (h *Hold) careful() (t Try, ok bool) {
	switch {
	case len(h.flight) > 0 || len(h.m.holds) > 1:
		return t, false
	case h.named == h.queue[0]:
		return h.begin(h.named, true), true
	}
	h.naming = h.queue[0]
	return t, false
}

func (h *Hold) begin(item int, alone bool) Try {
	h.queue, h.named = h.queue[1:], 0
	h.flight[item] = true
	h.begun++
	had := h.c.carry[item]
	return Try{Item: item, N: 1 + h.failures(item) + had.Interruptions + had.Blames, Alone: alone, OOMs: had.OOMs + h.ooms[item],
		Name: h.c.ID + "-" + strconv.Itoa(h.claim) + "-" + strconv.Itoa(h.begun)}
}

// ripen brings items back whose back-off is over.
func (h *Hold) ripen(now time.Duration) {
	if len(h.later) == 0 {
		return
	}
	for _, item := range sortedItems(h.later) {
		if h.later[item] <= now {
			delete(h.later, item)
			h.queue = append(h.queue, item)
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
func (h *Hold) Done(r Result) {
	if h.over || !h.flight[r.Item] {
		return
	}
	delete(h.flight, r.Item)
	h.m.timed(r)
	if r.Failed {
		had := h.failures(r.Item) + 1
		if r.Final = r.Final || h.m.t.m.final(r, had); !r.Final {
			h.later[r.Item] = h.m.t.now() + backOff(had)
		}
		h.fails[r.Item]++
		if r.Kind == job.FailMemory {
			h.ooms[r.Item]++
		}
	}
	if r.bad() {
		h.m.room--
	}
	if len(h.buffer) == 0 {
		h.oldest = h.m.t.now()
	}
	h.buffer = append(h.buffer, r)
	h.bytes += size(r)
}

// timed keeps how long our tries take: the mean of the last dozens of them.
func (m *MapMember) timed(r Result) {
	const last = 64
	if wall := time.Duration(r.Wall) * time.Microsecond; wall > 0 {
		m.tries = min(m.tries+1, last)
		m.took += (wall - m.took) / time.Duration(m.tries)
	}
}

// failures counts those of an item, recorded or not yet.
func (h *Hold) failures(item int) int {
	return h.c.carry[item].Failures + h.fails[item]
}

// size is about how long a result is in an entry.
func size(r Result) int {
	n := 64 + len(r.Head) + len(r.Tail) + len(r.Why)
	for _, o := range r.Outputs {
		n += 96 + len(o.Name)
	}
	return n
}

// Back takes an item back that never began.
func (h *Hold) Back(item int) {
	if h.flight[item] {
		delete(h.flight, item)
		h.queue = slices.Insert(h.queue, 0, item)
	}
}

// Due is how long until Flush should be called; 0: now.
func (h *Hold) Due() time.Duration { return h.DueAt(h.m.t.now()) }

// DueAt is Due at a boot time that was read a moment ago.
func (h *Hold) DueAt(now time.Duration) time.Duration {
	p := h.m.pace
	h.ripen(now)
	idle := len(h.flight) == 0 && len(h.queue) == 0 && (len(h.later) == 0 || !h.c.Careful())
	switch {
	case h.over, h.unsure != nil, h.bytes >= flushBytes && !h.nearEnd():
		return 0
	case h.m.t.m.Stop != nil && len(h.buffer) > 0:
		return max(0, h.oldest+p.flush-now)
	case h.m.t.m.Stop != nil:
		return p.licence // the rest is for Wind
	case len(h.apart) > 0, h.passes(), h.m.TooMany() && len(h.buffer) > 0:
		return 0
	case h.naming > 0, idle, len(h.flight)+len(h.buffer) >= h.m.risk && len(h.buffer) > 0:
		return 0
	}
	due := h.fresh + p.licence/2 // renew it while items wait
	if len(h.queue) == 0 {
		due = h.fresh + 10*p.licence // only to hear that somebody else has it
	} else if !h.c.Careful() { // of which nothing is handed over
		due = min(due, h.balanced+p.balance)
	}
	if len(h.buffer) > 0 {
		due = min(due, h.oldest+p.flush)
	}
	for _, at := range h.later {
		due = min(due, at)
	}
	return max(0, due-now)
}

// nearEnd says that all but the last few items have ended: the entry that ends the chunk
// takes the results along, though they are a little more than an entry should have.
func (h *Hold) nearEnd() bool {
	return len(h.queue) == 0 && len(h.later) == 0 && 8*len(h.flight) < len(h.buffer) && 8*h.bytes < 9*flushBytes
}

// Flush appends what is due, or reads the log's end: either renews the licence.
func (h *Hold) Flush(ctx context.Context) (Fate, error) {
	for !h.over {
		e, err := h.due(ctx)
		if err != nil {
			return h.fate, err
		}
		if e == nil && h.unsure == nil {
			sent, err := h.m.t.read(ctx, h.c, nil)
			if err != nil {
				return h.fate, err
			}
			if err := h.renew(ctx, sent); err != nil {
				return h.fate, err
			}
			break
		}
		if e == nil {
			e = &Entry{}
		}
		mine, err := h.append(ctx, *e)
		if err != nil {
			return h.fate, err
		}
		if mine && len(h.buffer) == 0 && h.naming == 0 {
			break
		}
	}
	h.close(ctx)
	return h.fate, nil
}

// Record appends the results that there are, and nothing else: for who is about to
// Release the chunk, and has to wait for some of its items before.
func (h *Hold) Record(ctx context.Context) error {
	for !h.over && len(h.buffer) > 0 {
		if _, err := h.append(ctx, Entry{Results: h.buffer}); err != nil {
			return err
		}
	}
	return nil
}

// append writes an entry of ours, as what comes after all that was read. One whose
// outcome stayed unknown comes first, with its own bytes (L1), and the caller
// decides again.
func (h *Hold) append(ctx context.Context, e Entry) (mine bool, err error) {
	body, again := h.unsure, h.unsure != nil
	var known *Entry
	if !again {
		e.Claim, known = h.claim, &e
		body = h.m.t.seal(h.m.ID, known)
	}
	mine, sent, err := h.m.t.send(ctx, h.c, body, known)
	if err != nil {
		if errors.Is(err, store.ErrUnclear) {
			h.unsure = body
		}
		return false, err
	}
	if mine { // else there may be more to read
		if err := h.renew(ctx, sent); err != nil {
			return false, err
		}
	}
	return mine && !again, h.m.telling(ctx)
}

// renew moves the start deadline on, after a request that left at sent found the end of
// the chunk's log. That request proves nothing once gc has removed the job: the entries by
// which another agent took the chunk are deleted then, and job.json before them. So
// job.json is looked for after it, if it was not seen a moment ago (E6).
func (h *Hold) renew(ctx context.Context, sent time.Duration) error {
	err := h.m.t.w.exists(ctx, h.m.t.p)
	switch {
	case errors.Is(err, ErrRemoved): // Poll says so, too; until then nothing begins
		h.over, h.fate = true, Fenced
	case err != nil:
		return err
	default:
		h.fresh = sent
	}
	return nil
}

// saw takes in an entry that the chunk's log is found to hold, whoever read it and
// what for. One of ours may be of a request that we had given up: it landed.
func (h *Hold) saw(e Entry) {
	if h.over {
		return
	}
	h.unsure = nil // its number is taken
	if e.By == h.m.ID && e.Claim == h.claim {
		h.recorded(e)
	}
	switch {
	case h.c.Closed:
		h.over, h.fate = true, Over
	case h.c.Owner != h.m.ID || h.c.Claim != h.claim:
		h.over, h.fate = true, Fenced
	}
}

// recorded brings our side up to date with an entry of ours that is in the log.
func (h *Hold) recorded(e Entry) {
	n := 0 // the buffer may have grown since
	for n < min(len(e.Results), len(h.buffer)) && h.buffer[n].Item == e.Results[n].Item && h.buffer[n].Try == e.Results[n].Try {
		n++
	}
	for _, r := range h.buffer[:n] {
		h.m.recorded++
		if r.bad() {
			h.m.failed++
		}
		if r.Failed {
			h.fails[r.Item]--
		}
		if r.Kind == job.FailMemory {
			h.ooms[r.Item]--
		}
		if !r.Failed || r.Final {
			h.keep(r)
		}
		h.bytes -= size(r)
	}
	if n < len(h.buffer) {
		h.buffer = h.buffer[n:]
	} else { // e may share its room, and is done with
		h.buffer = h.buffer[:0]
		clear(h.fails)
		clear(h.ooms)
	}
	if len(e.Starting) > 0 {
		h.named, h.naming = e.Starting[0], 0
	}
	id := childID(h.c.ID, h.c.N-1)
	if i := len(h.c.Children) - 1; e.Handed != nil && i >= 0 && h.c.Children[i].ID == id {
		for item := range e.Handed.Items.All {
			delete(h.later, item)
		}
		h.queue = slices.DeleteFunc(h.queue, e.Handed.Items.Has)
		h.apart = slices.DeleteFunc(h.apart, e.Handed.Items.Has)
		h.m.own(h.c.Children[i])
	}
}

// keep keeps a result for the snapshot.
func (h *Hold) keep(r Result) {
	if h.kept += size(r); h.kept > maxSnapshot {
		h.cut, h.results = true, nil
	}
	if h.cut {
		return
	}
	if len(h.results) > 0 {
		h.results = append(h.results, ',')
	}
	h.results = appendResult(h.results, &r)
}

// due is the entry to append now, nil for none: results, the item to be named, the
// suspects, a part for an idle agent or for a back-off, and the end, in one (L4).
func (h *Hold) due(ctx context.Context) (*Entry, error) {
	now := h.m.t.now()
	h.ripen(now)
	e := Entry{Results: h.buffer}
	if h.naming > 0 {
		e.Starting = []int{h.naming}
	}
	switch {
	case h.m.t.m.Stop != nil || h.c.Careful():
	case len(h.apart) > 0: // for an agent that runs nothing else: this one, when it is done
		e.Handed = &Handed{Seed: h.seed(h.apart, 0)}
	default:
		handed, err := h.hand(ctx, now)
		if err != nil {
			return nil, err
		}
		e.Handed = handed
	}
	if h.last(e) {
		e.Ended = &Ended{}
	}
	if len(e.Results) == 0 && len(e.Starting) == 0 && e.Handed == nil && e.Ended == nil {
		return nil, nil
	}
	return &e, nil
}

// last says whether nothing of the chunk is open once e is recorded.
func (h *Hold) last(e Entry) bool {
	left := len(h.queue) + len(h.apart) + len(h.later) + len(h.flight)
	if e.Handed != nil {
		left -= e.Handed.Items.Len()
	}
	return left == 0
}

// hand chooses what another is to do: what only waits for a back-off when we have
// nothing else, or a share of what waits for a slot when agents are idle (M8).
func (h *Hold) hand(ctx context.Context, now time.Duration) (*Handed, error) {
	if len(h.queue) == 0 && len(h.flight) == 0 && len(h.later) > 0 {
		wait := time.Duration(0)
		for _, at := range h.later {
			wait = max(wait, at-now)
		}
		return &Handed{Seed: h.seed(sortedItems(h.later), wait)}, nil
	}
	if len(h.queue) == 0 || now-h.balanced < h.m.pace.balance && !h.passes() {
		return nil, nil
	}
	h.balanced = now
	least := h.m.least()
	if !h.passes() && least > h.m.o.Slots && len(h.queue) < 2*least {
		return nil, nil // before another had begun with it, we are done
	}
	idle, err := h.m.idle(ctx)
	if err == nil && h.passes() {
		return h.handAll(idle), nil
	}
	if err != nil || len(idle) == 0 {
		return nil, err
	}
	// An equal share, but no less than keeps another's slots busy.
	share := max((len(h.queue)+len(idle))/(len(idle)+1), min(len(h.queue), least))
	if len(idle) > 1 {
		h.balanced = 0 // the next one at the next flush
	}
	part := slices.Clone(h.queue[len(h.queue)-share:])
	slices.Sort(part)
	return &Handed{Seed: h.seed(part, 0), To: idle[0]}, nil
}

// least is how many items are worth a chunk of their own, that asks for half a dozen
// writes and some reads: they fill another's slots, and for a while.
func (m *MapMember) least() int {
	if m.took == 0 {
		return m.o.Slots
	}
	return m.o.Slots * max(1, int(m.pace.worth/m.took))
}

// passes says that what waits here is for others, as our agent was drained. A careful
// chunk goes over whole, when its one item has ended.
func (h *Hold) passes() bool {
	return h.m.drained() && len(h.queue) > 0 && !h.c.Careful()
}

// handAll hands over all that has not begun; to nobody, if nobody is idle.
func (h *Hold) handAll(idle []string) *Handed {
	e := &Handed{Seed: h.seed(slices.Sorted(slices.Values(h.queue)), 0)}
	if len(idle) > 0 {
		e.To = idle[0]
	}
	return e
}

// pass hands all that is open to another agent: nothing of it has begun here.
func (h *Hold) pass(ctx context.Context, to string) error {
	for !h.over {
		e := Entry{Ended: &Ended{}}
		if rest := slices.Concat(h.queue, h.apart); len(rest) > 0 {
			slices.Sort(rest)
			e.Handed = &Handed{Seed: h.seed(rest, 0), To: to}
		}
		if _, err := h.append(ctx, e); err != nil {
			return err
		}
	}
	h.close(ctx)
	return nil
}

// seed is childSeed with the failures that the next entry records (M3).
func (h *Hold) seed(items []int, wait time.Duration) Seed {
	s := h.c.childSeed(items, wait)
	for _, r := range h.buffer {
		if r.Failed && !r.Final && s.Items.Has(r.Item) {
			had := s.Carry[r.Item]
			had.Failures = h.failures(r.Item)
			had.OOMs = h.c.carry[r.Item].OOMs + h.ooms[r.Item]
			if s.Carry == nil {
				s.Carry = map[int]Carry{}
			}
			s.Carry[r.Item] = had
		}
	}
	return s
}

// Wind records what there is and ends the chunk, because the job was stopped: its
// items have been ended. Results that came before count (E2). Of a job that has
// settled it finds out that somebody else ended the chunk.
func (h *Hold) Wind(ctx context.Context) error {
	for !h.over && h.m.t.m.Stop != nil {
		e := Entry{Results: h.buffer, Ended: &Ended{By: h.m.t.m.StopAt}}
		if _, err := h.append(ctx, e); err != nil {
			return err
		}
	}
	if !h.over && h.m.t.m.Settled != nil {
		if _, err := h.m.t.read(ctx, h.c, nil); err != nil {
			return err
		}
	}
	h.close(ctx)
	return nil
}

// Release gives the chunk back. Its tries in flight were ended: they count as
// interrupted, unless a person asked; then it is only said how many there were.
func (h *Hold) Release(ctx context.Context, asked bool) error {
	for !h.over {
		gone := Released{Flight: sortedItems(h.flight)}
		if asked {
			gone = Released{Stopped: len(gone.Flight)}
		}
		e := Entry{Results: h.buffer, Released: &gone}
		if left := len(h.queue) + len(h.apart) + len(h.later) + len(h.flight); left == 0 {
			e.Released, e.Ended = nil, &Ended{}
		}
		if _, err := h.append(ctx, e); err != nil {
			return err
		}
	}
	h.close(ctx)
	return nil
}

// close takes a hold that is over from its member, and leaves the chunk's snapshot.
func (h *Hold) close(ctx context.Context) {
	if !h.over {
		return
	}
	before := len(h.m.holds)
	h.m.holds = slices.DeleteFunc(h.m.holds, func(o *Hold) bool { return o == h })
	if len(h.m.holds) == before || !h.c.Closed || h.m.o.Near && h.c.Tally == (job.Tally{Items: h.c.Tally.Items, Cancelled: h.c.Tally.Items}) {
		return // of one that was cancelled whole its log is as short
	}
	// Results of claims before ours are in the log alone.
	cut := h.cut || h.c.Claim > 1
	results := h.results
	if cut {
		results = nil
	}
	store := h.m.t.snapshot(h.c, results, cut)
	if h.m.o.Later == nil {
		_ = store(ctx) // an index: a store that is full loses nothing by it
		return
	}
	h.m.o.Later(store)
}
