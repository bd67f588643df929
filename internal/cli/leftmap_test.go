package cli

import (
	"crypto/rand"
	"testing"

	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// leftMap is a map in a desk's store, and what its agent needs.
type leftMap struct {
	protocol.World
	t   *testing.T
	job job.Job
}

// submitMap puts a map of project demo into the store, as ann at desk typed it.
func (d *desk) submitMap(spec job.Spec, chunk int, from items.Source) *leftMap {
	d.t.Helper()
	ctx := d.t.Context()
	m := d.world()
	spec.Project, spec.Verb, spec.On = "demo", job.Map, "mem"
	spec, err := spec.Normal()
	m.check(err)
	m.job = job.Job{V: job.Format, Spec: spec, ChunkSize: chunk, User: "ann", Host: "desk"}
	m.check(tasks.NameJob(ctx, m.World, &m.job))
	l, err := items.Collect(ctx, from, d.t.TempDir())
	m.check(err)
	defer l.Close()
	list, err := l.Put(ctx, m.Store, protocol.ItemsPrefix(m.job.Path()))
	m.check(err)
	m.job.Manifest = job.Manifest(list)
	_, _, err = tasks.SubmitJob(ctx, m.World, m.job, "cli-1")
	m.check(err)
	return m
}

// world is the desk's store, where no job was submitted yet.
func (d *desk) world() *leftMap {
	return &leftMap{World: protocol.World{Store: store.New(d.bucket, store.Options{}), Rand: rand.Reader, Gone: func(h protocol.Host) (gone, known bool) { return process.Identity(h).Gone() }}, t: d.t}
}

func (m *leftMap) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// work has one agent go through the map to its end; result is what becomes of a try.
func (m *leftMap) work(result func(mapagent.Try) protocol.Result) {
	m.t.Helper()
	ctx := m.t.Context()
	worker := mapagent.NewMapMember(m.World, m.job, "1-0-a", protocol.Host{Boot: "here", PID: 1}, mapagent.MapOptions{Slots: 1, Near: true})
	worker.Ready()
	for worker.Map().Settled == nil {
		_, err := worker.Poll(ctx)
		m.check(err)
		for _, h := range worker.Owned() {
			for t, ok := h.Next(); ok; t, ok = h.Next() {
				h.Done(result(t))
			}
			_, err := h.Flush(ctx)
			m.check(err)
		}
		_, err = worker.Seek(ctx)
		m.check(err)
	}
	m.check(worker.Leave(ctx))
}
