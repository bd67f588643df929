package gc

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/programs"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

const (
	// sweepTime is the least time that a sweep may delete for, beside the time that it
	// takes to list. A process that wants to save a blob which a gc that died elsewhere was
	// deleting waits that long.
	sweepTime = 20 * time.Second
	// sweepLooks is how many looks fit into a sweep, in the time of the one before:
	// it needs one, and stores have slow minutes.
	sweepLooks = 3
	// sweepLongest bounds the time for looks: one may have slept.
	sweepLongest = 10 * time.Minute
	// sweepMost bounds a sweep's list: 3.2 MB, read by savers that meet it.
	sweepMost = 100_000
	// inUse is why something stays that was to go.
	inUse = "it has been used since"
	// lastMinutes is how long agents of a job that has settled may still take: they go
	// by themselves once output/ is made, which takes as long as the model is large.
	lastMinutes = time.Hour
	// endTime is given to the entry that ends a sweep, also after Ctrl-C.
	endTime = 10 * time.Second
)

// Collect removes what g names and what is still of no use now; told hears of each
// thing that is gone, and may be nil. It may be stopped or die at any moment, and
// run beside others and beside all else: the next one finishes what it began.
func (r *Remover) Collect(ctx context.Context, g Garbage, told func(Leftover)) (Freed, error) {
	c := collector{r: r, g: g, told: told, freed: Freed{V: 1, Items: []Leftover{}}}
	if c.told == nil {
		c.told = func(Leftover) {}
	}
	if g.options.MinAge == 0 {
		return c.freed, fault.New(fault.Bug, "", "collect garbage: it was not found by Leftovers")
	}
	return c.freed, c.removeAll(ctx)
}

type collector struct {
	r     *Remover
	g     Garbage
	told  func(Leftover)
	freed Freed
	now   time.Time // by the store's clock
}

func (c *collector) noteRemoved(l Leftover) {
	c.freed.Items = append(c.freed.Items, l)
	c.freed.Bytes += l.Bytes
	c.told(l)
}

func (c *collector) noteKept(l Leftover, why string) {
	l.Why = why
	c.freed.Kept = append(c.freed.Kept, l)
}

func (c *collector) removeAll(ctx context.Context) (err error) {
	if c.now, err = removal.StoreTime(ctx, c.r.World); err != nil {
		return err
	}
	if c.now.IsZero() { // its own listing does not show it yet
		c.now = c.r.World.Store.Clock().Now()
	}
	if lag := c.g.options.Lag; lag > 0 { // what was submitted before we began must show
		if err := c.r.World.Store.Clock().Sleep(ctx, lag); err != nil {
			return err
		}
	}
	census := removal.NewInventory(c.r.World)
	if err := census.Look(ctx); err != nil {
		return err
	}
	jobs := map[job.Path]*removal.Counted{}
	for _, j := range census.Jobs() {
		jobs[j.Path] = j
	}
	named := map[job.Path]bool{}
	for _, l := range c.g.Items {
		named[l.job] = l.Kind == LeftJob
	}
	choice := c.g.options.chooseJobs(census.Jobs(), named, c.r.World.Store.Clock().Now())
	for _, l := range c.g.Items {
		switch l.Kind {
		case LeftJob:
			if _, goes := choice.going[l.job]; goes {
				err = c.removeJob(ctx, l, jobs[l.job], &choice, census.Jobs())
			} else if jobs[l.job] != nil && !jobs[l.job].Removed {
				c.noteKept(l, inUse)
			}
		case LeftSubmit:
			err = c.removeSubmit(ctx, l, jobs[l.job])
		case LeftRest:
			if err = removal.RemoveJob(ctx, c.r.World, l.job, 0, tasks.Place{}, c.r.By); err == nil {
				c.noteRemoved(l)
			}
		case LeftEnvironment:
			err = c.removeEnvironment(ctx, l)
		case LeftProgram:
			err = c.removeProgram(ctx, l)
		case LeftFolder:
			c.removeFolder(l, jobs[l.job])
		case LeftAgents:
			err = c.stopAgents(ctx, l)
		}
		if err != nil {
			return err
		}
	}
	if err := c.sweepBlobs(ctx); err != nil {
		return err
	}
	return removal.RemoveProbes(ctx, c.r.World, c.now.Add(-tidyAge))
}

// removeJob removes one that may go. When its task's log refuses that, it stays, and so do
// those that it was made from: they were to go because it goes, and come after it.
func (c *collector) removeJob(ctx context.Context, l Leftover, j *removal.Counted, going *choice, all []*removal.Counted) error {
	err := removal.RemoveJob(ctx, c.r.World, l.job, j.Place, going.because[l.job], c.r.By)
	if err != nil && fault.KindOf(err) == fault.Invalid {
		going.keepJobAndOrigins(l.job, all)
		c.noteKept(l, inUse)
		return nil
	}
	if err != nil {
		return err
	}
	c.noteRemoved(l)
	return nil
}

// removeSubmit removes one that never finished. It may have just done so after all, or
// be younger than our clock says.
func (c *collector) removeSubmit(ctx context.Context, l Leftover, j *removal.Counted) error {
	if j != nil && !j.Submitted && !j.Removed && !c.g.options.unfinished(j, c.now) {
		c.noteKept(l, "it is newer than it was when it was listed")
		return nil
	}
	err := removal.RemoveUnfinished(ctx, c.r.World, l.job, l.short, c.r.By)
	if err != nil && fault.KindOf(err) == fault.Invalid {
		c.noteKept(l, "it was submitted since")
		return nil
	}
	if err != nil {
		return err
	}
	c.noteRemoved(l)
	return nil
}

