package ledger

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// mapTale is what the raw objects of a map say, by our own reading of
// docs/protocol.md, and when each came to be. It shares nothing with the code under
// test but the entries' decoding. It follows every object as it lands, whatever
// its writer has heard.
type mapTale struct {
	s  *yard
	id string
	j  job.Job

	real      *chunks.Map
	n         int // entries of the job's log
	place     int // of the round, in the task's log
	total     int // items
	placed    int
	paused    time.Duration            // since when; 0: not
	drained   map[string]time.Duration // agents that are to leave, and since when
	stop      *protocol.Stop
	stopN     int
	stopAt    time.Duration
	hardAt    time.Duration // when it became a stop that is no drain
	failing   bool
	stops     map[int]*protocol.Stop // every one that counted, by number
	reopens   map[int]protocol.Reopened
	exts      map[int]protocol.Extended
	round     int // the entry that began it; 0: the first
	roundAt   time.Duration
	settled   *protocol.Settled
	settledAt time.Duration
	removed   time.Duration      // when gc said so; 0: not
	hidden    int                // lists that had hidden objects by then
	said      []protocol.Settled // how its rounds have ended
	retries   [2]int             // least and most that were ever allowed
	allowed   []retriesTale      // how often items may be tried again, and since when
	told      map[string]bool    // agents that the engine called gone, and whether it had taken them
	codes     []codeTale         // what items ran with, its own code first
	bounds    []boundTale        // what bound them, that of the job itself first

	order  []string // chunks, parents first
	chunks map[string]*chunkTale
	home   map[int]*chunkTale // where an item is now
	won    map[int]string     // items that succeeded, and the try
}

// chunkTale is the same of one chunk, beside the real fold of it.
type chunkTale struct {
	t        *mapTale
	id       string
	seed     protocol.Seed
	real     *chunks.Chunk
	n        int
	items    []int
	mark     int
	closed   bool
	owner    string
	claims   []claimTale // number k is claims[k-1]
	state    map[int]job.ItemState
	had      map[int]protocol.Carry
	failed   map[int]time.Duration // when an item failed for good, or was quarantined
	starting map[int]bool
	children []*chunkTale
	wrote    map[string]time.Duration // when each process wrote last
	landed   []time.Duration          // when each entry came to be
	ended    map[int]bool             // items that have a result for good
	sums     map[int]closing          // by entry that left it closed
	born     time.Duration
}

// claimTale is one claim of a chunk, from its entry until it was over.
type claimTale struct {
	agent    string
	risk     int
	suspects map[int]bool // open items that two silent losses before it may have found begun
	isolated bool         // all that were open were suspects
	failed   map[int]bool // items with a failure of this claim
	from, to time.Duration
	by       string // what ended it: own, foreign, stop, lost
	starting map[int]time.Duration
}

const itemHanded job.ItemState = "HANDED" // it is in a child now

func (s *yard) newTale(j job.Job) *mapTale {
	t := &mapTale{s: s, id: j.ID, j: j, real: chunks.NewMap(j), stops: map[int]*protocol.Stop{}, reopens: map[int]protocol.Reopened{}, exts: map[int]protocol.Extended{},
		retries: [2]int{j.Spec.Retries, j.Spec.Retries}, allowed: []retriesTale{{j.Spec.Retries, 0}}, told: map[string]bool{}, codes: []codeTale{{j.Code.Digest, 0}},
		bounds: []boundTale{{boundOf(j.Spec), 0}},
		chunks: map[string]*chunkTale{}, home: map[int]*chunkTale{}, won: map[int]string{}}
	t.add(0, j.Manifest.Count, j.ChunkSize)
	return t
}

// add makes the chunks of the manifest, or of extension ext.
func (t *mapTale) add(ext, count, size int) {
	for k, first := 0, t.total+1; first <= t.total+count; k, first = k+1, first+size {
		id := fmt.Sprintf("%06d", k)
		if ext > 0 {
			id = fmt.Sprintf("x%d-%06d", ext, k)
		}
		var items []int
		for i := first; i <= min(first+size-1, t.total+count); i++ {
			items = append(items, i)
		}
		t.newChunk(id, items, protocol.Seed{Items: protocol.Spans{{items[0], items[len(items)-1]}}, Mark: ext})
	}
	t.total += count
}

