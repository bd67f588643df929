package crew

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/store"
)

// poll asks what to do.
func (c *crew) poll(ctx context.Context) (gone bool, err error) {
	before := c.order.Do
	if err := c.patient(ctx, func() (err error) { c.order, err = c.member.Poll(ctx); return err }); err != nil {
		return false, err
	}
	c.polled = c.now() + farPoll
	if c.Near {
		c.polled = c.now() + nearPoll
	}
	if c.order.Do != before && c.order.Why != "" {
		c.Note(c.order.Why)
	}
	var goes Notice
	if goes, c.stale = c.goes(); c.stale {
		c.recall()
		if len(c.tries) == 0 {
			c.notice = goes
			c.order.Status, err = c.leave(ctx)
			return true, err
		}
		if c.order.Do == mapagent.Work {
			c.order.Do = mapagent.Rest // what runs may end
		}
	}
	switch c.order.Do {
	case mapagent.Work:
		c.stores.open(c.life)
		c.unwarn()
		c.unstick()
	case mapagent.Rest, mapagent.Quit:
		c.recall()
	case mapagent.Drain:
		c.warn(c.order.Why, 0)
		c.recall()
	case mapagent.Cease:
		c.warn(c.order.Why, c.grace())
		c.recall()
		c.stores.endAfter(c.grace())
		c.kill(func(*try) bool { return true })
	case mapagent.Depart:
		return true, c.depart(ctx)
	}
	c.tellHeeded(before)
	if c.stopped() && c.kit == nil { // what was claimed is still to be ended, and the job to be settled
		c.Unneeded()
		c.member.Ready()
	}
	return false, nil
}

// goes says that this agent is to leave once nothing runs here, and why: it has old
// code, or was drained.
func (c *crew) goes() (n Notice, yes bool) {
	switch {
	case c.outdated():
		return Notice{Why: "the job has new code"}, true
	case c.order.Do == mapagent.Quit:
		return Notice{Why: c.order.Why, ForGood: true}, true
	}
	return n, false
}

// outdated says that items are to be run with other code than this agent has. It
// claims no more then, and leaves once nothing runs: another one fetches that code.
func (c *crew) outdated() bool {
	return c.order.Code != "" && c.order.Code != c.Job.Code.Digest && c.order.Do == mapagent.Work
}

// tellHeeded has the heartbeat say that nothing more begins here, or that it does
// again: who asked for it waits for that word.
func (c *crew) tellHeeded(before mapagent.MapDo) {
	if c.kit == nil || phase(c.order.Do) == phase(before) {
		return
	}
	c.Beat(true, func(b *protocol.Heartbeat) {
		b.Phase = phase(c.order.Do)
		c.member.FillHeartbeat(b)
	})
}

// phase is what the heartbeat calls an agent that is prepared.
func phase(do mapagent.MapDo) string {
	switch do {
	case mapagent.Rest:
		return protocol.Resting
	case mapagent.Drain, mapagent.Quit:
		return protocol.Draining
	}
	return "running"
}

// depart lets the task's log know of the job's end.
func (c *crew) depart(ctx context.Context) error {
	c.Unneeded()
	if _, err := tasks.LoadJob(ctx, c.World, c.Job.Path()); errors.Is(err, store.ErrNotExist) {
		c.Hush()
		return nil
	}
	if c.kit != nil {
		c.Leftovers()
	}
	if c.order.Settled == nil {
		return nil
	}
	return c.patient(ctx, func() error { return c.member.Leave(ctx) })
}

// begin takes what items are run with. What makes that impossible ends the job: it
// would be so for every agent.
func (c *crew) begin(ctx context.Context, k Kit) error {
	if k.Failed == nil {
		k.Failed = c.openItems(ctx, k)
	}
	if k.Failed != nil && c.struck() {
		return nil // the notice is on its way
	}
	var gone *fault.Fault
	switch {
	case c.stopped():
		return nil // it was ended meanwhile, and that is what the failure is about
	case k.Failed != nil && errors.As(k.Failed, &gone) && gone.Kind == fault.Lost:
		return k.Failed
	case k.Failed != nil:
		text := c.Redact.String(k.Failed.Error())
		c.Note("not started: " + text)
		stop := protocol.Stop{Reason: text, Code: fault.ExitDrover}
		c.polled = 0
		return c.patient(ctx, func() error { return c.member.Fail(ctx, stop) })
	}
	c.kit, c.beaten = &k, 0
	c.openLarder()
	c.member.Ready()
	c.Beat(true, func(b *protocol.Heartbeat) {
		b.Phase, b.Slots, b.Since = phase(c.order.Do), c.Slots, c.clock.Now().UTC()
	})
	return nil
}

// openItems reads the index of the items, and the command.
func (c *crew) openItems(ctx context.Context, k Kit) error {
	return c.patient(ctx, func() (err error) {
		c.chart = chart{store: c.World.Store, job: c.Job, args: k.Args}
		_, err = c.chart.at(ctx, c.member.Map(), 1)
		return err
	})
}

