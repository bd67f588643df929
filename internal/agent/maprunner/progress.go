package maprunner

import (
	"math"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// progress is what the heartbeat says of the work.
type progress struct {
	*shared
	nextHeartbeat time.Duration      // when it is due next
	lastHeartbeat protocol.Heartbeat // what the last heartbeat said of the work
}

// updateHeartbeat tells the heartbeat how far the work is, when that has changed.
func (p *progress) updateHeartbeat() {
	if p.bootTime() < p.nextHeartbeat {
		return
	}
	if p.nextHeartbeat = math.MaxInt64; p.prepared == nil {
		return // nothing to tell before
	}
	p.nextHeartbeat = p.bootTime() + protocol.HeartbeatEvery
	if p.Near {
		p.nextHeartbeat = p.bootTime() + nearHeartbeat
	}
	var b protocol.Heartbeat
	p.member.FillHeartbeat(&b)
	if b.Recorded == p.lastHeartbeat.Recorded && b.Failed == p.lastHeartbeat.Failed && b.Flight == p.lastHeartbeat.Flight && slices.Equal(b.Chunks, p.lastHeartbeat.Chunks) {
		return
	}
	p.lastHeartbeat = b
	p.ChangeHeartbeat(p.Near, func(to *protocol.Heartbeat) {
		to.Recorded, to.Failed, to.Flight, to.Chunks = b.Recorded, b.Failed, b.Flight, b.Chunks
	})
}

// reportHeeded has the heartbeat say that nothing more begins here, or that it does
// again: the command that asked for it waits for that word.
func (p *progress) reportHeeded(before mapagent.MapDo) {
	if p.prepared == nil || phase(p.order.Do) == phase(before) {
		return
	}
	p.ChangeHeartbeat(true, func(b *protocol.Heartbeat) {
		b.Phase = phase(p.order.Do)
		p.member.FillHeartbeat(b)
	})
}

// phase is what the heartbeat calls an agent that is prepared.
func phase(do mapagent.MapDo) string {
	switch do {
	case mapagent.Rest:
		return protocol.Resting
	case mapagent.Drain, mapagent.Quit:
		return protocol.Draining
	}
	return "running"
}
