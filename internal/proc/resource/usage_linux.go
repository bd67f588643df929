package resource

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/drover-run/drover/internal/proc/process"
)

// tick is the unit of times in proc(5)'s stat: USER_HZ is 100 on every
// architecture that Go runs on.
const tick = time.Second / 100

// uses is what proc(5)'s stat says of some processes, together.
type uses struct {
	own, waited time.Duration // their own time, and that of children they waited for
	threads     int
	resident    int64 // bytes; what is shared counts for each
	large       int   // how many of them have much resident
}

// muchResident is above what a process that does little shares with others
// anyhow, such as its libraries.
const muchResident = 8 << 20

func (u *uses) addFromStat(stat []byte) bool {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 22 {
		return false
	}
	var n [22]int64
	for _, i := range []int{11, 12, 13, 14, 17, 21} { // utime, stime, cutime, cstime, num_threads, rss
		var err error
		if n[i], err = strconv.ParseInt(string(f[i]), 10, 64); err != nil {
			return false
		}
	}
	u.own += time.Duration(n[11]+n[12]) * tick
	u.waited += time.Duration(n[13]+n[14]) * tick
	u.threads += int(n[17])
	resident := n[21] * int64(os.Getpagesize())
	u.resident += resident
	if resident > muchResident {
		u.large++
	}
	return true
}

// measure reads the stat of each. A process that has just ended uses nothing.
func measure(tree []process.Entry) (u uses) {
	for _, p := range tree {
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/stat"); err == nil {
			u.addFromStat(stat)
		}
	}
	return u
}

// owned is the memory of a process that could not be had otherwise, in bytes:
// without files that are only mapped, and of what is shared its part. The kernel
// walks through all of its memory for that.
func owned(pid int) int64 {
	at := "/proc/" + strconv.Itoa(pid)
	if text, err := os.ReadFile(at + "/smaps_rollup"); err == nil {
		return parseRollup(text)
	}
	// An old kernel, or not ours to see in detail.
	text, err := os.ReadFile(at + "/statm")
	f := bytes.Fields(text)
	if err != nil || len(f) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	return (resident - shared) * int64(os.Getpagesize())
}

func parseRollup(text []byte) int64 {
	n := map[string]int64{}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[2]) == "kB" {
			kb, _ := strconv.ParseInt(string(f[1]), 10, 64)
			n[string(f[0])] = kb << 10
		}
	}
	if anon, told := n["Pss_Anon:"]; told { // since Linux 5.4
		return anon + n["Pss_Shmem:"] + n["SwapPss:"]
	}
	return n["Pss:"] + n["SwapPss:"]
}

// ReadUsage measures the tree. It reads a few files per process of the machine: for
// every few seconds, not for more.
func (m *Meter) ReadUsage() (Usage, error) {
	tree, err := process.Below(m.supervisor)
	if err != nil {
		return Usage{}, err
	}
	now := measure(tree)
	supervisor := measure([]process.Entry{{PID: m.supervisor}}) // the orphans' time is its
	u := Usage{
		CPU: now.own + now.waited + supervisor.waited, Count: len(tree), Threads: now.threads, Memory: now.resident,
	}
	if g := m.limiter.groupHolding(forMemory); g != nil {
		u.Memory, u.Peak = g.memoryInUse(), g.peakBytes()
	} else if now.large > 1 {
		u.Memory = 0
		for _, t := range tree {
			u.Memory += owned(t.PID)
		}
	}
	for _, t := range tree {
		if text, err := os.ReadFile("/proc/" + strconv.Itoa(t.PID) + "/io"); err == nil {
			read, written := parseIO(text)
			u.Read, u.Written = u.Read+read, u.Written+written
		}
	}
	return m.noteUsage(u), nil
}

// parseIO reads proc(5)'s io. What was written and then removed before it came to
// a disk counts for nothing.
func parseIO(text []byte) (read, written int64) {
	var n [3]int64
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		for i, name := range []string{"read_bytes:", "write_bytes:", "cancelled_write_bytes:"} {
			if len(f) == 2 && string(f[0]) == name {
				n[i], _ = strconv.ParseInt(string(f[1]), 10, 64)
			}
		}
	}
	return n[0], max(n[1]-n[2], 0)
}
