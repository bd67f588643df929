package maprunner

import (
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/proc"
)

// Some engines send SIGTERM to all processes of a machine at once. A try that ends by
// that has not failed: its item is given back with the others. It may be heard of a
// little before the signal is, so on such a machine a failure is believed a moment
// later.

// strikeTime is longer than an engine takes to signal all processes of a machine, and
// much shorter than a flush.
const strikeTime = 250 * time.Millisecond

// heldEnd is the end of a try that is not believed yet.
type heldEnd struct {
	try     *try
	end     proc.Spawned
	excerpt recorder.Excerpt
	until   time.Duration
}

// signalHitAll says whether all processes here have got SIGTERM.
func (c *mapRunner) signalHitAll() bool {
	select {
	case <-c.Struck:
		return true
	default:
		return false
	}
}

// holdBackEnd says that the end of a try is not passed on now.
func (c *mapRunner) holdBackEnd(t *try, e *proc.Spawned, s *recorder.Excerpt) bool {
	switch {
	case c.Struck == nil || t.discarded || e.Err != nil:
		return false
	case c.signalHitAll():
		t.discarded = true
		return false
	case e.Exit.Status() == 0:
		return false
	}
	d := heldEnd{try: t, end: *e, excerpt: *s, until: c.bootTime() + strikeTime}
	d.end.Data = nil // the buffer's
	c.heldEnds = append(c.heldEnds, d)
	return true
}

// releaseHeldBack passes on the ends that were doubted for long enough, or all. Those that the
// signal explains say nothing of their items.
func (c *mapRunner) releaseHeldBack(all bool) {
	for len(c.heldEnds) > 0 && (all || c.signalHitAll() || c.heldEnds[0].until <= c.bootTime()) {
		d := c.heldEnds[0]
		c.heldEnds[0] = heldEnd{}
		c.heldEnds = c.heldEnds[1:]
		d.try.discarded = d.try.discarded || c.signalHitAll() || !c.chunkIsOpen(d.try.chunk)
		c.passTryEnd(d.try, &d.end, &d.excerpt)
	}
}
