//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one of a lane's.
type process struct {
	pid, parent int
	kind        string // command, agent, minder: drover itself; item: what it runs
	text        string
}

// processes are all that belong to the lane, by pid: drover's are known by their
// program's file, others by their environment, command line or working folder, and
// the rest by their parents.
func (l *lane) processes() (all []process) {
	found := map[int]bool{}
	var others []process
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is a good one
	for _, dir := range folders {
		p, ours := l.readProcess(dir)
		if ours {
			all, found[p.pid] = append(all, p), true
		} else {
			others = append(others, p)
		}
	}
	for again := true; again; {
		again = false
		for _, p := range others {
			if p.pid != 0 && found[p.parent] && !found[p.pid] {
				all, found[p.pid], again = append(all, p), true, true
			}
		}
	}
	slices.SortFunc(all, func(a, b process) int { return a.pid - b.pid })
	return all
}

// readProcess reads one process. What cannot be read has ended, or is another user's.
func (l *lane) readProcess(dir string) (p process, ours bool) {
	status, err := os.ReadFile(filepath.Join(dir, "stat"))
	end := bytes.LastIndexByte(status, ')') // the name may hold anything
	if err != nil || end < 0 {
		return p, false
	}
	fields := strings.Fields(string(status[end+1:]))
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil || pid == os.Getpid() || len(fields) < 2 || fields[0] == "Z" {
		return p, false
	}
	p = process{pid: pid, kind: "item"}
	p.parent, _ = strconv.Atoi(fields[1])
	command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	p.text = string(bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte(" ")))
	program, _ := os.Readlink(filepath.Join(dir, "exe"))
	if strings.HasPrefix(program, filepath.Join(l.dir, "bin")+"/") {
		p.kind = kindOf(strings.Fields(p.text))
		return p, true
	}
	environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
	cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
	return p, bytes.Contains(environ, []byte("="+l.dir+"/")) || bytes.Contains(command, []byte(l.dir+"/")) || strings.HasPrefix(cwd, l.dir+"/")
}

func kindOf(args []string) string {
	if len(args) < 2 {
		return "minder"
	}
	switch args[1] {
	case "agent":
		return "agent"
	case "map", "run", "resume":
		return "command"
	}
	return "minder"
}

// of are those of one kind.
func of(all []process, kind string) (some []process) {
	for _, p := range all {
		if p.kind == kind {
			some = append(some, p)
		}
	}
	return some
}

// waitUntilGone waits until nothing of the lane's runs any more, and gives what still does
// after the limit.
func (l *lane) waitUntilGone(ctx context.Context, limit time.Duration) []process {
	for deadline := time.Now().Add(limit); ; {
		all := l.processes()
		if len(all) == 0 || ctx.Err() != nil || time.Now().After(deadline) {
			return all
		}
		rest(ctx, 50*time.Millisecond)
	}
}

// endAllProcesses ends all of the lane at once. They are stopped first: an agent that sees an
// item killed rightly records that it failed. What is starting just then is found
// in a later round.
func (l *lane) endAllProcesses() {
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGSTOP, unix.SIGKILL, unix.SIGKILL, unix.SIGKILL} {
		for _, p := range l.processes() {
			_ = unix.Kill(p.pid, sig) // gone already is as good
		}
	}
}

// rest waits, or less if ctx is done.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
