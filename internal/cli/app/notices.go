package app

import (
	"context"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// watchStore reports from now on when the store does not answer; once for an invocation.
func (a *App) watchStore(ctx context.Context, c *drover.Client) {
	if a.Away == nil {
		return
	}
	a.Away.Start(ctx, func(ctx context.Context) {
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
	shown := a.Away.SetText(text)
	if len(instead) > 0 {
		text = instead[0]
	}
	if !shown {
		a.Note("note: %s", text)
	}
}
