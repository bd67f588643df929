package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
)

// Serve is the command line that runs on a node what node 0 asks for, until it
// is stopped. self is drover.
func Serve(self string) []string { return []string{self, "launch", "serve"} }

// serveGrace is what the started have to end when their server is stopped.
const serveGrace = 5 * time.Second

// serve runs the lines that the desk gives it. It lives until it is stopped, or
// the agent hangs up: then what it started ends too.
func serve(ctx context.Context, _ []string) (int, error) {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	temp, err := settle()
	defer os.RemoveAll(temp)
	if err != nil {
		return 0, err
	}
	conn, err := dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	if err := out.Encode(hello{Serve: true}); err != nil {
		return 0, fmt.Errorf("serve: the agent is gone: %w", err)
	}
	var mu sync.Mutex // guards out
	var started sync.WaitGroup
	for {
		var o order
		if in.Decode(&o) != nil {
			break // stopped, or hung up on
		}
		started.Go(func() {
			a := answer{N: o.N, Status: shell(ctx, o.Line)}
			if a.Status != 0 && ctx.Err() == nil {
				alarm(a.Status) // the asking process may not look
			}
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(a) // an agent that is gone hears nothing
		})
	}
	cancel()
	started.Wait()
	return 128 + int(syscall.SIGTERM), nil
}

// shell runs a line here, and ends it when ctx ends. It is a process group of its
// own: hydra's proxy kills the groups of its ranks, and one that it has just
// started is in the proxy's own yet.
func shell(ctx context.Context, line string) (status int) {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = serveGrace
	return statusOf(c.Run())
}

// rshAs names the file that an MPI took for its remote shell.
const rshAs = "--as"

// Rsh is "drover rsh HOST COMMAND...", a remote shell between the nodes of one
// job: what an MPI takes instead of ssh. Words are joined by blanks, as ssh does.
// Its status is the command's, or ssh's own 255.
func Rsh(args []string) int {
	own := ""
	if len(args) > 1 && args[0] == rshAs {
		own, args = args[1], args[2:]
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:] // ssh's switches, such as -x
	}
	if len(args) < 2 {
		say(fault.New(fault.Invalid, "Write it as `drover rsh algo-2 hostname`.", "rsh: want a host and a command"))
		return 255
	}
	line := strings.Join(args[1:], " ")
	if own != "" {
		// Open MPI's daemons look whether the remote shell is there that mpiexec was
		// told of, and use none. This node's file need not be on theirs.
		line = strings.ReplaceAll(line, own, "/bin/sh")
	}
	status, err := call(args[0], line)
	if err != nil {
		say(err)
		return 255
	}
	return status
}
