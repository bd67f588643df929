package agent

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

const leavesAModel = `mkdir -p $SM_MODEL_DIR; echo m >$SM_MODEL_DIR/model.bin`

// What a program made is named before its exit is written: a gc that looks in between
// finds it (docs/design/004-gc.md).
func TestOutputsAreNamedBeforeTheExit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(shell(leavesAModel), nil)
	var named []store.Digest
	p.bucket.set(func() {
		p.bucket.refuse = func(key string) error {
			if strings.Contains(key, "/exit/") {
				census := removal.NewInventory(p.World)
				if err := census.Look(t.Context()); err != nil {
					return err
				}
				named = census.Jobs()[0].Outputs
			}
			return nil
		}
	})
	rep := p.run(j)
	if model := rep.Run.Exits[0].Outputs["model"]; model == "" || !slices.Contains(named, model) {
		t.Errorf("its exit names %q; named before were %q", model, named)
	}
}

// A gc that looked before the outputs were named may have taken their blobs: they are
// stored again before the exit promises them.
func TestWhatGCTookBeforeOutputsWereNamedIsStoredAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(shell(leavesAModel), nil)
	taken := 0
	var once sync.Once
	p.bucket.set(func() {
		p.bucket.refuse = func(key string) (err error) {
			if strings.Contains(key, "/attempts/1/out/") {
				once.Do(func() { taken, err = p.collect() })
			}
			return err
		}
	})
	rep := p.run(j)
	if rep.Run.Settled == nil || rep.Run.Settled.State != job.Succeeded || taken == 0 {
		t.Fatalf("settled %+v; gc took %d blobs", rep.Run.Settled, taken)
	}
	if got := p.output(rep.Run.Exits[0], "model")["model.bin"]; got != "m\n" {
		t.Errorf("its model is %q", got)
	}
}

// collect is a gc that finds no name of any blob, and takes them all.
func (p *place) collect() (taken int, err error) {
	ctx := p.t.Context()
	var doomed []store.Digest
	for o, err := range p.Store.List(ctx, "blobs/") {
		if err != nil {
			return 0, err
		}
		doomed = append(doomed, store.Digest(o.Key[strings.LastIndexByte(o.Key, '/')+1:]))
	}
	gc, err := removal.BeginSweep(ctx, p.World, "gc", protocol.Host(process.Self()), doomed, time.Minute)
	if err != nil {
		return 0, err
	}
	for o, err := range p.Store.List(ctx, "blobs/") {
		if err == nil {
			err = p.Store.Delete(ctx, o.Key)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(doomed), gc.End(ctx)
}
