package slurm

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/slurm/node"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/driver/slurm/slurmd"
)

func TestMain(m *testing.M) {
	if status, ok := playFake(); ok {
		syscall.Exit(status) // os.Exit would have the race detector sleep for a second
	}
	if _, ok := os.LookupEnv(node.EnvFolder); ok && os.Getenv(node.EnvIndex) == "" {
		node.Adopt(driver.AgentProcess{}) // minds; it does not return
	}
	drivertest.Main(m, node.Adopt)
}

// killAgent is a crash of the agent's process: its minder sees it.
func killAgent(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
	dir, _ := d.(*Driver).placementFolder(h)
	n := records.Heard(dir, m.Index)
	if n.Up == nil {
		t.Fatalf("agent %d of %s is not up", m.Index, h)
	}
	if err := unix.Kill(n.Up.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestRealSlurmIsADriver(t *testing.T) {
	slurmd.Use(t)
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			dir := t.TempDir()
			return func() driver.Driver { return New(dir) }
		},
		Kill: killAgent,
	})
}
