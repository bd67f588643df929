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

// fill hands as many tries to the gangs as they have places for.
func (c *crew) fill(ctx context.Context) error {
	if c.order.Do != mapagent.Work || c.kit == nil || !c.needs.same(c.order.Limits) || c.now() < c.rest || c.leaving.Load() || c.struck() {
		return nil
	}
	c.supply()
	if err := c.trials(ctx); err != nil {
		return err
	}
	for now := c.now(); ; {
		g := c.roomiest()
		if g == nil || c.lone != nil && len(c.tries) > 1 {
			break
		}
		t, it := c.next(now)
		if t == nil {
			break
		}
		if t.Alone && len(c.tries) > 1 { // of another hold, that is over, something has yet to end
			waits := it
			c.lone, t.item = t, &waits
			break
		}
		if err := c.put(ctx, g, t, it); err != nil {
			return err
		}
	}
	c.supply() // what was taken from the front is no longer among the next ones
	return c.send()
}

// next is a try that can be sent, and its item; nil: there is none now.
func (c *crew) next(now time.Duration) (t *try, it manifest.Item) {
	if t = c.lone; t != nil {
		c.lone = nil
		return t, *t.item
	}
	if c.larder != nil {
		return c.supplied()
	}
	for _, w := range c.works {
		if t, it = w.next(now); t != nil {
			return t, it
		}
	}
	return nil, it
}

// newTry registers a try that a hold has given.
func (c *crew) newTry(w *work, n mapagent.Try) *try {
	t := &try{Try: n, work: w}
	c.name(t)
	return t
}

// name gives a try an errand's id of its own: the item's number, for the scribe,
// and what makes it unique.
func (c *crew) name(t *try) {
	delete(c.tries, t.id)
	c.serial++
	t.id = uint64(t.Item)<<32 | uint64(c.serial)
	c.tries[t.id] = t
}

// itemOf is the item that an errand is about.
func itemOf(id uint64) uint64 { return id >> 32 }

