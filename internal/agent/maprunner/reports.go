package maprunner

import (
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/proc"
)

// report is a batch of a group's events with their output recorded.
type report struct {
	group    *slotGroup
	batch    []proc.Spawned
	told     []stream.Event     // instead of batch, of programs that stay
	excerpts []recorder.Excerpt // by those of either that tell of an end
	gone     bool               // the runner is; nothing follows
	why      error              // of programs that stay: nothing can be run; nil: it was lost, or closed
}

// recordEvents ends with the executor's events; then it closes done. It waits when the
// store is slow, and the programs with it; the loop, which takes the reports until quit is
// closed, does not.
func (g *slotGroup) recordEvents(s *recorder.Recorder, events <-chan []proc.Spawned, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	pass := func(r report) {
		select {
		case g.c.reports <- r:
		case <-quit:
		}
	}
	for batch := range events {
		pass(report{group: g, batch: batch, excerpts: s.RecordBatch(batch)})
	}
	pass(report{group: g, gone: true})
}
