package maprunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/prefetch"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
)

// try is one try of an item, from when its chunk gave it until its result is known.
type try struct {
	mapagent.Try
	id        uint64
	chunk     *chunk
	group     *slotGroup     // nil: it was not sent
	item      *manifest.Item // what it says, when it had to be fetched apart
	fetching  bool
	size      int // of its text, while it is sent
	began     bool
	ended     bool // its program has ended
	signalled bool // it has got the stop signal, and SIGTERM may follow
	discarded bool // we have it ended: its end says nothing of the item, unless that had come before

	share       *prefetch.Share // the files that it was promised; nil: none, or they are gone
	timeout     time.Duration
	outputBytes int64            // bytes of its outputs, while they are stored
	staging     string           // folder of its outputs; "": none are declared
	outs        []string         // their names
	result      *protocol.Result // of one with outputs, while they are stored
}

// fillGroups hands as many tries to the groups as they have places for.
func (c *mapRunner) fillGroups(ctx context.Context) error {
	if c.order.Do != mapagent.Work || c.prepared == nil || !c.openedFor.hasSameLimits(c.order.Limits) || c.bootTime() < c.pauseUntil || c.leaving.Load() || c.signalHitAll() {
		return nil
	}
	c.requestFiles()
	if err := c.runSuspects(ctx); err != nil {
		return err
	}
	for now := c.bootTime(); ; {
		g := c.groupWithMostRoom()
		if g == nil || c.alone != nil && len(c.tries) > 1 {
			break
		}
		t, it := c.nextSendable(now)
		if t == nil {
			break
		}
		if t.Alone && len(c.tries) > 1 { // of another chunk, that is over, something has yet to end
			waits := it
			c.alone, t.item = t, &waits
			break
		}
		if err := c.putInGroup(ctx, g, t, it); err != nil {
			return err
		}
	}
	c.requestFiles() // what was taken from the front is no longer among the next ones
	return c.sendBatches()
}

// nextSendable is a try that can be sent, and its item; nil: there is none now.
func (c *mapRunner) nextSendable(now time.Duration) (t *try, it manifest.Item) {
	if t = c.alone; t != nil {
		c.alone = nil
		return t, *t.item
	}
	if c.cache != nil {
		return c.nextWithFiles()
	}
	for _, w := range c.chunks {
		if t, it = w.nextSendable(now); t != nil {
			return t, it
		}
	}
	return nil, it
}

// registerTry registers a try that a chunk has given.
func (c *mapRunner) registerTry(w *chunk, n mapagent.Try) *try {
	t := &try{Try: n, chunk: w}
	c.assignTryID(t)
	return t
}

// assignTryID gives a try a command's id of its own: the item's number, for the recorder,
// and what makes it unique.
func (c *mapRunner) assignTryID(t *try) {
	delete(c.tries, t.id)
	c.serial++
	t.id = recorder.CommandID(t.Item, c.serial)
	c.tries[t.id] = t
}

// putInGroup gives a try to a group. One that cannot be run has failed.
func (c *mapRunner) putInGroup(ctx context.Context, g *slotGroup, t *try, it manifest.Item) error {
	if t.share != nil && t.share.Err != nil {
		return c.failUnfetched(t)
	}
	e, err := c.tryCommand(ctx, t, it)
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Invalid:
		c.recordUnfit(t, err)
		return nil
	default:
		return err
	}
	t.group, t.item, t.began, t.size = g, nil, false, len(it.Text)
	g.bytes += t.size
	g.running++
	g.queued++
	t.chunk.queued++
	g.batch = append(g.batch, e)
	return nil
}

// recordUnfit records that an item cannot be run as it is.
func (c *mapRunner) recordUnfit(t *try, err error) {
	delete(c.tries, t.id)
	c.removeFiles(t)
	t.chunk.owned.Done(protocol.Result{Item: t.Item, Failed: true, Code: notExecutable, Why: c.Redact.String(recorder.OneLine(err.Error())),
		Ended: c.clock.Now().UnixMicro()})
}

// notExecutable is what a shell says of what it cannot run.
const notExecutable = 126

