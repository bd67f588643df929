package removal

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/store"
)

// A blob is named by entries, and deleted when no entry names it. Between a gc
// that looks and deletes, and a saver that finds a blob there and names it, stands
// the sweeps' log, one for the whole store:
//
//	gc:    sweep, with a list of what is to go; look at all names; delete; swept
//	saver: name (job.json, named outputs, saved); look for sweeps; only then promise (E7)
//
// A name that was written before gc looked keeps its blob. A saver that writes one later
// finds the sweep, which was there before the look: it waits until it is over and
// stores again what it took. Another sweep that began while something was gone may
// have seen a name and not what it lists: the saver waits for that one too, until all is
// there and no sweep has begun meanwhile. So no blob is missing that anything promised needs,
// whichever process dies, and at no moment. docs/design/004-gc.md has the reasons.

// SweepMargin is what a delete may take from when it is sent to when it has
// happened. A sweep of a silent gc is over that much after its time.
const SweepMargin = 30 * time.Second

// SweepPoll is how often a sweep that stands in the way is read.
const SweepPoll = 250 * time.Millisecond

// LastSweep finds the newest sweep; open is false when it was ended.
func LastSweep(entries []protocol.SweepEntry) (n int, s protocol.Sweep, open bool) {
	for i, e := range entries {
		switch {
		case e.Sweep != nil:
			n, s, open = i, *e.Sweep, true
		case e.Swept != nil && e.Swept.N == n:
			open = false
		}
	}
	return n, s, open
}

// readSweepLog reads the sweeps' log from near its end: what is older is over. A listing
// says where that is, and the numbers after it are read. In most stores no gc has
// ever run, which its first number tells.
func readSweepLog(ctx context.Context, w protocol.World, by string) (*protocol.Log[protocol.SweepEntry], error) {
	l := w.SweepLog(by)
	if err := l.ReadUntil(ctx, func() bool { return len(l.Entries) > 0 }); err != nil || len(l.Entries) == 0 {
		return l, err
	}
	last := 0
	for o, err := range w.Store.List(ctx, l.Dir+"/") {
		if err != nil {
			return nil, fmt.Errorf("check for gc: %w", err)
		}
		if n, err := strconv.Atoi(path.Base(o.Key)); err == nil {
			last = max(last, n)
		}
	}
	// A swept entry may be last: the sweep it ends stands before it, or others
	// between them, which a sweep's beginning ended as well.
	l.Entries = make([]protocol.SweepEntry, max(0, last-1))
	return l, l.Read(ctx)
}

// judge tells when the sweeps that a process meets are over.
type judge struct {
	w    protocol.World
	met  int // the sweep that was met, and when
	when time.Duration
	any  bool
}

// sweepIsOver says whether sweep n, as log has it, deletes nothing any more.
func (j *judge) sweepIsOver(log *protocol.Log[protocol.SweepEntry], n int) bool {
	last, s, open := LastSweep(log.Entries)
	if last > n || !open {
		return true // the gc that began the next one has made sure of it
	}
	now := j.w.Clock().Boot()
	if !j.any || j.met != n {
		j.any, j.met, j.when = true, n, now
	}
	if gone, known := j.w.Gone(s.Host); known && gone {
		return true
	}
	return now-j.when >= s.For+SweepMargin
}

// waitForEnd reads log until sweep n is over.
func (j *judge) waitForEnd(ctx context.Context, log *protocol.Log[protocol.SweepEntry], n int) error {
	for {
		if err := log.Read(ctx); err != nil || j.sweepIsOver(log, n) {
			return err
		}
		if err := j.w.Clock().Sleep(ctx, SweepPoll); err != nil {
			return err
		}
	}
}

// Sweeper is one gc's sweep under way.
type Sweeper struct {
	w     protocol.World
	Log   *protocol.Log[protocol.SweepEntry]
	N     int
	List  string
	until time.Duration // on the boot clock
}

