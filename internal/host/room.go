package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// Room is this machine's cores, memory and GPUs, as claims in a folder that all
// drovers of this user share, whatever their stores. A claim is a file that its
// process keeps locked: the kernel drops the lock with the process, so a kill -9
// or a restart leaves nothing that holds or waits. What this promises:
//
//   - Never more is given out than there is, but to a claim that would not wait (Now).
//   - Nodes of one job are given room together, all or none: no two jobs hold
//     halves that both wait for the other half.
//   - The line is ordered by priority, then by the first to come; no clock orders it.
//     No claim takes what one further ahead waits for, not even when it is
//     free and would lie idle: a big job is not overtaken by many small ones for
//     ever. What no claim ahead lacks may be taken: one that waits for a GPU does not
//     hold up those that want a core.
//   - A queue that is paused, or has used up its share, holds up itself alone:
//     nothing of the machine is kept for a claim that waits for its queue.
//
// Nothing is preempted, and claims are all that is counted: what programs use
// without a claim, or beyond it, is not seen here. A process that uses another folder is not
// seen either; it must lie where no service tidies up, and each machine needs its
// own, also where home folders are shared.
type Room struct {
	Folder string  // made when it is not there
	Cores  []int   // the numbers of the cores that may be given; nil: those this process may use
	CPUs   float64 // how many cores' worth of time there is, where that is less; 0: all of Cores
	Memory int64   // bytes that may be given; 0: not known, and then never waited for
	// wait pauses between two looks; a seam for tests, nil is a timer.
	wait func(context.Context, time.Duration) error
}

// Wish is what one node of a job wants of the machine. A wish for nothing waits
// for nothing, unless its queue is paused; it is listed all the same.
type Wish struct {
	Label string `json:"label,omitempty"` // the job it is for, "job 7fk2": people read it
	// Group is the same for all nodes of a job, Members how many of them come to
	// this machine. All want the same. They are granted together, whether all have
	// come or not, and what is theirs stays theirs while one of them lives: one
	// that is started again finds its part, or shares that of an agent which is
	// only stopped and was taken for dead. "": a job of one.
	Group   string `json:"group,omitempty"`
	Members int    `json:"members,omitempty"`
	Each    Amount `json:"each,omitzero"` // what each member wants

	Queue    string `json:"queue,omitempty"`    // "": DefaultQueue
	Priority int    `json:"priority,omitempty"` // higher goes first
	Now      bool   `json:"now,omitempty"`      // granted at once, even if it is held and whatever is paused; counted all the same
	Share    Amount `json:"share,omitzero"`     // what the queue may hold in all, as this job has it; zero fields are not limited
}

// DefaultQueue is the queue of a wish that names none.
const DefaultQueue = "default"

// Held is what a node was given.
type Held struct {
	Cores []int // the numbers of whole cores that no other claim holds; nil: none of its own, as for a wish of half a core
	GPUs  []GPU // in the order of their indices
	// Release gives it back, and may be called twice. Without it all is held until
	// the process ends. A child process does not inherit it.
	Release func()
}

const (
	// lookPause is how often a waiter looks whether something has changed: a
	// person does not notice it, and a hundred waiters cost a few milliseconds of
	// processor time each second.
	lookPause = 100 * time.Millisecond
	// lookAnyway is after how many of these it looks at every claim, also when
	// nothing seems to have changed: each waiter watches few others, and the one
	// that should have told may be stopped.
	lookAnyway = 30
	// gatePause is how long a process that wants to look stands back when another one is
	// looking, which takes well below a millisecond with few claims.
	gatePause = 5 * time.Millisecond
	// gatePatience is how long to try for the gate where no context ends it. Only
	// a stopped process holds it longer.
	gatePatience = 2 * time.Second
)

// Take waits until w can be granted and takes it. It holds nothing while it
// waits, but its place in line. gpus are those it may be given, in any order; it
// gets of all that are free those that stand closest together, and of these the
// lowest. told, which may be nil, is called from this goroutine with a sentence
// that says what it waits for, each time this has changed: "waits for 2 cores:
// job 7fk2 holds 2 of 2". The end of ctx ends the wait at once and leaves nothing.
// It is fault.Full when the machine or the queue's share is too small for w.
func (r Room) Take(ctx context.Context, w Wish, gpus []GPU, told func(why string)) (Held, error) {
	w = w.withDefaults()
	doing := "reserve " + w.wishInWords()
	rec := record{Wish: w, View: r.viewWith(gpus), Part: noPart, PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second)}
	if err := rec.View.totalAmount().Fits(w); err != nil {
		return Held{}, err
	}
	if ctx.Err() != nil {
		return Held{}, fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	s, err := r.joinQueue(ctx, rec)
	if err != nil {
		return Held{}, r.faultOfClaim(ctx, err, doing)
	}
	for said := ""; ; {
		v, err := s.tryToClaim(ctx)
		if err == nil && v.isGranted() {
			return s.heldParts(gpus), nil
		}
		if err == nil && v.why != said && told != nil {
			told(v.why)
			said = v.why
		}
		if err == nil {
			err = s.waitToRetry(ctx, v)
		}
		if err != nil {
			s.releaseSlot()
			return Held{}, r.faultOfClaim(ctx, err, doing)
		}
	}
}

