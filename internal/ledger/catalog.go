package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Catalog lists the jobs of the store again and again: each time one listing, and what
// it has not seen yet is read. Not for concurrent use.
type Catalog struct {
	w       World
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
func (w World) NewCatalog(project string) *Catalog {
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
			p, ok, err := c.w.readID(ctx, o.Key)
			if errors.Is(err, ErrUnreadable) {
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
			err := c.w.exists(ctx, k.p) // removed jobs keep their short id
			damaged := errors.Is(err, ErrUnreadable)
			if err != nil && !errors.Is(err, ErrRemoved) && !damaged {
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

// readID reads a short id; ok is false for one that was withdrawn. What it names becomes
// parts of keys.
func (w World) readID(ctx context.Context, key string) (p job.Path, ok bool, err error) {
	b, err := w.get(ctx, key, maxRecord)
	if errors.Is(err, store.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	v := 0
	return p, true, decode(b, &p, &v, key)
}

// Pulse is different when an agent of the job has written a heartbeat since, and as a
// rule only then. It is one listing.
func (w World) Pulse(ctx context.Context, p job.Path) (string, error) {
	var pulse strings.Builder
	for o, err := range w.Store.List(ctx, jobDir(p)+"/agents/") {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&pulse, "%s %d %d\n", o.Key, o.Size, o.Time.UnixNano())
	}
	return pulse.String(), nil
}
