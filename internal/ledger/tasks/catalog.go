package tasks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Catalog lists the jobs of the store again and again: each time one listing, and what
// it has not seen yet is read. Not for concurrent use.
type Catalog struct {
	w       protocol.World
	project string // "": all
	known   map[string]*known
	bad     []error
}

// known is a short id.
type known struct {
	p       job.Path
	there   bool
	patient int // how many looks more one is waited for that is not
}

// absentLooks is how often a job is looked for that has an id and no record: its submit
// may be between the two, or it was removed and keeps its id.
const absentLooks = 10

// NewCatalog makes one, of one project when project is not empty.
func NewCatalog(w protocol.World, project string) *Catalog {
	return &Catalog{w: w, project: project, known: map[string]*known{}}
}

// Unreadable says what of the last listing cannot be read: short ids, and job.json's that
// are no objects of drover's. Jobs left them out, and has all others.
func (c *Catalog) Unreadable() []error { return c.bad }

// Jobs lists them, oldest first by the times of the listing, as All has it. One that is
// removed later on stays in it. What cannot be read is left out: see Unreadable.
func (c *Catalog) Jobs(ctx context.Context) ([]job.Path, error) {
	c.bad = nil
	type dated struct {
		at time.Time
		p  job.Path
	}
	var found []dated
	for o, err := range c.w.Store.List(ctx, "ids/") {
		if err != nil {
			return nil, err
		}
		k := c.known[o.Key]
		if k == nil {
			p, ok, err := ReadShortID(ctx, c.w, o.Key)
			if errors.Is(err, protocol.ErrUnreadable) {
				c.bad = append(c.bad, err)
				continue
			}
			if err != nil {
				return nil, err
			}
			if !ok {
				continue // withdrawn between the listing and now
			}
			k = &known{p: p, patient: absentLooks}
			c.known[o.Key] = k
		}
		if c.project != "" && k.p.Project != c.project {
			continue
		}
		if !k.there && k.patient > 0 {
			k.patient--
			err := liveness.CheckSeenRecently(ctx, c.w, k.p) // removed jobs keep their short id
			damaged := errors.Is(err, protocol.ErrUnreadable)
			if err != nil && !errors.Is(err, liveness.ErrRemoved) && !damaged {
				return nil, err
			}
			k.there = err == nil || damaged // its reader says what is wrong with it
		}
		if k.there {
			found = append(found, dated{o.Time, k.p})
		}
	}
	slices.SortStableFunc(found, func(a, b dated) int { return a.at.Compare(b.at) })
	paths := make([]job.Path, len(found))
	for i, d := range found {
		paths[i] = d.p
	}
	return paths, nil
}
