//go:build !linux

package main_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// leftovers waits until ps shows no process that has a script's folder in its environment
// or command line. Processes that are alive after limit are killed, and named.
func leftovers(work string, limit time.Duration) (killed []string) {
	deadline := time.Now().Add(limit)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for ; ; <-look.C {
		out, err := exec.Command("ps", "-axEww", "-o", "pid=,command=").Output()
		if err != nil {
			return append(killed, fmt.Sprintf("look for processes: %v", err))
		}
		alive := 0
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, work+"/") {
				continue
			}
			alive++
			if time.Now().After(deadline) {
				pid, _ := strconv.Atoi(strings.Fields(line)[0])
				_ = syscall.Kill(pid, syscall.SIGKILL)
				killed = append(killed, line)
			}
		}
		if alive == 0 {
			return killed
		}
	}
}

// startBound starts a process that file permissions bind: for a plain user, any.
func startBound(p *process) { p.start() }
