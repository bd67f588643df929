package chunks

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

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Inventory is what one reader knows of a map: its log, and of its chunks those that
// were read or are known to be done by the name of a snapshot. What is known stays
// true, so looking again costs only what is new. Not for concurrent use.
type Inventory struct {
	World  protocol.World
	Path   job.Path
	Map    *Map
	JobLog *protocol.Log[protocol.JobEntry]
	// ChunksRead are those that were read, brief those known by a snapshot's name.
	ChunksRead  map[string]*Chunk
	NamedChunks map[string]snapshotName
	NamedParts  map[string][]string      // ids below a chunk's, of those in brief
	unnamed     map[string]time.Duration // since when a chunk was seen to be done without a name
	first       map[string]time.Duration // when a chunk was first seen: what its Wait counts from
	stopAt      time.Duration            // when the stop that stands was first read
	listed      time.Duration            // when snapshots were last listed; 0: never
	ReadJustNow map[string]bool          // chunks that were read to their end just now
	// OnEntry is told of each entry of a chunk's log that was folded.
	OnEntry func(*Chunk, protocol.ChunkEntry)
	// OnResults is told of the results in it that count, and of their writer.
	OnResults func(results []protocol.Result, by string)
}

func NewInventory(w protocol.World, j job.Job, by string) *Inventory {
	p := j.Path()
	return &Inventory{World: w, Path: p, Map: NewMap(j), JobLog: w.JobLog(p, by),
		ChunksRead: map[string]*Chunk{}, NamedChunks: map[string]snapshotName{}, NamedParts: map[string][]string{}, unnamed: map[string]time.Duration{}, first: map[string]time.Duration{}}
}

func (t *Inventory) Now() time.Duration { return t.World.Clock().Boot() }

// ReadJobLog brings the fold of the job's log up to date.
func (t *Inventory) ReadJobLog(ctx context.Context) error {
	if err := t.JobLog.Read(ctx); err != nil {
		return err
	}
	t.foldJobLog()
	return nil
}

// foldJobLog takes in what the log has read.
func (t *Inventory) foldJobLog() {
	for t.Map.N < len(t.JobLog.Entries) {
		before := t.Map.Stop
		t.Map.Fold(t.JobLog.Entries[t.Map.N])
		if t.Map.Stop != nil && t.Map.Stop != before {
			t.stopAt = t.Now() // after the answer: it may have taken long
		}
	}
}

// AppendToJob writes an entry into the job's log; the caller decides again when it
// was not mine.
func (t *Inventory) AppendToJob(ctx context.Context, e protocol.JobEntry) (mine bool, err error) {
	if e.Failing != nil && len(t.JobLog.Entries) == 0 {
		err = AppendFirst(ctx, t.JobLog)
	} else {
		mine, err = t.JobLog.Append(ctx, e)
	}
	t.foldJobLog()
	return mine, err
}

// SinceStop is how long ago the stop that stands was first read.
func (t *Inventory) SinceStop() time.Duration { return t.Now() - t.stopAt }

// ChunkOf is the one of that id, read before or untouched.
func (t *Inventory) ChunkOf(id string, s protocol.Seed) *Chunk {
	c := t.ChunksRead[id]
	if c == nil {
		c = NewChunk(id, s)
		t.ChunksRead[id] = c
	}
	if _, seen := t.first[id]; !seen && s.Wait > 0 {
		t.first[id] = t.Now()
	}
	return c
}

// ManifestChunk is the chunk of the manifest or an extension that has this id.
func (t *Inventory) ManifestChunk(id string) *Chunk {
	if c := t.ChunksRead[id]; c != nil {
		return c
	}
	if i, ok := t.Map.Index(id); ok {
		_, s := t.Map.Seed(i)
		return t.ChunkOf(id, s)
	}
	return nil
}

// BackOffIsOver says whether a chunk's back-off is over (M8).
func (t *Inventory) BackOffIsOver(c *Chunk) bool {
	return c.Wait == 0 || c.Claim > 0 || t.Now()-t.first[c.ID] >= c.Wait
}

func (t *Inventory) EntryKey(c *Chunk, n int) string {
	return fmt.Sprintf("%s/%s/%08d", protocol.JobDir(t.Path), protocol.ChunkDir(c.ID), n)
}

