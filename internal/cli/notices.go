package cli

import (
	"context"
	"time"

	"github.com/drover-run/drover/drover"
)

// watchStore begins; once for an invocation.
func (a *app) watchStore(ctx context.Context, c *drover.Client) {
	if a.away == nil || a.away.quit != nil {
		return
	}
	ctx, a.away.quit = context.WithCancel(context.WithoutCancel(ctx)) // while who was told to stop waits, too
	a.away.hands.Go(func() {
		c.MindStore(ctx, awayLeast, func(length time.Duration, last error) {
			a.noteStoreAway(awayText(time.Now().Add(-length), last))
		}, func(length time.Duration) { a.noteStoreAway("", "the store answers again, after "+span(length)) })
	})
}

// noteStoreAway notes how it stands, and prints that unless a block does; else is printed
// in its place.
func (a *app) noteStoreAway(text string, instead ...string) {
	m := a.away
	m.mu.Lock()
	m.text = text
	block := m.block
	m.mu.Unlock()
	if len(instead) > 0 {
		text = instead[0]
	}
	if !block {
		a.note("note: %s", text)
	}
}
