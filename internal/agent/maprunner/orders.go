package maprunner

import (
	"context"
	"errors"
	"slices"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
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
	var why string
	if why, c.leavesWhenIdle = c.mustLeave(); c.leavesWhenIdle {
		c.dispatch.recallQueued()
		if len(c.attempts.tries) == 0 {
			c.notice, c.forGood = node.Notice{Why: why}, c.order.Do == mapagent.Quit
			c.order.Status, err = c.leaveEarly(ctx)
			return true, err
		}
		if c.order.Do == mapagent.Work {
			c.order.Do = mapagent.Rest // what runs may end
		}
	}
	switch c.order.Do {
	case mapagent.Work:
		c.uploads.deadline.Open(c.life)
		c.warning.withdrawWarning()
		c.groups.recallFromStalled()
	case mapagent.Rest, mapagent.Quit:
		c.dispatch.recallQueued()
	case mapagent.Drain:
		c.warning.warnPrograms(c.order.Why, 0)
		c.dispatch.recallQueued()
	case mapagent.Cease:
		c.warning.warnPrograms(c.order.Why, c.gracePeriod())
		c.dispatch.recallQueued()
		c.uploads.deadline.EndAfter(c.gracePeriod())
		c.dispatch.killTries(func(*try) bool { return true })
	case mapagent.Depart:
		return true, c.recordJobEnd(ctx)
	}
	c.progress.reportHeeded(before)
	if c.jobWasStopped() && c.prepared == nil { // what was claimed is still to be ended, and the job to be settled
		c.CancelPreparation()
		c.member.Ready()
	}
	return false, nil
}

// mustLeave says that this agent is to leave once nothing runs here, and why: it has old
// code, or was drained.
func (c *mapRunner) mustLeave() (why string, yes bool) {
	switch {
	case c.codeIsOutdated():
		return "the job has new code", true
	case c.order.Do == mapagent.Quit:
		return c.order.Why, true
	}
	return "", false
}

// codeIsOutdated says that items are to be run with other code than this agent has. It
// claims no more then, and leaves once nothing runs: another one fetches that code.
func (c *mapRunner) codeIsOutdated() bool {
	return c.order.Code != "" && c.order.Code != c.Job.Code.Digest && c.order.Do == mapagent.Work
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
		k.Failed = c.chunks.openItems(ctx, k)
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
	c.prepared, c.progress.nextHeartbeat = &k, 0
	c.files.openCache()
	c.member.Ready()
	c.ChangeHeartbeat(true, func(b *protocol.Heartbeat) {
		b.Phase, b.Slots, b.Since = phase(c.order.Do), c.Slots, c.clock.Now().UTC()
	})
	return nil
}

// claimChunk asks for a chunk of its own. An error may leave one too, so it is the
// member's word that counts, what it holds.
func (c *mapRunner) claimChunk(ctx context.Context) error {
	err := c.retryWhileFull(ctx, func() error { _, err := c.member.Seek(ctx); return err })
	if err != nil {
		return err
	}
	found, err := c.chunks.addClaimed(ctx)
	if err != nil {
		return err
	}
	if found {
		c.nextClaim = 0
		return c.dispatch.fillGroups(ctx)
	}
	c.nextClaim = c.bootTime() + c.member.Again()
	if c.jobWasStopped() || c.member.Map().Settled != nil {
		c.nextPoll = 0 // it may have ended
	}
	return nil
}

// flushChunks has the chunks record what is due.
func (c *mapRunner) flushChunks(ctx context.Context) error {
	for _, w := range slices.Clone(c.chunks.chunks) {
		if w.timeUntilFlush(c.bootTime()) > 0 {
			continue
		}
		outcome := mapagent.Holding
		err := c.retryWhileFull(ctx, func() (err error) { outcome, err = w.owned.Flush(ctx); return err })
		if err != nil {
			return err
		}
		if outcome != mapagent.Holding {
			c.forgetChunk(w)
		}
	}
	return nil
}

// forgetChunk forgets a chunk that is over. What runs of it, when it was fenced, is ended.
func (c *mapRunner) forgetChunk(w *chunk) {
	c.chunks.removeChunk(w)
	c.dispatch.killTries(func(t *try) bool { return t.chunk == w })
}

// endIdleChunks ends the chunks once nothing of them runs: the job was stopped.
func (c *mapRunner) endIdleChunks(ctx context.Context) error {
	if len(c.attempts.tries) > 0 {
		return nil
	}
	for _, w := range slices.Clone(c.chunks.chunks) {
		if err := c.retryWhileFull(ctx, func() error { return w.owned.Wind(ctx) }); err != nil {
			return err
		}
		c.forgetChunk(w)
		c.nextPoll = 0
	}
	return nil
}
