package maprunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/ledger/protocol"
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
		case g.all.reports <- r:
		case <-quit:
		}
	}
	for batch := range events {
		pass(report{group: g, batch: batch, excerpts: s.RecordBatch(batch)})
	}
	pass(report{group: g, gone: true})
}

// handleReport hears what a group has to report.
func (c *mapRunner) handleReport(ctx context.Context, r report) error {
	g, said := r.group, r.excerpts
	for i := range r.batch {
		e := &r.batch[i]
		if e.Kind == proc.SpawnedOutput {
			continue
		}
		t := c.attempts.tries[e.ID]
		c.attempts.noteBegun(t)
		switch e.Kind {
		case proc.SpawnedUnstarted:
			g.removeTry(t)
			c.attempts.removeUnsent(t)
		case proc.SpawnedEnded:
			g.removeTry(t)
			c.attempts.handleTryEnd(t, e, &said[0])
			said = said[1:]
		}
	}
	for i := range r.told {
		said = c.handleStreamEvent(g, &r.told[i], said)
	}
	g.moved = c.bootTime()
	switch {
	case r.why != nil:
		return c.endUselessJob(ctx, g, r.why)
	case r.gone:
		return c.groups.reopenLostGroup(ctx, g)
	}
	return nil
}

// endUselessJob ends the job: programs that stay do not get as far as to ask for an item,
// and would not with any other agent.
func (c *mapRunner) endUselessJob(ctx context.Context, g *slotGroup, why error) error {
	g.useless = true
	for _, t := range c.attempts.tries {
		if t.group == g && !t.ended { // sent after the last report
			c.attempts.noteBegun(t)
			g.removeTry(t)
			c.attempts.removeUnsent(t)
		}
	}
	reason, code := why.Error(), fault.Exit(why)
	var none *stream.ErrUseless
	if errors.As(why, &none) {
		code = none.Exit.Status()
		reason = fmt.Sprintf("%s (exit status %d)", cmp.Or(none.Last, none.Error()), code)
		if code == 0 {
			code, reason = fault.ExitItems, none.Error()+": does it use drover.items()?"
		}
	}
	c.nextPoll = 0
	return c.retryWhileFull(ctx, func() error {
		return c.member.Fail(ctx, protocol.Stop{Reason: recorder.OneLine(c.Redact.String(reason)), Code: code})
	})
}

// handleStreamEvent takes what a program that stays has to say of a try, as take does of processes.
func (c *mapRunner) handleStreamEvent(g *slotGroup, e *stream.Event, all []recorder.Excerpt) (rest []recorder.Excerpt) {
	t := c.attempts.tries[e.ID]
	c.attempts.noteBegun(t)
	switch e.Kind {
	case stream.Waits:
		t.began = false
		g.queued++
		t.chunk.queued++
	case stream.Unstarted:
		g.removeTry(t)
		c.attempts.removeUnsent(t)
	case stream.Ended:
		end := proc.Spawned{ID: e.ID, Kind: proc.SpawnedEnded, Ended: time.Unix(0, e.Ended), Output: [2]int64{int64(all[0].Size)}}
		end.Began = end.Ended.Add(-e.Took)
		if e.End != nil {
			end.Stopped = e.End.Stopped
			if e.End.Exit != nil {
				end.Exit = *e.End.Exit
			}
			if e.End.Failed && end.Exit.Status() == 0 {
				end.Exit.Code = 1
			}
		}
		g.removeTry(t)
		c.attempts.handleTryEnd(t, &end, &all[0])
		return all[1:]
	}
	return all
}
