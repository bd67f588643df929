package maprunner

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/prefetch"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Items may name files that are to be here before they begin. The cache brings those
// of the items that the chunks are about to give; they stay in their chunks meanwhile,
// and may be handed to another agent. Only a free slot takes a try with files that are
// still to come: else two agents could hand the last item to each other for ever.
// Fetching starts nothing, and needs no start deadline.

const (
	// inName is the folder of fetched files, below the agent's.
	inName = "in"
	// fetchesAtOnce items are fetched at once at least: far servers answer late.
	fetchesAtOnce = 4
)

// ahead is how many items' files are here or on their way before a slot is free, at
// most.
func ahead(slots int) int { return max(8, 2*slots) }

// itemFiles are the files that items name, on this machine: those of the next items and of
// those that run.
type itemFiles struct {
	*shared
	cache   *prefetch.Cache // nil: items name no files that are to be fetched, or not all is prepared yet
	arrived <-chan struct{}
}

// openCache is called once all is prepared: relative paths begin in its folder.
func (f *itemFiles) openCache() {
	if !f.Job.Spec.Fetch && f.Job.Manifest.Files == nil {
		return
	}
	parallel := min(max(fetchesAtOnce, f.Slots), 16)
	fetcher := source.NewFetcher(source.FetchConfig{Store: f.World.Store, Dir: f.prepared.Dir, Parallel: parallel, Pause: f.pause, OpenBucket: f.OpenPlace})
	f.cache = prefetch.New(f.life, prefetch.Config{Dir: filepath.Join(f.Root, inName), Room: int64(job.FetchRoom(f.Job.Spec.Disk)), Parallel: parallel,
		Fetch: func(ctx context.Context, name, into string, room func(context.Context, int64) error) (file string, ours bool, err error) {
			err = f.retryWhileFull(ctx, func() (err error) {
				file, ours, err = fetcher.Fetch(ctx, name, into, room)
				return err
			})
			return file, ours, err
		},
		Remove: func(dir string) {
			if err := tree.RemoveAll(dir); err != nil {
				f.Log.Warn("folder stays", "err", err)
			}
		}})
	f.arrived = f.cache.Arrived()
}

// takeFiles gives a try its files.
func (f *itemFiles) takeFiles(t *try) bool {
	t.share = f.cache.Take(t.Item)
	return t.share != nil
}

// removeFiles removes the files of a try that has ended.
func (f *itemFiles) removeFiles(t *try) {
	if t.share != nil {
		f.cache.Drop(t.share)
		t.share = nil
	}
}

// failUnfetched is what becomes of a try with files that cannot be had: the item has failed.
// What is not there, or cannot be, would not be there for another try either; a server
// that is away may be back.
func (a *attempts) failUnfetched(t *try) error {
	err := t.share.Err
	kind, here := fault.KindOf(err), new(os.PathError)
	if kind == fault.Full { // it was waited for
		return err
	}
	delete(a.tries, t.id)
	a.files.removeFiles(t)
	final := kind == fault.Missing || kind == fault.Invalid || kind == fault.Denied && !errors.As(err, &here)
	t.chunk.owned.Done(protocol.Result{Item: t.Item, Failed: true, Final: final, Code: fault.ExitDrover,
		Why: recorder.OneLine(a.Redact.String(recorder.Middle(err.Error()))), Ended: a.clock.Now().UnixMicro()})
	return nil
}
