package drover

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Overview looks at a project's jobs again and again, for little: what has ended is read
// once, and what lives when its agents' heartbeats have changed. Not for concurrent use.
type Overview struct {
	c       *Client
	catalog *tasks.Catalog
	seen    map[job.Path]*recentStatus
	boot    func() time.Duration
}

// recentStatus is what an Overview knows of a job.
type recentStatus struct {
	Status
	j     *Job
	kind  kind
	known bool  // it was read
	gone  bool  // there was no such job
	bad   error // it could not be read: an Unreadable has it
	pulse string
	at    time.Duration // of the look
}

const (
	// liveAgain is how soon a job with unchanged heartbeats is read again: its agents may
	// be gone, and a user may have cancelled it.
	liveAgain = 5 * time.Second
	// mapAgain is how soon a map is that has ended: drover retry opens it again.
	mapAgain = 30 * time.Second
)

// Overview makes one, of all projects when project is "".
func (c *Client) Overview(project string) *Overview {
	return &Overview{c: c, catalog: tasks.NewCatalog(c.world, project), seen: map[job.Path]*recentStatus{}, boot: c.world.Store.Clock().Boot}
}

// Look gives the newest jobs of those that wanted chooses, the newest first and at most so
// many; 0: all. left is how many were not looked at. Those that cannot be read are an
// *Unreadable beside the others.
func (o *Overview) Look(ctx context.Context, wanted func(Status) bool, most int) (list []Status, left int, err error) {
	var bad Unreadable
	paths, err := o.catalog.Jobs(ctx)
	if err != nil {
		return nil, 0, err
	}
	bad.Jobs = append(bad.Jobs, o.catalog.Unreadable()...)
	for i := len(paths) - 1; i >= 0; i-- {
		if most > 0 && len(list) == most {
			return list, i + 1, bad.OrNil()
		}
		g := o.seen[paths[i]]
		if g == nil {
			g = &recentStatus{j: o.c.newJob(paths[i])}
			o.seen[paths[i]] = g
		}
		// What a job is called never changes: one that is not wanted is read once.
		if g.known && !wanted(g.Status) {
			continue
		}
		if err := o.updateStatus(ctx, g); err != nil {
			return list, 0, err
		}
		if !bad.Took(g.bad) && !g.gone && wanted(g.Status) {
			list = append(list, g.Status)
		}
	}
	return list, 0, bad.OrNil()
}

// updateStatus brings a status up to date.
func (o *Overview) updateStatus(ctx context.Context, g *recentStatus) error {
	now := o.boot()
	since := now - g.at
	switch {
	case g.bad != nil: // it may have been repaired
		if since < liveAgain {
			return nil
		}
	case !g.known && !g.gone: // never seen
	case g.gone || g.MapStatus == nil && g.State.Settled():
		if since < liveAgain || !g.gone {
			return nil
		}
	case g.State.Settled():
		if since < mapAgain {
			return nil
		}
	default:
		pulse, err := liveness.HeartbeatVersions(ctx, o.c.world, g.j.path)
		if err != nil {
			return err
		}
		if pulse == g.pulse && since < liveAgain {
			return nil
		}
		g.pulse = pulse
	}
	g.at = now
	err := g.j.withVerifyHint(g.readJob(ctx))
	g.bad = nil
	if errors.Is(err, protocol.ErrUnreadable) {
		g.bad = err
		return nil
	}
	g.gone = fault.KindOf(err) == fault.Missing || errors.Is(err, liveness.ErrRemoved) || errors.Is(err, store.ErrNotExist) // or withdrawn
	if g.gone {
		return nil
	}
	return err
}

// readJob reads the job; a map is read on from the time before.
func (g *recentStatus) readJob(ctx context.Context) (err error) {
	if g.kind == nil {
		if g.kind, err = g.j.readKind(ctx); err != nil {
			return err
		}
	}
	s, err := g.kind.readStatus(ctx)
	if err == nil {
		g.Status, g.known = s, true
	}
	return err
}
