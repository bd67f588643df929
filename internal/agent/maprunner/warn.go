package maprunner

import (
	"sync"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/stream"
)

// warning is what programs are told of their end, by the goroutine that hears of it first: the
// loop may be waiting for the store when the machine is about to go.
type warning struct {
	*shared
	mu       sync.Mutex
	text     string         // that stands; "": none
	programs *stream.Runner // of programs that stay; nil: there are none
}

// warnPrograms tells the programs that look for it that they should end. Those that stay are
// given nothing more: one that ends because it was told so is not started anew.
func (w *warning) warnPrograms(why string, left time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text == why {
		return
	}
	w.text = why
	w.WriteNotice(why, left)
	if w.programs != nil {
		w.programs.Retire()
	}
}

// withdrawWarning is for a job that has come back to life while this agent was here.
func (w *warning) withdrawWarning() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text == "" || w.leaving.Load() {
		return
	}
	w.text = ""
	w.WriteNotice("", 0)
	w.openedFor.open = false // programs that were told of their end do not come back
}

// endStreamPrograms has the programs of a runner hear of their end, too late or not.
func (w *warning) endStreamPrograms(r *stream.Runner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.programs = r; w.text != "" {
		r.Retire()
	}
}
