package maprunner

import (
	"context"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// leaveEarly is the way out before the end: what runs is ended, what was done recorded,
// and the chunks given back. What had ended by itself is recorded while the rest has its
// grace: the notice may not leave time for all of it.
func (c *mapRunner) leaveEarly(ctx context.Context) (status int, err error) {
	n := c.notice
	if status = fault.ExitLater; n.Asked || c.forGood {
		status = fault.ExitOK
	}
	c.Note("leaving: " + n.Why)
	c.CancelPreparation()
	c.ChangeHeartbeat(true, func(b *protocol.Heartbeat) { b.Phase, b.Asked = "leaving", n.Asked })
	c.order.Do = mapagent.Rest
	c.dispatch.recallQueued()
	all := func(*try) bool { return true }
	var sooner <-chan struct{}
	var late <-chan time.Time
	if first := n.FirstSignal(c.Job.Spec); first == 0 {
		c.dispatch.killTries(all)
	} else {
		c.dispatch.signalTries(first, all)
		sooner, late = c.Sooner, time.After(c.gracePeriod())
	}
	c.attempts.releaseHeldBack(true)
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for len(c.attempts.tries) > 0 {
		select {
		case <-quiet.C:
			c.chunks.recordResults(ctx)
		case <-sooner:
			sooner = nil
			c.dispatch.killTries(all)
		case <-late:
			c.dispatch.killTries(all)
		case r := <-c.groups.reports:
			err = c.handleReport(ctx, r)
		case s := <-c.uploads.stored:
			err = c.attempts.acceptUploaded(s)
		case p := <-c.chunks.pages:
			err = c.chunks.acceptPage(p)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return status, err
		}
	}
	if c.prepared != nil {
		c.NoteLeftovers()
	}
	if err := c.chunks.releaseChunks(ctx, n.Asked); err != nil {
		return status, err
	}
	c.progress.nextHeartbeat = 0
	c.progress.updateHeartbeat()
	return status, nil
}

// quietTime is longer than what had ended takes to be reported.
const quietTime = 100 * time.Millisecond