// heldParts is what the seat's record says it was given.
func (s *slot) heldParts(gpus []GPU) Held {
	mine := s.Parts[s.Part]
	h := Held{Cores: mine.Cores, Release: sync.OnceFunc(s.releaseSlot)}
	for _, d := range mine.GPUs {
		g := GPU{Index: d.Index, UUID: d.UUID}
		// One that this process does not see was seen by the member that came first.
		if i := slices.IndexFunc(gpus, func(g GPU) bool { return deviceOf(g) == d }); i >= 0 {
			g = gpus[i]
		}
		h.GPUs = append(h.GPUs, g)
	}
	return h
}

// withDefaults fills in what was not said.
func (w Wish) withDefaults() Wish {
	w.Queue = cmp.Or(w.Queue, DefaultQueue)
	w.Members = max(w.Members, 1)
	if w.Group == "" {
		w.Members = 1
	}
	return w
}

// totalUnits is what all members want together.
func (w Wish) totalUnits() units { return w.Each.roundedUnits().multipliedBy(w.Members) }

// wishInWords are "2 cores and 1 GPU for each of 2 nodes".
func (w Wish) wishInWords() string {
	each := w.Each.roundedUnits().unitsInWords()
	switch {
	case each == "":
		return "a place in queue " + w.Queue
	case w.Members > 1:
		return fmt.Sprintf("%s for each of %d nodes", each, w.Members)
	}
	return each
}

// view is the machine as one process sees it: another may be bound to other
// cores, or see other GPUs.
type view struct {
	Cores  []int    `json:"cores"`
	CPUs   float64  `json:"cpus"`
	Memory int64    `json:"memory,omitempty"` // 0: not known
	GPUs   []device `json:"gpus,omitempty"`
}

// device is a GPU as claims name it. Of two processes that see it both find the same.
type device struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid,omitempty"`
}

func deviceOf(g GPU) device { return device{g.Index, g.UUID} }

// visibleName is as CUDA_VISIBLE_DEVICES has it, and as people know it.
func (d device) visibleName() string {
	if strings.HasPrefix(d.UUID, "MIG-") {
		return d.UUID // a part of a GPU has no number
	}
	return fmt.Sprint(d.Index)
}

func (r Room) viewWith(gpus []GPU) view {
	cores := slices.Clone(r.Cores)
	if cores == nil {
		cores = Cores()
	}
	slices.Sort(cores)
	cores = slices.Compact(cores)
	v := view{Cores: cores, CPUs: float64(len(cores)), Memory: max(r.Memory, 0)}
	if r.CPUs > 0 {
		v.CPUs = min(v.CPUs, r.CPUs)
	}
	for _, g := range gpus {
		v.GPUs = append(v.GPUs, deviceOf(g))
	}
	slices.SortStableFunc(v.GPUs, func(a, b device) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID)) })
	v.GPUs = slices.Compact(v.GPUs)
	return v
}

func (v view) totalAmount() Amount { return Amount{v.CPUs, v.Memory, len(v.GPUs)} }

// waitFor waits for d, or for the end of ctx.
func (r Room) waitFor(ctx context.Context, d time.Duration) error {
	if r.wait != nil {
		return r.wait(ctx, d)
	}
	return pause(ctx, d)
}

// faultOfClaim says what stands in the way of a claim, and what to do about it.
func (r Room) faultOfClaim(ctx context.Context, err error, doing string) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	if f := (*fault.Fault)(nil); errors.As(err, &f) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	local := "Reservations are locked files in " + r.Folder + ": it must be a folder on this machine's own disk that you may write to; XDG_STATE_HOME moves it."
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Wrap(err, fault.Full, "Free some space and run it again.", "%s", doing)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fault.Wrap(err, fault.Full, "Close some programs, or raise `ulimit -n`.", "%s", doing)
	case errors.Is(err, errNoLocks), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		return fault.Wrap(err, fault.Denied, "Set XDG_STATE_HOME to a folder on this machine's own disk: network file systems often have no locks.", "%s", doing)
	}
	return fault.Wrap(err, fault.Denied, local, "%s", doing)
}

// firstCores are n cores, numbered from 0.
func firstCores(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}
