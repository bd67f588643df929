package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Heartbeats writes the agent's heartbeat: every ledger.Heartbeat, and at once when
// what it says has changed, so that a person sees the phase they are waiting for;
// but with rest between two, where a request costs something.
type Heartbeats struct {
	Rest time.Duration

	w   protocol.World
	p   job.Path
	log *slog.Logger

	mu      sync.Mutex
	newest  protocol.Heartbeat
	changed chan struct{}
	quit    context.CancelFunc
	gone    chan struct{}
}

func NewHeartbeats(w protocol.World, p job.Path, b protocol.Heartbeat, log *slog.Logger) *Heartbeats {
	return &Heartbeats{w: w, p: p, newest: b, log: log, changed: make(chan struct{}, 1), gone: make(chan struct{})}
}

// ChangeNow changes what the next heartbeat says, and makes it come now.
func (h *Heartbeats) ChangeNow(change func(*protocol.Heartbeat)) { h.ChangeHeartbeat(true, change) }

// ChangeHeartbeat is set for what may wait until the next heartbeat is due, unless now.
func (h *Heartbeats) ChangeHeartbeat(now bool, change func(*protocol.Heartbeat)) {
	h.mu.Lock()
	change(&h.newest)
	h.mu.Unlock()
	if !now {
		return
	}
	select {
	case h.changed <- struct{}{}:
	default: // one is on its way and will read the newest
	}
}

func (h *Heartbeats) StartHeartbeats(ctx context.Context) {
	ctx, h.quit = context.WithCancel(ctx)
	go func() {
		defer close(h.gone)
		tick := time.NewTicker(protocol.HeartbeatEvery)
		defer tick.Stop()
		for {
			sent := time.Now()
			h.sendHeartbeat(ctx)
			select {
			case <-tick.C:
			case <-h.changed:
				if store.System.Sleep(ctx, h.Rest-time.Since(sent)) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (h *Heartbeats) sendHeartbeat(ctx context.Context) {
	h.mu.Lock()
	h.newest.Counter++
	b := h.newest
	h.mu.Unlock()
	if ctx.Err() != nil {
		return // the job was removed, and nothing is written for it any more (E6)
	}
	if err := liveness.WriteHeartbeat(ctx, h.w, h.p, b); err != nil && ctx.Err() == nil {
		h.log.Warn("heartbeat not written", "err", err)
	}
}

// StopHeartbeats ends the heartbeats with a last one that says so.
func (h *Heartbeats) StopHeartbeats(ctx context.Context) {
	h.quit()
	<-h.gone
	h.mu.Lock()
	h.newest.Phase, h.newest.Live = protocol.Left, ""
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a hint is not worth more
	defer cancel()
	h.sendHeartbeat(ctx)
}
