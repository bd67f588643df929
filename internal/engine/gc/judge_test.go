package gc

import (
	"context"
	"errors"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// removed judges a removal in the moment in which it is written.
func (r *room) removed(a *actor, p job.Path) {
	ctx, w := context.Background(), r.calmly()
	t, _ := tasks.ReadTask(ctx, w, p)
	if _, was := t.PlaceOf(p.Job); !was {
		r.seen["submit removed"]++
		if age := r.now - r.said.proposed[p.Job]; age < r.said.minAge {
			r.violate("%s removed submit %s after %s", a.name, p.Job, age)
		}
		return
	}
	r.seen["job removed"]++
	rep, err := views.ReadReport(ctx, w, p)
	if err != nil {
		return // removed before, and swept again
	}
	if rep.Run.Settled == nil {
		r.violate("%s removed the live job %s", a.name, p.Job)
		return
	}
	later := false
	for _, o := range t.Jobs {
		other := job.Path{Project: p.Project, Task: p.Task, Job: o.Job}
		if orep, err := views.ReadReport(ctx, w, other); err == nil && later && orep.State == job.Succeeded {
			later = false
			rep.State = job.Failed // there is a newer success
		}
		later = later || o.Job == p.Job
	}
	if rep.State == job.Succeeded && !r.said.asked[p] {
		r.violate("%s removed %s, the newest success of %s", a.name, p.Job, p.Task)
	}
	for other, at := range r.said.accepted {
		orep, err := views.ReadReport(ctx, w, other)
		if err != nil || at >= r.said.collected[a.name] {
			continue
		}
		if ot, _ := tasks.ReadTask(ctx, w, other); ot.Gone[other.Job].Job != "" {
			continue
		}
		for _, o := range orep.Job.Lineage {
			if o.Job == p.String() {
				r.violate("%s removed %s, which %s was made from", a.name, p.Job, other.Job)
			}
		}
	}
}

// check looks whether everything that was promised is there.
func (r *room) check(when string) {
	ctx, w := context.Background(), r.calmly()
	for p := range r.said.accepted {
		t, _ := tasks.ReadTask(ctx, w, p)
		if _, was := t.PlaceOf(p.Job); !was || t.Gone[p.Job].Job != "" {
			continue
		}
		rep, err := views.ReadReport(ctx, w, p)
		if err != nil {
			r.violate("%s: job %s: %v", when, p.Job, err)
			continue
		}
		if rep.Run.Settled == nil {
			r.violate("%s: job %s has not settled", when, p.Job)
		}
		err = readBlob(ctx, w.Store, store.Digest(rep.Job.Code.Blob))
		for _, list := range rep.Job.Inputs {
			err = errors.Join(err, read(ctx, w.Store, store.Digest(list)))
		}
		for _, e := range rep.Run.Exits {
			err = errors.Join(err, read(ctx, w.Store, e.Outputs["model"]))
		}
		if err != nil {
			r.violate("%s: job %s: %v", when, p.Job, err)
		}
	}
	for task, promised := range r.said.states {
		s, err := states.ReadState(ctx, w, job.Path{Project: "p", Task: task}, 0, r.whole(ctx, w))
		if err != nil || s == nil || r.said.serial[s.State] < promised {
			r.violate("%s: task %s has state %v (%v), and %d was promised", when, task, s, err, promised)
		}
	}
}

// swept looks whether nothing is left that nothing names.
func (r *room) swept() {
	g, err := (&Remover{World: r.calmly()}).Leftovers(context.Background(), Options{MinAge: r.said.minAge})
	if err != nil || len(g.Items) > 0 {
		r.violate("after the last gc: %+v (%v)", g.Items, err)
	}
}

func (r *room) held(key string) bool {
	rd, err := r.bucket.Get(context.Background(), key, 0, 1)
	if err != nil {
		return false
	}
	rd.Close()
	return true
}

// calmly is the truth of the store: read past all faults.
func (r *room) calmly() protocol.World {
	return protocol.World{Store: store.New(r.bucket, store.Options{Clock: roomClock{r}, Rand: roomRand{r}}), Rand: roomRand{r}, Gone: r.gone}
}
