package cli

import (
	"context"
	"strings"
	"sync"
	"time"

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

// end waits until nothing is said any more.
func (m *minding) end() {
	if m.quit != nil {
		m.quit()
		m.hands.Wait()
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
