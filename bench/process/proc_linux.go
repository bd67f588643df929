package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ResidentPeaks asks the kernel for the peaks of all processes that run the program: the
// command line, agents, and whatever they start of themselves. A process that goes in the
// middle is left out.
func (p Program) ResidentPeaks() Memory {
	peaks := Memory{}
	for _, pid := range p.pids() {
		status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		if err != nil {
			continue
		}
		_, rest, found := strings.Cut(string(status), "VmHWM:")
		fields := strings.Fields(rest)
		if !found || len(fields) == 0 {
			continue
		}
		who := words(pid)
		// asked again: one that is about to become an item was drover a moment ago
		if kib, err := strconv.ParseInt(fields[0], 10, 64); err == nil && p.runs(pid) {
			peaks[who] = max(peaks[who], kib<<10)
		}
	}
	return peaks
}

// Shares asks the kernel what each process's part is of all that is held.
func (p Program) Shares() (s Shares) {
	for _, pid := range p.pids() {
		rollup, err := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(rollup), "\nPss:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		kib, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			continue
		}
		if s.Sum += kib << 10; strings.Contains(words(pid), "agent") {
			s.Each = append(s.Each, kib<<10)
		}
	}
	return s
}

// AgentCPUTime is the time of a core that agents have used which are there now.
func (p Program) AgentCPUTime() (sum time.Duration) {
	const tick = 10 * time.Millisecond // of the kernel's account, on every machine we know
	for _, pid := range p.pids() {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil || !strings.Contains(words(pid), "agent") {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the state on
		for _, at := range []int{11, 12} {
			if n, err := strconv.Atoi(fields[at]); err == nil {
				sum += time.Duration(n) * tick
			}
		}
	}
	return sum
}

// Living names the program's processes that are there now.
func (p Program) Living() []string {
	var live []string
	for _, pid := range p.pids() {
		live = append(live, fmt.Sprintf("%s (%s)", pid, words(pid)))
	}
	return live
}

func (p Program) pids() []string {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []string
	for _, f := range folders {
		if f.Name()[0] < '0' || f.Name()[0] > '9' {
			continue
		}
		if p.runs(f.Name()) {
			found = append(found, f.Name())
		}
	}
	return found
}

// runs says whether a process runs the program.
func (p Program) runs(pid string) bool {
	is, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
	return err == nil && is == string(p)
}

// words are a process's program and its verb.
func words(pid string) string {
	line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil || len(line) == 0 || line[0] == 0 {
		return "drover"
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	args[0] = filepath.Base(args[0])
	return strings.Join(args[:min(2, len(args))], " ")
}

// FileSystem is the kind that a folder lies on: what is durable costs nothing on tmpfs.
func FileSystem(dir string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "an unknown file system"
	}
	kind, longest := "an unknown file system", 0
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		at := strings.TrimSuffix(fields[1], "/")
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= longest {
			kind, longest = fields[2], len(at)
		}
	}
	return kind
}
