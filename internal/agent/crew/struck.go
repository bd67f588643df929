package crew

import (
	"time"

	"github.com/drover-run/drover/internal/proc"
)

// Some engines send SIGTERM to all processes of a machine at once. A try that ends by
// that has not failed: its item is given back with the others. It may be heard of a
// little before the signal is, so on such a machine a failure is believed a moment
// later.

// strikeTime is longer than an engine takes to signal all processes of a machine, and
// much shorter than a flush.
const strikeTime = 250 * time.Millisecond

// doubt is the end of a try that is not believed yet.
type doubt struct {
	try   *try
	end   proc.Spawned
	said  said
	until time.Duration
}

// signalHitAll says whether all processes here have got SIGTERM.
func (c *crew) signalHitAll() bool {
	select {
	case <-c.Struck:
		return true
	default:
		return false
	}
}

// holdBackEnd says that the end of a try is not passed on now.
func (c *crew) holdBackEnd(t *try, e *proc.Spawned, s *said) bool {
	switch {
	case c.Struck == nil || t.void || e.Err != nil:
		return false
	case c.signalHitAll():
		t.void = true
		return false
	case e.Exit.Status() == 0:
		return false
	}
	d := doubt{try: t, end: *e, said: *s, until: c.bootTime() + strikeTime}
	d.end.Data = nil // the buffer's
	c.doubts = append(c.doubts, d)
	return true
}

// releaseHeldBack passes on the ends that were doubted for long enough, or all. Those that the
// signal explains say nothing of their items.
func (c *crew) releaseHeldBack(all bool) {
	for len(c.doubts) > 0 && (all || c.signalHitAll() || c.doubts[0].until <= c.bootTime()) {
		d := c.doubts[0]
		c.doubts[0] = doubt{}
		c.doubts = c.doubts[1:]
		d.try.void = d.try.void || c.signalHitAll() || !c.holdIsOpen(d.try.work)
		c.passTryEnd(d.try, &d.end, &d.said)
	}
}
