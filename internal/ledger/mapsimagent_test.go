package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// mapAgent is a machine that the driver was asked for, and package agent's loop
// over simulated items: one that uses MapMember and OwnedChunk as the map runner does.
type mapAgent struct {
	s      *yard
	p      *process
	w      protocol.World
	agent  string
	job    string
	placed int
	index  int

	member *mapagent.MapMember
	order  mapagent.MapOrder
	pollAt time.Duration
	seekAt time.Duration

	// The spawner is a process of its own: it goes on while the agent stands still.
	running []*mapTry
	waiting []*waitingTry
	backs   []*waitingTry // their licence ran out before a slot was free
	ended   []*mapTry     // not seen by the agent yet
	frozen  time.Duration // the whole machine stands still until

	told            protocol.Verdict // Interrupted: notice. AskedToStop: Ctrl-C
	toldAt, died    time.Duration
	killedBy        int // the item that killed it
	code            string
	heard           time.Duration // all that stood in the job's log by then is known to it
	stale, yields   bool          // it has other code than items are to run with; it leaves because of that
	taken, broke    bool
	disowned        bool
	departed        time.Duration
	departedSettled bool
	counter         int64
	beats           []time.Duration // when its counter moved, in the store
	joined          time.Duration
	left            bool
	found           time.Duration                // when it last found a chunk
	unheld          int                          // looks for work in a row that left a chunk of its own aside
	leftAt          time.Duration                // when its last heartbeat was written
	wasFull         []span                       // when it waited for room
	holds           map[*mapagent.OwnedChunk]int // number of the claim that each is of
}

// waitingTry is one that was handed to the spawner and has not begun.
type waitingTry struct {
	hold  *mapagent.OwnedChunk
	try   mapagent.Try
	until time.Duration // boot time
}

func (a *mapAgent) run(p *process) {
	s := a.s
	a.w = s.ledgerOf(p)
	p.sleep(s.between(10*time.Millisecond, s.boot))
	if a.placed <= s.stillborn {
		a.broke = true
		s.seen["died before it began"]++
		p.end()
	}
	path := pathOf(a.job)
	j, err := tasks.LoadJob(ctx, a.w, path)
	if errors.Is(err, store.ErrNotExist) {
		p.end()
	}
	must(err)
	a.agent = liveness.NewAgentID(a.w, a.placed, a.index)
	for _, o := range s.built {
		if o != a && o.agent == a.agent {
			s.violate("L2: two agents are called %s", a.agent)
		}
	}
	j = a.bind(j)
	host := protocol.Host{Boot: "b", Namespace: "n", PID: 1 + slices.Index(s.procs, p)}
	a.member = mapagent.NewMapMember(a.w, j, a.agent, host, mapagent.MapOptions{Slots: s.slots, Near: s.near})
	a.member.Risk, a.member.FewAgents, a.member.Scanner = s.risk, s.few, s.scouts
	if s.crowd {
		a.member.Pace = mapagent.FarPace(10_000)
		a.member.ListAtLeast = mapagent.StandbysLeast + 1
	}
	a.joined = s.now
	p.spawn(func(p *process) { a.heart(p, s.ledgerOf(p), path, host) })
	ready := s.now
	if s.chance(30) {
		ready += s.between(0, 10*time.Second)
	}
	for prepared := false; ; {
		if !prepared && s.now >= ready {
			a.member.Ready()
			prepared = true
		}
		if !a.turn(p) {
			break
		}
		p.idle(a.rest())
	}
	p.end()
}

func (a *mapAgent) heart(p *process, w protocol.World, path job.Path, host protocol.Host) {
	for n := int64(1); !a.left; n++ {
		b := protocol.Heartbeat{Agent: a.agent, Counter: n, Host: host, Phase: "running", Slots: a.s.slots}
		a.member.FillHeartbeat(&b)
		if err := liveness.WriteHeartbeat(ctx, w, path, b); err != nil && !full(err) {
			panic(err)
		}
		p.sleep(protocol.HeartbeatEvery)
	}
}

