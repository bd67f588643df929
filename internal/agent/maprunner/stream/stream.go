// Package stream runs programs that answer many items each. Such a program loads
// once what is slow to load, and asks for items over a socket (DROVER_SOCK).
//
//	Runner == slot -- program        a slot is a slot: one process tree at a time
//	              \-- connection     each asks, is given some, answers in order
//
// A slot's program is started again when it has ended and items are left. Items that
// it had been given and did not answer are suspects: they are given to the next program
// alone, one after another. An item that ends a program which has done nothing else has
// failed. No other item is blamed, for the items before it may have used up the program's
// memory.
//
// It refuses to know what items mean, ledgers and the store. Proved by its tests,
// with programs in Python, Bash, Go and Node.
package stream

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/proc"
)

// Config is what the programs of a Runner have in common.
type Config struct {
	Slots int
	// Command is run in each slot. Its output is taken by Print; Env gets Variable,
	// and what Environ says of the slot; Token gets "-" and the slot's number.
	Command proc.Command
	Environ func(slot int) []string // nil: nothing
	Dir     string                  // for sockets; another is made where its name is too long for them: see Sweep
	// Grace is how long a program may go on that was told to end.
	Grace time.Duration
	// Recycle is the memory, in bytes, from which on a program is asked to end after
	// what it has, and is started anew; 0: never.
	Recycle int64
	// Print takes what programs print, in order for each slot and stream (1 or 2).
	// item is 0 where it is not known. The bytes are the callee's until it returns.
	Print func(slot, stream int, item int, b []byte)
}

// Variable names the socket to a program.
const Variable = "DROVER_SOCK"

// Item is one try of an item.
type Item struct {
	ID      uint64 // the caller's, unique
	N       int    // what the program calls it
	Line    []byte // a JSON object
	Timeout time.Duration
	Alone   bool // nothing else is given beside it: it has failed before
}

// Kind is what happened to an item.
type Kind uint8

// The kinds. Of each item there is one Ended or one Unstarted, the last.
const (
	Began     Kind = iota + 1 // a program was given it
	Waits                     // it has none any more, and waits for the next
	Ended                     // it was answered, or its program ended
	Unstarted                 // no program will have it
)

// Event is what happened to one item. It is small: there are two of each item, and it
// may be one of a hundred thousand in a second.
type Event struct {
	ID   uint64
	Kind Kind

	// Of Ended.
	Ended int64         // Unix time in nanoseconds
	Took  time.Duration // since it began
	Value string        // its answer: JSON, or nothing
	End   *End          // nil: it was answered, and well
}

// End is what there is to say of an item beside its answer.
type End struct {
	// Failed says that the program gave it up, with the reason in Why; Final that
	// it is not worth another try.
	Failed, Final bool
	Why           string
	// Exit is how the program ended that the item was alone with, from its start on, or
	// that did not answer it in time; nil: it was answered.
	Exit *proc.Exit
	Last string // line of standard error, of such a program
	// Stopped says that Kill had reached the item: that it was not done says nothing
	// of it. An answer is one, also a late one.
	Stopped bool
}

// ErrUseless says that programs end without asking for an item, again and again.
type ErrUseless struct {
	Exit proc.Exit
	Last string // line of standard error
}

func (e *ErrUseless) Error() string { return "the program ended without asking for an item" }

// strikes is how often that is tried.
const strikes = 3

// Runner hands items to programs. Its methods may be called from many goroutines;
// none waits for a program.
type Runner struct {
	c          Config
	events     chan []Event
	slots      []*slot
	goroutines sync.WaitGroup
	life       context.Context
	end        context.CancelFunc

	mu       sync.Mutex
	more     sync.Cond // queue, until, closed or a slot's state has changed
	queue    []*given
	until    time.Duration // boot time
	closed   bool
	retiring bool // nothing is given out any more, and no program is started
	useless  int  // programs in a row that never asked
	err      error
	out      []Event       // to be sent
	wake     chan struct{} // there is some in out; one value
}

// given is an item, and the connection that has it.
type given struct {
	Item
	since time.Duration // boot time at which it began: its timeout counts from there
}

// Open makes the Runner. Programs are started at once, as loading takes its time;
// nothing is handed out before the first Until. The caller reads Events until it is
// closed.
func Open(ctx context.Context, c Config) (*Runner, error) {
	r := &Runner{c: c, events: make(chan []Event, 4), wake: make(chan struct{}, 1)}
	r.more.L = &r.mu
	r.life, r.end = context.WithCancel(context.WithoutCancel(ctx))
	for i := range c.Slots {
		s, err := newSlot(r, i)
		if err != nil {
			for _, s := range r.slots {
				s.closeSocket()
			}
			return nil, err
		}
		r.slots = append(r.slots, s)
	}
	for _, s := range r.slots {
		r.goroutines.Go(s.runPrograms)
	}
	go r.postEvents()
	return r, nil
}

