// Package proctest has what tests of several packages need to see the end of a tree of
// processes.
package proctest

import (
	"bufio"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// RunDetached starts its arguments in a session of their own and leaves them.
func RunDetached() {
	_, err := os.StartProcess("/bin/sh", append([]string{"sh"}, os.Args[1:]...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		panic(err)
	}
	syscall.Exit(0)
}

// Daemon is shell text that leaves one process behind: orphaned twice, in a
// session of its own, deaf to every polite signal. It says "ready" first.
const Daemon = `(PROC_TEST_ROLE=detach "$SELF" -c 'trap "" TERM HUP INT QUIT USR1; echo ready; sleep 1000; sleep 1000' &)` + "\n"

// Outlet is a pipe that every process of a tree holds open.
type Outlet struct {
	t    *testing.T
	r, W *os.File
	In   *bufio.Reader

	Namespace bool // the agent said that it has one
}

// NewOutlet makes a pipe; the program is given W.
func NewOutlet(t *testing.T) *Outlet {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return OutletOf(t, r, w)
}

// OutletOf is an Outlet of a pipe that is there.
func OutletOf(t *testing.T, r, w *os.File) *Outlet {
	t.Helper()
	t.Cleanup(func() { r.Close(); w.Close() })
	// Not a timing assertion: a broken promise fails here instead of hanging.
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &Outlet{t: t, r: r, W: w, In: bufio.NewReader(r)}
}

// WaitForLine waits for a line of that text, once per count.
func (c *Outlet) WaitForLine(want string, count int) {
	c.t.Helper()
	for range count {
		for {
			line, err := c.In.ReadString('\n')
			if err != nil {
				c.t.Fatalf("waiting for %q: %v", want, err)
			}
			line = strings.TrimSpace(line)
			if line == want {
				break
			}
			if strings.HasPrefix(line, "refused: ") && want == "ready" {
				c.t.Skip(line)
			}
			c.Namespace = c.Namespace || line == "namespace true"
		}
	}
}

// RequireClosed fails unless no process holds the outlet at this very moment. It is exact
// because tests that start processes are not parallel: a child forked elsewhere
// would hold all our files until its exec.
func (c *Outlet) RequireClosed() {
	c.t.Helper()
	c.W.Close()
	raw, err := c.r.SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	var events int16
	if err := raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 0); err != nil {
			c.t.Error(err)
		}
		events = poll[0].Revents
	}); err != nil {
		c.t.Fatal(err)
	}
	if events&unix.POLLHUP == 0 {
		c.t.Error("a process of the tree is still alive")
	}
}

// WaitForClose waits until no process holds the outlet.
func (c *Outlet) WaitForClose() {
	c.t.Helper()
	c.W.Close()
	if _, err := io.Copy(io.Discard, c.In); err != nil {
		c.t.Errorf("a process of the tree is still alive: %v", err)
	}
}
