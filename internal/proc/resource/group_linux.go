package resource

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/reason"
)

// group is one that we made, for one tree.
type group struct {
	cgroups
	version     int
	folder      string
	limits      Limits
	controllers []string // those that hold their limit
	made        bool
}

// knob is a file of a group, and what is written to it.
type knob struct {
	file, value string
	optional    bool
}

// period is the time over which CPU time is counted, in microseconds: the
// kernel's own default.
const period = 100_000

// orderedKnobs are in the order in which the kernel takes them.
func (g *group) orderedKnobs(controller string) []knob {
	bytes, quota := strconv.FormatInt(g.limits.Memory, 10), strconv.FormatInt(int64(math.Ceil(g.limits.CPUs*period)), 10)
	switch {
	case controller == forMemory && g.version == 1:
		// Memory and swap together get the same: no swap. Where swap is not
		// counted the group is at least the last to be swapped.
		return []knob{{"memory.limit_in_bytes", bytes, false}, {"memory.memsw.limit_in_bytes", bytes, true}, {"memory.swappiness", "0", true}}
	case controller == forMemory:
		return []knob{{"memory.max", bytes, false}, {"memory.swap.max", "0", true}, {"memory.oom.group", "1", true}}
	case controller == forCPUs && g.version == 1:
		return []knob{{"cpu.cfs_period_us", strconv.Itoa(period), false}, {"cpu.cfs_quota_us", quota, false}}
	case controller == forCPUs:
		return []knob{{"cpu.max", quota + " " + strconv.Itoa(period), false}}
	case g.version == 1:
		return []knob{{"pids.max", strconv.Itoa(g.limits.Processes + 1), false}} // one for the supervisor's thread, which comes in to fork
	}
	return []knob{{"pids.max", strconv.Itoa(g.limits.Processes), false}}
}

// delegated are those of wanted that the parent of g hands down. It asks the
// parent to, which changes nothing for the groups that are there.
func (g *group) delegated(wanted []string, why map[string]string) (given []string) {
	parent := filepath.Dir(g.folder)
	has, err := read(parent, "cgroup.controllers")
	if err == nil {
		// To be put into a group one must have this right on what is above both.
		err = unix.Access(filepath.Join(parent, "cgroup.procs"), unix.W_OK)
	}
	for _, k := range wanted {
		switch {
		case err != nil:
			why[k] = fmt.Sprintf("%s: %s", parent, reason.Of(err))
			continue
		case !slices.Contains(strings.Fields(has), k):
			why[k] = fmt.Sprintf("%s: it has no controller %s", parent, k)
			continue
		}
		down, err := read(parent, "cgroup.subtree_control")
		if err == nil && !slices.Contains(strings.Fields(down), k) {
			err = put(filepath.Join(parent, "cgroup.subtree_control"), "+"+k)
		}
		if err != nil {
			why[k] = fmt.Sprintf("%s: hand down controller %s: %s", parent, k, reason.Of(err))
			continue
		}
		given = append(given, k)
	}
	return given
}

// makeGroup makes the group with those controllers, and takes it back if none can be
// set.
func (g *group) makeGroup(controllers []string, why map[string]string) {
	if len(controllers) == 0 {
		return
	}
	err := g.mkdir(g.folder)
	g.made = err == nil
	for _, k := range controllers {
		for _, knob := range g.orderedKnobs(k) {
			if err != nil {
				break
			}
			if err = put(filepath.Join(g.folder, knob.file), knob.value); knob.optional {
				err = nil
			}
		}
		if err != nil {
			why[k] = fmt.Sprintf("%s: %s", g.folder, reason.Of(err))
		} else {
			g.controllers = append(g.controllers, k)
		}
		if g.made {
			err = nil // the next controller may still be had
		}
	}
	if len(g.controllers) == 0 {
		g.removeGroup()
	}
}

// appendIfMade adds g to list, if it exists.
func (g *group) appendIfMade(list []*group) []*group {
	if !g.made {
		return list
	}
	return append(list, g)
}