// BeginSweep announces that blobs will be deleted, for d at most from now. It waits
// until an older sweep is over. The caller then waits as long as a listing may be
// old, looks at all names, deletes what is still not named while Open, and calls End.
func BeginSweep(ctx context.Context, w protocol.World, by string, self protocol.Host, doomed []store.Digest, d time.Duration) (*Sweeper, error) {
	s := &Sweeper{w: w, List: protocol.SweepDir + "/lists/" + w.NewNonce()}
	text, err := PackDigests(doomed)
	if err != nil {
		return nil, err
	}
	if err := w.Store.CreateFile(ctx, s.List, bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("begin to sweep: %w", err)
	}
	if s.Log, err = readSweepLog(ctx, w, by); err != nil {
		return nil, err
	}
	j := &judge{w: w}
	for {
		if n, _, open := LastSweep(s.Log.Entries); open && !j.sweepIsOver(s.Log, n) {
			if err := j.waitForEnd(ctx, s.Log, n); err != nil {
				return nil, err
			}
			continue // another may have begun in its place
		}
		s.N, s.until = len(s.Log.Entries), w.Clock().Boot()+d
		mine, err := s.Log.Append(ctx, protocol.SweepEntry{Sweep: &protocol.Sweep{List: s.List, For: d, Host: self}})
		if err != nil {
			return nil, err
		}
		if mine {
			return s, nil
		}
	}
}

// Open says whether the sweep may still delete: asked before each delete.
func (s *Sweeper) Open() bool { return s.w.Clock().Boot() < s.until }

// Left is how much of its time is left.
func (s *Sweeper) Left() time.Duration { return s.until - s.w.Clock().Boot() }

// End says that the sweep is over.
func (s *Sweeper) End(ctx context.Context) error {
	for {
		if err := s.Log.Read(ctx); err != nil {
			return err
		}
		if n, _, open := LastSweep(s.Log.Entries); n != s.N || !open {
			break
		}
		if _, err := s.Log.Append(ctx, protocol.SweepEntry{Swept: &protocol.Swept{N: s.N}}); err != nil {
			return err
		}
	}
	return s.w.Store.Delete(ctx, s.List)
}

// Sweeps is what a saver knows of gc: what it may have taken since.
type Sweeps struct {
	w     protocol.World
	log   *protocol.Log[protocol.SweepEntry]
	judge judge
	since int // the first entry that may have taken what was there
}

// ReadSweeps begins to watch gc. A saver does so before it first looks whether a blob is
// there, and may go on with it for as long as it lives. Not for concurrent use.
func ReadSweeps(ctx context.Context, w protocol.World) (*Sweeps, error) {
	l, err := readSweepLog(ctx, w, "")
	if err != nil {
		return nil, err
	}
	s := &Sweeps{w: w, log: l, judge: judge{w: w}, since: len(l.Entries)}
	if n, _, open := LastSweep(l.Entries); open {
		s.since = n
	}
	return s, nil
}

// At is how far gc had come when Assure last returned, for Since of a later process
// that believes what this one knew to be there.
func (s *Sweeps) At() int { return s.since }

// Since makes Assure look for what gc took after At, and not only since Sweeps: for
// a caller that believes, by a list outside the store, that blobs are there. at 0 is
// the beginning: then Assure looks if any gc has ever run.
func (s *Sweeps) Since(at int) {
	if at > len(s.log.Entries) {
		at = -1 // another store, or one that was emptied: nothing is known
	}
	s.since = min(s.since, at)
}

// ErrSwept says that blobs are gone that were to be named, and could not be stored
// again.
var ErrSwept = errors.New("contents are not in the store any more")

// Assure makes sure that the blobs are there which an entry names that the caller
// has just written, before anything is promised that needs them. It costs one
// request while no gc is about. need lists their digests, those of lists of files
// and of all files in these; again stores those that are gone.
//
// It waits while a gc is about that may delete one of them, which takes
// milliseconds; a minute or two if that gc has just died elsewhere.
func (s *Sweeps) Assure(ctx context.Context, need func() ([]store.Digest, error), again func(ctx context.Context, gone []store.Digest) error) error {
	if err := s.log.Read(ctx); err != nil {
		return err
	}
	// A sweep that begins after this look sees the name and all that it lists, and is no danger.
	if now := len(s.log.Entries); now == s.since {
		return nil
	}
	digests, err := need()
	if err != nil {
		return err
	}
	const tries = 3 // the second finds all there, unless a user deletes by hand
	for stored := 0; ; {
		now := len(s.log.Entries)
		since, err := s.waitForSweeps(ctx, now, digests)
		if err != nil {
			return err
		}
		gone, err := missingBlobs(ctx, s.w, digests)
		if err != nil {
			return err
		}
		if len(gone) > 0 {
			if stored++; stored > tries {
				return fmt.Errorf("store again what gc took: %w", ErrSwept)
			}
			if err := again(ctx, gone); err != nil {
				return err
			}
		}
		// A sweep that began meanwhile may have looked at the name while the list that it names was gone, and
		// delete what that list names: it counts as one that was there before.
		if err := s.log.Read(ctx); err != nil {
			return err
		}
		if len(gone) == 0 && len(s.log.Entries) == now {
			s.since = since
			return nil
		}
	}
}

