package maprunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/outcome"
	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/agent/maprunner/trees"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// executor runs commands; what each method promises is said at proc.Spawner.
type executor interface {
	Send(...proc.SpawnCommand) error
	Until(time.Duration)
	Drop()
	Kill(sig syscall.Signal, ids ...uint64)
	Close()
}

// processExecutor is a runner that starts a process for each command.
type processExecutor interface {
	executor
	Events() <-chan []proc.Spawned
}

var (
	_ processExecutor = (*proc.Spawner)(nil)
	_ processExecutor = (*trees.Executor)(nil)
	_ executor        = streamExecutor{}
)

// openedFor is what of its limits decides how items are run.
type openedFor struct {
	limits job.Limits
	open   bool // groups were opened for them
}

// plain says that items need no tree with limits of its own. Cores alone are kept
// to by the number of slots.
func plain(l job.Limits, gpus []string) bool {
	return l.Memory == 0 && l.Processes == 0 && gpus == nil
}

func (n openedFor) hasSameLimits(l job.Limits) bool {
	return n.open && n.limits.Memory == l.Memory && n.limits.Processes == l.Processes && n.limits.CPUs == l.CPUs
}

// slotGroups are the slots of this agent, in groups, and what runs in them.
type slotGroups struct {
	*shared
	attempts      *attempts
	files         *itemFiles
	uploads       *uploads
	warning       *warning
	groups        []*slotGroup  // none before all is prepared
	startDeadline time.Duration // what the groups were told last
	reports       chan report
}

// mustReopen says that the groups are to be opened, or opened anew as other limits bind (J2).
func (s *slotGroups) mustReopen() bool {
	return s.prepared != nil && s.order.Do == mapagent.Work && !s.openedFor.hasSameLimits(s.order.Limits)
}

// reopenGroups opens the groups for the limits that bind. Nothing runs.
func (s *slotGroups) reopenGroups(ctx context.Context) error {
	s.stopPassingOn()
	s.closeExecutors()
	s.groups, s.openedFor = nil, openedFor{s.order.Limits, true}
	n := min(runtime.GOMAXPROCS(0), s.Slots)
	if !plain(s.openedFor.limits, s.prepared.GPUs) || s.Job.Spec.Stream {
		n = 1
	}
	for i := range n {
		g := &slotGroup{all: s, slots: (s.Slots + n - 1 - i) / n}
		if err := g.startExecutor(ctx); err != nil {
			return err
		}
		s.groups = append(s.groups, g)
	}
	return nil
}

// stopPassingOn has no report passed on any more.
func (s *slotGroups) stopPassingOn() {
	for _, g := range s.groups {
		g.stopPassingOn()
	}
}

// closeExecutors ends all that runs.
func (s *slotGroups) closeExecutors() {
	for _, g := range s.groups {
		g.closeExecutor()
	}
}

// slotEnviron is what a program with a process tree of its own is told of its slot.
func (s *slotGroups) slotEnviron(n int) []string {
	env := []string{fmt.Sprintf("%s=%d", source.SlotVariable, n)}
	if s.prepared.GPUs != nil {
		env = append(env, "CUDA_VISIBLE_DEVICES="+s.prepared.GPUs[n])
	}
	return env
}

// groupWithMostRoom is the group that has most places for tries; nil: none has any.
func (s *slotGroups) groupWithMostRoom() (best *slotGroup) {
	if s.uploads.storing >= max(leastStoring, s.Slots) || s.uploads.uploadRoom() <= 0 {
		return nil
	}
	most := 0
	for _, g := range s.groups {
		if len(g.suspects) > 0 || g.soloTry != nil || g.useless {
			continue
		}
		if places := g.maxTriesSent() - g.running; places > most {
			best, most = g, places
		}
	}
	return best
}

// extendStartDeadline lets queued tries begin for as long as least, the least start deadline
// of their chunks, allows (M5): also when this process is stopped, nothing begins later.
func (s *slotGroups) extendStartDeadline(least time.Duration) {
	if least == 0 || least == s.startDeadline {
		return
	}
	s.startDeadline = least
	for _, g := range s.groups {
		g.executor.Until(least - s.bootTime())
	}
}

// recallFromStalled takes queued tries back from a group in which nothing has moved, so that
// they can be handed over: they are not as short as those before them.
func (s *slotGroups) recallFromStalled() {
	for _, g := range s.groups {
		if g.queued > 0 && g.soloTry == nil && (s.bootTime()-g.moved > stuckAfter || s.bootTime() > s.startDeadline) {
			g.executor.Drop()
			s.attempts.pace.NoteSlowTries()
		}
	}
}

// stuckAfter is longer than a slow store keeps the loop from hearing of an end.
const stuckAfter = 250 * time.Millisecond

// sendBatches sends what was put. A runner that is gone has it reported by its recorder.
func (s *slotGroups) sendBatches() error {
	for _, g := range s.groups {
		if len(g.batch) == 0 {
			continue
		}
		err := g.executor.Send(g.batch...)
		clear(g.batch) // the items' texts
		g.batch = g.batch[:0]
		if err != nil && !errors.Is(err, proc.ErrSpawnerLost) {
			return fmt.Errorf("start items: %w", err)
		}
	}
	return nil
}

// freePlaces is how many more tries the groups would take.
func (s *slotGroups) freePlaces() (n int) {
	for _, g := range s.groups {
		n += max(0, g.maxTriesSent()-g.running)
	}
	return n
}

// reopenLostGroup opens a group anew when its runner was killed, very likely by one of its items.
// They run again one at a time, and one that does it when alone has failed.
func (s *slotGroups) reopenLostGroup(ctx context.Context, g *slotGroup) error {
	trial := g.soloTry
	var suspects []*try
	for _, t := range s.attempts.tries {
		if t.group == g && !t.ended && !slices.Contains(g.suspects, t) {
			suspects = append(suspects, t)
		}
	}
	slices.SortFunc(suspects, func(a, b *try) int { return cmp.Compare(a.id, b.id) })
	if trial == nil && len(suspects) > 0 {
		s.Note(fmt.Sprintf("the supervisor of %d items was killed: they run again, one at a time", len(suspects)))
	}
	g.stopPassingOn()
	g.closeExecutor()
	for _, t := range suspects {
		s.attempts.noteBegun(t)
		switch {
		case t.discarded:
			s.attempts.handInResult(t)
		case t == trial:
			t.result = &protocol.Result{Item: t.Item, Failed: true, Code: outcome.Killed, Why: "it killed its supervisor", Ended: s.clock.Now().UnixMicro()}
			s.attempts.handInResult(t)
		default:
			s.attempts.assignTryID(t) // an end of it that is on its way means nothing any more
			g.suspects = append(g.suspects, t)
		}
	}
	return s.retryWhileFull(ctx, func() error { return g.startExecutor(ctx) })
}
