package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// leftovers waits until no process is alive that has to do with a script's
// folder: by its environment, its command line or its working folder (a minder
// has nothing else). What is alive after limit is killed, and named.
func leftovers(work string, limit time.Duration) (killed []string) {
	deadline := time.Now().Add(limit)
	for {
		alive := processesOf(work)
		if len(alive) == 0 {
			return killed
		}
		for pid, name := range alive {
			switch over, err := exited(pid, time.Until(deadline)); {
			case err != nil:
				return append(killed, fmt.Sprintf("%d %s: %v", pid, name, err))
			case !over:
				_ = unix.Kill(pid, unix.SIGKILL)
				killed = append(killed, fmt.Sprintf("%d %s", pid, name))
			}
		}
	}
}

func processesOf(work string) map[int]string {
	found := map[int]string{}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range folders {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() {
			continue
		}
		// Unreadable ones are gone, or another user's.
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if bytes.Contains(environ, []byte("="+work+"/")) || bytes.Contains(command, []byte(work+"/")) || strings.HasPrefix(cwd, work) {
			found[pid] = string(bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
		}
	}
	return found
}

// exited waits for the end of a process that is no child of this one.
func exited(pid int, limit time.Duration) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("watch process: %w", err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(limit, 0)/time.Millisecond))
		if !errors.Is(err, unix.EINTR) {
			return n == 1, err
		}
	}
}

// startBound starts a process that file permissions bind, also where we are
// root: without the two capabilities that pass them over. They are taken from
// the bounding set of one thread, which is not given back, so it ends with them.
func startBound(p *process) {
	started := make(chan struct{})
	go func() {
		defer close(started)
		runtime.LockOSThread()
		for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
			// A plain user is refused, and has neither.
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		}
		p.start()
	}()
	<-started
}
