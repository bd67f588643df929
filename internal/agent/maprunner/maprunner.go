// Package maprunner is the map runner, an agent's part in a map: it works through the chunks
// that its mapagent.MapMember owns, a process for each try of an item, many thousands a
// second where they are small.
//
//	MapMember -- loop == group == spawner == items     groups are as many as cores;
//	    store     |        |-- recorder                  where items have limits, one,
//	              |-- reader, one for each chunk        with a supervisor for each item
//	              |-- prefetch cache, where items name files to fetch
//	              `-- uploaders, where outputs are declared
//
// One goroutine, the loop, calls all of the member's and chunks' methods and decides
// everything; it waits for nothing but the store. A group starts tries and reports how
// they ended. Its output recorder records what they print, before the loop hears of
// their end. A reader reads the items of a chunk ahead, and the prefetch cache fetches
// the files of the next ones. Uploaders store and verify the outputs of a try; only then
// its result is given to its chunk.
//
// It refuses to know how an agent gets ready, targets and command lines. Proved by
// its tests: real small programs, hostile ones among them, over the memory store
// and the real ledger.
package maprunner

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/pace"
	"github.com/drover-run/drover/internal/agent/maprunner/upload"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Config is what an agent gives its map runner.
type Config struct {
	World protocol.World
	Job   job.Job
	ID    string        // the agent's
	Self  protocol.Host // its process
	Slots int           // items at once
	// Near says that the store answers in microseconds: it is then asked and told
	// more often.
	Near bool
	Root string // the agent's own folder; outputs are staged below it
	// Token marks all processes of items, beside Token-0, Token-1 ... of those that
	// have a tree each: see proc.Command.
	Token string

	Out    *record.Writer
	Redact *redact.Redactor
	Note   func(text string)
	// ChangeHeartbeat changes what the next heartbeat says; now has it come at once.
	ChangeHeartbeat func(now bool, change func(*protocol.Heartbeat))
	Log             *slog.Logger

	// Notice says that the agent must go. One value.
	Notice <-chan node.Notice
	// Struck is closed when an engine has sent SIGTERM to all processes of this
	// machine, before Notice says why: see struck. Nil: it never does.
	Struck <-chan struct{}
	// Sooner is closed when the agent has less time since than Notice said.
	Sooner <-chan struct{}
	// Prepared comes once, when all is prepared. CancelPreparation is called when it need not
	// come any more.
	Prepared          <-chan Prepared
	CancelPreparation func()
	// JobRemoved is called when the job was removed: no agent writes for it any more (E6).
	JobRemoved func()
	// NoteLeftovers is called when no item runs any more, if any could have.
	NoteLeftovers func()
	// WriteNotice leaves word for the programs that items should end, and why; left is the time
	// that they have, 0: as long as they take. "" takes it back.
	WriteNotice func(why string, left time.Duration)
	// OpenPlace opens a bucket of any owner by its URL, for items that are objects. Nil:
	// such fail.
	OpenPlace func(ctx context.Context, url string) (store.Bucket, error)
	// MaxStored is the most bytes that one try may leave as outputs; 0 is no limit.
	MaxStored int64
	// Patience is how long results wait for room in a full store.
	Patience time.Duration

	open  func(context.Context, proc.SpawnerConfig) (processExecutor, error) // tests; nil: proc.OpenSpawner
	pause func(context.Context, time.Duration) error                         // tests; nil: between two requests for a file, by the clock
}

// Prepared is what items are run with.
type Prepared struct {
	Failed error // why nothing can be run; the rest is empty then

	Path string   // the program, absolute
	Name string   // its argv[0]; "": Path
	Args []string // with placeholders
	Dir  string   // the folder that all items work in
	// Environ is what each item's environment begins with.
	Environ []string
	Cores   []int    // the only cores for items that have limits; nil: all
	Memory  int64    // that was set apart for all items, and the most that one gets; 0: not known
	GPUs    []string // CUDA_VISIBLE_DEVICES by slot; nil: as the machine has it
}

const (
	// nearPoll is how long a cancel is waited for by a person at this machine.
	nearPoll = 200 * time.Millisecond
	// farPoll is E5's.
	farPoll = protocol.HeartbeatEvery
	// nearHeartbeat is how often a person sees the counts move.
	nearHeartbeat = time.Second
)

