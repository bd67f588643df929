package maprunner

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/agent/maprunner/trees"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/job"
)

// executor runs commands; what each method promises is said at proc.Spawner.
type executor interface {
	Send(...proc.Errand) error
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

// slotGroup is some of the slots, and what runs in them.
type slotGroup struct {
	c        *mapRunner
	slots    int
	executor executor
	quit     chan struct{} // closed by stopPassingOn: reports are not taken any more
	recorded chan struct{} // closed when the recorder has ended
	batch    []proc.Errand // to be sent
	running  int           // tries sent, or in batch, and not ended
	queued   int           // of these, not begun
	bytes    int           // of their items
	moved    time.Duration // when one of its tries last began or ended
	suspects []*try        // one of them has killed the runner: each runs alone now
	soloTry  *try          // the one that does
	useless  bool          // nothing can be run: the job fails
}

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

// reopenGroups opens the groups, and opens them anew when other limits bind (J2): once what
// runs by the old ones has ended.
func (c *mapRunner) reopenGroups(ctx context.Context) error {
	if c.prepared == nil || c.order.Do != mapagent.Work || c.openedFor.hasSameLimits(c.order.Limits) {
		return nil
	}
	if c.recallQueued(); len(c.tries) > 0 {
		return nil
	}
	for _, g := range c.groups {
		g.stopPassingOn()
		g.closeExecutor()
	}
	c.groups, c.openedFor = nil, openedFor{c.order.Limits, true}
	n := min(runtime.GOMAXPROCS(0), c.Slots)
	if !plain(c.openedFor.limits, c.prepared.GPUs) || c.Job.Spec.Stream {
		n = 1
	}
	for i := range n {
		g := &slotGroup{c: c, slots: (c.Slots + n - 1 - i) / n}
		if err := g.startExecutor(ctx); err != nil {
			return err
		}
		c.groups = append(c.groups, g)
	}
	return nil
}

// startExecutor starts the runner and its recorder.
func (g *slotGroup) startExecutor(ctx context.Context) (err error) {
	c, grace := g.c, g.c.gracePeriod()
	g.quit, g.recorded = make(chan struct{}), make(chan struct{})
	g.running, g.queued, g.bytes, g.soloTry, g.batch = 0, 0, 0, nil, nil
	g.moved, c.startDeadline = c.bootTime(), 0
	if c.Job.Spec.Stream {
		return g.startStreams(ctx)
	}
	var r processExecutor
	if plain(c.openedFor.limits, c.prepared.GPUs) {
		r, err = c.open(ctx, proc.SpawnerConfig{Slots: g.slots, Dir: c.prepared.Dir, Env: c.prepared.Environ, Token: c.Token, Grace: grace, MaxOutput: recorder.MaxOutput})
	} else {
		l := c.openedFor.limits
		r = trees.New(c.life, trees.Config{Slots: g.slots, Dir: c.prepared.Dir, Env: c.prepared.Environ, Token: c.Token, Grace: grace, Environ: c.slotEnviron, MaxOutput: recorder.MaxOutput, Memory: c.prepared.Memory,
			Limits: resource.Limits{CPUs: l.CPUs, Cores: c.prepared.Cores, Memory: int64(l.Memory), Processes: l.Processes}})
	}
	if err != nil {
		return fmt.Errorf("start items: %w", err)
	}
	g.executor = r
	go g.recordEvents(recorder.New(c.Out, c.Redact), r.Events(), g.quit, g.recorded) // closeExecutor waits for it
	return nil
}

// startStreams starts the programs that stay.
func (g *slotGroup) startStreams(ctx context.Context) error {
	c, l := g.c, g.c.openedFor.limits
	p := recorder.NewPrinter(c.Out, c.Redact)
	r, err := stream.Open(ctx, stream.Config{Slots: g.slots, Dir: c.Root, Grace: c.gracePeriod(), Print: p.PrintFrame, Environ: c.slotEnviron, Recycle: int64(l.Memory) / 10 * 9,
		Command: proc.Command{Path: c.prepared.Path, Args: append([]string{cmp.Or(c.prepared.Name, c.prepared.Path)}, c.prepared.Args...), Dir: c.prepared.Dir, Env: c.prepared.Environ, Token: c.Token,
			Limits: resource.Limits{CPUs: l.CPUs, Cores: c.prepared.Cores, Memory: int64(l.Memory), Processes: l.Processes}}})
	if err != nil {
		return fmt.Errorf("start programs: %w", err)
	}
	c.endStreamPrograms(r)
	s := streamExecutor{r, c}
	g.executor = s
	go s.passReports(g, g.quit, g.recorded) // close waits for it
	return nil
}

// slotEnviron is what a program with a process tree of its own is told of its slot.
func (c *mapRunner) slotEnviron(n int) []string {
	env := []string{fmt.Sprintf("%s=%d", source.SlotVariable, n)}
	if c.prepared.GPUs != nil {
		env = append(env, "CUDA_VISIBLE_DEVICES="+c.prepared.GPUs[n])
	}
	return env
}

// stopPassingOn has the recorder pass nothing on any more.
func (g *slotGroup) stopPassingOn() {
	if g.executor != nil {
		close(g.quit)
	}
}

// closeExecutor ends all that the group runs, and its recorder.
func (g *slotGroup) closeExecutor() {
	if g.executor != nil {
		g.executor.Close()
		<-g.recorded
	}
	g.executor = nil
}

// groupWithMostRoom is the group that has most places for tries; nil: none has any.
func (c *mapRunner) groupWithMostRoom() (best *slotGroup) {
	if c.storing >= max(leastStoring, c.Slots) || c.uploadRoom() <= 0 {
		return nil
	}
	most := 0
	for _, g := range c.groups {
		if len(g.suspects) > 0 || g.soloTry != nil || g.useless {
			continue
		}
		if places := g.maxTriesSent() - g.running; places > most {
			best, most = g, places
		}
	}
	return best
}

// maxTriesSent is how many tries the group may have been sent at once.
func (g *slotGroup) maxTriesSent() int {
	n := g.maxConcurrent()
	if bulk := g.c.usualBytes; bulk > 0 { // what begins leaves as much, and waits to be stored
		n = max(g.slots, int(min(int64(n), g.c.uploadRoom()/bulk)))
	}
	return n
}

func (g *slotGroup) maxConcurrent() int {
	if g.bytes > manyBytes {
		return g.slots // a runner keeps what it is sent in memory
	}
	if g.c.cache != nil {
		return min(g.c.pace.processWindow(g.slots), ahead(g.slots)) // each has files here
	}
	if g.c.Job.Spec.Stream {
		return g.c.pace.streamWindow(g.slots)
	}
	return g.c.pace.processWindow(g.slots)
}

// manyBytes of items are more than short items come to.
const manyBytes = 8 << 20

// leastStoring tries may wait for their outputs to be stored before no more begin.
const leastStoring = 64

// extendStartDeadline lets queued tries begin for as long as the least start deadline of their chunks
// (M5): also when this process is stopped, nothing begins later.
func (c *mapRunner) extendStartDeadline() {
	var least time.Duration
	for _, w := range c.chunks {
		if w.queued > 0 && (least == 0 || w.owned.StartDeadline() < least) {
			least = w.owned.StartDeadline()
		}
	}
	if least == 0 || least == c.startDeadline {
		return
	}
	c.startDeadline = least
	for _, g := range c.groups {
		g.executor.Until(least - c.bootTime())
	}
}

// recallQueued takes back what has not begun.
func (c *mapRunner) recallQueued() {
	if t := c.alone; t != nil {
		c.alone = nil
		c.returnTry(t)
	}
	for _, t := range c.waiting {
		c.returnTry(t)
	}
	c.waiting = nil
	for _, w := range c.chunks {
		if t := w.waits; t != nil {
			w.waits = nil
			c.returnTry(t)
		}
	}
	for _, g := range c.groups {
		for _, t := range g.suspects {
			c.returnTry(t)
		}
		if g.suspects = nil; g.queued > 0 {
			g.executor.Drop()
		}
	}
}

// recallFromStalled takes queued tries back from a group in which nothing has moved, so that
// they can be handed over: they are not as short as those before them.
func (c *mapRunner) recallFromStalled() {
	for _, g := range c.groups {
		if g.queued > 0 && g.soloTry == nil && (c.bootTime()-g.moved > stuckAfter || c.bootTime() > c.startDeadline) {
			g.executor.Drop()
			c.pace.noteSlowTries()
		}
	}
}

// stuckAfter is longer than a slow store keeps the loop from hearing of an end.
const stuckAfter = 250 * time.Millisecond

// killTries ends those of the tries that are chosen and run; what is only waiting is
// forgotten. Their holds are over, or will say that they were interrupted.
func (c *mapRunner) killTries(chosen func(*try) bool) { c.signalTries(syscall.SIGTERM, chosen) }

// signalTries is kill that begins with another signal than SIGTERM, and leaves the rest to a
// later kill.
func (c *mapRunner) signalTries(sig syscall.Signal, chosen func(*try) bool) {
	doomed := map[*slotGroup][]uint64{}
	for id, t := range c.tries {
		if t.discarded && !t.signalled || t.ended || !chosen(t) {
			continue
		}
		t.signalled = sig != syscall.SIGTERM
		if t.group == nil || slices.Contains(t.group.suspects, t) {
			c.forgetTry(t)
			continue
		}
		t.discarded = true
		doomed[t.group] = append(doomed[t.group], id)
	}
	for g, ids := range doomed {
		g.executor.Kill(sig, ids...)
	}
}

// forgetTry drops a try that is in no runner.
func (c *mapRunner) forgetTry(t *try) {
	delete(c.tries, t.id)
	c.removeFiles(t)
	c.waiting = slices.DeleteFunc(c.waiting, func(o *try) bool { return o == t })
	if c.alone == t {
		c.alone = nil
	}
	if t.chunk.waits == t {
		t.chunk.waits = nil
	}
	if g := t.group; g != nil {
		g.suspects = slices.DeleteFunc(g.suspects, func(o *try) bool { return o == t })
	}
}
