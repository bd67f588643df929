package maprunner

import (
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/store"
)

// streamExecutor is a runner with commands that programs that stay answer: see package
// stream. A command's Stdin is the item as they are told it.
type streamExecutor struct {
	*stream.Runner
	all *slotGroups
}

func (s streamExecutor) Send(commands ...proc.SpawnCommand) error {
	items := make([]stream.Item, len(commands))
	for i, e := range commands {
		items[i] = stream.Item{ID: e.ID, N: int(recorder.ItemOf(e.ID)), Line: e.Stdin, Timeout: e.Timeout, Alone: s.all.attempts.tries[e.ID].N > 1}
	}
	s.Runner.Send(items...)
	return nil
}

func (s streamExecutor) Until(d time.Duration) { s.Runner.Until(store.System.Boot() + d) }

// passReports passes on what happens, as a recorder does: what programs print is recorded
// apart.
func (s streamExecutor) passReports(g *slotGroup, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	pass := func(r report) {
		select {
		case g.all.reports <- r:
		case <-quit:
		}
	}
	for batch := range s.Events() {
		r := report{group: g, told: batch, excerpts: make([]recorder.Excerpt, 0, len(batch)/2+1)}
		for i := range batch {
			if e := &batch[i]; e.Kind == stream.Ended {
				r.excerpts = append(r.excerpts, s.answerAsSaid(e))
			}
		}
		pass(r)
	}
	pass(report{group: g, gone: true, why: s.Err()})
}

// answerAsSaid is an answer as a recorder would say it.
func (s streamExecutor) answerAsSaid(e *stream.Event) recorder.Excerpt {
	value := stream.AnswerText(e.Value)
	all := recorder.Excerpt{Head: s.all.Redact.String(value), Size: len(value)}
	if end := e.End; end != nil {
		all.Final = end.Final
		if all.Last = end.Why; end.Exit != nil {
			all.Last = end.Last
		}
		if end.Failed && end.Exit != nil && end.Exit.Status() == 0 {
			all.Last = "the program ended without answering"
		}
		all.Last = recorder.OneLine(s.all.Redact.String(all.Last))
	}
	return all
}
