package maprunner

import (
	"context"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
)

// An agent looks at the job's log every 15 s at least (E5), and one beside its store so
// often that a person does not wait for a cancel.
func TestTheJobsLogIsLookedAtInTime(t *testing.T) {
	t.Parallel()
	for near, most := range map[bool]time.Duration{false: 15 * time.Second, true: time.Second} {
		s := newRange(t, command("true"), 4, 4)
		life, end := context.WithCancel(t.Context())
		defer end()
		c := newMapRunner(life, Config{World: s.World, Job: s.job, ID: liveness.NewAgentID(s.World, 1, 0), Slots: 1, Near: near,
			Note: func(string) {}, WriteNotice: func(string, time.Duration) {}, Patience: patience})
		if gone, err := c.pollOrder(t.Context()); gone || err != nil || c.order.Do != mapagent.Work {
			t.Fatalf("near %t: gone %t, order %d, %v", near, gone, c.order.Do, err)
		}
		if again := c.nextPoll - c.bootTime(); again > most {
			t.Errorf("near %t: it looks again after %s", near, again)
		}
	}
}