// stuck waits a little when the store has no room; anything else is the agent's end.
func (a *mapAgent) stuck(err error) bool {
	if err == nil {
		return false
	}
	if !full(err) {
		panic(err)
	}
	a.s.seen["waited for room"]++
	from := a.s.now
	a.p.sleep(a.s.between(time.Second, 4*time.Second))
	a.wasFull = append(a.wasFull, span{from, a.s.now})
	return true
}

// turn is one turn of the loop; false when the agent is to go.
func (a *mapAgent) turn(p *process) bool {
	s := a.s
	if a.told != "" {
		a.leave()
		return false
	}
	a.reap()
	if s.now >= a.pollAt || a.stale && len(a.running)+len(a.ended) == 0 {
		from := s.now
		o, err := a.member.Poll(ctx)
		if a.stuck(err) {
			return true
		}
		a.heard = from
		s.seen[fmt.Sprintf("order %d", o.Do)]++
		a.order, a.pollAt = o, s.now+s.pollEvery()
		if a.stale = a.outdated() || o.Do == mapagent.Quit; a.stale && a.yield() {
			return false
		}
	}
	switch a.order.Do {
	case mapagent.Depart:
		a.depart()
		return false
	case mapagent.Cease:
		// an order that was given before the drain may be of an earlier round's stop
		if t := s.tales[a.job]; t.stop != nil && t.stop.Drain && t.settled == nil && a.heard > t.stopAt {
			s.violate("E2: %s ends what runs, and %s is drained", a.agent, a.job)
		}
		a.killAll(nil)
		a.wind()
	case mapagent.Drain:
		a.takeBack()
		if len(a.running)+len(a.ended) == 0 {
			a.wind()
		}
	case mapagent.Rest, mapagent.Quit:
		a.takeBack()
	case mapagent.Work:
		a.fill()
	}
	a.flush()
	if a.order.Do == mapagent.Work && a.index%2 == 0 { // some do it in this order, some look further first
		a.fill()
	}
	a.seek()
	return true
}

// pollEvery is within what E5 allows.
func (s *yard) pollEvery() time.Duration {
	if s.near {
		return s.between(200*time.Millisecond, 2*time.Second)
	}
	return s.between(5*time.Second, 13*time.Second)
}

// rest is how long the loop may sleep.
func (a *mapAgent) rest() time.Duration {
	s := a.s
	if len(a.ended)+len(a.backs) > 0 {
		return time.Millisecond
	}
	d := min(a.pollAt-s.now, 5*time.Second)
	for _, h := range a.member.Owned() {
		d = min(d, h.Due())
	}
	if len(a.waiting) == 0 && len(a.running) < s.slots {
		d = min(d, a.seekAt-s.now)
	}
	least := 20 * time.Millisecond
	if s.near {
		least = 5 * time.Millisecond
	}
	return max(d, least)
}

// fill gives the spawner what may begin.
func (a *mapAgent) fill() {
	s := a.s
	for _, h := range a.member.Owned() {
		for len(a.running)+len(a.waiting) < s.slots+s.window {
			try, ok := h.Next()
			if !ok {
				break
			}
			a.waiting = append(a.waiting, &waitingTry{h, try, h.StartDeadline()})
			if slow := 2; s.chance(slow) || try.Alone && s.chance(10*slow) { // so slow that the licence may run out
				s.at(s.now+s.between(0, 20*time.Second), a.pump)
				break
			}
			a.pump()
		}
	}
}

func (a *mapAgent) boot() time.Duration { return simClock{a.p}.Boot() }

// pump is the spawner: it starts what waits while slots are free.
func (a *mapAgent) pump() {
	for len(a.waiting) > 0 && len(a.running) < a.s.slots && !a.p.dead && a.frozen <= a.s.now {
		w := a.waiting[0]
		a.waiting = a.waiting[1:]
		if a.boot() >= w.until {
			a.backs = append(a.backs, w)
			a.s.seen["licence ran out"]++
			a.wake()
			continue
		}
		a.begin(w)
	}
}