// waitForSweeps returns once the last of the first now entries, if it is a sweep that may
// delete one of the digests, is over. since is what Sweeps.since may become.
func (s *Sweeps) waitForSweeps(ctx context.Context, now int, digests []store.Digest) (since int, err error) {
	n, sweep, open := LastSweep(s.log.Entries[:now])
	if !open || s.judge.sweepIsOver(s.log, n) {
		return now, nil
	}
	list, err := s.w.ReadObject(ctx, sweep.List, store.MaxWhole)
	if err != nil && !errors.Is(err, store.ErrNotExist) { // without its list it may delete anything, or has just ended
		return 0, fmt.Errorf("check for gc: %w", err)
	}
	if err == nil && !slices.ContainsFunc(digests, func(d store.Digest) bool { return Listed(list, d) }) {
		return n, nil // it takes others: these are there, or were taken by older ones
	}
	return now, s.judge.waitForEnd(ctx, s.log, n)
}

// Lasting makes of look, which says whether all blobs of a generation are there and which it needs, a check for
// states.RestoreState that holds: the saver may have died before its own Assure, and a gc that was about then has perhaps
// not seen the generation. One that RestoreState has named since is looked at again only if a sweep has begun. It costs one
// request a check where no gc has ever run.
func Lasting(ctx context.Context, w protocol.World, look func(protocol.Saved) (need []store.Digest, whole bool, err error)) func(protocol.Saved) (bool, error) {
	var sweeps *Sweeps
	var last, need []store.Digest // the lists of the generation that was looked at last, and what it needs if it was whole
	return func(s protocol.Saved) (whole bool, err error) {
		if sweeps == nil {
			if sweeps, err = ReadSweeps(ctx, w); err != nil {
				return false, err
			}
		}
		if need == nil || !slices.Equal(last, s.Lists()) {
			if need, whole, err = look(s); err != nil || !whole {
				need = nil
				return false, err
			}
			last = s.Lists()
		}
		err = sweeps.Assure(ctx, func() ([]store.Digest, error) { return need, nil }, func(context.Context, []store.Digest) error { return ErrSwept })
		if errors.Is(err, ErrSwept) {
			need = nil
			return false, nil
		}
		return err == nil, err
	}
}

// missingBlobs names the blobs that are not there.
func missingBlobs(ctx context.Context, w protocol.World, digests []store.Digest) (gone []store.Digest, err error) {
	for _, d := range digests {
		has, err := w.Store.HasBlob(ctx, d)
		if err != nil {
			return nil, err
		}
		if !has {
			gone = append(gone, d)
		}
	}
	return gone, nil
}

// PackDigests writes digests as they are looked up: 32 bytes each, in order.
func PackDigests(digests []store.Digest) ([]byte, error) {
	digests = slices.Clone(digests)
	slices.Sort(digests)
	text := make([]byte, 0, 32*len(digests))
	for _, d := range digests {
		b, err := hex.DecodeString(string(d))
		if err != nil || len(b) != 32 {
			return nil, fault.New(fault.Bug, "", "list blobs: %.80q is not a digest", d)
		}
		text = append(text, b...)
	}
	return text, nil
}

// Listed says whether a list holds d.
func Listed(list []byte, d store.Digest) bool {
	want, err := hex.DecodeString(string(d))
	if err != nil {
		return false
	}
	lo, hi := 0, len(list)/32
	for lo < hi {
		mid := (lo + hi) / 2
		switch c := bytes.Compare(list[32*mid:32*mid+32], want); {
		case c == 0:
			return true
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return false
}
