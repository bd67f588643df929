package host

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// record is what a claim's file says, one line of JSON. It is written behind the
// gate, by its owner alone: first when it sits down in line, then when it is
// granted.
type record struct {
	Wish
	View  view      `json:"view"`            // the machine as the claimant sees it
	PID   int       `json:"pid"`             // for people
	Since time.Time `json:"since"`           // for people
	Parts []part    `json:"parts,omitempty"` // what all members were given; nil: it waits
	Part  int       `json:"part"`            // which of these is this one's; noPart: it waits
}

const noPart = -1

// part is what one member was given by name. The rest is in its wish.
type part struct {
	Cores []int    `json:"cores,omitempty"`
	GPUs  []device `json:"gpus,omitempty"`
}

// entry is a claim of a living process. Numbers grow, and none is used twice.
type entry struct {
	number int64
	record
}

func (e *entry) isWaiting() bool { return e.Part == noPart }

// line is all claims at one moment, by their numbers, and the paused queues. All
// that is decided follows from it: two readers of the same line decide the same.
type line struct {
	entries []*entry
	paused  map[string]bool
	last    int64 // the highest number in the folder
}

// party is the claims that are granted together.
type party struct {
	*entry            // the one with the lowest number speaks for all
	members  []*entry // by number
	parts    []part   // as in record
	need     units    // of all members
	reserved bool     // it was granted and has not ended
}

// holdersAndWaiters are those that hold, by number, and those that wait, in their order.
// Members that want another amount than the rest are a party of their own.
func (l line) holdersAndWaiters() (holding, waiting []*party) {
	type key struct {
		group   string
		number  int64
		each    Amount
		members int
	}
	all := map[key]*party{}
	var order []*party
	for _, e := range l.entries {
		k := key{e.Group, 0, e.Each, e.Members}
		if e.Group == "" {
			k.number = e.number
		}
		p := all[k]
		if p == nil {
			p = &party{entry: e, need: e.totalUnits()}
			all[k] = p
			order = append(order, p)
		}
		p.members = append(p.members, e)
		if !e.isWaiting() {
			p.parts, p.reserved = e.Parts, true
		}
	}
	for _, p := range order {
		if p.reserved {
			holding = append(holding, p)
		} else {
			waiting = append(waiting, p)
		}
	}
	slices.SortStableFunc(waiting, ahead)
	return holding, waiting
}

// ahead orders the line: claims that do not wait, then by priority, then by number.
func ahead(a, b *party) int {
	if a.Now != b.Now {
		if a.Now {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.number, b.number))
}

// verdict is what a line means for one claim in it.
type verdict struct {
	parts []part // what its party gets; nil: it waits
	part  int    // which of these is its own
	why   string // what it waits for
	place int    // in the whole line of those that wait, from 1
	// watch are the claims with an end it must notice by itself: the one before it in
	// line, or all that hold when it is the first. An end that one claim notices is
	// told to all.
	watch []int64
	seen  int64 // the gate's count when it was looked
}

func (v verdict) isGranted() bool { return v.parts != nil }

// judgeClaim says what the line means for one of its claims that waits.
func (l line) judgeClaim(me *entry) (v verdict) {
	holding, waiting := l.holdersAndWaiters()
	v.place, v.watch = queueUp(me, holding, waiting)
	mine := func(p *party) bool { return slices.Contains(p.members, me) }
	if i := slices.IndexFunc(holding, mine); i >= 0 { // the others were granted it, too
		v.part, v.parts = holding[i].firstFreePart(), holding[i].parts
		return v
	}
	i := slices.IndexFunc(waiting, mine)
	b := weigh(l.paused, holding, waiting[:i], waiting[i])
	if v.why = b.waitInWords(); v.why == "" || me.Now {
		v.why, v.parts = "", b.dealParts()
	}
	return v
}

// queueUp finds the claim's place in line, and which claims it has to watch.
func queueUp(me *entry, holding, waiting []*party) (place int, watch []int64) {
	var inLine, held []int64
	for _, p := range holding {
		for _, e := range p.members {
			if e.isWaiting() {
				inLine = append(inLine, e.number) // its part is not free yet
			} else {
				held = append(held, e.number)
			}
		}
	}
	for _, p := range waiting {
		for _, e := range p.members {
			inLine = append(inLine, e.number)
		}
	}
	i := slices.Index(inLine, me.number)
	if i > 0 {
		return i + 1, inLine[i-1 : i]
	}
	return i + 1, held
}

// firstFreePart is one that no living member has. When all have one, a claim has taken
// a member for dead that is only stopped, and one that comes in its place must not wait
// for it: it shares with the one that came first, which harms its own job alone.
func (p *party) firstFreePart() int {
	first := map[int]int64{} // by part, the claim that has it longest
	many := map[int]int{}
	for _, e := range p.members {
		if n, ok := first[e.Part]; !ok || e.number < n {
			first[e.Part] = e.number
		}
		many[e.Part]++
	}
	best := 0
	for i := range p.parts {
		if many[i] < many[best] || many[i] == many[best] && first[i] < first[best] {
			best = i
		}
	}
	return best
}

