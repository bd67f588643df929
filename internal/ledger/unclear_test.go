package ledger

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// meddler is a bucket that loses the reply to a write, or takes its time over a read.
type meddler struct {
	store.Bucket
	lose func(key string) bool // the object lands, and its writer does not hear of it
	slow func(key string)      // after the bucket has answered
}

func (b meddler) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	err := b.Bucket.Create(ctx, key, body)
	if b.lose != nil && b.lose(key) {
		return store.ErrUnclear
	}
	return err
}

func (b meddler) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, key, off, n)
	if b.slow != nil {
		b.slow(key)
	}
	return r, err
}

// meddled is the ledger of a process that a bucket stands in the way of.
func (d *desk) meddled(b meddler) protocol.World {
	w := d.World
	b.Bucket = d.bucket
	w.Store = store.New(b, store.Options{Clock: d.clock})
	return w
}

// A submit with an unknown outcome when it is given up may have landed: the job exists
// then, and so must its record (T1).
func TestAJobWhoseSubmitWasGivenUpHasItsRecord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	spec, err := job.Spec{Project: "demo", Task: "digits", Program: "train.py"}.Normal()
	d.check(err)
	j := job.Job{V: job.Format, Spec: spec, At: d.clock.Now()}
	d.check(tasks.NameJob(t.Context(), d.World, &j))
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	w := d.meddled(meddler{lose: func(key string) bool {
		if !strings.HasPrefix(key, protocol.TaskDir(j.Path())+"/log/") {
			return false
		}
		giveUp()
		return true
	}})
	if _, _, err := tasks.SubmitJob(ctx, w, j, "cli"); !errors.Is(err, store.ErrUnclear) {
		t.Fatalf("its submit says %v", err)
	}
	task, err := tasks.ReadTask(t.Context(), d.World, j.Path())
	d.check(err)
	if _, err := tasks.LoadAccepted(t.Context(), d.World, j.Path()); task.Live != j.ID || err != nil {
		t.Errorf("%q is live, and its record: %v", task.Live, err)
	}
}

// An agent that gave its join up and finds it there has that rank and no second one (L1,
// R1): whether it reads the join before it tries again, or meets it as it does.
func TestAnAgentTakesUpAJoinThatItGaveUp(t *testing.T) {
	t.Parallel()
	for name, pace := range map[string]time.Duration{"read before": 0, "met": protocol.Poll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			j := d.submit(func(j *job.Job) { j.Spec.Nodes = 2 })
			d.write(j, opened(1, protocol.First))
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			w := d.meddled(meddler{lose: func(key string) bool {
				lost := strings.Contains(key, "/join/") && ctx.Err() == nil
				if lost {
					giveUp()
				}
				return lost
			}})
			m := runagent.NewMember(w, j, "1-0-a", protocol.Join{})
			m.Pace = pace
			m.Ready()
			if _, err := m.Poll(ctx); err == nil {
				t.Fatal("it heard of its join")
			}
			for range 3 {
				_, err := m.Poll(t.Context())
				d.check(err)
				d.pass(protocol.Poll)
			}
			if joins := d.keys(protocol.JobDir(j.Path()) + "/attempts/1/join/"); len(joins) != 1 {
				t.Errorf("it has joined as %q", joins)
			}
			if attempt, rank := m.Joined(); attempt != 1 || rank != 0 {
				t.Errorf("it takes itself for rank %d of attempt %d", rank, attempt)
			}
		})
	}
}

// A flush that has nothing to write reads the chunk's log, and lets items begin for so
// long after it asked, however late it was answered (M5).
func TestTheStartDeadlineCountsFromTheQuestion(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers = 1000 })
	late := time.Duration(0)
	w := d.World
	d.World = d.meddled(meddler{slow: func(key string) {
		if strings.Contains(key, "/chunks/") {
			d.pass(late)
		}
	}})
	m := d.far(j, "1-0-a")
	d.World = w
	h, err := m.Seek(ctx)
	d.check(err)
	for range 2 {
		if _, ok := h.Next(); !ok {
			t.Fatal("nothing may begin")
		}
	}
	d.pass(m.Pace.StartFor)
	late = 7 * time.Second
	asked := d.clock.Boot()
	fate, err := h.Flush(ctx)
	if d.check(err); fate != mapagent.Holding || d.clock.Boot()-asked < late {
		t.Fatalf("after %s its chunk is %v", d.clock.Boot()-asked, fate)
	}
	if until := asked + m.Pace.StartFor; h.StartDeadline() > until {
		t.Errorf("items may begin until %s, and the log was asked for %s before", h.StartDeadline(), h.StartDeadline()-asked)
	}
}
