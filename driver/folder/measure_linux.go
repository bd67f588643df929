package folder

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Measure is what this process may use of the machine: less than the machine has in a container
// or cgroup with limits, or when the process is bound to some of its cores.
func Measure() Hardware {
	h := Hardware{Place: "this machine", Cores: runtime.NumCPU()}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		h.Memory = int64(uint64(info.Totalram) * uint64(info.Unit))
	}
	return limited(h, os.DirFS("/"))
}

// limited lowers h to what the cgroups of this process allow: its own and all above it. root is
// the file system.
func limited(h Hardware, root fs.FS) Hardware {
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // none: no limits
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers, group := fields[1], path.Join("/", fields[2])
		for {
			switch {
			case controllers == "": // version 2
				dir := path.Join("sys/fs/cgroup", group)
				h = h.limitedTo(cores(read(root, dir, "cpu.max")), bytesOf(read(root, dir, "memory.max")))
			case controllers == "memory":
				h = h.limitedTo(0, bytesOf(read(root, path.Join("sys/fs/cgroup/memory", group), "memory.limit_in_bytes")))
			case strings.Contains(","+controllers+",", ",cpu,"):
				dir := path.Join("sys/fs/cgroup/cpu", group)
				h = h.limitedTo(cores(read(root, dir, "cpu.cfs_quota_us")+" "+read(root, dir, "cpu.cfs_period_us")), 0)
			}
			if group == "/" {
				break
			}
			group = path.Dir(group)
		}
	}
	return h
}

// limitedTo lowers h to limits; 0 is none. Part of a core counts as one.
func (h Hardware) limitedTo(cores float64, memory int64) Hardware {
	if cores > 0 {
		h.Cores = min(h.Cores, int(min(math.Ceil(cores), 1e6)))
	}
	if memory > 0 && (h.Memory == 0 || memory < h.Memory) {
		h.Memory = memory
	}
	return h
}

func read(root fs.FS, dir, name string) string {
	text, _ := fs.ReadFile(root, path.Join(dir, name)) // absent: no limit at this level
	return strings.TrimSpace(string(text))
}

// cores reads "QUOTA PERIOD", in microseconds; 0 for "max", -1 and nonsense.
func cores(text string) float64 {
	quota, period, _ := strings.Cut(text, " ")
	q, err := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return float64(q) / float64(p)
}

// bytesOf reads a number of bytes; 0 for "max" and nonsense. Version 1 says
// "none" with a number beyond any machine's memory, which limits nothing.
func bytesOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