// mapRunner is one run of Run: its loop decides everything, and its parts carry it out.
type mapRunner struct {
	*shared
	attempts *attempts
	chunks   *chunkList
	commands *commands
	dispatch *dispatcher
	files    *itemFiles
	groups   *slotGroups
	indexes  *upload.Indexes
	progress *progress
	uploads  *uploads
	warning  *warning

	notice              node.Notice   // valid when mustGo is closed, or the map runner leaves by itself
	forGood             bool          // no engine is to start another agent in this one's place
	leavesWhenIdle      bool          // it leaves once nothing runs: see mustLeave
	nextPoll, nextClaim time.Duration // when these are due next
}

// newMapRunner makes a map runner and its parts, before anything runs. Its goroutines end
// with ctx at the latest.
func newMapRunner(ctx context.Context, c Config) *mapRunner {
	s := &shared{Config: c, clock: c.World.Store.Clock(), mustGo: make(chan struct{})}
	s.life, s.cancel = context.WithCancel(ctx)
	w := &mapRunner{shared: s, commands: &commands{shared: s}, files: &itemFiles{shared: s}, progress: &progress{shared: s}}
	w.warning = &warning{shared: s}
	w.indexes = upload.NewIndexes()
	w.uploads = newUploads(s)
	w.attempts = &attempts{shared: s, files: w.files, uploads: w.uploads, tries: map[uint64]*try{}}
	w.groups = &slotGroups{shared: s, attempts: w.attempts, files: w.files, uploads: w.uploads, warning: w.warning, reports: make(chan report, 8)}
	w.chunks = &chunkList{shared: s, attempts: w.attempts, pages: make(chan page)}
	w.dispatch = &dispatcher{shared: s, attempts: w.attempts, chunks: w.chunks, commands: w.commands, files: w.files, groups: w.groups}
	s.member = mapagent.NewMapMember(c.World, c.Job, c.ID, c.Self, mapagent.MapOptions{Slots: c.Slots, Near: c.Near, Risk: pace.Risk(c.Job.Spec), Later: w.indexes.Add})
	return w
}

// Run works until the job has ended, nothing is left for this agent, or it must
// go. It returns the status that the agent should end with; what it started is
// gone then.
func Run(ctx context.Context, c Config) (status int, err error) {
	if c.open == nil {
		c.open = func(ctx context.Context, s proc.SpawnerConfig) (processExecutor, error) {
			return proc.OpenSpawner(ctx, s)
		}
	}
	w := newMapRunner(ctx, c)
	w.goroutines.Go(w.watchNotice)
	w.indexes.Start(w.life)
	for range uploaders(c.Slots) {
		w.goroutines.Go(w.uploads.runUploader)
	}
	status, err = w.runLoop(ctx)
	if err != nil { // why the map runner ends, which then does not wait for the store
		w.cancel()
	}
	w.indexes.Finish()
	w.shutDown(err)
	return status, err
}

// watchNotice ends with the notice, or with life. Programs hear of it at once. It closes
// mustGo, which also ends a wait for room in the store.
func (c *mapRunner) watchNotice() {
	select {
	case c.notice = <-c.Notice:
		c.leaving.Store(true)
		left := c.notice.TermTime(c.gracePeriod())
		if c.notice.FirstSignal(c.Job.Spec) != 0 {
			left += c.gracePeriod()
		}
		c.warning.warnPrograms(cmp.Or(c.notice.Why, "the agent leaves"), left)
		close(c.mustGo)
	case <-c.life.Done():
	}
}

// runLoop is the runner's one decider.
func (c *mapRunner) runLoop(ctx context.Context) (status int, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.mustGo:
			return c.leaveEarly(ctx)
		case k := <-c.Prepared:
			c.Prepared = nil
			err = c.beginPrepared(ctx, k)
		case r := <-c.groups.reports:
			err = c.handleReport(ctx, r)
		case p := <-c.chunks.pages:
			err = c.chunks.acceptPage(p)
		case s := <-c.uploads.stored:
			err = c.attempts.acceptUploaded(s)
		case <-c.files.arrived:
		case <-timer.C:
		case <-ctx.Done():
			return fault.ExitDrover, context.Cause(ctx)
		}
		if err != nil {
			return fault.ExitDrover, err
		}
		gone, err := c.handleDueWork(ctx)
		if err != nil {
			return fault.ExitDrover, err
		}
		if gone {
			return c.order.Status, nil
		}
		timer.Reset(c.timeUntilDue())
	}
}