// put gives a try to a gang. One that cannot be run has failed.
func (c *crew) put(ctx context.Context, g *gang, t *try, it manifest.Item) error {
	if t.share != nil && t.share.Err != nil {
		return c.unsupplied(t)
	}
	e, err := c.errand(ctx, t, it)
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Invalid:
		c.unfit(t, err)
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

// unfit records that an item cannot be run as it is.
func (c *crew) unfit(t *try, err error) {
	delete(c.tries, t.id)
	c.consume(t)
	t.work.hold.Done(protocol.Result{Item: t.Item, Failed: true, Code: notExecutable, Why: c.Redact.String(oneLine(err.Error())),
		Ended: c.clock.Now().UnixMicro()})
}

// notExecutable is what a shell says of what it cannot run.
const notExecutable = 126

// send sends what was put. A runner that is gone has it reported by its scribe.
func (c *crew) send() error {
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

// trials runs the suspects of each gang, one at a time.
func (c *crew) trials(ctx context.Context) error {
	for _, g := range c.gangs {
		if g.trial != nil || len(g.suspects) == 0 || g.flight > 0 {
			continue
		}
		t := g.suspects[0]
		if t.item == nil {
			t.work.fetch(t)
			continue
		}
		g.suspects, g.trial = g.suspects[1:], t
		if err := c.put(ctx, g, t, *t.item); err != nil {
			return err
		}
		if c.tries[t.id] == nil { // it could not be run
			g.trial = nil
		}
	}
	return nil
}

// back gives a try that never began back to its hold.
func (c *crew) back(t *try) {
	delete(c.tries, t.id)
	if t.share != nil {
		c.larder.Back(t.share)
		t.share = nil
	}
	t.work.hold.Back(t.Item)
}

// unsent takes a try out that its runner did not begin.
func (c *crew) unsent(t *try) {
	if t.void && !c.stands(t.work) {
		c.finish(t)
		return
	}
	c.back(t)
}

// stands says whether a hold is not over.
func (c *crew) stands(w *work) bool { return slices.Contains(c.works, w) }

// take hears what a gang has to report.
func (c *crew) take(ctx context.Context, r report) error {
	g, said := r.gang, r.said
	for i := range r.batch {
		e := &r.batch[i]
		if e.Kind == proc.SpawnedOutput {
			continue
		}
		t := c.tries[e.ID]
		c.begun(t)
		switch e.Kind {
		case proc.SpawnedUnstarted:
			g.done(t)
			c.unsent(t)
		case proc.SpawnedEnded:
			g.done(t)
			c.ended(t, e, &said[0])
			said = said[1:]
		}
	}
	for i := range r.told {
		said = c.hear(g, &r.told[i], said)
	}
	g.moved = c.now()
	switch {
	case r.why != nil:
		return c.useless(ctx, g, r.why)
	case r.gone:
		return c.lost(ctx, g)
	}
	return nil
}

// begun notes that a try waits no longer in its runner.
func (c *crew) begun(t *try) {
	if !t.began {
		t.began = true
		t.gang.queued--
		t.work.queued--
	}
}

func (g *gang) done(t *try) {
	g.flight--
	g.bytes -= t.size
	if g.trial == t {
		g.trial = nil
	}
}

// ended takes the end of a try, and passes it on: to the porters where outputs are
// declared.
func (c *crew) ended(t *try, e *proc.Spawned, said *said) {
	t.ended = true
	if !e.Stopped && c.stands(t.work) { // nobody had heard of its end yet, and it was one
		t.void = false
	}
	if e.Err != nil && fault.KindOf(e.Err) == fault.Full && !t.void { // no room for a process: as if it had never been sent
		c.rest = c.now() + roomPause
		t.ended = false
		c.back(t)
		return
	}
	if c.doubted(t, e, said) {
		return
	}
	c.settle(t, e, said)
}

// settle passes the end of a try on.
func (c *crew) settle(t *try, e *proc.Spawned, said *said) {
	if !t.void && e.Err == nil {
		c.pace.note(e.Ended.Sub(e.Began))
	}
	c.consume(t)
	switch {
	case t.staging != "":
		if !t.void {
			r := c.result(t, e, said)
			t.result = &r
		}
		c.load(t)
		c.cargo.add(t)
	case t.void:
		delete(c.tries, t.id)
	default:
		delete(c.tries, t.id)
		t.work.hold.Done(c.result(t, e, said))
	}
}

// roomPause is how long nothing is sent when the machine takes no more processes.
const roomPause = 100 * time.Millisecond

// finish hands a result to its hold.
func (c *crew) finish(t *try) {
	delete(c.tries, t.id)
	c.consume(t)
	if !t.void {
		t.work.hold.Done(*t.result)
	}
}

// useless ends the job: programs that stay do not get as far as to ask for an item,
// and would not with any other agent.
func (c *crew) useless(ctx context.Context, g *gang, why error) error {
	g.useless = true
	for _, t := range c.tries {
		if t.gang == g && !t.ended { // sent after the last report
			c.begun(t)
			g.done(t)
			c.unsent(t)
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
	return c.patient(ctx, func() error {
		return c.member.Fail(ctx, protocol.Stop{Reason: oneLine(c.Redact.String(reason)), Code: code})
	})
}

// lost opens a gang anew whose runner was killed, very likely by one of its items.
// They run again one at a time, and who does it when alone has failed.
func (c *crew) lost(ctx context.Context, g *gang) error {
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
	g.abandon()
	g.close()
	for _, t := range suspects {
		c.begun(t)
		switch {
		case t.void:
			c.finish(t)
		case t == trial:
			t.result = &protocol.Result{Item: t.Item, Failed: true, Code: killed, Why: "it killed its supervisor", Ended: c.clock.Now().UnixMicro()}
			c.finish(t)
		default:
			c.name(t) // an end of it that is on its way means nothing any more
			g.suspects = append(g.suspects, t)
		}
	}
	return c.patient(ctx, func() error { return g.open(ctx) })
}

// killed is what a shell says of a program that SIGKILL ended.
const killed = 137
