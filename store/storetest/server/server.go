// Package server starts real servers for tests of the stores: those that
// store/testdata/servers.sh installs. It refuses to know what a server serves, and to
// start one for anything but a test; the real tests of store/s3 and store/gcs prove it.
package server

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Install gives the program of a server. Where it was not installed before it is now,
// which takes the network and up to some minutes. Without DROVER_TEST_REAL the test is
// skipped.
func Install(t *testing.T, name string) (program string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it: it installs and starts " + name)
	}
	_, self, _, _ := runtime.Caller(0)
	install := exec.Command("sh", filepath.Join(filepath.Dir(self), "../../testdata/servers.sh"), name)
	install.Stderr = os.Stderr
	out, err := install.Output()
	if err != nil {
		t.Fatalf("install %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// Free is an address of this machine where no process listened a moment ago, for a server
// that takes a port and does not say which. It is none that the kernel gives to
// connections by itself: one of those would take it before the server does, now and then.
func Free() (address string) {
	for {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(32_768-lowest)))
		c, err := net.Dial("tcp", address)
		if err != nil {
			return address
		}
		c.Close()
	}
}

// lowest is above the ports of driver/slurm's clusters for tests.
const lowest = 29_100

// Start starts a server, which ends with the test. It may not listen yet.
func Start(t *testing.T, server *exec.Cmd) {
	t.Helper()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
}
