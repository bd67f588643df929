package views

import (
	"context"
	"path"
	"sync"
	"sync/atomic"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// readHeartbeats reads the heartbeats of a job's agents, by id. living are those with no evidence
// against them that were heard of within a lease.
func readHeartbeats(ctx context.Context, w protocol.World, p job.Path) (all, living []protocol.Heartbeat, err error) {
	var ids []string
	for o, err := range w.Store.List(ctx, protocol.JobDir(p)+"/agents/") {
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, path.Base(o.Key))
	}
	beats := make([]*protocol.Heartbeat, len(ids))
	err = inLanes(ctx, w, len(ids), func(ctx context.Context, i int) error {
		b, ok, err := liveness.ReadHeartbeat(ctx, w, p, ids[i])
		if ok {
			beats[i] = &b
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, b := range beats {
		if b == nil {
			continue
		}
		all = append(all, *b)
		if seemsAlive(w, *b) {
			living = append(living, *b)
		}
	}
	return all, living, nil
}

// inLanes does n things, as many at once as there are lanes, until one fails.
func inLanes(ctx context.Context, w protocol.World, n int, do func(ctx context.Context, i int) error) error {
	if w.Lanes <= 1 {
		for i := range n {
			if err := do(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(w.Lanes, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					fail(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// seemsAlive guesses from one look whether an agent is there: its process on this
// machine, or a heartbeat not older than a lease by our wall clock.
func seemsAlive(w protocol.World, b protocol.Heartbeat) bool {
	if b.Phase == protocol.Left {
		return false
	}
	if gone, known := w.Gone(b.Host); known {
		return !gone
	}
	return w.Clock().Now().Sub(b.At) < protocol.Lease
}
