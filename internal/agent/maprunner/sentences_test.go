package maprunner

import (
	"testing"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func TestATryThatIsBeyondItsLimitsSaysWhich(t *testing.T) {
	c := &attempts{shared: &shared{prepared: &Prepared{Memory: 1 << 30}}}
	c.Job.Spec.Memory = 1 << 30
	c.openedFor.limits = job.Limits{Memory: 1 << 30, Processes: 8}
	c.order.Step, c.clock = 2, store.System
	c.Redact = &redact.Redactor{}
	now := time.Now()
	for want, exit := range map[string]proc.Exit{
		"too many processes: limit of 8":        {Code: 1, Crowd: true},
		"killed from outside, or out of memory": {Code: 137, Lost: true},
	} {
		r := c.tryResult(&try{Try: mapagent.Try{Item: 3}}, &proc.Spawned{Began: now, Ended: now, Exit: exit}, &recorder.Excerpt{})
		if !r.Failed || r.Why != want {
			t.Errorf("it fails with %q, want %q", r.Why, want)
		}
	}
}
