package drover

import (
	"context"
	"time"

	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
)

// GCOptions say which jobs may go beside what is of no use to anybody.
type GCOptions struct {
	Project string        // the only one whose jobs are looked at; "": all
	Keep    int           // above 0: ended jobs beyond the newest Keep of their task
	Older   time.Duration // above 0: jobs that ended longer ago; with Keep, both must hold
	Jobs    []*Job        // in any case
}

// Garbage is what may go, and of what was asked for, what stays and why.
type Garbage struct {
	engine.Garbage
	c *Client
}

// Leftovers finds what nobody needs, and the jobs that o lets go: never a live
// one, nor one whose output another job that stays was given. It changes nothing.
func (c *Client) Leftovers(ctx context.Context, o GCOptions) (*Garbage, error) {
	opt := engine.GCOptions{Project: o.Project, Keep: o.Keep, Older: o.Older, Self: protocol.Host(proc.Self())}
	for _, j := range o.Jobs {
		opt.Jobs = append(opt.Jobs, j.path)
	}
	g, err := c.engine.Leftovers(ctx, opt)
	if err != nil {
		return nil, err
	}
	return &Garbage{Garbage: g, c: c}, nil
}

// Collect removes it for good. It may be stopped at any moment: the next one
// finishes what was begun. What has come into use meanwhile stays.
func (g *Garbage) Collect(ctx context.Context) (engine.Freed, error) {
	return g.c.engine.Collect(ctx, g.Garbage, nil)
}