// ReadChunk folds what is new in a chunk's log, to its end. sent is when the request
// left that found the end.
func (t *Inventory) ReadChunk(ctx context.Context, c *Chunk, visit func(protocol.ChunkEntry, []protocol.Result)) (sent time.Duration, err error) {
	for {
		sent = t.Now()
		key := t.EntryKey(c, c.N)
		b, err := t.World.ReadObject(ctx, key, protocol.MaxEntry)
		if errors.Is(err, store.ErrNotExist) {
			return sent, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read chunk %s: %w", c.ID, err)
		}
		if err := t.ApplyEncoded(c, b, key, visit); err != nil {
			return 0, err
		}
	}
}

func (t *Inventory) ApplyEncoded(c *Chunk, b []byte, key string, visit func(protocol.ChunkEntry, []protocol.Result)) error {
	var e protocol.ChunkEntry
	if err := protocol.DecodeResults(b, &e, &e.Results, &e.V, key); err != nil {
		return err
	}
	t.applyEntry(c, e, visit)
	return nil
}

func (t *Inventory) applyEntry(c *Chunk, e protocol.ChunkEntry, visit func(protocol.ChunkEntry, []protocol.Result)) {
	counted := c.Fold(e)
	if t.OnEntry != nil {
		t.OnEntry(c, e)
	}
	if t.OnResults != nil {
		t.OnResults(counted, e.By)
	}
	if visit != nil {
		visit(e, counted)
	}
}

// AppendToChunk appends e to a chunk's log as the entry after what was read. Either way
// the entry that holds the number was folded when it returns.
func (t *Inventory) AppendToChunk(ctx context.Context, c *Chunk, by string, e protocol.ChunkEntry) (mine bool, sent time.Duration, err error) {
	body := t.SealEntry(by, &e)
	return t.SendEntry(ctx, c, body, &e)
}

// SealEntry makes e an entry of its own: no other has these bytes.
func (t *Inventory) SealEntry(by string, e *protocol.ChunkEntry) []byte {
	e.V, e.By, e.Nonce, e.At = protocol.Format, by, t.World.NewNonce(), t.World.Clock().Now().UTC().Round(0)
	return protocol.EncodeEntry(*e)
}

// SendEntry appends body. e is its entry, where that is known: what this process has
// written need not be read.
func (t *Inventory) SendEntry(ctx context.Context, c *Chunk, body []byte, e *protocol.ChunkEntry) (mine bool, sent time.Duration, err error) {
	key := t.EntryKey(c, c.N)
	sent = t.Now()
	held, mine, err := t.World.Store.CreateOnce(ctx, key, body)
	if err != nil {
		return false, 0, fmt.Errorf("append to chunk %s: %w", c.ID, err)
	}
	if mine && e != nil && bytes.Equal(held, body) {
		t.applyEntry(c, *e, nil)
		return mine, sent, nil
	}
	return mine, sent, t.ApplyEncoded(c, held, key, nil)
}

// ChunkIsDone says whether nothing more can come of a chunk, as far as is known. Its tally
// counts the parts it handed over, too, when it is named.
func (t *Inventory) ChunkIsDone(id string) (tally job.Tally, done bool) {
	if sum, ok := t.doneByName(id); ok {
		return sum, true
	}
	if c := t.ChunksRead[id]; c != nil && c.N > 0 {
		return c.Tally, t.Map.Done(c)
	}
	return job.Tally{}, false
}

// doneByName says whether a chunk that was not read to its end is done by the name of
// its snapshot, with every part that it handed over.
func (t *Inventory) doneByName(id string) (tally job.Tally, ok bool) {
	b, ok := t.NamedChunks[id]
	if c := t.ChunksRead[id]; !ok || c != nil && c.N > b.N || len(t.NamedParts[id]) != b.Children || t.MayBeReopened(b) || t.mixesRounds(b) {
		return job.Tally{}, false
	}
	tally = b.Tally
	for _, part := range t.NamedParts[id] {
		sum, ok := t.doneWithParts(part)
		if !ok {
			return job.Tally{}, false
		}
		tally = tally.Add(sum)
	}
	return tally, true
}

// doneWithParts says whether a chunk is done with all that it handed over, and counts both.
func (t *Inventory) doneWithParts(id string) (tally job.Tally, ok bool) {
	if sum, ok := t.doneByName(id); ok {
		return sum, true
	}
	c := t.ChunksRead[id]
	if c == nil || c.N == 0 || !t.Map.Done(c) {
		return job.Tally{}, false
	}
	tally = c.Tally
	for _, part := range c.Children {
		sum, ok := t.doneWithParts(part.ID)
		if !ok {
			return job.Tally{}, false
		}
		tally = tally.Add(sum)
	}
	return tally, true
}

