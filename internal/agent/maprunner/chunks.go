package maprunner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/ledger/mapagent"
)

// chunkList are the chunks that this agent owns, with their items read ahead.
type chunkList struct {
	*shared
	attempts  *attempts
	chunks    []*chunk
	manifests *source.Manifests // of the items
	pages     chan page
}

// startReading begins to read the items of a chunk.
func (l *chunkList) startReading(ctx context.Context, h *mapagent.OwnedChunk) (*chunk, error) {
	w := &chunk{list: l, owned: h, turns: make(chan struct{}, pagesAhead)}
	spans := h.Items()
	err := l.retryWhileFull(ctx, func() (err error) {
		w.source, err = l.manifests.SourceOfItem(ctx, l.member.Map(), spans[0][0])
		return err
	})
	if err != nil {
		return nil, err
	}
	ctx, w.stop = context.WithCancel(l.life)
	l.goroutines.Go(func() { w.readAhead(ctx, spans) })
	return w, nil
}

// openItems reads the index of the items, and the command.
func (l *chunkList) openItems(ctx context.Context, k Prepared) error {
	return l.retryWhileFull(ctx, func() (err error) {
		l.manifests = source.NewManifests(l.World.Store, l.Job, k.Args)
		_, err = l.manifests.SourceOfItem(ctx, l.member.Map(), 1)
		return err
	})
}

// addClaimed begins to read the chunks that the member has got; found says that there was one.
func (l *chunkList) addClaimed(ctx context.Context) (found bool, err error) {
	for _, h := range l.member.Owned() {
		if slices.ContainsFunc(l.chunks, func(w *chunk) bool { return w.owned == h }) {
			continue
		}
		w, err := l.startReading(ctx, h)
		if err != nil {
			return found, err
		}
		l.chunks, found = append(l.chunks, w), true
	}
	return found, nil
}

// acceptPage takes what was read.
func (l *chunkList) acceptPage(p page) error {
	w := p.chunk
	if p.err != nil {
		return p.err
	}
	if p.one > 0 {
		w.keepItemText(p.one, &p.items[0])
		return nil
	}
	if p.try != nil {
		p.try.item, p.try.fetching = &p.items[0], false
		return nil
	}
	if w.whole = p.last; len(p.items) > 0 {
		w.upto = p.items[len(p.items)-1].N
	}
	w.read = append(w.read, p.items...)
	w.size = append(w.size, len(p.items))
	w.allowNextPage()
	return nil
}

// itemsInStock is how many items the chunks could give once there are slots for them.
func (l *chunkList) itemsInStock() (n int) {
	for _, w := range l.chunks {
		n += w.owned.Waiting()
	}
	return n
}

// leastStartDeadline is the least start deadline of the chunks with queued tries; 0: none has any.
func (l *chunkList) leastStartDeadline() (least time.Duration) {
	for _, w := range l.chunks {
		if w.queued > 0 && (least == 0 || w.owned.StartDeadline() < least) {
			least = w.owned.StartDeadline()
		}
	}
	return least
}

// removeChunk forgets a chunk that is over.
func (l *chunkList) removeChunk(w *chunk) {
	w.stopReading()
	w.over = true
	l.chunks = slices.DeleteFunc(l.chunks, func(o *chunk) bool { return o == w })
}

// recordResults records what has ended. What it cannot, is for the release to try again.
func (l *chunkList) recordResults(ctx context.Context) {
	for _, w := range l.chunks {
		if err := w.owned.Record(ctx); err != nil {
			l.Log.Warn("results not recorded yet", "err", err)
		}
	}
}

// releaseChunks gives the chunks back, those that can be; asked: by a person.
func (l *chunkList) releaseChunks(ctx context.Context, asked bool) (err error) {
	for _, w := range l.chunks {
		err = errors.Join(err, w.owned.Release(ctx, asked))
	}
	return err
}
