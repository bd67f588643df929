package drover

import (
	"context"
	"time"

	"github.com/drover-run/drover/internal/engine/gc"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/process"
)

// GCOptions say which jobs may go beside what is of no use any more.
type GCOptions struct {
	Project string        // only jobs of this project are considered; "": of all
	Keep    int           // above 0: ended jobs beyond the newest Keep of their task
	Older   time.Duration // above 0: jobs that ended longer ago; with Keep, both must hold
	Jobs    []*Job        // in any case
}

// Leftover is one thing that may go, or one that stays and why.
type Leftover struct {
	Kind  string `json:"kind"` // job, submit, rest, blobs, environment, agents or folder
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"` // of blobs
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"` // one sentence
}

func leftovers(from []gc.Leftover) []Leftover {
	if from == nil {
		return nil
	}
	all := make([]Leftover, len(from))
	for i, l := range from {
		all[i] = Leftover{l.Kind, l.Name, l.Count, l.Bytes, l.Why}
	}
	return all
}

// Garbage is what may go, and of what was asked for, what stays and why.
type Garbage struct {
	V     int        `json:"v"`
	Items []Leftover `json:"items"`
	Kept  []Leftover `json:"kept,omitempty"` // what was asked for, or old enough, and stays
	Bytes int64      `json:"bytes"`          // of all items
	Notes []string   `json:"notes,omitempty"`

	found gc.Garbage
	c     *Client
}

// Freed is what Collect removed.
type Freed struct {
	V     int        `json:"v"`
	Items []Leftover `json:"items"`
	Kept  []Leftover `json:"kept,omitempty"` // what has come into use since
	Bytes int64      `json:"bytes"`
}

// Leftovers finds what is of no use any more, and the jobs that o lets go: never a live
// one, nor one with an output that another job that stays was given. It changes nothing.
func (c *Client) Leftovers(ctx context.Context, o GCOptions) (*Garbage, error) {
	opt := gc.Options{Project: o.Project, Keep: o.Keep, Older: o.Older, Self: protocol.Host(process.Self())}
	for _, j := range o.Jobs {
		opt.Jobs = append(opt.Jobs, j.path)
	}
	g, err := c.remover.Leftovers(ctx, opt)
	if err != nil {
		return nil, err
	}
	return &Garbage{V: g.V, Items: leftovers(g.Items), Kept: leftovers(g.Kept), Bytes: g.Bytes, Notes: g.Notes, found: g, c: c}, nil
}

// Collect removes it for good. It may be stopped at any moment: the next one
// finishes what was begun. What has come into use meanwhile stays.
func (g *Garbage) Collect(ctx context.Context) (Freed, error) {
	f, err := g.c.remover.Collect(ctx, g.found, nil)
	return Freed{V: f.V, Items: leftovers(f.Items), Kept: leftovers(f.Kept), Bytes: f.Bytes}, err
}