// balance is what stands between a party in line and what it wants.
type balance struct {
	*party
	holding []*party
	before  []*party // those ahead in line that their own queue does not hold up
	paused  bool     // its queue
	total   units    // of the machine, as the party sees it
	taken   tally    // of that
	ahead   units    // of that, wanted by those before
	share   units    // of the queue
	used    units    // of that
	peers   units    // of that, wanted by all ahead in the queue
	inQueue []*party // these
}

// weigh counts what p would have to wait for. A claim that a share or a pause holds up is
// promised room in the queue alone, and not of the machine: else one queue would
// hold up the others. Its turn at the machine comes when the queue lets it go.
func weigh(paused map[string]bool, holding, before []*party, p *party) balance {
	b := balance{party: p, holding: holding, paused: paused[p.Queue], total: p.View.totalAmount().roundedUnits(), share: p.Share.limitUnits()}
	if p.View.Memory == 0 {
		b.total[ofMemory] = math.MaxInt64
	}
	b.taken = p.View.countTaken(holding)
	used, wanted := map[string]units{}, map[string]units{}
	for _, h := range holding {
		used[h.Queue] = used[h.Queue].addUnits(h.need)
	}
	for _, o := range before {
		heldUp := paused[o.Queue] || len(o.kindsShort(o.Share.limitUnits(), used[o.Queue], wanted[o.Queue])) > 0
		wanted[o.Queue] = wanted[o.Queue].addUnits(o.need)
		if !heldUp || o.Now {
			b.ahead = b.ahead.addUnits(o.need)
			b.before = append(b.before, o)
		}
		if o.Queue == p.Queue {
			b.inQueue = append(b.inQueue, o)
		}
	}
	b.used, b.peers = used[p.Queue], wanted[p.Queue]
	return b
}

// kindsShort says of which kinds that the party wants there is not enough beside others.
func (p *party) kindsShort(limit units, others ...units) (short []int) {
	all := p.need.addUnits(others...)
	for k := range all {
		if p.need[k] > 0 && all[k] > limit[k] {
			short = append(short, k)
		}
	}
	return short
}

// tally is what others hold of the machine as one process sees it.
type tally struct {
	units
	cores   map[int]bool
	devices map[device]bool
}

// countTaken counts by name what was given by name: cores and GPUs that this view
// does not have are no loss to it.
func (v view) countTaken(holding []*party) tally {
	t := tally{cores: map[int]bool{}, devices: map[device]bool{}}
	for _, p := range holding {
		each := p.Each.roundedUnits()
		for _, one := range p.parts {
			loose := units{ofCores: each[ofCores], ofMemory: each[ofMemory]}
			if one.Cores != nil {
				loose[ofCores] = 0
			}
			t.units = t.addUnits(loose)
			mark(t.cores, v.Cores, one.Cores)
			mark(t.devices, v.GPUs, one.GPUs)
		}
	}
	t.units = t.addUnits(units{ofCores: 1000 * int64(len(t.cores)), ofGPUs: int64(len(t.devices))})
	return t
}

// mark notes those of some that are among all.
func mark[T comparable](set map[T]bool, all, some []T) {
	for _, one := range some {
		if slices.Contains(all, one) {
			set[one] = true
		}
	}
}

// dealParts picks the cores and GPUs for each member. A claim that does not wait gets GPUs that
// others hold where there are too few, and no cores of its own.
func (b balance) dealParts() []part {
	each := b.Each.roundedUnits()
	parts := make([]part, b.Members)
	same := func(n int) int { return n }
	if n := each.wholeCores(); n > 0 {
		all := closest(without(b.View.Cores, b.taken.cores), n*b.Members, same)
		for i := 0; i < b.Members && all != nil; i++ {
			parts[i].Cores = all[i*n : (i+1)*n]
		}
	}
	if n := int(each[ofGPUs]); n > 0 {
		free := without(b.View.GPUs, b.taken.devices)
		all := closest(free, n*b.Members, func(d device) int { return d.Index })
		if all == nil {
			shared := slices.DeleteFunc(slices.Clone(b.View.GPUs), func(d device) bool { return slices.Contains(free, d) })
			all = append(free, shared...)
		}
		for i := range parts {
			parts[i].GPUs = slices.Clone(all[i*n : (i+1)*n])
			slices.SortStableFunc(parts[i].GPUs, func(x, y device) int { return cmp.Compare(x.Index, y.Index) })
		}
	}
	return parts
}

func without[T comparable](all []T, taken map[T]bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return taken[one] })
}

// closest gives the n of free, which is in order, that stand closest together;
// the lowest of several, nil when there are not n.
func closest[T any](free []T, n int, at func(T) int) []T {
	if len(free) < n {
		return nil
	}
	first := 0
	span := func(i int) int { return at(free[i+n-1]) - at(free[i]) }
	for i := range len(free) - n + 1 {
		if span(i) < span(first) {
			first = i
		}
	}
	return free[first : first+n]
}
