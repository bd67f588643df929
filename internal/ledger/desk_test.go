package ledger

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// desk is a store in memory and in virtual time, and what of it the tests touch.
type desk struct {
	protocol.World
	t      *testing.T
	clock  *storetest.Clock
	bucket store.Bucket
	gone   map[int]bool // by PID: what Gone knows of processes on "here"
}

func newDesk(t *testing.T) *desk {
	clock := &storetest.Clock{}
	d := &desk{t: t, clock: clock, gone: map[int]bool{}}
	d.bucket = mem.At(clock)
	d.World = protocol.World{Store: store.New(d.bucket, store.Options{Clock: clock}), Rand: rand.Reader,
		Gone: func(h protocol.Host) (bool, bool) {
			gone, known := d.gone[h.PID]
			return gone, known && h.Boot == "here"
		}}
	return d
}

// pass lets time go by.
func (d *desk) pass(by time.Duration) {
	d.t.Helper()
	d.check(d.clock.Sleep(d.t.Context(), by))
}

func (d *desk) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// submit makes a job the live one of demo/digits.
func (d *desk) submit(change func(*job.Job)) job.Job {
	d.t.Helper()
	spec, err := job.Spec{Project: "demo", Task: "digits", Program: "train.py"}.Normal()
	d.check(err)
	j := job.Job{V: job.Format, Spec: spec, User: "ann", Host: "desk", At: d.clock.Now()}
	if change != nil {
		change(&j)
	}
	d.check(tasks.NameJob(d.t.Context(), d.World, &j))
	live, mine, err := tasks.SubmitJob(d.t.Context(), d.World, j, "cli-1")
	if d.check(err); !mine || live != j.ID {
		d.t.Fatalf("job %s was not submitted: %s is live", j.ID, live)
	}
	return j
}

// write appends entries to a job's log.
func (d *desk) write(j job.Job, entries ...protocol.JobEntry) {
	d.t.Helper()
	writeTo(d, d.JobLog(j.Path(), "test"), entries...)
}

// writeTo appends entries to a log that nothing else of a test writes to.
func writeTo[E protocol.Entry](d *desk, l *protocol.Log[E], entries ...E) {
	d.t.Helper()
	d.check(l.Read(d.t.Context()))
	for _, e := range entries {
		mine, err := l.Append(d.t.Context(), e)
		if d.check(err); !mine {
			d.t.Fatal("somebody else wrote into a log of this test")
		}
	}
}

// create writes one object.
func (d *desk) create(key string, v any) {
	d.t.Helper()
	if _, mine, err := d.Store.CreateOnce(d.t.Context(), key, protocol.Encode(v)); err != nil || !mine {
		d.t.Fatalf("create %s: mine %t: %v", key, mine, err)
	}
}

func (d *desk) join(j job.Job, k, rank int, rec protocol.Join) {
	d.t.Helper()
	rec.V, rec.Nonce, rec.At = protocol.Format, fmt.Sprintf("join-%d-%d", k, rank), d.clock.Now()
	d.create(protocol.AttemptKey(j.Path(), k, "join", rank), rec)
}

func (d *desk) exit(j job.Job, k, rank int, rec protocol.Exit) {
	d.t.Helper()
	rec.V, rec.At = protocol.Format, d.clock.Now()
	d.create(protocol.AttemptKey(j.Path(), k, "exit", rank), rec)
}

// keys lists what the store holds below prefix.
func (d *desk) keys(prefix string) (found []string) {
	d.t.Helper()
	for o, err := range d.Store.List(d.t.Context(), prefix) {
		d.check(err)
		found = append(found, o.Key)
	}
	return found
}

// Entries, as short as the tables that are made of them.

func opened(k int, c protocol.Cause) protocol.JobEntry {
	return protocol.JobEntry{Attempt: &protocol.Attempt{K: k, Cause: c}}
}

func ended(k int, s job.State) protocol.JobEntry {
	return protocol.JobEntry{Settled: &protocol.Settled{State: s, Attempt: k}}
}

var (
	cancelled1 = protocol.JobEntry{Cancelled: &protocol.Stop{Reason: "enough"}}
	failing1   = protocol.JobEntry{Failing: &protocol.Stop{Reason: "too long", Code: 124}}
)