// cappedByFolder is l, and no more than the group at folder, of v2, has: a neighbour of
// it would escape its limits.
func (l Limits) cappedByFolder(folder string) Limits {
	least := func(own int64, n int64, is bool) int64 {
		if is && n > 0 && (own == 0 || n < own) {
			return n
		}
		return own
	}
	n, is := number(folder, "memory.max")
	l.Memory = least(l.Memory, n, is)
	n, is = number(folder, "pids.max")
	l.Processes = int(least(int64(l.Processes), n, is))
	if text, err := read(folder, "cpu.max"); err == nil {
		var quota, each float64
		if n, _ := fmt.Sscan(text, &quota, &each); n == 2 && each > 0 && (l.CPUs == 0 || quota/each < l.CPUs) {
			l.CPUs = quota / each
		}
	}
	return l
}

// handle is how the supervisor enters the group.
func (g *group) handle() groupHandle {
	d := groupHandle{Folder: []byte(g.folder), Version: g.version, Controllers: g.controllers}
	if slices.Contains(g.controllers, forProcesses) {
		d.Processes = g.limits.Processes
	}
	return d
}

// oomSlack is how many pages may be left below a limit that was too low: the most
// that the kernel takes at once and kills for, which are 8, and the limit's own
// rounding.
const oomSlack = 16

// killedForMemory says whether the kernel has killed something of the tree because this
// group's memory was at its limit, not for want of memory elsewhere.
func (g *group) killedForMemory() bool {
	if g.version == 1 {
		if killed, _ := field("oom_kill", g.folder, "memory.oom_control"); killed == 0 {
			return false
		}
		// memory.failcnt would say so, but Linux 6.18 leaves it at 0.
		return g.peakBytes() > g.limits.Memory-oomSlack*int64(os.Getpagesize())
	}
	if killed, _ := field("oom_kill", g.folder, "memory.events"); killed == 0 {
		return false
	}
	hits, known := field("oom", g.folder, "memory.events.local") // the other file counts groups further down, too
	return hits > 0 || !known
}

// peakBytes is the most that was used at once, files' cache included; 0: not kept.
func (g *group) peakBytes() int64 {
	most := "memory.peak"
	if g.version == 1 {
		most = "memory.max_usage_in_bytes"
	}
	n, _ := number(g.folder, most)
	return n
}

// memoryInUse is what is used, but for the files' cache, which the kernel takes back.
func (g *group) memoryInUse() int64 {
	use, prefix := "memory.current", ""
	if g.version == 1 {
		use, prefix = "memory.usage_in_bytes", "total_"
	}
	n, _ := number(g.folder, use)
	for _, cache := range []string{"inactive_file", "active_file"} {
		pages, _ := field(prefix+cache, g.folder, "memory.stat")
		n -= pages
	}
	return max(n, 0)
}

// throttled is how long the tree waited because its time was used up.
func (g *group) throttled() time.Duration {
	if ns, ok := field("throttled_time", g.folder, "cpu.stat"); ok {
		return time.Duration(ns)
	}
	us, _ := field("throttled_usec", g.folder, "cpu.stat")
	return time.Duration(us) * time.Microsecond
}

// removeLimit bounds the wait for a group with processes that have just ended: the
// kernel counts them for a moment longer.
const removeLimit = 5 * time.Second

// removeGroup removes the group, which has no processes any more, with those below it
// that a process in it made.
func (g *group) removeGroup() {
	if g.made {
		g.made = !g.cgroups.removeFolder(g.folder, removeLimit)
	}
}

func (c cgroups) removeFolder(folder string, limit time.Duration) bool {
	end := time.Now().Add(limit)
	for pause := process.FirstPause; ; pause = min(2*pause, process.LastPause) {
		err := c.rmdir(folder)
		if err == nil || errors.Is(err, syscall.ENOENT) {
			return true
		}
		for _, inner := range groupsIn(folder) {
			_ = c.rmdir(inner) // the next round sees what is left
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
}

// deepest bounds how far below one group others are listed.
const deepest = 16

// groupsIn lists the groups below folder, inner before outer.
func groupsIn(folder string) []string { return groupsBelow(folder, deepest, nil) }

func groupsBelow(folder string, depth int, list []string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil || depth == 0 {
		return list
	}
	for _, e := range entries {
		if e.IsDir() {
			at := filepath.Join(folder, e.Name())
			list = append(groupsBelow(at, depth-1, list), at)
		}
	}
	return list
}