func (a *mapAgent) wake() {
	if len(a.p.coros) > 0 {
		a.p.coros[mainLoop].poke()
	}
}

// begin starts a try; it ends by itself in time, if nothing ends it before.
func (a *mapAgent) begin(w *waitingTry) {
	s := a.s
	try := &mapTry{agent: a, hold: w.hold, job: a.job, item: w.try.Item, name: w.try.Name, nth: w.try.N, alone: w.try.Alone, ooms: w.try.OOMs,
		chunk: w.hold.ID(), begun: s.now}
	if try.item < 1 {
		s.violate("M13: %s begins an item that nothing names", a.agent)
		return
	}
	s.checkBegin(try)
	a.running = append(a.running, try)
	s.tries = append(s.tries, try)
	s.names[a.job+"/"+try.name] = try
	s.logf("%s begins item %d as %s", a.p.name, try.item, try.name)
	nature := s.nature[a.job][try.item-1]
	how, takes := "ok", nature.takes/2+s.between(0, nature.takes+1)
	switch k := nature.kind; {
	case k == badItem, k == onceItem && s.failures(try) < nature.fails:
		how = "failed"
	case k == hanging:
		how, takes = "timed out", a.order.Timeout
	case k == killer, k == loneWolf && try.alone, k == crowdItem && !try.alone:
		how = "kills"
		takes = s.between(0, 2*time.Second)
	}
	s.seen["item "+nature.kind]++
	a.ends(try, how, takes)
}

// failures counts how often an item has failed so far.
func (s *yard) failures(try *mapTry) (n int) {
	for _, o := range s.tries {
		if o.job == try.job && o.item == try.item && o.how == "failed" {
			n++
		}
	}
	return n
}

func (a *mapAgent) ends(try *mapTry, how string, in time.Duration) {
	s := a.s
	s.at(s.now+in, func() {
		switch {
		case try.how != "":
		case a.frozen > s.now:
			a.ends(try, how, a.frozen-s.now+time.Millisecond)
		case how == "kills":
			s.logf("item %d kills %s", try.item, a.p.name)
			a.killedBy = try.item
			s.checkDeed(try)
			a.p.kill()
		default:
			a.over(try, how)
			a.ended = append(a.ended, try)
			a.pump()
			a.wake()
		}
	})
}

func (a *mapAgent) over(try *mapTry, how string) {
	try.how, try.ended = how, a.s.now
	a.running = slices.DeleteFunc(a.running, func(o *mapTry) bool { return o == try })
}

// onDeath ends all that runs: a process tree dies whole.
func (a *mapAgent) onDeath() {
	a.died = a.s.now
	for _, try := range slices.Clone(a.running) {
		a.over(try, "killed")
	}
	a.waiting = nil
}

// killAll ends what runs of a hold, of all when it is nil.
func (a *mapAgent) killAll(h *mapagent.OwnedChunk) {
	for _, try := range slices.Clone(a.running) {
		if h == nil || try.hold == h {
			try.dropped = true
			a.over(try, "killed")
		}
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(w *waitingTry) bool { return h == nil || w.hold == h })
	a.pump()
}

// takeBack empties the spawner's queue: nothing is to begin.
func (a *mapAgent) takeBack() {
	a.backs = append(a.backs, a.waiting...)
	a.waiting = nil
}

