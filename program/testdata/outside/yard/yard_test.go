package yard

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, func(p driver.AgentProcess) (*driver.Allocation, error) {
		p.Open = func(context.Context, string) (*store.Store, error) {
			b, err := dir.Open(p.Args.Store, dir.OS)
			return store.New(b, store.Options{}), err
		}
		return Adopt(p)
	})
}

func TestYardIsADriver(t *testing.T) {
	facts := t.TempDir()
	b, err := dir.Open(facts, dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	s, self := store.New(b, store.Options{}), ownProgram(t)
	claimant := func(d driver.Driver, h driver.Handle, m driver.Member) remote.Claimant {
		p, err := remote.NewRecords(s, Name).Open(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := p.Agent(t.Context(), m.Index)
		return c
	}
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			dir := t.TempDir()
			return func() driver.Driver {
				return New(dir, func(context.Context) (*store.Store, error) { return s, nil }, remote.Options{Settle: 100 * time.Millisecond, Look: 10 * time.Millisecond})
			}
		},
		Boot: func(t *testing.T, s drivertest.Script) driver.Boot {
			return driver.Boot{Store: facts, Env: s.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}
		},
		Break: func(_ *testing.T, _ driver.Driver, r *driver.Request) {
			broken := self
			broken.Downloads = []store.Download{{Tool: "false", Command: "false"}}
			r.Run.Programs = func(context.Context, string) (driver.Program, error) { return broken, nil }
		},
		Kill: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			d.(*Driver).engine.signal(claimant(d, h, m), syscall.SIGKILL)
		},
		Warn: func(_ *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			d.(*Driver).engine.signal(claimant(d, h, m), syscall.SIGTERM)
		},
		LoseAnswer: func(d driver.Driver) { d.(*Driver).engine.loseAnswer = true },
	})
}

// ownProgram is this test's program, as its machines fetch it.
func ownProgram(t *testing.T) driver.Program {
	t.Helper()
	p := drivertest.Program(t)
	p.System = system
	return p
}
