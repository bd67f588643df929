package maprunner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/store"
)

// pollOrder asks what to do.
func (c *mapRunner) pollOrder(ctx context.Context) (gone bool, err error) {
	before := c.order.Do
	if err := c.retryWhileFull(ctx, func() (err error) { c.order, err = c.member.Poll(ctx); return err }); err != nil {
		return false, err
	}
	c.nextPoll = c.bootTime() + farPoll
	if c.Near {
		c.nextPoll = c.bootTime() + nearPoll
	}
	if c.order.Do != before && c.order.Why != "" {
		c.Note(c.order.Why)
	}
	var goes Notice
	if goes, c.leavesWhenIdle = c.mustLeave(); c.leavesWhenIdle {
		c.recallQueued()
		if len(c.tries) == 0 {
			c.notice = goes
			c.order.Status, err = c.leaveEarly(ctx)
			return true, err
		}
		if c.order.Do == mapagent.Work {
			c.order.Do = mapagent.Rest // what runs may end
		}
	}
	switch c.order.Do {
	case mapagent.Work:
		c.deadline.Open(c.life)
		c.withdrawWarning()
		c.recallFromStalled()
	case mapagent.Rest, mapagent.Quit:
		c.recallQueued()
	case mapagent.Drain:
		c.warnPrograms(c.order.Why, 0)
		c.recallQueued()
	case mapagent.Cease:
		c.warnPrograms(c.order.Why, c.gracePeriod())
		c.recallQueued()
		c.deadline.EndAfter(c.gracePeriod())
		c.killTries(func(*try) bool { return true })
	case mapagent.Depart:
		return true, c.recordJobEnd(ctx)
	}
	c.reportHeeded(before)
	if c.jobWasStopped() && c.prepared == nil { // what was claimed is still to be ended, and the job to be settled
		c.CancelPreparation()
		c.member.Ready()
	}
	return false, nil
}

// mustLeave says that this agent is to leave once nothing runs here, and why: it has old
// code, or was drained.
func (c *mapRunner) mustLeave() (n Notice, yes bool) {
	switch {
	case c.codeIsOutdated():
		return Notice{Why: "the job has new code"}, true
	case c.order.Do == mapagent.Quit:
		return Notice{Why: c.order.Why, ForGood: true}, true
	}
	return n, false
}

// codeIsOutdated says that items are to be run with other code than this agent has. It
// claims no more then, and leaves once nothing runs: another one fetches that code.
func (c *mapRunner) codeIsOutdated() bool {
	return c.order.Code != "" && c.order.Code != c.Job.Code.Digest && c.order.Do == mapagent.Work
}

