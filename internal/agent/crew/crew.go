// Package crew is the map runner, an agent's part in a map: it works through the chunks
// that its ledger.MapMember holds, a process for each try of an item, many thousands a
// second where they are small.
//
//	MapMember -- loop == gang == spawner == items      gangs are as many as cores;
//	    store     |        |-- scribe                  where items have limits, one,
//	              |-- shelf, one for each chunk         with a minder for each item
//	              |-- larder, where items name files to fetch
//	              `-- porters, where outputs are declared
//
// One goroutine, the loop, calls all of the member's and holds' methods and decides
// everything; it waits for nothing but the store. A gang starts tries and reports how
// they ended. Its output recorder (scribe) records what they print, before the loop
// hears of their end. A shelf reads the items of a chunk ahead, and the prefetch cache
// (larder) fetches the files of the next ones. Uploaders (porters) store and verify the
// outputs of a try; only then its result is given to its hold.
//
// It refuses to know how an agent gets ready, targets and command lines. Proved by
// its tests: real small programs, hostile ones among them, over the memory store
// and the real ledger.
package crew

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/crew/larder"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Config is what an agent gives its crew.
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
	// Beat changes what the next heartbeat says; now has it come at once.
	Beat func(now bool, change func(*protocol.Heartbeat))
	Log  *slog.Logger

	// Notice says that the agent must go. One value.
	Notice <-chan Notice
	// Struck is closed when an engine has sent SIGTERM to all processes of this
	// machine, before Notice says why: see struck. Nil: it never does.
	Struck <-chan struct{}
	// Sooner is closed when the agent has less time since than Notice said.
	Sooner <-chan struct{}
	// Kit comes once, when all is prepared. Unneeded is called when it need not
	// come any more.
	Kit      <-chan Kit
	Unneeded func()
	// Hush is called when the job was removed: no agent writes for it any more (E6).
	Hush func()
	// Leftovers is called when no item runs any more, if any could have.
	Leftovers func()
	// Warn leaves word for the programs that items should end, and why; left is the time
	// that they have, 0: as long as they take. "" takes it back.
	Warn func(why string, left time.Duration)
	// OpenPlace opens a bucket of any owner by its URL, for items that are objects. Nil:
	// such fail.
	OpenPlace func(ctx context.Context, url string) (store.Bucket, error)
	// MaxStored is the most bytes that one try may leave as outputs; 0 is no limit.
	MaxStored int64
	// Patience is how long results wait for room in a full store.
	Patience time.Duration

	open  func(context.Context, proc.SpawnerConfig) (starter, error) // tests; nil: proc.OpenSpawner
	pause func(context.Context, time.Duration) error                 // tests; nil: between two requests for a file, by the clock
}

// Notice is why an agent must leave before its job has ended.
type Notice struct {
	Asked bool   // by a person, not by the machine
	Why   string // one sentence
	// Signal is what items get before SIGTERM, which follows after the grace; 0: nothing.
	Signal syscall.Signal
	// ForGood says that no engine is to start another agent in its place.
	ForGood bool
}

// Kit is what items are run with.
type Kit struct {
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
	// nearBeat is how often a person sees the counts move.
	nearBeat = time.Second
	// exitLater is EX_TEMPFAIL: engines that restart on failure start another agent.
	exitLater = 75
)