// mixesRounds says whether failures that a snapshot's name counts may be of this round
// and of one before: the log tells.
func (t *Inventory) mixesRounds(b snapshotName) bool {
	return t.Map.Round > 0 && b.Mark >= t.Map.Round && b.Tally.Failed+b.Tally.Quarantined > 0
}

// CountFailed counts the items that are known to have failed in this round, and are not
// asked for again.
func (t *Inventory) CountFailed() (n int) {
	for _, c := range t.ChunksRead {
		if again, _ := t.Map.selectedItems(c); len(again) == 0 && c.Mark >= t.Map.Round {
			n += c.Tally.Failed + c.Tally.Quarantined - c.Old
		}
	}
	for id, b := range t.NamedChunks {
		c := t.ChunksRead[id]
		if (c == nil || c.N == 0) && b.Mark >= t.Map.Round && !t.MayBeReopened(b) && !t.mixesRounds(b) {
			n += b.Tally.Failed + b.Tally.Quarantined
		}
	}
	return n
}

// MayBeReopened says whether a reopen may select something in a chunk that is known by
// its snapshot's name alone.
func (t *Inventory) MayBeReopened(b snapshotName) bool {
	n := len(t.Map.Reopened)
	return n > 0 && t.Map.Reopened[n-1].N > b.Mark && b.Tally.Succeeded < b.Tally.Items
}

// ChunksOf yields the chunks of a share that are known to be there, children after their
// parents (M2), but for those below one that is named. Those that were never read
// are not made.
func (t *Inventory) ChunksOf(mine Share) iter.Seq2[string, protocol.Seed] {
	return func(yield func(string, protocol.Seed) bool) {
		var below func(id string, s protocol.Seed) bool
		below = func(id string, s protocol.Seed) bool {
			_, named := t.doneByName(id) // before anything more is read of it
			if !yield(id, s) {
				return false
			}
			if named {
				return true
			}
			if c := t.ChunksRead[id]; c != nil {
				for _, child := range c.Children {
					if !below(child.ID, child.Seed) {
						return false
					}
				}
			}
			return true
		}
		for i := mine.At; i < t.Map.Chunks(); i += max(1, mine.Of) {
			if id, s := t.Map.Seed(i); !below(id, s) {
				return
			}
		}
	}
}

// Share is the at-th of several equal shares of a job's chunks, each with all that
// was handed over from it; the zero value is all of them.
type Share struct {
	At, Of int
	Blind  bool // without asking for names: it is small
}

// ScanChunks reads on in every chunk of its share that is not done by name, but of
// those that no agent seems to have touched at most probes. each gets all that were read,
// now or before, the done ones too. whole is true when all chunks of the job are done, and tally counts it then.
func (t *Inventory) ScanChunks(ctx context.Context, mine Share, probes int, each func(*Chunk) error) (tally job.Tally, whole bool, err error) {
	if !mine.Blind {
		if err := t.ListSnapshots(ctx); err != nil {
			return tally, false, err
		}
	}
	whole = true
	for id, s := range t.ChunksOf(mine) {
		if sum, done := t.ChunkIsDone(id); done {
			if c := t.ChunksRead[id]; each != nil && c != nil && c.N > 0 && t.Map.Done(c) {
				if err := each(c); err != nil {
					return tally, false, err
				}
			}
			tally = tally.Add(sum)
			continue
		}
		if c := t.ChunksRead[id]; c == nil || c.N == 0 {
			if probes--; probes < 0 {
				tally.Items += s.Items.Len()
				whole = false
				continue
			}
		}
		c := t.ChunkOf(id, s)
		if !t.ReadJustNow[id] {
			if _, err := t.ReadChunk(ctx, c, nil); err != nil {
				return tally, false, err
			}
		}
		if each != nil {
			if err := each(c); err != nil {
				return tally, false, err
			}
		}
		tally = tally.Add(c.Tally)
		whole = whole && t.Map.Done(c)
	}
	for i := 0; whole && mine.Of > 1 && i < t.Map.Chunks(); i++ {
		if i%mine.Of == mine.At {
			continue
		}
		id, _ := t.Map.Seed(i)
		sum, done := t.doneWithParts(id)
		tally, whole = tally.Add(sum), done
	}
	return tally, whole, nil
}

