package maprunner

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/prefetch"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Items may name files that are to be here before they begin. The cache brings those
// of the items that the chunks are about to give; they stay in their chunks meanwhile,
// and may be handed to another agent. Only a free slot takes a try with files that are
// still to come: else two agents could hand the last item to each other for ever.
// Fetching starts nothing, and needs no start deadline.

const (
	// inName is the folder of fetched files, below the agent's.
	inName = "in"
	// fetchesAtOnce items are fetched at once at least: far servers answer late.
	fetchesAtOnce = 4
)

// ahead is how many items' files are here or on their way before a slot is free, at
// most.
func ahead(slots int) int { return max(8, 2*slots) }

// openCache is called once all is prepared: relative paths begin in its folder.
func (c *mapRunner) openCache() {
	if !c.Job.Spec.Fetch && c.Job.Manifest.Files == nil {
		return
	}
	parallel := min(max(fetchesAtOnce, c.Slots), 16)
	f := source.NewFetcher(source.FetchConfig{Store: c.World.Store, Dir: c.prepared.Dir, Parallel: parallel, Pause: c.pause, OpenBucket: c.OpenPlace})
	c.cache = prefetch.New(c.life, prefetch.Config{Dir: filepath.Join(c.Root, inName), Room: int64(job.FetchRoom(c.Job.Spec.Disk)), Parallel: parallel,
		Fetch: func(ctx context.Context, name, into string, room func(context.Context, int64) error) (file string, ours bool, err error) {
			err = c.retryWhileFull(ctx, func() (err error) {
				file, ours, err = f.Fetch(ctx, name, into, room)
				return err
			})
			return file, ours, err
		},
		Remove: func(dir string) {
			if err := tree.RemoveAll(dir); err != nil {
				c.Log.Warn("folder stays", "err", err)
			}
		}})
	c.arrived = c.cache.Arrived()
}

// itemsInStock is how many items the chunks could give once there are slots for them.
func (c *mapRunner) itemsInStock() (n int) {
	for _, w := range c.chunks {
		n += w.owned.Waiting()
	}
	return n
}

// requestFiles tells the cache what is needed next, once it is known what those items say.
func (c *mapRunner) requestFiles() {
	if c.cache == nil {
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
	for _, t := range c.waiting {
		want(t.chunk, t.Item)
	}
	left := ahead(c.Slots)
	for _, w := range c.chunks {
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
	c.cache.Want(wants)
}

// nextWithFiles is a try with its files here, and its item.
func (c *mapRunner) nextWithFiles() (t *try, it manifest.Item) {
	for i, t := range c.waiting {
		if said := t.chunk.soon[t.Item]; said != nil && c.takeFiles(t) {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return t, *said
		}
	}
	for _, w := range c.chunks {
		for {
			soon := w.owned.Soon(1)
			if len(soon) == 0 || !c.cache.Has(soon[0]) && (w.owned.Careful() || len(c.waiting) >= c.freePlaces()) {
				break // an item that is suspect is named when it begins, not while a download may be the end of us
			}
			n, ok := w.owned.Next()
			if !ok {
				break
			}
			t := c.registerTry(w, n)
			if said := w.soon[t.Item]; said != nil && c.takeFiles(t) {
				return t, *said
			}
			c.waiting = append(c.waiting, t)
		}
	}
	return nil, it
}

// takeFiles gives a try its files.
func (c *mapRunner) takeFiles(t *try) bool {
	t.share = c.cache.Take(t.Item)
	return t.share != nil
}

// freePlaces is how many more tries the groups would take.
func (c *mapRunner) freePlaces() (n int) {
	for _, g := range c.groups {
		n += max(0, g.maxTriesSent()-g.running)
	}
	return n
}

// removeFiles removes the files of a try that has ended.
func (c *mapRunner) removeFiles(t *try) {
	if t.share != nil {
		c.cache.Drop(t.share)
		t.share = nil
	}
}

// failUnfetched is what becomes of a try with files that cannot be had: the item has failed.
// What is not there, or cannot be, would not be there for another try either; a server
// that is away may be back.
func (c *mapRunner) failUnfetched(t *try) error {
	err := t.share.Err
	kind, here := fault.KindOf(err), new(os.PathError)
	if kind == fault.Full { // it was waited for
		return err
	}
	delete(c.tries, t.id)
	c.removeFiles(t)
	final := kind == fault.Missing || kind == fault.Invalid || kind == fault.Denied && !errors.As(err, &here)
	t.chunk.owned.Done(protocol.Result{Item: t.Item, Failed: true, Final: final, Code: fault.ExitDrover,
		Why: recorder.OneLine(c.Redact.String(middle(err.Error()))), Ended: c.clock.Now().UnixMicro()})
	return nil
}

// middle shortens a sentence in its middle: its end says what is wrong.
func middle(text string) string {
	const half = recorder.LineSize/2 - 2
	if len(text) <= 2*half {
		return text
	}
	return text[:half] + "..." + text[len(text)-half:]
}

// itemText is what item n says; nil: it is being read.
func (w *chunk) itemText(n int) *manifest.Item {
	if it := w.soon[n]; it != nil {
		return it
	}
	it, found, wait := w.itemIfRead(n)
	switch {
	case found:
		w.keepItemText(n, &it)
		return &it
	case !wait && !w.asked[n]:
		if w.asked == nil {
			w.asked = map[int]bool{}
		}
		w.asked[n] = true
		w.runner.goroutines.Go(func() { // ends with what is read, or with the map runner
			it, err := w.source.One(w.runner.life, n)
			select {
			case w.runner.pages <- page{chunk: w, one: n, items: []manifest.Item{it}, err: err}:
			case <-w.runner.life.Done():
			}
		})
	}
	return nil
}

// keepItemText keeps what an item says until it begins.
func (w *chunk) keepItemText(n int, it *manifest.Item) {
	if w.soon == nil {
		w.soon = map[int]*manifest.Item{}
	}
	delete(w.asked, n)
	w.soon[n] = it
}
