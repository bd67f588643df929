package app

import (
	"context"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// watchStore begins; once for an invocation.
func (a *App) watchStore(ctx context.Context, c *drover.Client) {
	if a.Away == nil || a.Away.Quit != nil {
		return
	}
	ctx, a.Away.Quit = context.WithCancel(context.WithoutCancel(ctx)) // also while a command that was told to stop waits
	a.Away.Hands.Go(func() {
		c.MindStore(ctx, progress.AwayLeast, func(length time.Duration, last error) {
			a.NoteStoreAway(progress.AwayText(time.Now().Add(-length), last))
		}, func(length time.Duration) {
			a.NoteStoreAway("", "the store answers again, after "+terminal.Span(length))
		})
	})
}

// NoteStoreAway notes how it stands, and prints that unless a block does; else is printed
// in its place.
func (a *App) NoteStoreAway(text string, instead ...string) {
	m := a.Away
	m.Mu.Lock()
	m.Text = text
	block := m.Block
	m.Mu.Unlock()
	if len(instead) > 0 {
		text = instead[0]
	}
	if !block {
		a.Note("note: %s", text)
	}
}
