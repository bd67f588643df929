package drover

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// counted is a store that counts what is read of it.
type counted struct {
	*storemem.Bucket
	gets, lists atomic.Int64
}

func (c *counted) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	c.gets.Add(1)
	return c.Bucket.Get(ctx, key, off, n)
}

func (c *counted) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	c.lists.Add(1)
	return c.Bucket.List(ctx, prefix, after, limit)
}

// since gives how many requests there were since it was asked last.
func (c *counted) since() string {
	return fmt.Sprintf("%d reads, %d listings", c.gets.Swap(0), c.lists.Swap(0))
}

func newCountedDesk(t *testing.T) (*desk, *counted) {
	d, b := newDesk(t), &counted{Bucket: storemem.New()}
	c, err := Open(t.Context(), Options{Bucket: b, Drivers: map[string]driver.Opened{mem.Name: mem.Open(d.mem)}, Folder: t.TempDir(), Cache: t.TempDir(), Near: true})
	d.check(err)
	d.Client = c
	return d, b
}

func allOf(Status) bool { return true }

// TestAnOverviewReadsLittle: of jobs that have ended nothing, of those that live one
// listing while their agents say nothing new.
func TestAnOverviewReadsLittle(t *testing.T) {
	t.Parallel()
	d, b := newCountedDesk(t)
	ctx := t.Context()
	for n := range 5 {
		d.end(d.submit("demo", fmt.Sprintf("train-%d", n), 1), done, outputs{})
		d.work(d.submitMap(fmt.Sprintf("work-%d", n), "lines", "a\nb\nc\nd\n", nil), fmt.Sprintf("1-%d", n), func(t mapagent.Try) protocol.Result { return tried(t, "", 0) })
	}
	live := []*Job{d.submitMap("live", "lines", strings.Repeat("x\n", 300), nil), d.submit("demo", "run", 1)}
	beat := func(j *Job, phase string) {
		t.Helper()
		d.check(liveness.WriteHeartbeat(ctx, d.world, j.path, protocol.Heartbeat{Agent: "1-0", Phase: phase, Host: protocol.Host{Boot: "elsewhere", PID: 1}}))
	}
	for _, j := range live {
		beat(j, "preparing")
	}
	now := time.Hour
	o := d.Overview("demo")
	o.boot = func() time.Duration { return now }
	look := func() (said []string) {
		t.Helper()
		b.since()
		list, left, err := o.Look(ctx, allOf, 0)
		d.check(err)
		if left != 0 {
			t.Errorf("%d are left", left)
		}
		for _, g := range list {
			said = append(said, g.Task+" "+string(g.State))
		}
		return said
	}
	first := look()
	if len(first) != 12 || !slices.Contains(first, "live STARTING") || !slices.Contains(first, "run STARTING") || !slices.Contains(first, "work-3 SUCCEEDED") {
		t.Fatalf("seen: %v", first)
	}
	look() // from here on it knows their heartbeats
	for range 3 {
		now += time.Second
		if diff := cmp.Diff(first, look()); diff != "" {
			t.Errorf("nothing has changed (-want +got):\n%s", diff)
		}
		if got, want := b.since(), "0 reads, 3 listings"; got != want { // the ids, and each live job's agents
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, j := range live {
		beat(j, "running")
	}
	now += time.Second
	if said := look(); !slices.Contains(said, "live RUNNING") || !slices.Contains(said, "run RUNNING") {
		t.Errorf("agents have said more: %v", said)
	}
	now += time.Second
	look()
	if got, want := b.since(), "0 reads, 3 listings"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// What no heartbeat tells is seen a little later.
	d.end(live[1], done, outputs{})
	now += liveAgain
	if said := look(); !slices.Contains(said, "run SUCCEEDED") {
		t.Errorf("it has ended: %v", said)
	}
}

// TestAnOverviewSeesWhatComes: a map that is opened again, and jobs that come, never came
// to be, or are not wanted.
func TestAnOverviewSeesWhatComes(t *testing.T) {
	t.Parallel()
	d, b := newCountedDesk(t)
	ctx := t.Context()
	now := time.Hour
	o := d.Overview("demo")
	o.boot = func() time.Duration { return now }
	look := func(wanted func(Status) bool, most int) (said string, left int) {
		t.Helper()
		list, left, err := o.Look(ctx, wanted, most)
		d.check(err)
		for _, g := range list {
			said += g.Task + " " + string(g.State) + "; "
		}
		return said, left
	}
	if said, _ := look(allOf, 0); said != "" {
		t.Errorf("of no jobs: %s", said)
	}
	failing := d.submitMap("work", "lines", "a\nb\n", nil)
	d.work(failing, "1-0", func(t mapagent.Try) protocol.Result { return tried(t, "", 3) })
	d.submit("other", "train", 1)
	if said, _ := look(allOf, 0); said != "work FAILED; " {
		t.Errorf("one has come: %s", said)
	}
	_, err := failing.Retry(ctx, RetryOptions{})
	d.check(err)
	now += mapAgain
	if said, _ := look(allOf, 0); said == "work FAILED; " {
		t.Errorf("it was opened again: %s", said)
	}
	half := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "half", Program: "x", On: mem.Name}}
	half.Spec, err = half.Spec.Normal()
	d.check(err)
	d.check(tasks.NameJob(ctx, d.world, &half)) // its submit gets no further
	for range 20 {
		if said, _ := look(func(s Status) bool { return s.Task == "half" }, 0); said != "" {
			t.Errorf("it was never submitted: %s", said)
		}
	}
	b.since()
	look(func(s Status) bool { return s.Task == "half" }, 0)
	if got, want := b.since(), "0 reads, 1 listings"; got != want {
		t.Errorf("of one that is not wanted and one that never came: %s", got)
	}
	for n := range 3 {
		d.submit("demo", fmt.Sprintf("train-%d", n), 1)
	}
	if said, left := look(allOf, 2); left != 2 || strings.Count(said, "train-") != 2 {
		t.Errorf("the newest two: %s and %d more", said, left)
	}
}
