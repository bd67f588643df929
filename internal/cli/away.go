package cli

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/store"
)

// awayLeast is how long a store may do nothing before that is said: a request or two
// that wait their turn are no news.
const awayLeast = 10 * time.Second

// minding says, beside all else, that the store is away, and that it is back: what
// is typed waits for it, and whoever typed it would wonder.
type minding struct {
	hands sync.WaitGroup
	quit  context.CancelFunc // nil: nobody minds a store

	mu    sync.Mutex
	block bool   // a block that is rewritten says it
	text  string // what there is to say; "": nothing
}

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

// end waits until nothing is said any more.
func (m *minding) end() {
	if m.quit != nil {
		m.quit()
		m.hands.Wait()
	}
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

// show is for a block that is rewritten: it says how it stands from now on, until
// it is cleared.
func (m *minding) show(block bool) (text string) {
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.block = block
	return m.text
}

func awayText(since time.Time, last error) string {
	text := "the store has not answered since " + since.Local().Format("15:04:05") + "; trying again"
	if last == nil {
		return text
	}
	why := plainText(last.Error())
	for _, kind := range []error{store.ErrBusy, store.ErrUnclear} {
		why = strings.TrimSuffix(why, ": "+kind.Error())
	}
	return text + ": " + why
}
