package crew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/crew/larder"
	"github.com/drover-run/drover/internal/agent/crew/stream"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
)

// try is one try of an item, from when its hold gave it until its result is known.
type try struct {
	mapagent.Try
	id        uint64
	work      *work
	gang      *gang          // nil: it was not sent
	item      *manifest.Item // what it says, when it had to be fetched apart
	fetching  bool
	size      int // of its text, while it is sent
	began     bool
	ended     bool // its program has ended
	signalled bool // it has got the stop signal, and SIGTERM may follow
	void      bool // we have it ended: its end says nothing of the item, unless that had come before

	share   *larder.Share // the files that it was promised; nil: none, or they are gone
	timeout time.Duration
	cargo   int64            // bytes of its outputs, while they are stored
	staging string           // folder of its outputs; "": none are declared
	outs    []string         // their names
	result  *protocol.Result // of one with outputs, while they are stored
}

// fillGangs hands as many tries to the gangs as they have places for.
func (c *crew) fillGangs(ctx context.Context) error {
	if c.order.Do != mapagent.Work || c.kit == nil || !c.needs.hasSameLimits(c.order.Limits) || c.bootTime() < c.rest || c.leaving.Load() || c.signalHitAll() {
		return nil
	}
	c.requestFiles()
	if err := c.runSuspects(ctx); err != nil {
		return err
	}
	for now := c.bootTime(); ; {
		g := c.gangWithMostRoom()
		if g == nil || c.lone != nil && len(c.tries) > 1 {
			break
		}
		t, it := c.nextSendable(now)
		if t == nil {
			break
		}
		if t.Alone && len(c.tries) > 1 { // of another hold, that is over, something has yet to end
			waits := it
			c.lone, t.item = t, &waits
			break
		}
		if err := c.putInGang(ctx, g, t, it); err != nil {
			return err
		}
	}
	c.requestFiles() // what was taken from the front is no longer among the next ones
	return c.sendBatches()
}

// nextSendable is a try that can be sent, and its item; nil: there is none now.
func (c *crew) nextSendable(now time.Duration) (t *try, it manifest.Item) {
	if t = c.lone; t != nil {
		c.lone = nil
		return t, *t.item
	}
	if c.larder != nil {
		return c.trySupplied()
	}
	for _, w := range c.works {
		if t, it = w.nextSendable(now); t != nil {
			return t, it
		}
	}
	return nil, it
}

// registerTry registers a try that a hold has given.
func (c *crew) registerTry(w *work, n mapagent.Try) *try {
	t := &try{Try: n, work: w}
	c.assignTryID(t)
	return t
}

// assignTryID gives a try an errand's id of its own: the item's number, for the scribe,
// and what makes it unique.
func (c *crew) assignTryID(t *try) {
	delete(c.tries, t.id)
	c.serial++
	t.id = uint64(t.Item)<<32 | uint64(c.serial)
	c.tries[t.id] = t
}

// itemOf is the item that an errand is about.
func itemOf(id uint64) uint64 { return id >> 32 }

// putInGang gives a try to a gang. One that cannot be run has failed.
func (c *crew) putInGang(ctx context.Context, g *gang, t *try, it manifest.Item) error {
	if t.share != nil && t.share.Err != nil {
		return c.unsuppliedTries(t)
	}
	e, err := c.tryErrand(ctx, t, it)
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Invalid:
		c.recordUnfit(t, err)
		return nil
	default:
		return err
	}
	t.gang, t.item, t.began, t.size = g, nil, false, len(it.Text)
	g.bytes += t.size
	g.flight++
	g.queued++
	t.work.queued++
	g.batch = append(g.batch, e)
	return nil
}

// recordUnfit records that an item cannot be run as it is.
func (c *crew) recordUnfit(t *try, err error) {
	delete(c.tries, t.id)
	c.removeFiles(t)
	t.work.hold.Done(protocol.Result{Item: t.Item, Failed: true, Code: notExecutable, Why: c.Redact.String(oneLine(err.Error())),
		Ended: c.clock.Now().UnixMicro()})
}

// notExecutable is what a shell says of what it cannot run.
const notExecutable = 126

// sendBatches sends what was put. A runner that is gone has it reported by its scribe.
func (c *crew) sendBatches() error {
	for _, g := range c.gangs {
		if len(g.batch) == 0 {
			continue
		}
		err := g.runner.Send(g.batch...)
		clear(g.batch) // the items' texts
		g.batch = g.batch[:0]
		if err != nil && !errors.Is(err, proc.ErrSpawnerLost) {
			return fmt.Errorf("start items: %w", err)
		}
	}
	return nil
}

