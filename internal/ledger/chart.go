package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// chart is what one reader knows of a map: its log, and of its chunks those that
// he has read or knows to be done by the name of a snapshot. What is known stays
// true, so looking again costs only what is new. Not for concurrent use.
type chart struct {
	w   World
	p   job.Path
	m   *Map
	log *Log
	// chunks are those that were read, brief those known by a snapshot's name.
	chunks  map[string]*Chunk
	brief   map[string]brief
	parts   map[string][]string      // ids below a chunk's, of those in brief
	unnamed map[string]time.Duration // since when a chunk was seen to be done without a name
	first   map[string]time.Duration // when a chunk was first seen: what its Wait counts from
	stopAt  time.Duration            // when the stop that stands was first read
	listed  time.Duration            // when snapshots were last listed; 0: never
	fresh   map[string]bool          // chunks that were read to their end just now
	// saw is told of each entry of a chunk's log that was folded.
	saw func(*Chunk, Entry)
	// counted is told of the results in it that count, and whose they are.
	counted func(results []Result, by string)
}

func (w World) newChart(j job.Job, by string) *chart {
	p := j.Path()
	return &chart{w: w, p: p, m: NewMap(j), log: w.openLog(jobDir(p)+"/log", by),
		chunks: map[string]*Chunk{}, brief: map[string]brief{}, parts: map[string][]string{}, unnamed: map[string]time.Duration{}, first: map[string]time.Duration{}}
}

func (t *chart) now() time.Duration { return t.w.clock().Boot() }

// readLog brings the fold of the job's log up to date.
func (t *chart) readLog(ctx context.Context) error {
	if err := t.log.Read(ctx); err != nil {
		return err
	}
	t.fold()
	return nil
}

// fold takes in what the log has read.
func (t *chart) fold() {
	for t.m.N < len(t.log.Entries) {
		before := t.m.Stop
		t.m.Fold(t.log.Entries[t.m.N])
		if t.m.Stop != nil && t.m.Stop != before {
			t.stopAt = t.now() // after the answer: it may have taken long
		}
	}
}

// append writes an entry into the job's log; the caller decides again when it
// was not mine.
func (t *chart) append(ctx context.Context, e Entry) (mine bool, err error) {
	if e.Failing != nil && len(t.log.Entries) == 0 {
		err = begin(ctx, t.log)
	} else {
		mine, err = t.log.Append(ctx, e)
	}
	t.fold()
	return mine, err
}

// stopAge is how long ago the stop that stands was first read.
func (t *chart) stopAge() time.Duration { return t.now() - t.stopAt }

// chunk is the one of that id, read before or untouched.
func (t *chart) chunk(id string, s Seed) *Chunk {
	c := t.chunks[id]
	if c == nil {
		c = NewChunk(id, s)
		t.chunks[id] = c
	}
	if _, seen := t.first[id]; !seen && s.Wait > 0 {
		t.first[id] = t.now()
	}
	return c
}

// manifestChunk is the chunk of the manifest or an extension that has this id.
func (t *chart) manifestChunk(id string) *Chunk {
	if c := t.chunks[id]; c != nil {
		return c
	}
	if i, ok := t.m.Index(id); ok {
		_, s := t.m.Seed(i)
		return t.chunk(id, s)
	}
	return nil
}

// ripe says whether a chunk's back-off is over (M8).
func (t *chart) ripe(c *Chunk) bool {
	return c.Wait == 0 || c.Claim > 0 || t.now()-t.first[c.ID] >= c.Wait
}

func (t *chart) entryKey(c *Chunk, n int) string {
	return fmt.Sprintf("%s/%s/%08d", jobDir(t.p), chunkDir(c.ID), n)
}

// read folds what is new in a chunk's log, to its end. sent is when the request
// left that found the end.
func (t *chart) read(ctx context.Context, c *Chunk, visit func(Entry, []Result)) (sent time.Duration, err error) {
	for {
		sent = t.now()
		key := t.entryKey(c, c.N)
		b, err := t.w.get(ctx, key, maxEntry)
		if errors.Is(err, store.ErrNotExist) {
			return sent, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read chunk %s: %w", c.ID, err)
		}
		if err := t.take(c, b, key, visit); err != nil {
			return 0, err
		}
	}
}