// crew is one run of Run.
type crew struct {
	Config
	member *mapagent.MapMember
	order  mapagent.MapOrder
	kit    *Kit
	chart  chart // of the items
	clock  store.Clock

	works    []*work         // by hold
	gangs    []*gang         // none before the kit has come
	needs    needs           // what the gangs were opened for
	tries    map[uint64]*try // sent, or about to be, by errand
	lone     *try            // it waits until nothing else runs
	serial   uint32          // of errands
	pace     pace
	rest     time.Duration    // nothing is sent before
	licensed time.Duration    // what the gangs were told last
	storing  int              // tries with outputs that are being stored
	bulk     int64            // bytes that one leaves, lately
	cargoes  int64            // bytes of these outputs
	files    *manifest.Stored // those that were stored, beside it
	larder   *larder.Larder   // nil: items name no files that are to be fetched, or there is no kit yet
	arrived  <-chan struct{}
	waiting  []*try // that were taken from their holds and have no files yet

	doubts []doubt // oldest first

	reports chan report
	pages   chan page
	stored  chan carried
	stores  stores
	cargo   *cargoQueue   // to the porters
	leaving atomic.Bool   // an agent that must go does not wait for room
	hurry   chan struct{} // closed with it
	notice  Notice        // valid when hurry is closed

	word word // to programs, of their end

	life  context.Context // of the goroutines, until shut
	end   context.CancelFunc
	hands sync.WaitGroup // shelves, porters, and the one that waits for the notice

	chores chan func(context.Context) error // of runChores, which has ended when index is done
	index  sync.WaitGroup

	stale                  bool               // it leaves once nothing runs: see goes
	polled, sought, beaten time.Duration      // when it is due next
	said                   protocol.Heartbeat // what the last heartbeat said of the work
}

// Run works until the job has ended, nothing is left for this agent, or it must
// go. It returns the status that the agent should end with; what it started is
// gone then.
func Run(ctx context.Context, c Config) (status int, err error) {
	if c.open == nil {
		c.open = func(ctx context.Context, s proc.SpawnerConfig) (starter, error) { return proc.OpenSpawner(ctx, s) }
	}
	w := &crew{Config: c, clock: c.World.Store.Clock(), tries: map[uint64]*try{}, hurry: make(chan struct{}),
		reports: make(chan report, 8), pages: make(chan page), stored: make(chan carried), chores: make(chan func(context.Context) error, maxChores), cargo: newCargoQueue()}
	w.member = mapagent.NewMapMember(c.World, c.Job, c.ID, c.Self, mapagent.MapOptions{Slots: c.Slots, Near: c.Near, Risk: risk(c.Job.Spec), Later: w.queueChore})
	w.life, w.end = context.WithCancel(ctx)
	w.stores.openContext(w.life)
	w.hands.Go(w.watchNotice)
	w.index.Go(w.runChores)
	for range porters(c.Slots) {
		w.hands.Go(w.runPorter)
	}
	status, err = w.runLoop(ctx)
	if close(w.chores); err != nil {
		w.end()
	}
	w.index.Wait()
	w.shutDown(err)
	return status, err
}

// watchNotice ends with the notice, or with life. Programs hear of it at once. It closes
// hurry, which also ends a wait for room in the store.
func (c *crew) watchNotice() {
	select {
	case c.notice = <-c.Notice:
		c.leaving.Store(true)
		left := c.gracePeriod()
		if c.notice.Signal != 0 {
			left *= 2
		}
		c.warnPrograms(cmp.Or(c.notice.Why, "the agent leaves"), left)
		close(c.hurry)
	case <-c.life.Done():
	}
}

// maxChores may wait before the loop does.
const maxChores = 16

// queueChore has indexes stored beside the loop, which waits for the store often enough.
func (c *crew) queueChore(store func(context.Context) error) { c.chores <- store }

// runChores stores them until the loop is over.
func (c *crew) runChores() {
	for store := range c.chores {
		_ = store(c.life) // a store that is full loses nothing by it
	}
}