// seek asks for a chunk of its own. An error may leave one too, so it is the
// member's word that counts, what it holds.
func (c *crew) seek(ctx context.Context) error {
	err := c.patient(ctx, func() error { _, err := c.member.Seek(ctx); return err })
	if err != nil {
		return err
	}
	found := false
	for _, h := range c.member.Owned() {
		if slices.ContainsFunc(c.works, func(w *work) bool { return w.hold == h }) {
			continue
		}
		w, err := c.newWork(ctx, h)
		if err != nil {
			return err
		}
		c.works, found = append(c.works, w), true
	}
	if found {
		c.sought = 0
		return c.fill(ctx)
	}
	c.sought = c.now() + c.member.Again()
	if c.stopped() || c.member.Map().Settled != nil {
		c.polled = 0 // it may have ended
	}
	return nil
}

// flush has the holds record what is due.
func (c *crew) flush(ctx context.Context) error {
	for _, w := range slices.Clone(c.works) {
		if w.due(c.now()) > 0 {
			continue
		}
		fate := mapagent.Holding
		err := c.patient(ctx, func() (err error) { fate, err = w.hold.Flush(ctx); return err })
		if err != nil {
			return err
		}
		if fate != mapagent.Holding {
			c.drop(w)
		}
	}
	return nil
}

// drop forgets a hold that is over. What runs of it, when it was fenced, is ended.
func (c *crew) drop(w *work) {
	w.close()
	c.works = slices.DeleteFunc(c.works, func(o *work) bool { return o == w })
	c.kill(func(t *try) bool { return t.work == w })
}

// wind ends the holds once nothing of them runs: the job was stopped.
func (c *crew) wind(ctx context.Context) error {
	if len(c.tries) > 0 {
		return nil
	}
	for _, w := range slices.Clone(c.works) {
		if err := c.patient(ctx, func() error { return w.hold.Wind(ctx) }); err != nil {
			return err
		}
		c.drop(w)
		c.polled = 0
	}
	return nil
}

// leave is the way out before the end: what runs is ended, what was done recorded,
// and the chunks given back. What had ended by itself is recorded while the rest has its
// grace: who wants us gone may not wait for all of it.
func (c *crew) leave(ctx context.Context) (status int, err error) {
	n := c.notice
	if status = exitLater; n.Asked || n.ForGood {
		status = fault.ExitOK
	}
	c.Note("leaving: " + n.Why)
	c.Unneeded()
	c.Beat(true, func(b *protocol.Heartbeat) { b.Phase, b.Asked = "leaving", n.Asked })
	c.order.Do = mapagent.Rest
	c.recall()
	all := func(*try) bool { return true }
	var sooner <-chan struct{}
	var late <-chan time.Time
	if n.Signal == 0 {
		c.kill(all)
	} else {
		c.signal(n.Signal, all)
		sooner, late = c.Sooner, time.After(c.grace())
	}
	c.believe(true)
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for len(c.tries) > 0 {
		select {
		case <-quiet.C:
			c.record(ctx)
		case <-sooner:
			sooner = nil
			c.kill(all)
		case <-late:
			c.kill(all)
		case r := <-c.reports:
			err = c.take(ctx, r)
		case s := <-c.stored:
			err = c.recorded(s)
		case p := <-c.pages:
			err = c.shelve(p)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return status, err
		}
	}
	if c.kit != nil {
		c.Leftovers()
	}
	for _, w := range c.works {
		err = errors.Join(err, w.hold.Release(ctx, n.Asked)) // of those that can be
	}
	if err != nil {
		return status, err
	}
	c.beaten = 0
	c.beat()
	return status, nil
}

// quietTime is longer than what had ended takes to be reported.
const quietTime = 100 * time.Millisecond

// record records what has ended. What it cannot, is for the release to try again.
func (c *crew) record(ctx context.Context) {
	for _, w := range c.works {
		if err := w.hold.Record(ctx); err != nil {
			c.Log.Warn("results not recorded yet", "err", err)
		}
	}
}

// patient does what needs room in the store, and waits while there is none: a
// million items are worth some minutes until somebody has made room. It gives up
// after Patience, or when the agent must go.
func (c *crew) patient(ctx context.Context, do func() error) error {
	begin := c.now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if err == nil || fault.KindOf(err) != fault.Full || c.leaving.Load() || c.now()-begin+pause > c.Patience {
			return err
		}
		if pause == firstPause {
			c.Note("waiting for room: " + err.Error())
			c.Beat(true, func(b *protocol.Heartbeat) { b.Note = "waiting for room: " + err.Error() })
			defer c.Beat(true, func(b *protocol.Heartbeat) { b.Note = "" })
		}
		select {
		case <-c.hurry:
			return err
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)
