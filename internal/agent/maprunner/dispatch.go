package maprunner

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/prefetch"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/mapagent"
)

// dispatcher chooses which tries begin next, hands them to groups, and takes them back or ends them.
type dispatcher struct {
	*shared
	attempts *attempts
	chunks   *chunkList
	commands *commands
	files    *itemFiles
	groups   *slotGroups
	alone    *try   // it waits until nothing else runs
	waiting  []*try // that were taken from their chunks and have no files yet
}

// fillGroups hands as many tries to the groups as they have places for.
func (d *dispatcher) fillGroups(ctx context.Context) error {
	if d.order.Do != mapagent.Work || d.prepared == nil || !d.openedFor.hasSameLimits(d.order.Limits) || d.bootTime() < d.attempts.pauseUntil || d.leaving.Load() || d.signalHitAll() {
		return nil
	}
	d.requestFiles()
	if err := d.runSuspects(ctx); err != nil {
		return err
	}
	for now := d.bootTime(); ; {
		g := d.groups.groupWithMostRoom()
		if g == nil || d.alone != nil && len(d.attempts.tries) > 1 {
			break
		}
		t, it := d.nextSendable(now)
		if t == nil {
			break
		}
		if t.Alone && len(d.attempts.tries) > 1 { // of another chunk, that is over, something has yet to end
			waits := it
			d.alone, t.item = t, &waits
			break
		}
		if err := d.putInGroup(ctx, g, t, it); err != nil {
			return err
		}
	}
	d.requestFiles() // what was taken from the front is no longer among the next ones
	return d.groups.sendBatches()
}

// nextSendable is a try that can be sent, and its item; nil: there is none now.
func (d *dispatcher) nextSendable(now time.Duration) (t *try, it manifest.Item) {
	if t = d.alone; t != nil {
		d.alone = nil
		return t, *t.item
	}
	if d.files.cache != nil {
		return d.nextWithFiles()
	}
	for _, w := range d.chunks.chunks {
		if t, it = w.nextSendable(now); t != nil {
			return t, it
		}
	}
	return nil, it
}

// putInGroup gives a try to a group. One that cannot be run has failed.
func (d *dispatcher) putInGroup(ctx context.Context, g *slotGroup, t *try, it manifest.Item) error {
	if t.share != nil && t.share.Err != nil {
		return d.attempts.failUnfetched(t)
	}
	e, err := d.commands.tryCommand(ctx, t, it)
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Invalid:
		d.attempts.recordUnfit(t, err)
		return nil
	default:
		return err
	}
	t.group, t.item, t.began, t.size = g, nil, false, len(it.Text)
	g.bytes += t.size
	g.running++
	g.queued++
	t.chunk.queued++
	g.batch = append(g.batch, e)
	return nil
}

// runSuspects runs the suspects of each group, one at a time.
func (d *dispatcher) runSuspects(ctx context.Context) error {
	for _, g := range d.groups.groups {
		if g.soloTry != nil || len(g.suspects) == 0 || g.running > 0 {
			continue
		}
		t := g.suspects[0]
		if t.item == nil {
			t.chunk.fetchItem(t)
			continue
		}
		g.suspects, g.soloTry = g.suspects[1:], t
		if err := d.putInGroup(ctx, g, t, *t.item); err != nil {
			return err
		}
		if d.attempts.tries[t.id] == nil { // it could not be run
			g.soloTry = nil
		}
	}
	return nil
}

// recallQueued takes back what has not begun.
func (d *dispatcher) recallQueued() {
	if t := d.alone; t != nil {
		d.alone = nil
		d.attempts.returnTry(t)
	}
	for _, t := range d.waiting {
		d.attempts.returnTry(t)
	}
	d.waiting = nil
	for _, w := range d.chunks.chunks {
		if t := w.waits; t != nil {
			w.waits = nil
			d.attempts.returnTry(t)
		}
	}
	for _, g := range d.groups.groups {
		for _, t := range g.suspects {
			d.attempts.returnTry(t)
		}
		if g.suspects = nil; g.queued > 0 {
			g.executor.Drop()
		}
	}
}

// killTries ends those of the tries that are chosen and run; what is only waiting is
// forgotten. Their holds are over, or will say that they were interrupted.
func (d *dispatcher) killTries(chosen func(*try) bool) { d.signalTries(syscall.SIGTERM, chosen) }

// signalTries is kill that begins with another signal than SIGTERM, and leaves the rest to a
// later kill.
func (d *dispatcher) signalTries(sig syscall.Signal, chosen func(*try) bool) {
	doomed := map[*slotGroup][]uint64{}
	for id, t := range d.attempts.tries {
		if t.discarded && !t.signalled || t.ended || !chosen(t) {
			continue
		}
		t.signalled = sig != syscall.SIGTERM
		if t.group == nil || slices.Contains(t.group.suspects, t) {
			d.forgetTry(t)
			continue
		}
		t.discarded = true
		doomed[t.group] = append(doomed[t.group], id)
	}
	for g, ids := range doomed {
		g.executor.Kill(sig, ids...)
	}
}

// forgetTry drops a try that is in no runner.
func (d *dispatcher) forgetTry(t *try) {
	delete(d.attempts.tries, t.id)
	d.files.removeFiles(t)
	d.waiting = slices.DeleteFunc(d.waiting, func(o *try) bool { return o == t })
	if d.alone == t {
		d.alone = nil
	}
	if t.chunk.waits == t {
		t.chunk.waits = nil
	}
	if g := t.group; g != nil {
		g.suspects = slices.DeleteFunc(g.suspects, func(o *try) bool { return o == t })
	}
}

// requestFiles tells the cache what is needed next, once it is known what those items say.
func (d *dispatcher) requestFiles() {
	if d.files.cache == nil {
		return
	}
	var wants []prefetch.Want
	wanted := map[int]bool{}
	want := func(w *chunk, n int) {
		if it := w.itemText(n); it != nil && !wanted[n] {
			wanted[n] = true
			wants = append(wants, prefetch.Want{Item: n, Names: w.source.FileNames(*it)})
		}
	}
	for _, t := range d.waiting {
		want(t.chunk, t.Item)
	}
	left := ahead(d.Slots)
	for _, w := range d.chunks.chunks {
		soon := w.owned.Soon(left)
		for _, n := range soon {
			want(w, n)
		}
		left -= len(soon)
		for n := range w.soon {
			if !wanted[n] {
				delete(w.soon, n)
			}
		}
	}
	d.files.cache.Want(wants)
}

// nextWithFiles is a try with its files here, and its item.
func (d *dispatcher) nextWithFiles() (t *try, it manifest.Item) {
	for i, t := range d.waiting {
		if said := t.chunk.soon[t.Item]; said != nil && d.files.takeFiles(t) {
			d.waiting = append(d.waiting[:i:i], d.waiting[i+1:]...)
			return t, *said
		}
	}
	for _, w := range d.chunks.chunks {
		for {
			soon := w.owned.Soon(1)
			if len(soon) == 0 || !d.files.cache.Has(soon[0]) && (w.owned.Isolated() || len(d.waiting) >= d.groups.freePlaces()) {
				break // an item that is suspect is named when it begins, not while a download may be the end of us
			}
			n, ok := w.owned.Next()
			if !ok {
				break
			}
			t := d.attempts.registerTry(w, n)
			if said := w.soon[t.Item]; said != nil && d.files.takeFiles(t) {
				return t, *said
			}
			d.waiting = append(d.waiting, t)
		}
	}
	return nil, it
}