func (t *chart) take(c *Chunk, b []byte, key string, visit func(Entry, []Result)) error {
	var e Entry
	if err := decodeResults(b, &e, &e.Results, &e.V, key); err != nil {
		return err
	}
	t.took(c, e, visit)
	return nil
}

func (t *chart) took(c *Chunk, e Entry, visit func(Entry, []Result)) {
	counted := c.Fold(e)
	if t.saw != nil {
		t.saw(c, e)
	}
	if t.counted != nil {
		t.counted(counted, e.By)
	}
	if visit != nil {
		visit(e, counted)
	}
}

// write appends e to a chunk's log as the entry after what was read. Either way
// the entry that holds the number was folded when it returns.
func (t *chart) write(ctx context.Context, c *Chunk, by string, e Entry) (mine bool, sent time.Duration, err error) {
	body := t.seal(by, &e)
	return t.send(ctx, c, body, &e)
}

// seal makes e an entry of its own: nobody else's has these bytes.
func (t *chart) seal(by string, e *Entry) []byte {
	e.V, e.By, e.Nonce, e.At = format, by, t.w.nonce(), t.w.clock().Now().UTC().Round(0)
	return encodeEntry(*e)
}

// send appends body, whose entry e is where that is known: what we have written
// ourselves need not be read.
func (t *chart) send(ctx context.Context, c *Chunk, body []byte, e *Entry) (mine bool, sent time.Duration, err error) {
	key := t.entryKey(c, c.N)
	sent = t.now()
	held, mine, err := t.w.Store.CreateOnce(ctx, key, body)
	if err != nil {
		return false, 0, fmt.Errorf("append to chunk %s: %w", c.ID, err)
	}
	if mine && e != nil && bytes.Equal(held, body) {
		t.took(c, *e, nil)
		return mine, sent, nil
	}
	return mine, sent, t.take(c, held, key, nil)
}

// done says whether nothing more can come of a chunk, as far as is known. Its tally
// counts the parts it handed over, too, when it is named.
func (t *chart) done(id string) (tally job.Tally, done bool) {
	if sum, ok := t.named(id); ok {
		return sum, true
	}
	if c := t.chunks[id]; c != nil && c.N > 0 {
		return c.Tally, t.m.Done(c)
	}
	return job.Tally{}, false
}

// named says whether a chunk that was not read to its end is done by the name of
// its snapshot, with every part that it handed over.
func (t *chart) named(id string) (tally job.Tally, ok bool) {
	b, ok := t.brief[id]
	if c := t.chunks[id]; !ok || c != nil && c.N > b.n || len(t.parts[id]) != b.children || t.asked(b) || t.mixed(b) {
		return job.Tally{}, false
	}
	tally = b.tally
	for _, part := range t.parts[id] {
		sum, ok := t.whole(part)
		if !ok {
			return job.Tally{}, false
		}
		tally = tally.Add(sum)
	}
	return tally, true
}

// whole says whether a chunk is done with all that it handed over, and counts both.
func (t *chart) whole(id string) (tally job.Tally, ok bool) {
	if sum, ok := t.named(id); ok {
		return sum, true
	}
	c := t.chunks[id]
	if c == nil || c.N == 0 || !t.m.Done(c) {
		return job.Tally{}, false
	}
	tally = c.Tally
	for _, part := range c.Children {
		sum, ok := t.whole(part.ID)
		if !ok {
			return job.Tally{}, false
		}
		tally = tally.Add(sum)
	}
	return tally, true
}

// mixed says whether failures that a snapshot's name counts may be of this round
// and of one before: the log tells.
func (t *chart) mixed(b brief) bool {
	return t.m.Round > 0 && b.mark >= t.m.Round && b.tally.Failed+b.tally.Quarantined > 0
}