func (c *collector) removeEnvironment(ctx context.Context, l Leftover) error {
	err := env.Remove(ctx, c.r.Cache, l.Name)
	if err != nil && fault.KindOf(err) == fault.Full {
		c.noteKept(l, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	c.noteRemoved(l)
	return nil
}

// removeProgram removes a program that has not been stored anew since. A submitter that has just
// found it old stores it anew, and the two may meet: its agents then say that there is no program,
// and a second command starts others.
func (c *collector) removeProgram(ctx context.Context, l Leftover) error {
	for o, err := range c.r.World.Store.List(ctx, l.Name) {
		if err != nil {
			return err
		}
		if o.Key == l.Name && c.now.Sub(o.Time) <= programs.KeptFor {
			c.noteKept(l, inUse)
			return nil
		}
	}
	if err := c.r.World.Store.Delete(ctx, l.Name); err != nil {
		return err
	}
	c.noteRemoved(l)
	return nil
}

// removeFolder removes the work folder of an agent that died, unless its job goes on again.
func (c *collector) removeFolder(l Leftover, j *removal.Counted) {
	if j != nil && !j.Removed && j.Settled == nil {
		c.noteKept(l, inUse)
		return
	}
	if err := c.r.Remove(l.Name); err != nil {
		c.noteKept(l, err.Error())
		return
	}
	c.noteRemoved(l)
}

func (c *collector) stopAgents(ctx context.Context, l Leftover) error {
	if err := c.r.Drivers[l.handle.Target].Stop(ctx, l.handle, lastMinutes, true); err != nil {
		c.noteKept(l, err.Error())
		return nil
	}
	c.noteRemoved(l)
	return nil
}

// sweepBlobs deletes blobs, in as many sweeps as it takes.
func (c *collector) sweepBlobs(ctx context.Context) error {
	clock := c.r.World.Store.Clock()
	census, names := removal.NewInventory(c.r.World), newNames(c.r.World.Store)
	var took time.Duration
	look := func() error {
		began := clock.Boot()
		defer func() { took = clock.Boot() - began }()
		if err := census.Look(ctx); err != nil {
			return err
		}
		return names.addNames(ctx, census, nil)
	}
	if err := look(); err != nil {
		return err
	}
	before := c.now.Add(-c.g.options.MinAge).Unix()
	if blind := names.whyNotKnown(); blind != "" {
		c.blobsStay(blind)
		return nil
	}
	todo := names.keepUnnamed(c.g.blobs, func(b blob) bool { return b.at < before })
	for idle := 0; len(todo) > 0; {
		batch := todo[:min(len(todo), sweepMost)]
		n, freed, err := c.deleteBatch(ctx, batch, c.g.options.Lag+sweepTime+min(sweepLooks*took, sweepLongest), names, look)
		if freed.Count > 0 {
			freed.Name = plural(freed.Count, "blob")
			c.noteRemoved(freed)
		}
		if err != nil {
			return err
		}
		if blind := names.whyNotKnown(); blind != "" {
			c.blobsStay(blind)
			return nil
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle == 3 {
			return fault.New(fault.Lost, "Run it again when the store is quicker.", "delete blobs: %s: it takes %s to look what is named", c.r.World.Store, took)
		}
		todo = todo[n:]
	}
	return nil
}

// blobsStay says of what was to go why it does not.
func (c *collector) blobsStay(why string) {
	if n := len(c.g.blobs); n > 0 {
		c.noteKept(Leftover{Kind: LeftBlobs, Name: plural(n, "blob"), Count: n}, why)
	}
}

// deleteBatch is one sweep: it says that these blobs may go, looks once more, and deletes
// those that are still named by nothing. n is how many of them are done with.
func (c *collector) deleteBatch(ctx context.Context, batch []blob, most time.Duration, names *names, look func() error) (n int, freed Leftover, err error) {
	freed = Leftover{Kind: LeftBlobs, Why: "nothing named them"}
	doomed := make([]store.Digest, len(batch))
	for i, b := range batch {
		doomed[i] = b.key.digest()
	}
	s, err := removal.BeginSweep(ctx, c.r.World, c.r.By, c.g.options.Self, doomed, most)
	if err != nil {
		return 0, freed, err
	}
	defer func() { // savers wait for it
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer stop()
		err = errors.Join(err, s.End(ctx))
	}()
	if lag := c.g.options.Lag; lag > 0 {
		if err := c.r.World.Store.Clock().Sleep(ctx, lag); err != nil {
			return 0, freed, err
		}
	}
	if err := look(); err != nil {
		return 0, freed, err
	}
	if names.whyNotKnown() != "" {
		return 0, freed, nil
	}
	timed, stop := context.WithTimeout(ctx, s.Left())
	defer stop()
	until := within{timed, s}
	for _, b := range batch {
		if _, named := names.set[b.key]; !named {
			if !s.Open() {
				break
			}
			err := c.r.World.Store.Delete(until, "blobs/"+string(b.key.digest()))
			if err != nil && until.Err() != nil && ctx.Err() == nil {
				break // the next sweep tries again
			}
			if err != nil {
				return n, freed, err
			}
			freed.Count++
			freed.Bytes += b.size
		}
		n++
	}
	return n, freed, nil
}

// keepUnnamed leaves out the blobs that are named, and those that may does not let go.
func (n *names) keepUnnamed(all []blob, may func(blob) bool) []blob {
	var left []blob
	for _, b := range all {
		if _, named := n.set[b.key]; !named && may(b) {
			left = append(left, b)
		}
	}
	return left
}

// within is a context that ends with a sweep: a delete that is tried again and again
// must not outlive it. Its timer does not count while the machine sleeps; the sweep's
// own clock does. It hides what is below it, which has not ended then.
type within struct {
	context.Context
	s *removal.Sweeper
}

func (c within) Err() error {
	if !c.s.Open() {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

func (c within) Value(any) any { return nil }
