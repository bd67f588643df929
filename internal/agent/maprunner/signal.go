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

// holdBackEnd says that the end of a try is not passed on now.
func (a *attempts) holdBackEnd(t *try, e *proc.Spawned, s *recorder.Excerpt) bool {
	switch {
	case a.Struck == nil || t.discarded || e.Err != nil:
		return false
	case a.signalHitAll():
		t.discarded = true
		return false
	case e.Exit.Status() == 0:
		return false
	}
	d := heldEnd{try: t, end: *e, excerpt: *s, until: a.bootTime() + strikeTime}
	d.end.Data = nil // the buffer's
	a.heldEnds = append(a.heldEnds, d)
	return true
}

// releaseHeldBack passes on the ends that were doubted for long enough, or all. Those that the
// signal explains say nothing of their items.
func (a *attempts) releaseHeldBack(all bool) {
	for len(a.heldEnds) > 0 && (all || a.signalHitAll() || a.heldEnds[0].until <= a.bootTime()) {
		d := a.heldEnds[0]
		a.heldEnds[0] = heldEnd{}
		a.heldEnds = a.heldEnds[1:]
		d.try.discarded = d.try.discarded || a.signalHitAll() || d.try.chunk.over
		a.passTryEnd(d.try, &d.end, &d.excerpt)
	}
}