// bad counts the items that are known to have failed in this round, and are not
// asked for again.
func (t *chart) bad() (n int) {
	for _, c := range t.chunks {
		if again, _ := t.m.asked(c); len(again) == 0 && c.Mark >= t.m.Round {
			n += c.Tally.Failed + c.Tally.Quarantined - c.Old
		}
	}
	for id, b := range t.brief {
		c := t.chunks[id]
		if (c == nil || c.N == 0) && b.mark >= t.m.Round && !t.asked(b) && !t.mixed(b) {
			n += b.tally.Failed + b.tally.Quarantined
		}
	}
	return n
}

// asked says whether a reopen may select something in a chunk that is known by
// its snapshot's name alone.
func (t *chart) asked(b brief) bool {
	n := len(t.m.Reopened)
	return n > 0 && t.m.Reopened[n-1].N > b.mark && b.tally.Succeeded < b.tally.Items
}

// all yields the chunks of a share that are known to be there, children after their
// parents (M2), but for those below one that is named. Those that were never read
// are not made.
func (t *chart) all(mine share) iter.Seq2[string, Seed] {
	return func(yield func(string, Seed) bool) {
		var below func(id string, s Seed) bool
		below = func(id string, s Seed) bool {
			_, named := t.named(id) // before anything more is read of it
			if !yield(id, s) {
				return false
			}
			if named {
				return true
			}
			if c := t.chunks[id]; c != nil {
				for _, child := range c.Children {
					if !below(child.ID, child.Seed) {
						return false
					}
				}
			}
			return true
		}
		for i := mine.at; i < t.m.Chunks(); i += max(1, mine.of) {
			if id, s := t.m.Seed(i); !below(id, s) {
				return
			}
		}
	}
}

// share is the at-th of several equal shares of a job's chunks, each with all that
// was handed over from it; the zero value is all of them.
type share struct {
	at, of int
	blind  bool // without asking for names: it is small
}

// survey reads on in every chunk of its share that is not done by name, but of
// those nobody seems to have touched at most probes. each gets all that were read,
// now or before, the done ones too. whole is true when all chunks of the job are done, and tally counts it then.
func (t *chart) survey(ctx context.Context, mine share, probes int, each func(*Chunk) error) (tally job.Tally, whole bool, err error) {
	if !mine.blind {
		if err := t.list(ctx); err != nil {
			return tally, false, err
		}
	}
	whole = true
	for id, s := range t.all(mine) {
		if sum, done := t.done(id); done {
			if c := t.chunks[id]; each != nil && c != nil && c.N > 0 && t.m.Done(c) {
				if err := each(c); err != nil {
					return tally, false, err
				}
			}
			tally = tally.Add(sum)
			continue
		}
		if c := t.chunks[id]; c == nil || c.N == 0 {
			if probes--; probes < 0 {
				tally.Items += s.Items.Len()
				whole = false
				continue
			}
		}
		c := t.chunk(id, s)
		if !t.fresh[id] {
			if _, err := t.read(ctx, c, nil); err != nil {
				return tally, false, err
			}
		}
		if each != nil {
			if err := each(c); err != nil {
				return tally, false, err
			}
		}
		tally = tally.Add(c.Tally)
		whole = whole && t.m.Done(c)
	}
	for i := 0; whole && mine.of > 1 && i < t.m.Chunks(); i++ {
		if i%mine.of == mine.at {
			continue
		}
		id, _ := t.m.Seed(i)
		sum, done := t.whole(id)
		tally, whole = tally.Add(sum), done
	}
	return tally, whole, nil
}

// rename names a chunk that is done again, when whoever closed it has not for a
// while: others go by names.
func (t *chart) rename(ctx context.Context, c *Chunk) error {
	if b, named := t.brief[c.ID]; named && b.n == c.N-1 || c.N == 0 {
		delete(t.unnamed, c.ID)
		return nil
	}
	now := t.now()
	since, seen := t.unnamed[c.ID]
	if !seen {
		t.unnamed[c.ID] = now
	}
	if !seen || now-since < Heartbeat {
		return nil
	}
	t.unnamed[c.ID] = now
	return t.snapshot(c, nil, c.Claim > 0)(ctx)
}

