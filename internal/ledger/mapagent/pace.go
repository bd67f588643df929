package mapagent

import (
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
)

// pace is how often a hold turns to the store (M5, M8, M9).
type pace struct {
	flush    time.Duration // results wait so long at most
	StartFor time.Duration // items begin so long after the log was read, at most: longer than flush
	balance  time.Duration // between two looks for idle agents
	worth    time.Duration // of work that is handed over at least; 0: what fills all slots once
}

var nearPace = pace{flush: 50 * time.Millisecond, StartFor: time.Second, balance: 200 * time.Millisecond}

// FarPace is that of agents which share an object store: the more there are, the
// longer results wait, from 10 s for a few to 30 s for thousands. What is written is
// most of what a store costs, and an agent that dies takes no more with it than its
// risk. A few hand over whatever there is: it costs little, and their job ends sooner.
// The start deadline stays below a Lease: an agent that slept through one starts nothing.
func FarPace(agents int) pace {
	const least, most = 10 * time.Second, 30 * time.Second
	flush := least
	for n := FewAgents; n < agents && flush < most; n *= 2 {
		flush += 4 * time.Second
	}
	flush = min(flush, most)
	p := pace{flush: flush, StartFor: flush * 3 / 2, balance: flush}
	if agents > FewAgents {
		p.worth = 2 * time.Second
	}
	return p
}

// BackOff is how long an item waits after its nth failure.
func BackOff(n int) time.Duration { return min(time.Second<<min(n-1, 6), time.Minute) }

// tryTimes is how long our tries take.
type tryTimes struct {
	tries int           // that count
	took  time.Duration // each of them, on average
}

// timeTry keeps how long our tries take: the mean of the last dozens of them.
func (m *tryTimes) timeTry(r protocol.Result) {
	const last = 64
	if wall := time.Duration(r.Wall) * time.Microsecond; wall > 0 {
		m.tries = min(m.tries+1, last)
		m.took += (wall - m.took) / time.Duration(m.tries)
	}
}

// leastHandoff is how many items are worth a chunk of their own, that asks for half a dozen
// writes and some reads: they fill another's slots, and for a while.
func (m *MapMember) leastHandoff() int {
	if m.took == 0 {
		return m.o.Slots
	}
	return m.o.Slots * max(1, int(m.Pace.worth/m.took))
}