// reportHeeded has the heartbeat say that nothing more begins here, or that it does
// again: the command that asked for it waits for that word.
func (c *mapRunner) reportHeeded(before mapagent.MapDo) {
	if c.prepared == nil || phase(c.order.Do) == phase(before) {
		return
	}
	c.ChangeHeartbeat(true, func(b *protocol.Heartbeat) {
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

// recordJobEnd lets the task's log know of the job's end.
func (c *mapRunner) recordJobEnd(ctx context.Context) error {
	c.CancelPreparation()
	if _, err := tasks.LoadJob(ctx, c.World, c.Job.Path()); errors.Is(err, store.ErrNotExist) {
		c.JobRemoved()
		return nil
	}
	if c.prepared != nil {
		c.NoteLeftovers()
	}
	if c.order.Settled == nil {
		return nil
	}
	return c.retryWhileFull(ctx, func() error { return c.member.Leave(ctx) })
}

// beginPrepared takes what items are run with. What makes that impossible ends the job: it
// would be so for every agent.
func (c *mapRunner) beginPrepared(ctx context.Context, k Prepared) error {
	if k.Failed == nil {
		k.Failed = c.openItems(ctx, k)
	}
	if k.Failed != nil && c.signalHitAll() {
		return nil // the notice is on its way
	}
	var gone *fault.Fault
	switch {
	case c.jobWasStopped():
		return nil // it was ended meanwhile, and that is what the failure is about
	case k.Failed != nil && errors.As(k.Failed, &gone) && gone.Kind == fault.Lost:
		return k.Failed
	case k.Failed != nil:
		text := c.Redact.String(k.Failed.Error())
		c.Note("not started: " + text)
		stop := protocol.Stop{Reason: text, Code: fault.ExitDrover}
		c.nextPoll = 0
		return c.retryWhileFull(ctx, func() error { return c.member.Fail(ctx, stop) })
	}
	c.prepared, c.nextHeartbeat = &k, 0
	c.openCache()
	c.member.Ready()
	c.ChangeHeartbeat(true, func(b *protocol.Heartbeat) {
		b.Phase, b.Slots, b.Since = phase(c.order.Do), c.Slots, c.clock.Now().UTC()
	})
	return nil
}

// openItems reads the index of the items, and the command.
func (c *mapRunner) openItems(ctx context.Context, k Prepared) error {
	return c.retryWhileFull(ctx, func() (err error) {
		c.manifests = source.NewManifests(c.World.Store, c.Job, k.Args)
		_, err = c.manifests.SourceOfItem(ctx, c.member.Map(), 1)
		return err
	})
}

// claimChunk asks for a chunk of its own. An error may leave one too, so it is the
// member's word that counts, what it holds.
func (c *mapRunner) claimChunk(ctx context.Context) error {
	err := c.retryWhileFull(ctx, func() error { _, err := c.member.Seek(ctx); return err })
	if err != nil {
		return err
	}
	found := false
	for _, h := range c.member.Owned() {
		if slices.ContainsFunc(c.chunks, func(w *chunk) bool { return w.owned == h }) {
			continue
		}
		w, err := c.startReading(ctx, h)
		if err != nil {
			return err
		}
		c.chunks, found = append(c.chunks, w), true
	}
	if found {
		c.nextClaim = 0
		return c.fillGroups(ctx)
	}
	c.nextClaim = c.bootTime() + c.member.Again()
	if c.jobWasStopped() || c.member.Map().Settled != nil {
		c.nextPoll = 0 // it may have ended
	}
	return nil
}

// flushChunks has the chunks record what is due.
func (c *mapRunner) flushChunks(ctx context.Context) error {
	for _, w := range slices.Clone(c.chunks) {
		if w.timeUntilFlush(c.bootTime()) > 0 {
			continue
		}
		fate := mapagent.Holding
		err := c.retryWhileFull(ctx, func() (err error) { fate, err = w.owned.Flush(ctx); return err })
		if err != nil {
			return err
		}
		if fate != mapagent.Holding {
			c.forgetChunk(w)
		}
	}
	return nil
}

// forgetChunk forgets a chunk that is over. What runs of it, when it was fenced, is ended.
func (c *mapRunner) forgetChunk(w *chunk) {
	w.stopReading()
	c.chunks = slices.DeleteFunc(c.chunks, func(o *chunk) bool { return o == w })
	c.killTries(func(t *try) bool { return t.chunk == w })
}

// endIdleChunks ends the chunks once nothing of them runs: the job was stopped.
func (c *mapRunner) endIdleChunks(ctx context.Context) error {
	if len(c.tries) > 0 {
		return nil
	}
	for _, w := range slices.Clone(c.chunks) {
		if err := c.retryWhileFull(ctx, func() error { return w.owned.Wind(ctx) }); err != nil {
			return err
		}
		c.forgetChunk(w)
		c.nextPoll = 0
	}
	return nil
}

// leaveEarly is the way out before the end: what runs is ended, what was done recorded,
// and the chunks given back. What had ended by itself is recorded while the rest has its
// grace: the notice may not leave time for all of it.
func (c *mapRunner) leaveEarly(ctx context.Context) (status int, err error) {
	n := c.notice
	if status = exitLater; n.Asked || n.ForGood {
		status = fault.ExitOK
	}
	c.Note("leaving: " + n.Why)
	c.CancelPreparation()
	c.ChangeHeartbeat(true, func(b *protocol.Heartbeat) { b.Phase, b.Asked = "leaving", n.Asked })
	c.order.Do = mapagent.Rest
	c.recallQueued()
	all := func(*try) bool { return true }
	var sooner <-chan struct{}
	var late <-chan time.Time
	if n.Signal == 0 {
		c.killTries(all)
	} else {
		c.signalTries(n.Signal, all)
		sooner, late = c.Sooner, time.After(c.gracePeriod())
	}
	c.releaseHeldBack(true)
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for len(c.tries) > 0 {
		select {
		case <-quiet.C:
			c.recordResults(ctx)
		case <-sooner:
			sooner = nil
			c.killTries(all)
		case <-late:
			c.killTries(all)
		case r := <-c.reports:
			err = c.handleReport(ctx, r)
		case s := <-c.stored:
			err = c.acceptUploaded(s)
		case p := <-c.pages:
			err = c.acceptPage(p)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return status, err
		}
	}
	if c.prepared != nil {
		c.NoteLeftovers()
	}
	for _, w := range c.chunks {
		err = errors.Join(err, w.owned.Release(ctx, n.Asked)) // of those that can be
	}
	if err != nil {
		return status, err
	}
	c.nextHeartbeat = 0
	c.updateHeartbeat()
	return status, nil
}

// quietTime is longer than what had ended takes to be reported.
const quietTime = 100 * time.Millisecond

// recordResults records what has ended. What it cannot, is for the release to try again.
func (c *mapRunner) recordResults(ctx context.Context) {
	for _, w := range c.chunks {
		if err := w.owned.Record(ctx); err != nil {
			c.Log.Warn("results not recorded yet", "err", err)
		}
	}
}

// retryWhileFull does what needs room in the store, and waits while there is none: a
// million items are worth some minutes until a person has made room. It gives up
// after Patience, or when the agent must go.
func (c *mapRunner) retryWhileFull(ctx context.Context, do func() error) error {
	begin := c.bootTime()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if err == nil || fault.KindOf(err) != fault.Full || c.leaving.Load() || c.bootTime()-begin+pause > c.Patience {
			return err
		}
		if pause == firstPause {
			c.Note("waiting for room: " + err.Error())
			c.ChangeHeartbeat(true, func(b *protocol.Heartbeat) { b.Note = "waiting for room: " + err.Error() })
			defer c.ChangeHeartbeat(true, func(b *protocol.Heartbeat) { b.Note = "" })
		}
		select {
		case <-c.mustGo:
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
