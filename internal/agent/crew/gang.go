package crew

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/agent/crew/stream"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// runner runs errands; what each method promises is said at proc.Spawner.
type runner interface {
	Send(...proc.Errand) error
	Until(time.Duration)
	Drop()
	Kill(sig syscall.Signal, ids ...uint64)
	Close()
}

// starter is a runner that starts a process for each errand.
type starter interface {
	runner
	Events() <-chan []proc.Spawned
}

var (
	_ starter = (*proc.Spawner)(nil)
	_ starter = (*minders)(nil)
	_ runner  = streams{}
)

// gang is some of the slots, and what runs in them.
type gang struct {
	c        *crew
	slots    int
	runner   runner
	quit     chan struct{} // closed by stopPassingOn: reports are not taken any more
	scribed  chan struct{} // closed when the scribe has ended
	batch    []proc.Errand // to be sent
	flight   int           // tries sent, or in batch, and not ended
	queued   int           // of these, not begun
	bytes    int           // of their items
	moved    time.Duration // when one of its tries last began or ended
	suspects []*try        // one of them has killed the runner: each runs alone now
	trial    *try          // the one that does
	useless  bool          // nothing can be run: the job fails
}

// needs is what of its limits decides how items are run.
type needs struct {
	limits job.Limits
	open   bool // gangs were opened for them
}

// plain says that items need no tree with limits of its own. Cores alone are kept
// to by the number of slots.
func plain(l job.Limits, gpus []string) bool {
	return l.Memory == 0 && l.Processes == 0 && gpus == nil
}

func (n needs) hasSameLimits(l job.Limits) bool {
	return n.open && n.limits.Memory == l.Memory && n.limits.Processes == l.Processes && n.limits.CPUs == l.CPUs
}

// reopenGangs opens the gangs, and opens them anew when other limits bind (J2): once what
// runs by the old ones has ended.
func (c *crew) reopenGangs(ctx context.Context) error {
	if c.kit == nil || c.order.Do != mapagent.Work || c.needs.hasSameLimits(c.order.Limits) {
		return nil
	}
	if c.recallQueued(); len(c.tries) > 0 {
		return nil
	}
	for _, g := range c.gangs {
		g.stopPassingOn()
		g.closeRunner()
	}
	c.gangs, c.needs = nil, needs{c.order.Limits, true}
	n := min(runtime.GOMAXPROCS(0), c.Slots)
	if !plain(c.needs.limits, c.kit.GPUs) || c.Job.Spec.Stream {
		n = 1
	}
	for i := range n {
		g := &gang{c: c, slots: (c.Slots + n - 1 - i) / n}
		if err := g.openRunner(ctx); err != nil {
			return err
		}
		c.gangs = append(c.gangs, g)
	}
	return nil
}

// openRunner starts the runner and its scribe.
func (g *gang) openRunner(ctx context.Context) (err error) {
	c, grace := g.c, g.c.gracePeriod()
	g.quit, g.scribed = make(chan struct{}), make(chan struct{})
	g.flight, g.queued, g.bytes, g.trial, g.batch = 0, 0, 0, nil, nil
	g.moved, c.licensed = c.bootTime(), 0
	if c.Job.Spec.Stream {
		return g.openStreams(ctx)
	}
	var r starter
	if plain(c.needs.limits, c.kit.GPUs) {
		r, err = c.open(ctx, proc.SpawnerConfig{Slots: g.slots, Dir: c.kit.Dir, Env: c.kit.Environ, Token: c.Token, Grace: grace, MaxOutput: maxOutput})
	} else {
		l := c.needs.limits
		r = newMinders(c.life, minderConfig{slots: g.slots, dir: c.kit.Dir, env: c.kit.Environ, token: c.Token, grace: grace, gpus: c.kit.GPUs, room: c.kit.Memory,
			limits: proc.Limits{CPUs: l.CPUs, Cores: c.kit.Cores, Memory: int64(l.Memory), Processes: l.Processes}})
	}
	if err != nil {
		return fmt.Errorf("start items: %w", err)
	}
	g.runner = r
	go newScribe(c.Out, c.Redact).recordEvents(g, r.Events(), g.quit, g.scribed) // close waits for it
	return nil
}

// openStreams starts the programs that stay.
func (g *gang) openStreams(ctx context.Context) error {
	c, l := g.c, g.c.needs.limits
	p := &printer{c: c, streams: map[[2]int]*voice{}}
	r, err := stream.Open(ctx, stream.Config{Seats: g.slots, Dir: c.Root, Grace: c.gracePeriod(), Print: p.printFrame, Environ: c.seatEnviron, Recycle: int64(l.Memory) / 10 * 9,
		Command: proc.Command{Path: c.kit.Path, Args: append([]string{cmp.Or(c.kit.Name, c.kit.Path)}, c.kit.Args...), Dir: c.kit.Dir, Env: c.kit.Environ, Token: c.Token,
			Limits: proc.Limits{CPUs: l.CPUs, Cores: c.kit.Cores, Memory: int64(l.Memory), Processes: l.Processes}}})
	if err != nil {
		return fmt.Errorf("start programs: %w", err)
	}
	c.endStreamPrograms(r)
	s := streams{r, c}
	g.runner = s
	go s.passReports(g, g.quit, g.scribed) // close waits for it
	return nil
}