// sendBatches sends what was put. A runner that is gone has it reported by its recorder.
func (c *mapRunner) sendBatches() error {
	for _, g := range c.groups {
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

// runSuspects runs the suspects of each group, one at a time.
func (c *mapRunner) runSuspects(ctx context.Context) error {
	for _, g := range c.groups {
		if g.soloTry != nil || len(g.suspects) == 0 || g.running > 0 {
			continue
		}
		t := g.suspects[0]
		if t.item == nil {
			t.chunk.fetchItem(t)
			continue
		}
		g.suspects, g.soloTry = g.suspects[1:], t
		if err := c.putInGroup(ctx, g, t, *t.item); err != nil {
			return err
		}
		if c.tries[t.id] == nil { // it could not be run
			g.soloTry = nil
		}
	}
	return nil
}

// returnTry gives a try that never began back to its chunk.
func (c *mapRunner) returnTry(t *try) {
	delete(c.tries, t.id)
	if t.share != nil {
		c.cache.Return(t.share)
		t.share = nil
	}
	t.chunk.owned.Back(t.Item)
}

// removeUnsent takes a try out that its runner did not begin.
func (c *mapRunner) removeUnsent(t *try) {
	if t.discarded && !c.chunkIsOpen(t.chunk) {
		c.handInResult(t)
		return
	}
	c.returnTry(t)
}

// chunkIsOpen says whether a chunk is not over.
func (c *mapRunner) chunkIsOpen(w *chunk) bool { return slices.Contains(c.chunks, w) }

// handleReport hears what a group has to report.
func (c *mapRunner) handleReport(ctx context.Context, r report) error {
	g, said := r.group, r.excerpts
	for i := range r.batch {
		e := &r.batch[i]
		if e.Kind == proc.SpawnedOutput {
			continue
		}
		t := c.tries[e.ID]
		c.noteBegun(t)
		switch e.Kind {
		case proc.SpawnedUnstarted:
			g.removeTry(t)
			c.removeUnsent(t)
		case proc.SpawnedEnded:
			g.removeTry(t)
			c.handleTryEnd(t, e, &said[0])
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
		return c.reopenLostGroup(ctx, g)
	}
	return nil
}

// noteBegun notes that a try waits no longer in its runner.
func (c *mapRunner) noteBegun(t *try) {
	if !t.began {
		t.began = true
		t.group.queued--
		t.chunk.queued--
	}
}

func (g *slotGroup) removeTry(t *try) {
	g.running--
	g.bytes -= t.size
	if g.soloTry == t {
		g.soloTry = nil
	}
}

// handleTryEnd takes the end of a try, and passes it on: to the uploaders where outputs are
// declared.
func (c *mapRunner) handleTryEnd(t *try, e *proc.Spawned, said *recorder.Excerpt) {
	t.ended = true
	if !e.Stopped && c.chunkIsOpen(t.chunk) { // the loop had not heard of its end yet, and it was one
		t.discarded = false
	}
	if e.Err != nil && fault.KindOf(e.Err) == fault.Full && !t.discarded { // no room for a process: as if it had never been sent
		c.pauseUntil = c.bootTime() + roomPause
		t.ended = false
		c.returnTry(t)
		return
	}
	if c.holdBackEnd(t, e, said) {
		return
	}
	c.passTryEnd(t, e, said)
}

// passTryEnd passes the end of a try on.
func (c *mapRunner) passTryEnd(t *try, e *proc.Spawned, said *recorder.Excerpt) {
	if !t.discarded && e.Err == nil {
		c.pace.noteWallTime(e.Ended.Sub(e.Began))
	}
	c.removeFiles(t)
	switch {
	case t.staging != "":
		if !t.discarded {
			r := c.tryResult(t, e, said)
			t.result = &r
		}
		c.countWaiting(t)
		c.queue.Add(t)
	case t.discarded:
		delete(c.tries, t.id)
	default:
		delete(c.tries, t.id)
		t.chunk.owned.Done(c.tryResult(t, e, said))
	}
}

// roomPause is how long nothing is sent when the machine takes no more processes.
const roomPause = 100 * time.Millisecond

// handInResult hands a result to its chunk.
func (c *mapRunner) handInResult(t *try) {
	delete(c.tries, t.id)
	c.removeFiles(t)
	if !t.discarded {
		t.chunk.owned.Done(*t.result)
	}
}

// endUselessJob ends the job: programs that stay do not get as far as to ask for an item,
// and would not with any other agent.
func (c *mapRunner) endUselessJob(ctx context.Context, g *slotGroup, why error) error {
	g.useless = true
	for _, t := range c.tries {
		if t.group == g && !t.ended { // sent after the last report
			c.noteBegun(t)
			g.removeTry(t)
			c.removeUnsent(t)
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

// reopenLostGroup opens a group anew when its runner was killed, very likely by one of its items.
// They run again one at a time, and one that does it when alone has failed.
func (c *mapRunner) reopenLostGroup(ctx context.Context, g *slotGroup) error {
	trial := g.soloTry
	var suspects []*try
	for _, t := range c.tries {
		if t.group == g && !t.ended && !slices.Contains(g.suspects, t) {
			suspects = append(suspects, t)
		}
	}
	slices.SortFunc(suspects, func(a, b *try) int { return cmp.Compare(a.id, b.id) })
	if trial == nil && len(suspects) > 0 {
		c.Note(fmt.Sprintf("the supervisor of %d items was killed: they run again, one at a time", len(suspects)))
	}
	g.stopPassingOn()
	g.closeExecutor()
	for _, t := range suspects {
		c.noteBegun(t)
		switch {
		case t.discarded:
			c.handInResult(t)
		case t == trial:
			t.result = &protocol.Result{Item: t.Item, Failed: true, Code: killed, Why: "it killed its supervisor", Ended: c.clock.Now().UnixMicro()}
			c.handInResult(t)
		default:
			c.assignTryID(t) // an end of it that is on its way means nothing any more
			g.suspects = append(g.suspects, t)
		}
	}
	return c.retryWhileFull(ctx, func() error { return g.startExecutor(ctx) })
}

// killed is what a shell says of a program that SIGKILL ended.
const killed = 137
