package folder

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spawn starts an agent in a session of its own. Its input is empty, and its output is appended
// to log.
func Spawn(program string, argv, env []string, log string) (pid int, err error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return Fork(program, argv, env, null, out)
}

// Fork starts an agent in a session of its own, with this input and output, and with more as its
// files from number 3 on.
func Fork(program string, argv, env []string, in, out *os.File, more ...*os.File) (pid int, err error) {
	files := []uintptr{in.Fd(), out.Fd(), out.Fd()}
	for _, f := range more {
		files = append(files, f.Fd())
	}
	pid, err = syscall.ForkExec(program, argv, &syscall.ProcAttr{Env: env,
		Files: files, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return 0, fmt.Errorf("start agent: %w", err)
	}
	return pid, nil
}

// Reap waits for all children of this process that have died. If the agent is one, it gives the
// agent's status.
func Reap(agent int) (status unix.WaitStatus, gone bool) {
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid <= 0:
			return status, gone
		case pid == agent:
			status, gone = s, true
		}
	}
}

// ShellStatus is the exit status that a shell would report.
func ShellStatus(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// Outcome says in words how a process ended.
func Outcome(s unix.WaitStatus) string {
	if s.Signaled() {
		return "signal: " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
