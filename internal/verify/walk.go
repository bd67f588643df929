package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// walk goes through all chunks of a map, each after the one that handed it over (M2).
type walk struct {
	v *verifier
	*rounds
	settled []round // those that the job's log had when the walk began
	live    bool    // the job had not settled then

	listed map[string]int      // chunks that a listing showed and the walk has not met: the highest number
	shots  map[string][]string // names of snapshots, by chunk

	items  int
	placed bits // items in a chunk that was met
	run    bits // items with a try, and
	ended  bits // with a recorded result
	runs   int  // recorded results that count, and
	breaks int  // tries that an agent gave up or died in
	risk   int  // tries that lost owners may not have recorded
}

// verifyMap verifies a map. Each log is read after those that speak of it were
// listed, and before those that it speaks of: so a live one is never found to
// say what is not there yet.
func (v *verifier) verifyMap(ctx context.Context) error {
	if v.j.ChunkSize < 1 || v.j.Manifest.Count < 0 || v.j.Manifest.Count > maxItems {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("%s in chunks of %d cannot be", numbered(v.j.Manifest.Count, "item", "items"), v.j.ChunkSize)})
		return nil
	}
	w := &walk{v: v, rounds: newRounds(v), listed: map[string]int{}, shots: map[string][]string{}}
	if err := w.listLogs(ctx); err != nil {
		return err
	}
	last, err := v.lastSequence(ctx, "job", v.dir+"/log")
	if err != nil {
		return err
	}
	whole, err := readEntries(ctx, v, "job", v.dir+"/log", last, func(n int, e protocol.JobEntry, foreign bool) error {
		w.foldEntry(n, e, foreign)
		return nil
	})
	if err != nil || !whole {
		return err // what is said there is what all else goes by
	}
	v.checkTask(w.settledFor)
	if err := v.readTaskAgain(ctx); err != nil {
		return err
	}
	w.checkPlaces()
	if w.live = !w.over; w.over {
		v.r.State = w.rounds.settled[len(w.rounds.settled)-1].said.State
	}
	w.settled, w.items = slices.Clone(w.rounds.settled), w.rounds.itemCount()
	v.r.Rounds, v.r.Items = len(w.settled), w.items
	return w.walkChunks(ctx)
}

// listLogs lists the chunks' logs and the snapshots.
func (w *walk) listLogs(ctx context.Context) error {
	err := w.v.listObjects(ctx, w.v.dir+"/chunks/", func(rest string) {
		parts := strings.Split(rest, "/")
		n, ok := 0, false
		if len(parts) == 3 && chunkDir(parts[1]) == "chunks/"+parts[0]+"/"+parts[1] {
			n, ok = number(parts[2])
		}
		if !ok {
			w.v.addFinding(RuleStray, report.VerifyNote{Log: "chunks", Entry: -1, Why: fmt.Sprintf("%s is not an entry of a chunk", rest)})
			return
		}
		if before, there := w.listed[parts[1]]; !there || n > before {
			w.listed[parts[1]] = n
		}
	})
	if err != nil {
		return err
	}
	return w.v.listObjects(ctx, w.v.dir+"/results/", func(rest string) {
		id, _, _ := strings.Cut(rest, "_")
		w.shots[id] = append(w.shots[id], rest)
	})
}

// walkChunks walks the chunks and says what they come to together.
func (w *walk) walkChunks(ctx context.Context) error {
	w.placed, w.run, w.ended = newBits(w.items), newBits(w.items), newBits(w.items)
	for _, l := range slices.Clone(w.lists) {
		if err := w.v.checkManifest(ctx, l); err != nil {
			return err
		}
		for k := range l.chunkCount() {
			first := l.first + k*l.size
			last := min(first+l.size, l.first+l.m.Count) - 1
			if err := w.walkSubtree(ctx, child{chunkID(l.ext, k), protocol.Seed{Items: protocol.Spans{{first, last}}, Mark: l.ext}}); err != nil {
				return err
			}
		}
	}
	w.noteStrays()
	w.checkPlaced()
	for _, r := range w.settled {
		r.checkCounts(w.v)
	}
	x := &w.v.r.Extra
	x.Retries = w.runs - w.ended.countItems()
	x.Interrupted = w.runs + w.breaks - w.run.countItems() - x.Retries
	if x.Unexplained > w.risk {
		w.v.addFinding(RuleExtra, report.VerifyNote{Log: "job", Entry: -1, Why: fmt.Sprintf("%s recorded by agents that had lost their chunks, and at most %d may have run", numbered(x.Unexplained, "try was", "tries were"), w.risk)})
	}
	return nil
}

// walkSubtree walks a chunk and those handed over from it.
func (w *walk) walkSubtree(ctx context.Context, top child) error {
	stack := []child{top}
	for len(stack) > 0 {
		next := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		children, err := w.readChunk(ctx, next)
		if err != nil {
			return err
		}
		for _, c := range slices.Backward(children) {
			stack = append(stack, c)
		}
	}
	return nil
}

