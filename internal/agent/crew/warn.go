package crew

import (
	"sync"
	"time"

	"github.com/drover-run/drover/internal/agent/crew/stream"
)

// word is what programs are told of their end, by the goroutine that hears of it first: the loop may be
// waiting for the store when the machine is about to go.
type word struct {
	mu    sync.Mutex
	text  string         // that stands; "": none
	stays *stream.Runner // of programs that stay; nil: there are none
}

// warnPrograms tells the programs that look for it that they should end. Those that stay are
// given nothing more: one that ends because it was told so is not started anew.
func (c *crew) warnPrograms(why string, left time.Duration) {
	w := &c.word
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text == why {
		return
	}
	w.text = why
	c.Warn(why, left)
	if w.stays != nil {
		w.stays.Wane()
	}
}

// withdrawWarning is for a job that has come back to life while we were here.
func (c *crew) withdrawWarning() {
	w := &c.word
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text == "" || c.leaving.Load() {
		return
	}
	w.text = ""
	c.Warn("", 0)
	c.needs.open = false // programs that were told of their end do not come back
}

// endStreamPrograms has the programs of a runner hear of their end, too late or not.
func (c *crew) endStreamPrograms(r *stream.Runner) {
	w := &c.word
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stays = r; w.text != "" {
		r.Wane()
	}
}

// gracePeriod is how long an item has from SIGTERM to SIGKILL.
func (c *crew) gracePeriod() time.Duration { return time.Duration(c.Job.Spec.Grace) }
