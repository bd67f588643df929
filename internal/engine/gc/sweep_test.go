package gc

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
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
