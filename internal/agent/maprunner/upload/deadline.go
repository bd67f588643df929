package upload

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrStopped is why outputs are not stored to their end: the job was stopped,
// and the grace that its items have is over.
var ErrStopped = errors.New("its outputs are not stored: the job was stopped")

// Deadline is the context in which outputs are stored: it ends some time after the
// job was stopped, and there is another one if the job comes back to life.
type Deadline struct {
	mu    sync.Mutex
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer // nil: the job is not stopped
}

// Open begins it anew, unless it goes on.
func (d *Deadline) Open(life context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx != nil && d.timer == nil {
		return
	}
	if d.timer != nil && d.timer.Stop() {
		d.timer = nil
		return
	}
	d.timer = nil
	d.ctx, d.end = context.WithCancelCause(life)
}

// EndAfter has it end after the grace that is left to what is stored.
func (d *Deadline) EndAfter(grace time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer == nil {
		end := d.end
		d.timer = time.AfterFunc(grace, func() { end(ErrStopped) })
	}
}

// End ends it for good; it is after the last uploader.
func (d *Deadline) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.end(nil)
}

// Context is what outputs are to be stored in.
func (d *Deadline) Context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}