// reap takes what has ended to the ledger: outputs first, then the result.
func (a *mapAgent) reap() {
	for len(a.backs) > 0 {
		w := a.backs[0]
		a.backs = a.backs[1:]
		if slices.Contains(a.member.Owned(), w.hold) {
			w.hold.Back(w.try.Item)
		}
	}
	for len(a.ended) > 0 {
		try := a.ended[0]
		if a.s.outputs && try.how == "ok" {
			key := fmt.Sprintf("%s/%s", protocol.OutPrefix(pathOf(a.job), try.item, try.name), "o")
			if _, _, err := a.w.Store.CreateOnce(ctx, key, []byte(try.name)); a.stuck(err) {
				continue
			}
		}
		a.ended = a.ended[1:]
		if !slices.Contains(a.member.Owned(), try.hold) {
			try.dropped = true
			continue
		}
		r := protocol.Result{Item: try.item, Try: try.name, Ended: a.s.now.Microseconds(), Wall: (try.ended - try.begun).Microseconds()}
		if try.how != "ok" {
			r.Failed, r.Code, r.Kind = true, 1, map[string]string{"timed out": job.FailTime}[try.how]
			if try.item%3 == 0 && r.Kind == "" { // it had too little memory
				r.Kind = job.FailMemory
			}
		}
		try.retries = a.s.tales[a.job].retriesSince(a.heard)
		try.hold.Done(r)
		try.given = a.s.now
	}
}

// flush does what is due of the holds.
func (a *mapAgent) flush() {
	for _, h := range a.member.Owned() {
		if h.Due() > 0 {
			continue
		}
		fate, err := h.Flush(ctx)
		if a.stuck(err) {
			continue
		}
		a.s.seen[fmt.Sprintf("fate %d", fate)]++
		a.checkPassed(h, fate)
		if fate != mapagent.Holding {
			a.killAll(h)
		}
	}
}

// wind ends the holds of a job that was stopped.
func (a *mapAgent) wind() {
	for _, h := range a.member.Owned() {
		if a.stuck(h.Wind(ctx)) {
			continue
		}
		a.killAll(h)
	}
}

// seek looks for more when slots are idle.
func (a *mapAgent) seek() {
	s := a.s
	if a.stale || a.order.Do == mapagent.Drain && len(a.running) > 0 || len(a.waiting) > 0 || len(a.running) >= s.slots || s.now < a.seekAt {
		return
	}
	from := s.now
	h, err := a.member.Seek(ctx)
	if a.stuck(err) {
		return
	}
	if a.checkUnheld(from); h != nil {
		a.found = s.now
	}
	if h == nil {
		a.seekAt = s.now + max(a.member.Again(), s.lazy())
	}
}

// lazy keeps a near agent from looking more often than the world can afford.
func (s *yard) lazy() time.Duration {
	if s.near {
		return 400 * time.Millisecond
	}
	return 0
}

// leave is the way out of one that was told to go.
func (a *mapAgent) leave() {
	s, asked := a.s, a.told == protocol.AskedToStop
	a.takeBack()
	if s.chance(40) {
		a.p.sleep(s.between(0, 5*time.Second)) // what runs may end meanwhile
	}
	for _, try := range slices.Clone(a.running) {
		a.over(try, "killed")
	}
	a.reap()
	for len(a.member.Owned()) > 0 {
		for _, h := range a.member.Owned() {
			a.stuck(h.Release(ctx, asked))
		}
	}
	a.goodbye()
}

// depart is the way out of one that may go.
func (a *mapAgent) depart() {
	s, t := a.s, a.s.tales[a.job]
	if a.hushed() {
		return
	}
	if len(a.running) > 0 {
		s.violate("M12: %s may go and runs item %d", a.agent, a.running[0].item)
	}
	if a.order.Settled == nil {
		s.checkLeft(a)
	} else {
		s.checkTold(a.p.name, a.job, *a.order.Settled)
		for a.stuck(a.member.Leave(ctx)) {
		}
	}
	s.logf("%s departs, spare %d", a.p.name, a.member.Members.Standby)
	a.departed, a.departedSettled = s.now, t.settled != nil
	a.goodbye()
}

// goodbye is an agent's last heartbeat.
func (a *mapAgent) goodbye() {
	a.left = true
	b := protocol.Heartbeat{Agent: a.agent, Counter: a.s.now.Microseconds(), Phase: protocol.Left, Asked: a.told == protocol.AskedToStop}
	if err := liveness.WriteHeartbeat(ctx, a.w, pathOf(a.job), b); err != nil && !full(err) {
		panic(err)
	}
	a.leftAt = a.s.now
}
