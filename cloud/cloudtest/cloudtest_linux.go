// Package cloudtest proves that code sends nothing. Tests of the packages below cloud, and of
// drivers, use it.
package cloudtest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inside is set in the process that has no network.
const inside = "CLOUDTEST_INSIDE"

// limit is far more than code that sends nothing takes, and less than clients wait for a
// metadata server.
const limit = 10 * time.Second

// Silent runs f in a process of its own without any network, in which the kernel counts each
// attempt to send: to another machine, to a metadata or name server, to this machine itself.
// It fails the test if there was an attempt, or if f fails it. Call it first in a test function
// that is not a subtest. It skips the test where no process without a network can be made.
func Silent(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	if os.Getenv(inside) == "" {
		runAlone(t)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	before := attempts(t)
	f(ctx)
	if n := attempts(t) - before; n != 0 {
		t.Errorf("%d attempts to send something were made", n)
	}
	if ctx.Err() != nil {
		t.Errorf("it took longer than %v", limit)
	}
	before = attempts(t)
	for network, address := range map[string]string{"tcp": "169.254.169.254:80", "udp": "127.0.0.1:53", "tcp6": "[fd00:ec2::254]:80"} {
		if c, err := net.DialTimeout(network, address, time.Second); err == nil {
			c.Close()
		}
	}
	if n := attempts(t) - before; n < 2 {
		t.Errorf("of attempts to send something the kernel has counted %d: it proves nothing here", n)
	}
	t.Log(inside)
}

func runAlone(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &ended):
		t.Skipf("a process of this user can have no network of its own here: %v", err)
	case err != nil || !strings.Contains(string(out), inside):
		t.Errorf("without a network: %v\n%s", err, out)
	}
}

// attempts counts what this process tried to send: in a network without a route to anywhere,
// each attempt ends at the lookup of a route.
func attempts(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/snmp")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]string{}
	var names []string
	for line := range strings.Lines(string(text)) {
		values := strings.Fields(line)
		if len(names) == len(values) && values[0] == "Ip:" && names[0] == "Ip:" {
			for i, name := range names {
				counts[name] = values[i]
			}
		}
		names = values
	}
	six, _ := os.ReadFile("/proc/self/net/snmp6") // absent: this kernel has no IPv6
	for line := range strings.Lines(string(six)) {
		if name, value, ok := strings.Cut(line, " "); ok {
			counts[name] = strings.TrimSpace(value)
		}
	}
	for _, name := range []string{"OutRequests", "OutNoRoutes", "Ip6OutRequests", "Ip6OutNoRoutes"} {
		if counts[name] == "" {
			continue
		}
		count, err := strconv.Atoi(strings.TrimSpace(counts[name]))
		if err != nil {
			t.Fatal(err)
		}
		n += count
	}
	return n
}
