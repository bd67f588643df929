package maprunner

import (
	"github.com/drover-run/drover/internal/agent/maprunner/outcome"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// tryResult says how a try ended.
func (a *attempts) tryResult(t *try, e *proc.Spawned, said *recorder.Excerpt) protocol.Result {
	return outcome.ResultOf(outcome.Try{Item: t.Item, Timeout: t.timeout, Redact: a.Redact.String, Now: a.clock.Now,
		Processes: func() int { return a.openedFor.limits.Processes },
		Memory: func() (limit job.Bytes, most bool) {
			limit = a.memoryOfTry(t)
			all := job.Bytes(a.prepared.Memory)
			return limit, a.order.Step > 1 && all > 0 && limit >= all
		}}, e, said)
}
