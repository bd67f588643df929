package gc

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// waking is a clock of which each sleep does something first.
type waking struct {
	store.Clock
	first func()
}

func (c waking) Sleep(ctx context.Context, _ time.Duration) error {
	c.first()
	return context.Cause(ctx)
}

// One sweep takes what a saver has just named. Another one begins before the saver has stored it again: it finds the
// name, and not the list that the name stands for, and so deletes a file of the list later.
func TestASaverWaitsForASweepThatBeganWhileItsListWasGone(t *testing.T) {
	ctx := t.Context()
	var later func()
	w := protocol.World{Store: store.New(mem.New(), store.Options{Clock: waking{store.System, func() { later() }}}), Rand: rand.Reader, Gone: func(protocol.Host) (bool, bool) { return false, false }}
	put := func(text string) store.Digest {
		d, _, err := w.Store.PutBlob(ctx, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	begin := func(doomed ...store.Digest) *removal.Sweeper {
		s, err := removal.BeginSweep(ctx, w, "gc", protocol.Host{}, doomed, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	end := func(s *removal.Sweeper, doomed ...store.Digest) {
		for _, d := range doomed {
			if err := w.Store.Delete(ctx, "blobs/"+string(d)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.End(ctx); err != nil {
			t.Fatal(err)
		}
	}

	saver, err := removal.ReadSweeps(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	list, file := put("list"), put("file")
	end(begin(list, file), list, file)
	var second *removal.Sweeper
	over := false
	later = func() { // while the saver waits, or when it has promised
		if !over {
			over = true
			end(second, file)
		}
	}
	err = saver.Assure(ctx, func() ([]store.Digest, error) { return []store.Digest{list, file}, nil }, func(context.Context, []store.Digest) error {
		if second == nil {
			second = begin(file)
		}
		put("list")
		put("file")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	later()
	for _, d := range []store.Digest{list, file} {
		if has, err := w.Store.HasBlob(ctx, d); !has || err != nil {
			t.Errorf("%s is there: %v, %v", d, has, err)
		}
	}
}

// An agent begins with a generation, as a newer one misses a file. That file is stored again by another saver, so the newer
// one is whole; what the agent restores stays until it has saved one of its own.
func TestGCKeepsWhatAnAgentBeginsWith(t *testing.T) {
	ctx := t.Context()
	w := protocol.World{Store: store.New(mem.New(), store.Options{}), Rand: rand.Reader, Gone: func(protocol.Host) (bool, bool) { return false, false }}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	spec, err := job.Spec{Project: "p", Task: "t", Program: "train.py"}.Normal()
	ok(err)
	j := job.Job{V: job.Format, Spec: spec, At: w.Store.Clock().Now()}
	ok(tasks.NameJob(ctx, w, &j))
	ok(tasks.ProposeJob(ctx, w, j))
	_, _, err = tasks.SubmitJob(ctx, w, j, "cli")
	ok(err)
	p := j.Path()
	put := func(text string) (folder, store.Digest) {
		list, _, err := folder{[]byte(text)}.put(ctx, w.Store)
		ok(err)
		return folder{[]byte(text)}, list
	}
	whole := (&room{}).whole(ctx, w)
	me := protocol.Restored{Job: j.ID, Attempt: 1, Agent: "a"}
	g, _, err := states.RestoreState(ctx, w, p, 0, me, 0, whole)
	ok(err)
	_, older := put("older")
	ok(g.Save(ctx, protocol.Saved{State: older}))
	torn, newer := put("newer")
	ok(g.Save(ctx, protocol.Saved{State: newer}))
	tornFile, _, err := w.Store.PutBlob(ctx, bytes.NewReader(torn[0]))
	ok(err)
	ok(w.Store.Delete(ctx, "blobs/"+string(tornFile)))

	me.Attempt, me.Agent = 2, "b"
	g, from, err := states.RestoreState(ctx, w, p, 0, me, 0, whole)
	if ok(err); from == nil || from.State != older {
		t.Fatalf("it begins with %+v", from)
	}
	_, _ = put("newer")
	collect := func() {
		r := &Remover{World: w, By: "gc"}
		left, err := r.Leftovers(ctx, Options{MinAge: -time.Minute})
		ok(err)
		_, err = r.Collect(ctx, left, nil)
		ok(err)
	}
	collect()
	if err := read(ctx, w.Store, older); err != nil {
		t.Errorf("what an agent restores was taken: %v", err)
	}
	_, next := put("next")
	ok(g.Save(ctx, protocol.Saved{State: next}))
	collect()
	if err := read(ctx, w.Store, older); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("what no agent restores any more is kept: %v", err)
	}
}