// seatEnviron is what a program that stays is told of its slot.
func (c *crew) seatEnviron(n int) []string {
	env := []string{fmt.Sprintf("%s=%d", slotVariable, n)}
	if c.kit.GPUs != nil {
		env = append(env, "CUDA_VISIBLE_DEVICES="+c.kit.GPUs[n])
	}
	return env
}

// stopPassingOn has the scribe pass nothing on any more.
func (g *gang) stopPassingOn() {
	if g.runner != nil {
		close(g.quit)
	}
}

// closeRunner ends all that the gang runs, and its scribe.
func (g *gang) closeRunner() {
	if g.runner != nil {
		g.runner.Close()
		<-g.scribed
	}
	g.runner = nil
}

// gangWithMostRoom is the gang that has most places for tries; nil: none has any.
func (c *crew) gangWithMostRoom() (best *gang) {
	if c.storing >= max(leastStoring, c.Slots) || c.waitingCargo() <= 0 {
		return nil
	}
	most := 0
	for _, g := range c.gangs {
		if len(g.suspects) > 0 || g.trial != nil || g.useless {
			continue
		}
		if places := g.maxTriesSent() - g.flight; places > most {
			best, most = g, places
		}
	}
	return best
}

// maxTriesSent is how many tries the gang may have been sent at once.
func (g *gang) maxTriesSent() int {
	n := g.maxConcurrent()
	if bulk := g.c.bulk; bulk > 0 { // what begins leaves as much, and waits to be stored
		n = max(g.slots, int(min(int64(n), g.c.waitingCargo()/bulk)))
	}
	return n
}

func (g *gang) maxConcurrent() int {
	if g.bytes > manyBytes {
		return g.slots // a runner keeps what it is sent in memory
	}
	if g.c.larder != nil {
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

// extendStartDeadline lets queued tries begin for as long as the least licence of their holds
// (M5): also when this process is stopped, nothing begins later.
func (c *crew) extendStartDeadline() {
	var least time.Duration
	for _, w := range c.works {
		if w.queued > 0 && (least == 0 || w.hold.StartDeadline() < least) {
			least = w.hold.StartDeadline()
		}
	}
	if least == 0 || least == c.licensed {
		return
	}
	c.licensed = least
	for _, g := range c.gangs {
		g.runner.Until(least - c.bootTime())
	}
}

// recallQueued takes back what has not begun.
func (c *crew) recallQueued() {
	if t := c.lone; t != nil {
		c.lone = nil
		c.returnTry(t)
	}
	for _, t := range c.waiting {
		c.returnTry(t)
	}
	c.waiting = nil
	for _, w := range c.works {
		if t := w.waits; t != nil {
			w.waits = nil
			c.returnTry(t)
		}
	}
	for _, g := range c.gangs {
		for _, t := range g.suspects {
			c.returnTry(t)
		}
		if g.suspects = nil; g.queued > 0 {
			g.runner.Drop()
		}
	}
}

// recallFromStalled takes queued tries back from a gang in which nothing has moved, so that
// they can be handed over: they are not as short as those before them.
func (c *crew) recallFromStalled() {
	for _, g := range c.gangs {
		if g.queued > 0 && g.trial == nil && (c.bootTime()-g.moved > stuckAfter || c.bootTime() > c.licensed) {
			g.runner.Drop()
			c.pace.noteSlowTries()
		}
	}
}

// stuckAfter is longer than a slow store keeps the loop from hearing of an end.
const stuckAfter = 250 * time.Millisecond

// killTries ends those of the tries that are chosen and run; what is only waiting is
// forgotten. Their holds are over, or will say that they were interrupted.
func (c *crew) killTries(chosen func(*try) bool) { c.signalTries(syscall.SIGTERM, chosen) }

// signalTries is kill that begins with another signal than SIGTERM, and leaves the rest to a
// later kill.
func (c *crew) signalTries(sig syscall.Signal, chosen func(*try) bool) {
	doomed := map[*gang][]uint64{}
	for id, t := range c.tries {
		if t.void && !t.signalled || t.ended || !chosen(t) {
			continue
		}
		t.signalled = sig != syscall.SIGTERM
		if t.gang == nil || slices.Contains(t.gang.suspects, t) {
			c.forgetTry(t)
			continue
		}
		t.void = true
		doomed[t.gang] = append(doomed[t.gang], id)
	}
	for g, ids := range doomed {
		g.runner.Kill(sig, ids...)
	}
}

// forgetTry drops a try that is in no runner.
func (c *crew) forgetTry(t *try) {
	delete(c.tries, t.id)
	c.removeFiles(t)
	c.waiting = slices.DeleteFunc(c.waiting, func(o *try) bool { return o == t })
	if c.lone == t {
		c.lone = nil
	}
	if t.work.waits == t {
		t.work.waits = nil
	}
	if g := t.gang; g != nil {
		g.suspects = slices.DeleteFunc(g.suspects, func(o *try) bool { return o == t })
	}
}