// relist is how old a listing of snapshots may be.
const relist = 2 * time.Second

// list learns from the names of snapshots which chunks have closed: one request
// for a thousand.
func (t *chart) list(ctx context.Context) error {
	now := t.now()
	if t.listed > 0 && now-t.listed < relist {
		return nil
	}
	t.listed = max(now, 1)
	for o, err := range t.w.Store.List(ctx, jobDir(t.p)+"/results/") {
		if err != nil {
			return fmt.Errorf("list results: %w", err)
		}
		name := path.Base(o.Key)
		id, _, _ := strings.Cut(name, "_")
		had, known := t.brief[id]
		if known && had.text == name { // as most are, of tens of thousands
			continue
		}
		b, ok := parseBrief(name)
		if !ok || known && b.n < had.n {
			continue
		}
		t.brief[id] = b
		if dot := strings.LastIndexByte(id, '.'); dot >= 0 && !known {
			t.parts[id[:dot]] = append(t.parts[id[:dot]], id)
		}
	}
	return nil
}

// brief is what the name of a snapshot says of a closed chunk: results/<c>-<n> of
// the protocol, with the counts in the name, so that a listing counts a job.
type brief struct {
	text     string // the name
	n        int    // the chunk's entry that closed it
	mark     int
	children int
	tally    job.Tally
}

func (b brief) name(id string) string {
	return fmt.Sprintf("%s_%08d_%d_%d_%d_%d_%d_%d_%d", id, b.n, b.mark, b.children,
		b.tally.Items, b.tally.Succeeded, b.tally.Failed, b.tally.Quarantined, b.tally.Cancelled)
}

func parseBrief(name string) (b brief, ok bool) {
	b.text = name
	_, rest, _ := strings.Cut(name, "_")
	for i, into := range []*int{&b.n, &b.mark, &b.children, &b.tally.Items, &b.tally.Succeeded, &b.tally.Failed, &b.tally.Quarantined, &b.tally.Cancelled} {
		var field string
		field, rest, _ = strings.Cut(rest, "_")
		n, err := strconv.Atoi(field)
		most := job.MaxNumber // of entries, and of what is counted by them
		if i > 2 {
			most = job.MaxItems
		}
		if err != nil || n < 0 || n > most {
			return b, false
		}
		*into = n
	}
	return b, rest == ""
}

// Snapshot is a closed chunk in one object: an index that anyone can make again
// from its log. It is written once the entry that closed the chunk is in the log.
type Snapshot struct {
	V       int      `json:"v"`
	ID      string   `json:"id"`
	N       int      `json:"n"` // number of the entry that closed it
	Results []Result `json:"results,omitempty"`
	// Cut says that results were left out, because they were too many bytes: they
	// are in the log.
	Cut bool `json:"cut,omitempty"`
}

// maxSnapshot bounds the results of a snapshot, in bytes as an owner keeps them.
const maxSnapshot = 4 << 20

// snapshot gives what writes down what a closed chunk came to, now or later; its results
// are encoded. Failing to is nobody's loss.
func (t *chart) snapshot(c *Chunk, results []byte, cut bool) func(context.Context) error {
	n, id := c.N-1, c.ID
	b := brief{n: n, mark: c.Mark, children: len(c.Children), tally: c.Tally}
	body := encode(Snapshot{V: format, ID: id, N: n, Cut: cut})
	if len(results) > 0 {
		body = withResults(body, results)
	}
	key, store := jobDir(t.p)+"/results/"+b.name(id), t.w.Store
	return func(ctx context.Context) error {
		if _, _, err := store.CreateOnce(ctx, key, body); err != nil {
			return fmt.Errorf("store results of chunk %s: %w", id, err)
		}
		return nil
	}
}
