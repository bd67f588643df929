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

// Minding reports that the store does not answer, and that it answers again: the command
// waits for it, and its user should know why.
type Minding struct {
	Hands sync.WaitGroup
	Quit  context.CancelFunc // nil: no store is watched

	Mu    sync.Mutex
	Block bool   // a block that is rewritten says it
	Text  string // what there is to say; "": nothing
}

// End waits until nothing is said any more.
func (m *Minding) End() {
	if m.Quit != nil {
		m.Quit()
		m.Hands.Wait()
	}
}

// show is for a block that is rewritten: it says how it stands from now on, until
// it is cleared.
func (m *Minding) show(block bool) (text string) {
	if m == nil {
		return ""
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Block = block
	return m.Text
}

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
