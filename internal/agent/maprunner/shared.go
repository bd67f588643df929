package maprunner

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// shared is what all parts of a map runner use. The loop alone sets order, prepared and
// openedFor, and no other goroutine reads these while it may.
type shared struct {
	Config
	clock     store.Clock
	member    *mapagent.MapMember
	order     mapagent.MapOrder // what the job's log says is to be done
	prepared  *Prepared         // nil: not all is prepared yet
	openedFor openedFor         // what the groups were opened for

	leaving atomic.Bool   // an agent that must go does not wait for room
	mustGo  chan struct{} // closed with it

	life       context.Context // of the goroutines, until shut
	cancel     context.CancelFunc
	goroutines sync.WaitGroup // readers, uploaders, and the one that waits for the notice
}

// bootTime is the boot time, by which all is measured.
func (s *shared) bootTime() time.Duration { return s.clock.Boot() }

// jobWasStopped says that the job was: each chunk is wound up once nothing of it runs.
func (s *shared) jobWasStopped() bool {
	return s.order.Do == mapagent.Drain || s.order.Do == mapagent.Cease
}

// signalHitAll says whether all processes here have got SIGTERM.
func (s *shared) signalHitAll() bool {
	select {
	case <-s.Struck:
		return true
	default:
		return false
	}
}

// gracePeriod is how long an item has from SIGTERM to SIGKILL.
func (s *shared) gracePeriod() time.Duration { return time.Duration(s.Job.Spec.Grace) }

// memoryOfTry is the limit of a try: more, after its item had too little.
func (s *shared) memoryOfTry(t *try) job.Bytes {
	return s.openedFor.limits.Memory.Stepped(s.order.Step, t.OOMs, job.Bytes(s.prepared.Memory))
}

// retryWhileFull does what needs room in the store, and waits while there is none: a
// million items are worth some minutes until a person has made room. It gives up
// after Patience, or when the agent must go.
func (s *shared) retryWhileFull(ctx context.Context, do func() error) error {
	begin := s.bootTime()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if err == nil || fault.KindOf(err) != fault.Full || s.leaving.Load() || s.bootTime()-begin+pause > s.Patience {
			return err
		}
		if pause == firstPause {
			s.Note("waiting for room: " + err.Error())
			s.ChangeHeartbeat(true, func(b *protocol.Heartbeat) { b.Note = "waiting for room: " + err.Error() })
			defer s.ChangeHeartbeat(true, func(b *protocol.Heartbeat) { b.Note = "" })
		}
		select {
		case <-s.mustGo:
			return err
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)
