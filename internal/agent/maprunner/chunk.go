package maprunner

import (
	"context"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// chunk is a chunk of this agent, and what its items say, read ahead of it.
type chunk struct {
	list   *chunkList
	owned  *mapagent.OwnedChunk
	source *source.Source
	queued int  // of its tries, in executors and not begun
	over   bool // it is this agent's no more
	waits  *try // it waits for what its item says
	// Of items with files that are fetched before they begin.
	soon  map[int]*manifest.Item // what they say
	asked map[int]bool           // what they say is being read apart

	read  []manifest.Item // ahead, by number
	page  int             // how many of read are of the oldest page
	size  []int           // of the pages after it
	upto  int             // all numbers up to it were read
	whole bool            // and no more will be
	turns chan struct{}
	stop  context.CancelFunc
}

// page is some of the items of a chunk, read ahead; or what one try waits for.
type page struct {
	chunk *chunk
	items []manifest.Item
	last  bool
	try   *try // nil: read ahead
	one   int  // an item that is wanted soon; 0: read ahead, or for try
	err   error
}

// How far is read ahead, for each chunk: a few pages, which are short when items are
// long.
const (
	pagesAhead = 3
	pageItems  = 512
	pageBytes  = 1 << 20
)

// timeUntilFlush is how long until the chunk should be flushed: also when tries that were sent
// wait for a start deadline, which no chunk knows of.
func (w *chunk) timeUntilFlush(now time.Duration) time.Duration {
	due := w.owned.DueAt(now)
	if w.queued > 0 {
		due = min(due, max(0, w.owned.StartDeadline()-now))
	}
	return due
}

// stopReading ends the reading.
func (w *chunk) stopReading() { w.stop() }

// readAhead ends when all is read, or with ctx.
func (w *chunk) readAhead(ctx context.Context, spans protocol.Spans) {
	p, bytes := page{chunk: w}, 0
	pass := func() bool {
		select {
		case w.turns <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		select {
		case w.list.pages <- p:
		case <-ctx.Done():
			return false
		}
		p.items, bytes = nil, 0
		return true
	}
	for _, span := range spans {
		for it, err := range w.source.Range(ctx, span[0], span[1]) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				p.err = err
				pass()
				return
			}
			p.items, bytes = append(p.items, it), bytes+len(it.Text)
			if (len(p.items) == pageItems || bytes >= pageBytes) && !pass() {
				return
			}
		}
	}
	p.last = true
	pass()
}

// fetchItem reads the item of one try: it was read ahead before, and is not kept.
func (w *chunk) fetchItem(t *try) {
	if t.fetching {
		return
	}
	t.fetching = true
	w.list.goroutines.Go(func() {
		p := page{chunk: w, try: t}
		it, err := w.source.One(w.list.life, t.Item)
		p.items, p.err = []manifest.Item{it}, err
		select {
		case w.list.pages <- p:
		case <-w.list.life.Done():
		}
	})
}

// allowNextPage lets the next page be read for each that is used up.
func (w *chunk) allowNextPage() {
	for len(w.size) > 0 && w.page == 0 {
		w.page, w.size = w.size[0], w.size[1:]
		if w.page == 0 { // the last may be empty
			<-w.turns
		}
	}
}

// itemIfRead is what item n says; wait is true while that is still to be read ahead.
func (w *chunk) itemIfRead(n int) (it manifest.Item, found, wait bool) {
	for len(w.read) > 0 && w.read[0].N <= n {
		it = w.read[0]
		w.read[0] = manifest.Item{}
		w.read = w.read[1:]
		if w.page--; w.page == 0 {
			<-w.turns
			w.allowNextPage()
		}
		if it.N == n {
			return it, true, false
		}
	}
	return manifest.Item{}, false, len(w.read) == 0 && !w.whole && n > w.upto
}

// nextSendable is a try that can be sent; nil: there is none now. What is sent begins within
// the start deadline, or not at all: now may have been read a little before.
func (w *chunk) nextSendable(now time.Duration) (t *try, it manifest.Item) {
	if w.waits == nil {
		n, ok := w.owned.NextAt(now)
		if !ok {
			return nil, it
		}
		w.waits = w.list.attempts.registerTry(w, n)
	}
	t = w.waits
	if t.item != nil {
		it, t.item, w.waits = *t.item, nil, nil
		return t, it
	}
	if t.fetching {
		return nil, it
	}
	it, found, wait := w.itemIfRead(t.Item)
	switch {
	case found:
		w.waits = nil
		return t, it
	case !wait:
		w.fetchItem(t)
	}
	return nil, it
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
		w.list.goroutines.Go(func() { // ends with what is read, or with the map runner
			it, err := w.source.One(w.list.life, n)
			select {
			case w.list.pages <- page{chunk: w, one: n, items: []manifest.Item{it}, err: err}:
			case <-w.list.life.Done():
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
