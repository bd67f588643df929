package record

import (
	"context"
	"iter"
	"net"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/store"
)

const (
	// poll is how often the listing is read, and new sockets are looked for.
	poll = 2 * time.Second
	// grace is what writers that can be heard are given to say their last after
	// the job has settled; above farewell, and above the time of a last flush.
	grace = 10 * time.Second
	// maxDials bounds how often one socket is tried between two polls. A
	// follower that keeps falling behind comes back at once, but not for ever.
	maxDials = 16
	// quickly is how often sockets are looked for that cost nothing to find: a new
	// attempt of a short program is heard from its first line.
	quickly = 50 * time.Millisecond
)

// FollowOptions say what is followed.
type FollowOptions struct {
	Store  Store
	Prefix string
	Filter Filter
	Clock  store.Clock
	// After says by origin the seq of the last frame that is known already:
	// what ReadTail gave is not given again. It may be nil.
	After map[Origin]uint64
	// Objects says by origin the number of the first object that holds others. It may be
	// nil: then the index of each is read.
	Objects map[Origin]int
	// Live gives the sockets of writers on this machine, as Listen gave them.
	// It is asked again every 2 s and after a loss. nil: there are none, and
	// what is stored is all there is to see.
	Live func(context.Context) []string
	// Every is how often the listing is read and Live is asked; 0 is 2 s. A
	// folder on this machine may be asked far more often than a bucket.
	Every time.Duration
	// Heard is how often the listing is read while a socket is heard, which tells all
	// that its writer says; others are read from the store that late. 0 is Every.
	Heard time.Duration
	// Quick gives sockets as Live does, without a request; it is asked often. With it
	// the store is not listed at once, but after Every if none was found. nil: Live alone.
	Quick func() []string
	// Ended is closed once the job has settled. nil: it never does.
	Ended <-chan struct{}

	dial func(context.Context, string) (net.Conn, error) // nil: dial
}

// Follow gives every frame that the filter chooses, stored ones and new ones,
// each exactly once, in the order of seq for each writer and as they come among
// writers. It ends when the job has settled and all that is stored was given, or
// when ctx does (its cause is then the last error). Another error says that the
// store could not be asked, or holds something damaged: a caller that goes on ranging
// goes on following.
func Follow(ctx context.Context, o FollowOptions) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		f := &follower{
			o:      o,
			reader: Reader{Store: o.Store, Prefix: o.Prefix, Filter: o.Filter, after: o.After, objects: o.Objects},
			yield:  yield,
			news:   make(chan news),
			links:  map[string]*link{},
			done:   map[string]bool{},
			dials:  map[string]int{},
		}
		if f.o.Clock == nil {
			f.o.Clock = store.System
		}
		if f.o.Every == 0 {
			f.o.Every = poll
		}
		if f.o.dial == nil {
			f.o.dial = private.Dial
		}
		defer f.running.Wait()
		defer cancel()
		f.followAll(ctx)
	}
}

// follower is the state of one Follow. Only the goroutine that ranges touches
// it; links send news.
type follower struct {
	o       FollowOptions
	reader  Reader
	yield   func(Frame, error) bool
	running sync.WaitGroup // links and timers
	news    chan news

	links   map[string]*link // by address: those that run
	done    map[string]bool  // addresses that have nothing more for us
	dials   map[string]int   // by address, since the last poll
	settled bool
	lacks   bool          // the store has what a socket did not give
	listed  time.Duration // when it was listed last
}

func (f *follower) followAll(ctx context.Context) {
	linked, hangUp := context.WithCancel(ctx)
	defer hangUp()
	ticks := f.tickEvery(ctx, f.o.Every)
	ended := f.o.Ended
	var graceOver, looks <-chan struct{}
	asked := false // Live is due
	f.lacks = f.o.Quick == nil
	f.listed = f.o.Clock.Boot()
	if f.o.Quick != nil {
		looks = f.tickEvery(ctx, quickly)
	}
	for {
		if f.listingIsDue() {
			f.lacks, f.listed = false, f.o.Clock.Boot()
			if goOn, _ := f.reader.Scan(ctx, false, f.yield); !goOn {
				return
			}
		}
		if f.o.Quick == nil || asked {
			f.connectSockets(ctx, linked)
		} else {
			f.dialMissing(linked, f.o.Quick())
		}
		asked = false
		if f.settled && len(f.links) == 0 && f.readToEnd(ctx) {
			return
		}
		for again := false; !again; {
			select {
			case n := <-f.news:
				var goOn bool
				if goOn, again = f.handleNews(n); !goOn {
					return
				}
			case <-ticks:
				clear(f.dials)
				again, asked = true, true
			case <-looks:
				f.dialMissing(linked, f.o.Quick())
			case <-ended:
				ended, f.settled, again = nil, true, true
				graceOver = f.closedAfter(ctx, grace)
			case <-graceOver:
				graceOver, again = nil, true
				hangUp()
				f.dropLinks()
			case <-ctx.Done():
				f.yield(Frame{}, context.Cause(ctx))
				return
			}
		}
	}
}

