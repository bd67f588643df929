package maprunner

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

func TestWhoIsDrainedLetsItsItemsEndAndHandsTheRestOnAtOnce(t *testing.T) {
	t.Parallel()
	s := newRange(t, shell(`echo $1 >>ran; while [ ! -e go ]; do sleep 0.01; done; echo $1`), 30, 10)
	var heeded atomic.Bool
	a := s.start(2, func(c *Config, k *Prepared) {
		c.ChangeHeartbeat = func(_ bool, change func(*protocol.Heartbeat)) {
			var b protocol.Heartbeat
			if change(&b); b.Phase == protocol.Draining {
				heeded.Store(true)
			}
		}
	})
	a.wait(func() bool {
		ran, _ := os.ReadFile(filepath.Join(a.code, "ran"))
		return strings.Count(string(ran), "\n") == 2
	})
	stands, err := control.DrainAgent(t.Context(), s.World, s.job.Path(), "cli-1", protocol.Drained{Agent: a.c.ID, Reason: "lunch"})
	if s.check(err); !stands {
		t.Fatal("the job has ended")
	}
	a.wait(heeded.Load)

	// While its two items run, another does all the rest.
	b := s.start(2, nil)
	s.check(os.WriteFile(filepath.Join(b.code, "go"), nil, 0o600))
	s.until(func() bool { return s.open() == 2 })
	s.check(os.WriteFile(filepath.Join(a.code, "go"), nil, 0o600))
	a.leave(0) // for good: no engine is to start another in its place
	if !a.noted("leaving: its agent is drained, lunch") {
		t.Errorf("it notes %q", a.notes)
	}
	b.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 30, Succeeded: 30})
	s.untroubled()
}