func (t *mapTale) newChunk(id string, items []int, seed protocol.Seed) *chunkTale {
	c := &chunkTale{t: t, id: id, seed: seed, real: chunks.NewChunk(id, seed), items: items, mark: seed.Mark,
		state: map[int]job.ItemState{}, had: map[int]protocol.Carry{}, failed: map[int]time.Duration{}, starting: map[int]bool{}, ended: map[int]bool{}, wrote: map[string]time.Duration{}, born: t.s.now}
	for _, i := range items {
		c.state[i] = job.ItemPending
		t.home[i] = c
	}
	maps.Copy(c.had, seed.Carry)
	t.order = append(t.order, id)
	t.chunks[id] = c
	return c
}

// text reads an object past the faults.
func (s *yard) text(key string) []byte {
	r, err := s.under.Get(ctx, key, 0, -1)
	must(err)
	defer r.Close()
	b, err := io.ReadAll(r)
	must(err)
	return b
}

func (s *yard) peek(key string, into any) { must(json.Unmarshal(s.text(key), into)) }

// onLanded sees what came to be.
func (s *yard) onLanded(key string) {
	part := strings.Split(key, "/") // p, t, job, kind, ...
	switch {
	case len(part) > 4 && s.tales[part[2]] != nil && s.tales[part[2]].removed > 0:
		s.onStray(s.tales[part[2]], key, part[3])
	case len(part) == 4 && part[2] == "log":
		s.onTask(key)
	case len(part) < 5 || s.tales[part[2]] == nil:
	case part[3] == "agents":
		var b protocol.Heartbeat
		s.peek(key, &b)
		if a := s.agentNamed(b.Agent); a != nil && b.Counter != a.counter {
			a.counter, a.beats = b.Counter, append(a.beats, s.now)
			if b.Recorded > s.recorded[b.Agent] {
				s.violate("V1: the heartbeat of %s says that %d results are recorded; there are %d", b.Agent, b.Recorded, s.recorded[b.Agent])
			}
		}
	case part[3] == "log":
		t := s.tales[part[2]]
		e, n := readEntry[protocol.JobEntry](s, key, part[4])
		if n != t.n {
			s.violate("L1: entry %d of %s came to be after %d others", n, t.id, t.n)
		}
		t.n++
		t.fold(n, e)
		t.real.Fold(e)
		t.compare(e)
	case part[3] == "chunks":
		t := s.tales[part[2]]
		e, n := readEntry[protocol.ChunkEntry](s, key, part[6])
		c := t.chunks[part[5]]
		if c == nil {
			s.violate("M2: %s wrote into chunk %s, which is none", e.By, part[5])
			return
		}
		if n != c.n {
			s.violate("L1: entry %d of chunk %s came to be after %d others", n, c.id, c.n)
		}
		c.n++
		c.landed = append(c.landed, s.now)
		c.fold(e)
		c.noteClosing()
	case part[3] == "results":
		s.tales[part[2]].checkSnapshot(key)
	}
}

func readEntry[E protocol.Entry](s *yard, key, number string) (e E, n int) {
	s.peek(key, &e)
	n, err := strconv.Atoi(number)
	must(err)
	return e, n
}

// onTask follows the task's log (T1, T2).
func (s *yard) onTask(key string) {
	e, n := readEntry[protocol.TaskEntry](s, key, key[strings.LastIndexByte(key, '/')+1:])
	switch {
	case e.Submitted != nil && s.live == "":
		s.live = e.Submitted.Job
		s.places[s.live] = append(s.places[s.live], n)
		s.seen["entry submitted"]++
		if s.tales[s.live] == nil {
			s.violate("T1: %s was submitted and is not there", s.live)
		}
		s.started()
		return
	case e.Closed != nil && e.Closed.Job == s.live:
		t, places := s.tales[s.live], s.places[s.live]
		if t.settled == nil {
			s.violate("T1: %s was closed before it had settled", s.live)
		} else if last := places[len(places)-1]; len(places) > 1 && t.settled.Submission < last {
			s.violate("T2: %s was closed for place %d, and had settled for %d", s.live, last, t.settled.Submission)
		}
		s.live = ""
		s.seen["entry closed"]++
		return
	}
	if e.Removed != nil {
		s.onRemoved(e)
		return
	}
	s.void(e.Header, "in the task's log", protocol.Encode(e))
}