// NameAgain names a chunk that is done again, when the agent that closed it has not for a
// while: others go by names.
func (t *Inventory) NameAgain(ctx context.Context, c *Chunk) error {
	if b, named := t.NamedChunks[c.ID]; named && b.N == c.N-1 || c.N == 0 {
		delete(t.unnamed, c.ID)
		return nil
	}
	now := t.Now()
	since, seen := t.unnamed[c.ID]
	if !seen {
		t.unnamed[c.ID] = now
	}
	if !seen || now-since < protocol.HeartbeatEvery {
		return nil
	}
	t.unnamed[c.ID] = now
	return t.SnapshotWriter(c, nil, c.Claim > 0)(ctx)
}

// relist is how old a listing of snapshots may be.
const relist = 2 * time.Second

// ListSnapshots learns from the names of snapshots which chunks have closed: one request
// for a thousand.
func (t *Inventory) ListSnapshots(ctx context.Context) error {
	now := t.Now()
	if t.listed > 0 && now-t.listed < relist {
		return nil
	}
	t.listed = max(now, 1)
	for o, err := range t.World.Store.List(ctx, protocol.JobDir(t.Path)+"/results/") {
		if err != nil {
			return fmt.Errorf("list results: %w", err)
		}
		name := path.Base(o.Key)
		id, _, _ := strings.Cut(name, "_")
		had, known := t.NamedChunks[id]
		if known && had.Text == name { // as most are, of tens of thousands
			continue
		}
		b, ok := ParseSnapshotName(name)
		if !ok || known && b.N < had.N {
			continue
		}
		t.NamedChunks[id] = b
		if dot := strings.LastIndexByte(id, '.'); dot >= 0 && !known {
			t.NamedParts[id[:dot]] = append(t.NamedParts[id[:dot]], id)
		}
	}
	return nil
}

// snapshotName is what the name of a snapshot says of a closed chunk: results/<c>-<n> of
// the protocol, with the counts in the name, so that a listing counts a job.
type snapshotName struct {
	Text     string // the name
	N        int    // the chunk's entry that closed it
	Mark     int
	Children int
	Tally    job.Tally
}

func (b snapshotName) format(id string) string {
	return fmt.Sprintf("%s_%08d_%d_%d_%d_%d_%d_%d_%d", id, b.N, b.Mark, b.Children,
		b.Tally.Items, b.Tally.Succeeded, b.Tally.Failed, b.Tally.Quarantined, b.Tally.Cancelled)
}

func ParseSnapshotName(name string) (b snapshotName, ok bool) {
	b.Text = name
	_, rest, _ := strings.Cut(name, "_")
	for i, into := range []*int{&b.N, &b.Mark, &b.Children, &b.Tally.Items, &b.Tally.Succeeded, &b.Tally.Failed, &b.Tally.Quarantined, &b.Tally.Cancelled} {
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

// MaxSnapshot bounds the results of a snapshot, in bytes as an owner keeps them.
const MaxSnapshot = 4 << 20

// SnapshotWriter gives what writes down what a closed chunk came to, now or later; its results
// are encoded. Nothing is lost when that fails.
func (t *Inventory) SnapshotWriter(c *Chunk, results []byte, cut bool) func(context.Context) error {
	n, id := c.N-1, c.ID
	b := snapshotName{N: n, Mark: c.Mark, Children: len(c.Children), Tally: c.Tally}
	body := protocol.Encode(protocol.Snapshot{V: protocol.Format, ID: id, N: n, Cut: cut})
	if len(results) > 0 {
		body = protocol.WithResults(body, results)
	}
	key, store := protocol.JobDir(t.Path)+"/results/"+b.format(id), t.World.Store
	return func(ctx context.Context) error {
		if _, _, err := store.CreateOnce(ctx, key, body); err != nil {
			return fmt.Errorf("store results of chunk %s: %w", id, err)
		}
		return nil
	}
}

// ReadMap is the fold of a map's log as it is now: what binds an agent that begins.
func ReadMap(ctx context.Context, w protocol.World, j job.Job) (*Map, error) {
	l := w.JobLog(j.Path(), "")
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	m := NewMap(j)
	for _, e := range l.Entries {
		m.Fold(e)
	}
	return m, nil
}

// AppendFirst sees to it that entry 0 of a map's log is none that chunks follow from: in
// their logs 0 says "by itself", and is no mark (L5).
func AppendFirst(ctx context.Context, l *protocol.Log[protocol.JobEntry]) error {
	for len(l.Entries) == 0 {
		if _, err := l.Append(ctx, protocol.JobEntry{Resumed: &protocol.Resumed{}}); err != nil {
			return err
		}
	}
	return nil
}