// handleDueWork does what is due: the job's log, the chunks' flushes, chunks, tries.
func (c *mapRunner) handleDueWork(ctx context.Context) (gone bool, err error) {
	if c.bootTime() >= c.nextPoll || c.leavesWhenIdle && len(c.attempts.tries) == 0 { // before it would seek
		if gone, err = c.pollOrder(ctx); gone || err != nil {
			return gone, err
		}
	}
	if c.order.Do != mapagent.Cease {
		err = c.flushChunks(ctx) // in a drain, what ends is not kept until the last item has
	}
	if c.member.TooMany() {
		c.dispatch.recallQueued()
		c.nextPoll = 0
	}
	if err == nil && c.jobWasStopped() {
		err = c.endIdleChunks(ctx)
	}
	if err == nil {
		err = c.reopenGroups(ctx)
	}
	c.attempts.releaseHeldBack(false)
	if err == nil {
		err = c.dispatch.fillGroups(ctx)
	}
	if err == nil && c.slotsAreIdle() && c.bootTime() >= c.nextClaim {
		err = c.claimChunk(ctx)
	}
	c.groups.extendStartDeadline(c.chunks.leastStartDeadline())
	c.progress.updateHeartbeat()
	return false, err
}

// timeUntilDue is how long nothing is due.
func (c *mapRunner) timeUntilDue() time.Duration {
	due := min(c.nextPoll, c.progress.nextHeartbeat)
	if c.slotsAreIdle() {
		due = min(due, c.nextClaim)
	}
	now := c.bootTime()
	for _, w := range c.chunks.chunks {
		if c.order.Do != mapagent.Cease {
			due = min(due, now+w.timeUntilFlush(now))
		}
	}
	if c.attempts.pauseUntil > now {
		due = min(due, c.attempts.pauseUntil)
	}
	if len(c.attempts.heldEnds) > 0 {
		due = min(due, c.attempts.heldEnds[0].until)
	}
	return max(0, due-now)
}

// reopenGroups opens the groups, and opens them anew when other limits bind (J2): once what
// runs by the old ones has ended.
func (c *mapRunner) reopenGroups(ctx context.Context) error {
	if !c.groups.mustReopen() {
		return nil
	}
	if c.dispatch.recallQueued(); len(c.attempts.tries) > 0 {
		return nil
	}
	return c.groups.reopenGroups(ctx)
}

// slotsAreIdle says that slots are free and the chunks have nothing for them. While the job
// is paused or was stopped, others' chunks may want tending.
func (c *mapRunner) slotsAreIdle() bool {
	if c.order.Do != mapagent.Work {
		return len(c.attempts.tries) == 0 && (len(c.chunks.chunks) == 0 || !c.jobWasStopped())
	}
	if c.prepared == nil || c.dispatch.alone != nil || !c.openedFor.hasSameLimits(c.order.Limits) {
		return false
	}
	if c.files.cache != nil {
		return c.chunks.itemsInStock() < max(fetchesAtOnce, c.Slots) // files take their time: what comes next is known before a slot is free
	}
	return c.groups.groupWithMostRoom() != nil
}

// shutTime bounds the storing of output when the map runner ends with an error: a full
// store would never take it.
const shutTime = 10 * time.Second

// shutDown ends all that still runs and all goroutines.
func (c *mapRunner) shutDown(err error) {
	c.cancel()
	c.groups.stopPassingOn()
	if err != nil { // a recorder may wait for a store that takes nothing
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), shutTime)
		defer cancel()
		if err := c.Out.Close(ctx); err != nil {
			c.Log.Warn("log not stored", "err", err)
		}
	}
	c.groups.closeExecutors()
	c.goroutines.Wait()
	c.uploads.deadline.End()
	if c.files.cache != nil {
		c.files.cache.Close()
	}
	c.commands.removeStaged()
}
