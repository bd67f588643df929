package maprunner

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/agent/maprunner/trees"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/resource"
)

// slotGroup is some of the slots, and what runs in them.
type slotGroup struct {
	all      *slotGroups
	slots    int
	executor executor
	quit     chan struct{}       // closed by stopPassingOn: reports are not taken any more
	recorded chan struct{}       // closed when the recorder has ended
	batch    []proc.SpawnCommand // to be sent
	running  int                 // tries sent, or in batch, and not ended
	queued   int                 // of these, not begun
	bytes    int                 // of their items
	moved    time.Duration       // when one of its tries last began or ended
	suspects []*try              // one of them has killed the runner: each runs alone now
	soloTry  *try                // the one that does
	useless  bool                // nothing can be run: the job fails
}

// startExecutor starts the runner and its recorder.
func (g *slotGroup) startExecutor(ctx context.Context) (err error) {
	c, grace := g.all, g.all.gracePeriod()
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
	c, l := g.all, g.all.openedFor.limits
	p := recorder.NewPrinter(c.Out, c.Redact)
	r, err := stream.Open(ctx, stream.Config{Slots: g.slots, Dir: c.Root, Grace: c.gracePeriod(), Print: p.PrintFrame, Environ: c.slotEnviron, Recycle: int64(l.Memory) / 10 * 9,
		Command: proc.Command{Path: c.prepared.Path, Args: append([]string{cmp.Or(c.prepared.Name, c.prepared.Path)}, c.prepared.Args...), Dir: c.prepared.Dir, Env: c.prepared.Environ, Token: c.Token,
			Limits: resource.Limits{CPUs: l.CPUs, Cores: c.prepared.Cores, Memory: int64(l.Memory), Processes: l.Processes}}})
	if err != nil {
		return fmt.Errorf("start programs: %w", err)
	}
	c.warning.endStreamPrograms(r)
	s := streamExecutor{r, c}
	g.executor = s
	go s.passReports(g, g.quit, g.recorded) // close waits for it
	return nil
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

// maxTriesSent is how many tries the group may have been sent at once.
func (g *slotGroup) maxTriesSent() int {
	n := g.maxConcurrent()
	if bulk := g.all.uploads.usualBytes; bulk > 0 { // what begins leaves as much, and waits to be stored
		n = max(g.slots, int(min(int64(n), g.all.uploads.uploadRoom()/bulk)))
	}
	return n
}

func (g *slotGroup) maxConcurrent() int {
	if g.bytes > manyBytes {
		return g.slots // a runner keeps what it is sent in memory
	}
	if g.all.files.cache != nil {
		return min(g.all.attempts.pace.ProcessWindow(g.slots), ahead(g.slots)) // each has files here
	}
	if g.all.Job.Spec.Stream {
		return g.all.attempts.pace.StreamWindow(g.slots)
	}
	return g.all.attempts.pace.ProcessWindow(g.slots)
}

// manyBytes of items are more than short items come to.
const manyBytes = 8 << 20

// leastStoring tries may wait for their outputs to be stored before no more begin.
const leastStoring = 64

// removeTry counts a try out that has ended, or that the executor gave back.
func (g *slotGroup) removeTry(t *try) {
	g.running--
	g.bytes -= t.size
	if g.soloTry == t {
		g.soloTry = nil
	}
}
