package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(role) == "starter" {
		if err := playStarter(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	drivertest.Main(m, Adopt)
}

// static is this test program without C's libraries, which an image need not have.
// It stays in bin/, for the next run.
var static = sync.OnceValues(func() (string, error) {
	program, err := filepath.Abs("../../bin/docker-test/agent")
	if err != nil {
		return "", err
	}
	c := exec.Command("go", "test", "-c", "-o", program, ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

func staticProgram(t *testing.T) string {
	t.Helper()
	program, err := static()
	if err != nil {
		t.Fatalf("build the agent of the tests: %v", err)
	}
	return program
}

// scripted starts drivertest's agent, which leaves its marks in s.Marks.
func scripted(t *testing.T, s drivertest.Script) driver.Boot {
	t.Helper()
	return driver.Boot{Binary: staticProgram(t), Store: s.Marks, Job: "suite/task/job", Folders: []string{s.Marks}, Env: s.Environ()}
}

func TestRealDockerIsADriver(t *testing.T) {
	dockerd.Use(t)
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			dir := t.TempDir()
			return func() driver.Driver {
				d := New(dir, "")
				d.image = dockerd.Static
				return d
			}
		},
		Boot: scripted,
		Kill: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			if err := d.(*Driver).daemon.signalContainer(t.Context(), containerName(h, m.Index), "SIGKILL"); err != nil {
				t.Fatal(err)
			}
		},
	})
}