// readChunk reads one chunk, from its first entry to its last.
func (w *walk) readChunk(ctx context.Context, of child) ([]child, error) {
	g, _ := groundOf(of.seed.Items)
	c := newChunk(w, of.id, of.seed, g)
	if err := w.snapshots(ctx, c); err != nil {
		return nil, err
	}
	last, there := w.listed[of.id]
	if !there {
		last = -1
	}
	delete(w.listed, of.id)
	whole, err := readEntries(ctx, w.v, c.id, w.v.dir+"/"+chunkDir(c.id), last, func(n int, e protocol.ChunkEntry, foreign bool) error {
		if err := w.readNewerEntries(ctx, e); err != nil {
			return err
		}
		c.foldEntry(n, e, foreign)
		c.compareSnapshots(n)
		return w.v.checkOutputs(ctx, c.id, n, e.By, c.counted)
	})
	if err != nil {
		return nil, err
	}
	c.cut = !whole
	w.v.blind = w.v.blind || c.cut
	c.countInRounds(math.MaxInt)
	c.checkSnapshots()
	w.addTotals(c)
	return c.children, nil
}

// addTotals adds what a chunk came to.
func (w *walk) addTotals(c *chunk) {
	r := &w.v.r
	t := &r.Tally
	t.Items += c.tally.Items
	t.Succeeded += c.tally.Succeeded
	t.Failed += c.tally.Failed
	t.Quarantined += c.tally.Quarantined
	t.Cancelled += c.tally.Cancelled
	r.Chunks++
	r.Extra.Unexplained += c.discarded
	w.runs += c.runs
	w.breaks += c.breaks
	c.g.eachItem(func(item, place int) {
		if c.stands[place] != handedOn && !w.placed.addItem(item) {
			w.v.addFinding(RuleItems, report.VerifyNote{Log: c.id, Entry: -1, Item: item, Why: "it is in another chunk too"})
		}
		if c.cut && c.stands[place] == open {
			w.placed.addItem(item) // wherever it is
		}
	})
	w.v.done += c.tally.Items
	w.v.reportProgress()
}

// checkPlaced sees that every item was in a chunk. What lies below a log that cannot
// be read is not reported twice.
func (w *walk) checkPlaced() {
	if w.v.blind {
		return
	}
	for item := 1; item <= w.items; item++ {
		if !w.placed.hasItem(item) {
			w.v.addFinding(RuleItems, report.VerifyNote{Log: "job", Entry: -1, Item: item, Why: "it is not in any chunk"})
		}
	}
}

// readNewerEntries reads on in the job's log where a chunk's entry may follow from what has
// come there since: the job is live.
func (w *walk) readNewerEntries(ctx context.Context, e protocol.ChunkEntry) error {
	by := -1
	if e.Again != nil {
		by = e.Again.By
	}
	if e.Ended != nil {
		by = e.Ended.By
	}
	amended := w.live && slices.ContainsFunc(e.Results, func(r protocol.Result) bool { return r.Failed })
	if by < w.rounds.n && !amended {
		return nil
	}
	was := w.v.r
	defer func() { w.v.r = was }() // what there is to say of it, a later Verify says
	for {
		b, err := w.v.s.Get(ctx, fmt.Sprintf("%s/log/%08d", w.v.dir, w.rounds.n))
		if errors.Is(err, store.ErrNotExist) {
			return nil
		}
		if err != nil && !errors.Is(err, store.ErrMalformed) {
			return fmt.Errorf("read log job: %w", err)
		}
		e, foreign, broken := decode[protocol.JobEntry](b)
		if err != nil || broken != nil {
			return nil
		}
		w.foldEntry(w.rounds.n, e, foreign)
	}
}

// noteStrays are logs of chunks, and snapshots, that no entry has named.
func (w *walk) noteStrays() {
	if w.v.blind {
		return
	}
	for _, id := range sortedKeys(w.listed) {
		w.v.addFinding(RuleStray, report.VerifyNote{Log: id, Entry: w.listed[id], Why: "it is of a chunk that no log names"})
	}
	for _, id := range sortedKeys(w.shots) {
		w.v.addFinding(RuleSnapshot, report.VerifyNote{Log: "results/" + w.shots[id][0], Entry: -1, Why: "it is of a chunk that no log names"})
	}
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// The object layout of docs/protocol.md. Chunk k of the manifest, from 0, or of the extension
// by entry ext of the job's log, which begins at 1 or later: its first says where
// the job was placed.
func chunkID(ext, k int) string {
	if ext > 0 {
		return fmt.Sprintf("x%d-%06d", ext, k)
	}
	return fmt.Sprintf("%06d", k)
}

// childOf is the chunk that entry n of parent's log has handed over.
func childOf(parent string, n int) string { return fmt.Sprintf("%s.%d", parent, n) }

// chunkDir is where a chunk's log lies. Six digits are a chunk of the manifest,
// spread by its number; all others are spread by a hash.
func chunkDir(id string) string {
	low := byte(0)
	if len(id) == 6 && strings.Trim(id, "0123456789") == "" {
		n := 0
		for _, digit := range id {
			n = n*10 + int(digit-'0')
		}
		low = byte(n)
	} else {
		h := fnv.New32a()
		h.Write([]byte(id))
		low = byte(h.Sum32())
	}
	return fmt.Sprintf("chunks/%02x/%s", low, id)
}