// void is an entry that does not count: only the vandal writes such (L3).
func (s *yard) void(e protocol.Header, where string, text []byte) {
	s.seen["void entry"]++
	if !vandals(e) {
		s.violate("L3: %s wrote what was not allowed %s: %s", e.By, where, text)
	}
}

// vandals says whether an entry is one of the vandal's, whatever author it names.
func vandals(e protocol.Header) bool { return e.Nonce == "vandal" }

// fold takes in an entry of the job's log.
func (t *mapTale) fold(n int, e protocol.JobEntry) {
	t.s.logf("%s log/%d by %s: %s", t.id, n, e.By, briefEntry(e))
	if t.s.live != t.id && !vandals(e.Header) && (t.settled == nil || e.Settled == nil) {
		t.s.violate("T2: %s wrote into the log of %s, and %q is live: %s", e.By, t.id, t.s.live, protocol.Encode(e))
	}
	if vandals(e.Header) || !t.counts(n, e) {
		t.s.void(e.Header, "in the log of "+t.id, protocol.Encode(e))
		return
	}
	t.s.seen["entry "+factOf(protocol.Encode(e))]++
}

func briefEntry[E protocol.Entry](e E) string {
	h := protocol.HeaderOf(&e)
	h.At, h.By, h.Nonce = epoch, "", ""
	text := string(protocol.Encode(e))
	return text[:min(len(text), 300)]
}

// compare sees that the real fold says the same.
func (t *mapTale) compare(e protocol.JobEntry) {
	r := t.real
	place := func(s *protocol.Settled) string {
		if s == nil {
			return ""
		}
		return fmt.Sprint(s.State, s.Submission)
	}
	if (r.Stop != nil) != (t.stop != nil) || r.Stop != nil && (r.StopAt != t.stopN || r.Stop.Drain != t.stop.Drain) || r.Failing != t.failing || place(r.Settled) != place(t.settled) ||
		r.Paused != (t.paused > 0) || len(r.Drained) != len(t.drained) || r.Items() != t.total || r.Round != t.round || len(r.Placed) != t.placed || len(r.Reopened) != len(t.reopens) {
		t.s.violate("L3: after %s the fold of %s says stop %v at %d, settled %v, paused %v, %d items, round %d, %d placed, %d reopened; it is %v at %d, %v, %v, %d, %d, %d, %d",
			protocol.Encode(e), t.id, r.Stop, r.StopAt, r.Settled, r.Paused, r.Items(), r.Round, len(r.Placed), len(r.Reopened),
			t.stop, t.stopN, t.settled, t.paused, t.total, t.round, t.placed, len(t.reopens))
	}
	for agent, taken := range t.told {
		if (r.Gone[agent] == liveness.Taken) != taken || r.Gone[agent] == liveness.Alive {
			t.s.violate("D1: after %s the fold of %s says that %s is gone: %v; it was taken: %v", protocol.Encode(e), t.id, agent, r.Gone[agent], taken)
		}
	}
	if c := r.Code(t.j).Digest; c != t.code() {
		t.s.violate("L3: after %s the fold of %s says that items run with %s; it is %s", protocol.Encode(e), t.id, c, t.code())
	}
}

// counts says whether an entry of the job's log counts, and takes it in.
func (t *mapTale) counts(n int, e protocol.JobEntry) bool {
	open := t.stop == nil && t.settled == nil
	if e.Reopened != nil {
		if !t.reopen(n, *e.Reopened) {
			return false
		}
		open = true
	}
	if e.Extended != nil {
		x := *e.Extended
		if !open || x.First != t.total+1 {
			return false
		}
		t.exts[n] = x
		t.amended(e)
		t.add(n, x.Manifest.Count, x.Size)
		return true
	}
	t.amended(e)
	switch {
	case e.Reopened != nil, e.Amended != nil:
	case e.Placed != nil:
		t.placed++
		if e.Placed.Placement != t.placed {
			t.s.violate("J1: placement %d was placed as number %d", e.Placed.Placement, t.placed)
		}
		if !open {
			t.s.violate("J1: placement %d was placed after the end", t.placed)
		}
		return t.settled == nil
	case e.Paused != nil:
		t.paused = max(t.s.now, 1)
	case e.Resumed != nil:
		t.paused = 0
	case e.Drained != nil:
		t.drain(e.Drained.Agent)
	case e.Gone != nil:
		t.checkTelling(e)
		maps.Copy(t.told, e.Gone)
	case e.Cancelled != nil, e.Failing != nil:
		return open && t.stopped(n, e) || t.hardened(e)
	case e.Settled != nil:
		return t.settle(*e.Settled)
	}
	return true
}