// runSuspects runs the suspects of each gang, one at a time.
func (c *crew) runSuspects(ctx context.Context) error {
	for _, g := range c.gangs {
		if g.trial != nil || len(g.suspects) == 0 || g.flight > 0 {
			continue
		}
		t := g.suspects[0]
		if t.item == nil {
			t.work.fetchItem(t)
			continue
		}
		g.suspects, g.trial = g.suspects[1:], t
		if err := c.putInGang(ctx, g, t, *t.item); err != nil {
			return err
		}
		if c.tries[t.id] == nil { // it could not be run
			g.trial = nil
		}
	}
	return nil
}

// returnTry gives a try that never began back to its hold.
func (c *crew) returnTry(t *try) {
	delete(c.tries, t.id)
	if t.share != nil {
		c.larder.Back(t.share)
		t.share = nil
	}
	t.work.hold.Back(t.Item)
}

// removeUnsent takes a try out that its runner did not begin.
func (c *crew) removeUnsent(t *try) {
	if t.void && !c.holdIsOpen(t.work) {
		c.handInResult(t)
		return
	}
	c.returnTry(t)
}

// holdIsOpen says whether a hold is not over.
func (c *crew) holdIsOpen(w *work) bool { return slices.Contains(c.works, w) }

// handleReport hears what a gang has to report.
func (c *crew) handleReport(ctx context.Context, r report) error {
	g, said := r.gang, r.said
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
		return c.reopenLostGang(ctx, g)
	}
	return nil
}

// noteBegun notes that a try waits no longer in its runner.
func (c *crew) noteBegun(t *try) {
	if !t.began {
		t.began = true
		t.gang.queued--
		t.work.queued--
	}
}

func (g *gang) removeTry(t *try) {
	g.flight--
	g.bytes -= t.size
	if g.trial == t {
		g.trial = nil
	}
}

// handleTryEnd takes the end of a try, and passes it on: to the porters where outputs are
// declared.
func (c *crew) handleTryEnd(t *try, e *proc.Spawned, said *said) {
	t.ended = true
	if !e.Stopped && c.holdIsOpen(t.work) { // the loop had not heard of its end yet, and it was one
		t.void = false
	}
	if e.Err != nil && fault.KindOf(e.Err) == fault.Full && !t.void { // no room for a process: as if it had never been sent
		c.rest = c.bootTime() + roomPause
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
func (c *crew) passTryEnd(t *try, e *proc.Spawned, said *said) {
	if !t.void && e.Err == nil {
		c.pace.noteWallTime(e.Ended.Sub(e.Began))
	}
	c.removeFiles(t)
	switch {
	case t.staging != "":
		if !t.void {
			r := c.tryResult(t, e, said)
			t.result = &r
		}
		c.countWaiting(t)
		c.cargo.addTry(t)
	case t.void:
		delete(c.tries, t.id)
	default:
		delete(c.tries, t.id)
		t.work.hold.Done(c.tryResult(t, e, said))
	}
}

// roomPause is how long nothing is sent when the machine takes no more processes.
const roomPause = 100 * time.Millisecond

// handInResult hands a result to its hold.
func (c *crew) handInResult(t *try) {
	delete(c.tries, t.id)
	c.removeFiles(t)
	if !t.void {
		t.work.hold.Done(*t.result)
	}
}

// endUselessJob ends the job: programs that stay do not get as far as to ask for an item,
// and would not with any other agent.
func (c *crew) endUselessJob(ctx context.Context, g *gang, why error) error {
	g.useless = true
	for _, t := range c.tries {
		if t.gang == g && !t.ended { // sent after the last report
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
	c.polled = 0
	return c.retryWhileFull(ctx, func() error {
		return c.member.Fail(ctx, protocol.Stop{Reason: oneLine(c.Redact.String(reason)), Code: code})
	})
}

// reopenLostGang opens a gang anew when its runner was killed, very likely by one of its items.
// They run again one at a time, and one that does it when alone has failed.
func (c *crew) reopenLostGang(ctx context.Context, g *gang) error {
	trial := g.trial
	var suspects []*try
	for _, t := range c.tries {
		if t.gang == g && !t.ended && !slices.Contains(g.suspects, t) {
			suspects = append(suspects, t)
		}
	}
	slices.SortFunc(suspects, func(a, b *try) int { return cmp.Compare(a.id, b.id) })
	if trial == nil && len(suspects) > 0 {
		c.Note(fmt.Sprintf("the supervisor of %d items was killed: they run again, one at a time", len(suspects)))
	}
	g.stopPassingOn()
	g.closeRunner()
	for _, t := range suspects {
		c.noteBegun(t)
		switch {
		case t.void:
			c.handInResult(t)
		case t == trial:
			t.result = &protocol.Result{Item: t.Item, Failed: true, Code: killed, Why: "it killed its supervisor", Ended: c.clock.Now().UnixMicro()}
			c.handInResult(t)
		default:
			c.assignTryID(t) // an end of it that is on its way means nothing any more
			g.suspects = append(g.suspects, t)
		}
	}
	return c.retryWhileFull(ctx, func() error { return g.openRunner(ctx) })
}

// killed is what a shell says of a program that SIGKILL ended.
const killed = 137