// Send queues items; they are given out in this order.
func (r *Runner) Send(items ...Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]given, len(items))
	for i, it := range items {
		if r.closed || r.retiring || r.err != nil {
			r.queueEvent(Event{ID: it.ID, Kind: Unstarted})
			continue
		}
		all[i].Item = it
		r.queue = append(r.queue, &all[i])
	}
	r.more.Broadcast()
}

// Until lets items be given out up to a boot time. A program is told, and gives back
// what it has not begun by then.
func (r *Runner) Until(boot time.Duration) {
	r.mu.Lock()
	r.until = boot
	r.mu.Unlock()
	r.more.Broadcast()
}

// Drop gives back what no program has.
func (r *Runner) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropQueued()
}

func (r *Runner) dropQueued() {
	for _, g := range r.queue {
		r.queueEvent(Event{ID: g.ID, Kind: Unstarted})
	}
	r.queue = nil
	for _, s := range r.slots {
		for _, g := range s.suspects {
			r.queueEvent(Event{ID: g.ID, Kind: Unstarted})
		}
		s.suspects = nil
	}
}

// Retire gives out nothing more, now and later: a program that asks is told that there is nothing
// more, and what programs give back, or have not answered when they end, no other will
// have. Those that have items go on with them.
func (r *Runner) Retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retiring = true
	r.dropQueued()
	for _, s := range r.slots {
		s.askToRetire()
	}
}

// requeueItems has items wait for the next program; no program will have those that Kill was
// about, and none when there is no next one.
func (r *Runner) requeueItems(given []*given, doomed map[uint64]bool) {
	for i := len(given) - 1; i >= 0; i-- {
		g := given[i]
		if r.closed || r.retiring || doomed[g.ID] {
			r.queueEvent(Event{ID: g.ID, Kind: Unstarted})
			continue
		}
		r.queue = slices.Insert(r.queue, 0, g)
		r.queueEvent(Event{ID: g.ID, Kind: Waits})
	}
}

// Kill ends items: those that no program has are given back, and the programs that
// have the others are ended: with SIGTERM also when they do not heed that, with another
// signal not. What else these had is given to others, and no item is
// blamed.
func (r *Runner) Kill(sig syscall.Signal, ids ...uint64) {
	doomed := make(map[uint64]bool, len(ids))
	for _, id := range ids {
		doomed[id] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	back := func(list []*given) (rest []*given) {
		for _, g := range list {
			if doomed[g.ID] {
				r.queueEvent(Event{ID: g.ID, Kind: Unstarted})
				continue
			}
			rest = append(rest, g)
		}
		return rest
	}
	r.queue = back(r.queue)
	for _, s := range r.slots {
		s.suspects = back(s.suspects)
		if s.programHasAny(doomed) {
			s.stopProgram(sig, doomed)
		}
	}
}

// Events gives what happened. It is closed when nothing runs any more and all was
// read.
func (r *Runner) Events() <-chan []Event { return r.events }

// Err is valid after Events was closed: nil after Close, or an ErrUseless, or why a
// program could not be started.
func (r *Runner) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close tells programs that there is nothing more, ends those that go on, and returns
// when all are gone. Items that they had are given back as Ended by that.
func (r *Runner) Close() {
	r.mu.Lock()
	r.beginClose(nil)
	r.mu.Unlock()
	r.goroutines.Wait()
	r.end()
}

// beginClose begins the end.
func (r *Runner) beginClose(err error) {
	if r.closed {
		return
	}
	r.closed, r.err = true, err
	r.dropQueued()
	for _, s := range r.slots {
		s.retireForGood()
	}
	r.more.Broadcast()
	go func() {
		r.goroutines.Wait()
		r.wakePoster()
	}()
}

// queueEvent queues an event: the caller does not wait for the reader.
func (r *Runner) queueEvent(e Event) {
	r.out = append(r.out, e)
	r.wakePoster()
}

func (r *Runner) wakePoster() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// postEvents passes events on, and closes them once all slots are empty.
func (r *Runner) postEvents() {
	gone := make(chan struct{})
	go func() {
		r.goroutines.Wait()
		close(gone)
	}()
	for over := false; ; {
		select {
		case <-r.wake:
		case <-gone:
			over = true
		}
		r.mu.Lock()
		batch := r.out
		r.out = make([]Event, 0, max(len(batch), min(cap(batch), mostAtOnce))) // about as many come next
		r.mu.Unlock()
		if len(batch) > 0 {
			r.events <- batch
		}
		if over {
			close(r.events)
			return
		}
	}
}