func (t *mapTale) stopped(n int, e protocol.JobEntry) bool {
	t.stop, t.stopN, t.stopAt, t.hardAt = e.Cancelled, n, t.s.now, t.s.now
	if t.failing = e.Failing != nil; t.failing {
		t.stop = e.Failing
		t.checkFailing()
	}
	t.stops[n] = t.stop
	if t.stop.Drain {
		t.s.seen["cancelled with drain"]++
	}
	return true
}

// hardened is a cancel after a drain: chunks are still ended by the drain's entry, and
// owners have their time from now on (E2).
func (t *mapTale) hardened(e protocol.JobEntry) bool {
	if e.Cancelled == nil || e.Cancelled.Drain || t.settled != nil || t.stop == nil || !t.stop.Drain {
		return false
	}
	t.stop, t.hardAt = e.Cancelled, t.s.now
	t.stops[t.stopN] = t.stop
	t.s.seen["cancelled after a drain"]++
	return true
}

// reopen is T2 and E4.
func (t *mapTale) reopen(n int, r protocol.Reopened) bool {
	switch {
	case t.settled == nil && t.stop != nil:
		return false
	case t.settled == nil:
		t.s.seen["reopened live"]++
	case r.Submission <= t.settled.Submission:
		return false
	default:
		if places := t.s.places[t.id]; t.s.live != t.id || places[len(places)-1] != r.Submission {
			t.s.violate("T2: %s was reopened for place %d; its places are %v, and %q is live", t.id, r.Submission, places, t.s.live)
		}
		t.s.seen["reopened after "+string(t.settled.State)]++
		t.settled, t.stop, t.failing, t.paused, t.place, t.round = nil, nil, false, 0, r.Submission, n
		t.roundAt = t.s.now
	}
	t.reopens[n] = r
	return true
}

func (t *mapTale) settle(s protocol.Settled) bool {
	if t.settled != nil {
		if s.Submission <= t.settled.Submission {
			return false
		}
		t.s.seen["declined"]++
		again := *t.settled
		again.Submission = s.Submission
		t.settled = &again
		return true
	}
	want := job.Succeeded
	sum := t.tally()
	switch {
	case t.failing:
		want = job.Failed
	case t.stop != nil:
		want = job.Cancelled
	case sum.Failed+sum.Quarantined > 0:
		want = job.Failed
	}
	if s.State != want || s.Submission != t.place {
		return false
	}
	t.settled, t.settledAt = &s, t.s.now
	t.said = append(t.said, s)
	t.s.seen["settled "+string(s.State)]++
	t.checkSettled(sum)
	return true
}

// tally counts the items by where they are now.
func (t *mapTale) tally() (sum job.Tally) {
	for _, c := range t.chunks {
		sum = sum.Add(c.tally())
	}
	return sum
}

func (c *chunkTale) tally() (sum job.Tally) {
	for _, st := range c.state {
		switch st {
		case itemHanded:
			continue
		case job.ItemSucceeded:
			sum.Succeeded++
		case job.ItemFailed:
			sum.Failed++
		case job.ItemQuarantined:
			sum.Quarantined++
		case job.ItemCancelled:
			sum.Cancelled++
		}
		sum.Items++
	}
	return sum
}

// selected are the items of a closed chunk that reopens above its mark choose, of
// those up to entry last (M4).
func (c *chunkTale) selected(last int) (items []int) {
	for _, i := range c.items {
		st := c.state[i]
		if st != job.ItemFailed && st != job.ItemQuarantined && st != job.ItemCancelled {
			continue
		}
		for n, r := range c.t.reopens {
			if n > c.mark && n <= last && !r.None && (len(r.States) == 0 || slices.Contains(r.States, st)) && (len(r.Items) == 0 || r.Items.Has(i)) {
				items = append(items, i)
				break
			}
		}
	}
	return items
}
