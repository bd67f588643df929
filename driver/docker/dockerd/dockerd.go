// Package dockerd gives tests a docker daemon of their own, with images that are
// made here. All test programs that run at one time share it, and it ends with the
// last of them.
//
// Nothing but tests imports it.
package dockerd

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The images that the daemon has.
const (
	// Static is FROM scratch: no shell, no /tmp, no users; /app alone, which knows
	// hello, sleep SECONDS and exit STATUS.
	Static = "drover.test/static:1"
	// Debian is bookworm with Python 3.11; it sets FROM_IMAGE=yes. It bears the name
	// python:3.11-slim too.
	Debian = "drover.test/debian:1"
)

var (
	once sync.Once
	host string
	why  string
)

// Use is for a test with a name that begins with TestReal: it skips it unless real parts
// were asked for, starts the daemon or joins it, and points DOCKER_HOST of this
// process at it. What lies in its folder is gone after the last test program.
func Use(t testing.TB) (dockerHost string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") == "" {
		t.Skip("needs a docker daemon: make test-real")
	}
	once.Do(start)
	if why != "" {
		t.Fatalf("start dockerd: %s", why)
	}
	return host
}

func start() {
	_, self, _, _ := runtime.Caller(0)
	docker := filepath.Dir(filepath.Dir(self))
	cache := filepath.Join(filepath.Dir(filepath.Dir(docker)), "bin", "images")
	c := exec.Command("bash", filepath.Join(docker, "testdata", "dockerd.sh"), "/tmp/drover-dockerd", strconv.Itoa(os.Getpid()))
	c.Env = append(os.Environ(), "CACHE="+cache)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		why = err.Error() + ": " + errs.String()
		return
	}
	host = strings.TrimSpace(string(out))
	os.Setenv("DOCKER_HOST", host)
}