// runLoop is the crew's one decider.
func (c *crew) runLoop(ctx context.Context) (status int, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.hurry:
			return c.leaveEarly(ctx)
		case k := <-c.Kit:
			c.Kit = nil
			err = c.beginWithKit(ctx, k)
		case r := <-c.reports:
			err = c.handleReport(ctx, r)
		case p := <-c.pages:
			err = c.acceptPage(p)
		case s := <-c.stored:
			err = c.acceptDelivered(s)
		case <-c.arrived:
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

// handleDueWork does what is due: the job's log, the holds' flushes, chunks, tries.
func (c *crew) handleDueWork(ctx context.Context) (gone bool, err error) {
	if c.bootTime() >= c.polled || c.stale && len(c.tries) == 0 { // before it would seek
		if gone, err = c.pollOrder(ctx); gone || err != nil {
			return gone, err
		}
	}
	if c.order.Do != mapagent.Cease {
		err = c.flushHolds(ctx) // in a drain, what ends is not kept until the last item has
	}
	if c.member.TooMany() {
		c.recallQueued()
		c.polled = 0
	}
	if err == nil && c.jobWasStopped() {
		err = c.endIdleHolds(ctx)
	}
	if err == nil {
		err = c.reopenGangs(ctx)
	}
	c.releaseHeldBack(false)
	if err == nil {
		err = c.fillGangs(ctx)
	}
	if err == nil && c.slotsAreIdle() && c.bootTime() >= c.sought {
		err = c.claimChunk(ctx)
	}
	c.extendStartDeadline()
	c.updateHeartbeat()
	return false, err
}

// bootTime is the boot time, by which all is measured.
func (c *crew) bootTime() time.Duration { return c.clock.Boot() }

// timeUntilDue is how long nothing is due.
func (c *crew) timeUntilDue() time.Duration {
	due := min(c.polled, c.beaten)
	if c.slotsAreIdle() {
		due = min(due, c.sought)
	}
	now := c.bootTime()
	for _, w := range c.works {
		if c.order.Do != mapagent.Cease {
			due = min(due, now+w.timeUntilFlush(now))
		}
	}
	if c.rest > now {
		due = min(due, c.rest)
	}
	if len(c.doubts) > 0 {
		due = min(due, c.doubts[0].until)
	}
	return max(0, due-now)
}

// jobWasStopped says that the job was: each hold is wound up once nothing of it runs.
func (c *crew) jobWasStopped() bool {
	return c.order.Do == mapagent.Drain || c.order.Do == mapagent.Cease
}

// slotsAreIdle says that slots are free and the holds have nothing for them. While the job
// is paused or was stopped, others' chunks may want tending.
func (c *crew) slotsAreIdle() bool {
	if c.order.Do != mapagent.Work {
		return len(c.tries) == 0 && (len(c.works) == 0 || !c.jobWasStopped())
	}
	if c.kit == nil || c.lone != nil || !c.needs.hasSameLimits(c.order.Limits) {
		return false
	}
	if c.larder != nil {
		return c.itemsInStock() < max(fetchHands, c.Slots) // files take their time: what comes next is known before a slot is free
	}
	return c.gangWithMostRoom() != nil
}

// updateHeartbeat tells the heartbeat how far the work is, when that has changed.
func (c *crew) updateHeartbeat() {
	if c.bootTime() < c.beaten {
		return
	}
	if c.beaten = math.MaxInt64; c.kit == nil {
		return // nothing to tell before
	}
	c.beaten = c.bootTime() + protocol.HeartbeatEvery
	if c.Near {
		c.beaten = c.bootTime() + nearBeat
	}
	var b protocol.Heartbeat
	c.member.FillHeartbeat(&b)
	if b.Recorded == c.said.Recorded && b.Failed == c.said.Failed && b.Flight == c.said.Flight && slices.Equal(b.Chunks, c.said.Chunks) {
		return
	}
	c.said = b
	c.Beat(c.Near, func(to *protocol.Heartbeat) {
		to.Recorded, to.Failed, to.Flight, to.Chunks = b.Recorded, b.Failed, b.Flight, b.Chunks
	})
}

// shutTime bounds the storing of output when the crew ends with an error: a full
// store would never take it.
const shutTime = 10 * time.Second

// shutDown ends all that still runs and all goroutines.
func (c *crew) shutDown(err error) {
	c.end()
	for _, g := range c.gangs {
		g.stopPassingOn()
	}
	if err != nil { // a scribe may wait for a store that takes nothing
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), shutTime)
		defer cancel()
		if err := c.Out.Close(ctx); err != nil {
			c.Log.Warn("log not stored", "err", err)
		}
	}
	for _, g := range c.gangs {
		g.closeRunner()
	}
	c.hands.Wait()
	c.stores.endForGood()
	if c.larder != nil {
		c.larder.Close()
	}
	c.removeStaged()
}