// listingIsDue says whether the store is to be listed now.
func (f *follower) listingIsDue() bool {
	since := f.o.Clock.Boot() - f.listed
	switch {
	case f.lacks || f.o.Quick == nil:
		return true
	case f.settled:
		return false // the last look is to come
	case len(f.links) > 0:
		return since >= max(f.o.Heard, f.o.Every)
	}
	return since >= f.o.Every
}

// readToEnd reads the store to its end, now that no writer can be heard any more. It is
// true when there is nothing left to do.
func (f *follower) readToEnd(ctx context.Context) bool {
	goOn, listed := f.reader.Scan(ctx, true, f.yield)
	if !goOn {
		return true
	}
	goOn, probed := f.reader.readPastListing(ctx, f.yield)
	return !goOn || listed && probed
}

// connectSockets starts a link to every socket that has none. Once linked has ended
// there are no more.
func (f *follower) connectSockets(ctx, linked context.Context) {
	if f.o.Live == nil || linked.Err() != nil {
		return
	}
	f.dialMissing(linked, f.o.Live(ctx))
}

// dialMissing starts the links that are missing.
func (f *follower) dialMissing(linked context.Context, addrs []string) {
	if linked.Err() != nil {
		return
	}
	for _, addr := range addrs {
		if f.links[addr] != nil || f.done[addr] || f.dials[addr] >= maxDials {
			continue
		}
		f.dials[addr]++
		its, hangUp := context.WithCancel(linked)
		l := &link{addr: addr, from: make(chan uint64, 1), hangUp: hangUp}
		f.links[addr] = l
		f.running.Go(func() { l.readSocket(its, f.o.dial, f.news) })
	}
}

// handleNews takes in what a link told. goOn is false when yield said stop; again asks
// for another look at the store and the sockets.
func (f *follower) handleNews(n news) (goOn, again bool) {
	l := n.link
	if f.links[l.addr] != l {
		return true, false // let go of already
	}
	switch n.what {
	case greeted:
		f.greetLink(l, n.at)
		return true, f.settled && len(f.links) == 0
	case framed:
		c := l.cursor
		switch {
		case n.f.Seq > c.Next: // it left some out: the store has them
			f.lacks = true
			f.closeLink(l)
			return true, true
		case n.f.Seq == c.Next:
			c.Next++
			return !f.reader.Filter.wantsFrame(&n.f) || f.yield(n.f, nil), false
		}
		return true, false
	case finished:
		f.done[l.addr] = true
		if l.cursor != nil {
			l.cursor.whole = true
		}
	case lost:
		f.lacks = true
	case absent:
		// An absent writer is absent until the next poll, or for good.
		f.dials[l.addr] = maxDials
		f.done[l.addr] = f.settled
	}
	f.closeLink(l)
	return true, n.what != absent && (n.what != finished || f.o.Quick == nil) || f.settled
}

// greetLink tells a link where to begin, or lets it go: it is of a writer that is
// not wanted, or that another address gives already.
func (f *follower) greetLink(l *link, at Origin) {
	if !f.reader.Filter.Origin(at) {
		f.done[l.addr] = true
		f.closeLink(l)
		return
	}
	c := f.reader.cursorOf(at)
	if c.live {
		f.closeLink(l)
		return
	}
	c.live, l.cursor = true, c
	l.from <- c.Next
}

// closeLink hangs up; from the next look on the store is read for that writer.
func (f *follower) closeLink(l *link) {
	l.hangUp()
	delete(f.links, l.addr)
	if l.cursor != nil {
		l.cursor.live = false
	}
}

// dropLinks forgets all of them.
func (f *follower) dropLinks() {
	for _, l := range f.links {
		f.closeLink(l)
	}
}

// tickEvery ticks until ctx ends. A tick that is not taken is not made up for.
func (f *follower) tickEvery(ctx context.Context, d time.Duration) <-chan struct{} {
	ticks := make(chan struct{})
	f.running.Go(func() {
		for f.o.Clock.Sleep(ctx, d) == nil {
			select {
			case ticks <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	})
	return ticks
}

// closedAfter is closed once d has passed.
func (f *follower) closedAfter(ctx context.Context, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	f.running.Go(func() {
		if f.o.Clock.Sleep(ctx, d) == nil {
			close(over)
		}
	})
	return over
}
