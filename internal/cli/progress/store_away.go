package progress

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/store"
)

// AwayLeast is how long a store may do nothing before that is said: a request or two
// that wait their turn are no news.
const AwayLeast = 10 * time.Second

// StoreWatch reports that the store does not answer, and that it answers again: the command
// waits for it, and its user should know why.
type StoreWatch struct {
	watching sync.WaitGroup
	quit     context.CancelFunc // nil: no store is watched

	mu    sync.Mutex
	block bool   // a block that is rewritten says it
	text  string // what there is to say; "": nothing
}

// Start runs watch in the background, until End; once. It goes on while a command that was
// told to stop waits for the store.
func (m *StoreWatch) Start(ctx context.Context, watch func(ctx context.Context)) {
	if m.quit != nil {
		return
	}
	ctx, m.quit = context.WithCancel(context.WithoutCancel(ctx))
	m.watching.Go(func() { watch(ctx) })
}

// SetText sets what there is to say of the store, "" for nothing, and reports whether a
// block that is rewritten shows it.
func (m *StoreWatch) SetText(text string) (shown bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = text
	return m.block
}

// End waits until nothing is said any more.
func (m *StoreWatch) End() {
	if m.quit != nil {
		m.quit()
		m.watching.Wait()
	}
}

// storeLine is for a block that is rewritten: it says how it stands from now on, until
// it is cleared.
func (m *StoreWatch) storeLine(block bool) (text string) {
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.block = block
	return m.text
}

// AwayText says since when the store has not answered, and why.
func AwayText(since time.Time, last error) string {
	text := "the store has not answered since " + since.Local().Format("15:04:05") + "; trying again"
	if last == nil {
		return text
	}
	why := terminal.PlainText(last.Error())
	for _, kind := range []error{store.ErrBusy, store.ErrUnclear} {
		why = strings.TrimSuffix(why, ": "+kind.Error())
	}
	return text + ": " + why
}
