package resource

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/internal/proc/process"
)

// groupPrefix begins the name of each group of ours.
const groupPrefix = "drover-"

var groupCount atomic.Int64

// groupName is drover-<token>, and its maker: that process, by its number,
// start and namespace, and how many it had made before. So it is never used twice
// and tells whether its maker is left to remove it.
func groupName(token string) string {
	self := process.Self()
	space := strings.Trim(strings.TrimPrefix(self.Namespace, "pid:"), "[]")
	return fmt.Sprintf("%s%s.%d.%d.%s.%d", groupPrefix, token, self.PID, self.Start, space, groupCount.Add(1))
}

// parseGroupName reads a name of ours.
func parseGroupName(name string) (token string, by process.Identity, ok bool) {
	rest, ours := strings.CutPrefix(name, groupPrefix)
	f := strings.Split(rest, ".")
	if !ours || len(f) != 5 || !process.IsToken(f[0]) {
		return "", process.Identity{}, false
	}
	pid, err1 := strconv.Atoi(f[1])
	start, err2 := strconv.ParseUint(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return "", process.Identity{}, false
	}
	return f[0], process.Identity{Boot: process.Boot(), Namespace: "pid:[" + f[3] + "]", PID: pid, Start: start}, true
}

// findGroups lists the groups of ours, wherever they are, for which f holds.
func (c cgroups) findGroups(f func(token string, by process.Identity) bool) (folders []string) {
	list, _ := c.hierarchies() // none: no groups
	for _, h := range list {
		for _, at := range groupsIn(h.top) {
			if token, by, ok := parseGroupName(filepath.Base(at)); ok && f(token, by) {
				folders = append(folders, at)
			}
		}
	}
	return folders
}

// FindKernelGroups lists the groups on this machine that drover has made for trees and for
// which f holds, by the tree's token and the process that made them.
func FindKernelGroups(f func(token string, by process.Identity) bool) (folders []string) {
	return kernelGroups.findGroups(f)
}

// GroupsOf are those of one tree.
func GroupsOf(token string) []string {
	return FindKernelGroups(func(t string, _ process.Identity) bool { return t == token })
}

// Members are the processes in these groups and below them, as far as they have
// a number here.
func Members(folders []string) map[int]bool {
	in := map[int]bool{}
	for _, folder := range folders {
		for _, at := range append(groupsIn(folder), folder) {
			text, _ := read(at, "cgroup.procs") // gone: no process is in it
			for line := range strings.Lines(text) {
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
					in[pid] = true
				}
			}
		}
	}
	return in
}

// RemoveGroups removes groups with killed processes.
func RemoveGroups(folders []string) (removed int) {
	for _, at := range folders {
		if kernelGroups.removeFolder(at, removeLimit) {
			removed++
		}
	}
	return removed
}

// RemoveStaleGroups removes the cgroups of trees with agents that are gone, which the
// kernel keeps until they are removed, and kills what is still in them. It is for an
// agent that comes up. Groups of other PID namespaces, with agents that cannot be
// seen, are left alone.
func RemoveStaleGroups() (removed int, err error) {
	stale := kernelGroups.findGroups(func(_ string, by process.Identity) bool {
		gone, known := by.Gone()
		return gone && known
	})
	if len(stale) == 0 {
		return 0, nil
	}
	end := time.Now().Add(process.SweepLimit)
	for pause := process.FirstPause; ; pause = min(2*pause, process.LastPause) {
		killed, refused, err := process.StopAndKill(func() ([]process.Entry, error) { return living(Members(stale)) })
		switch {
		case err != nil:
			return 0, fmt.Errorf("sweep groups: %w", err)
		case len(killed) == 0 || time.Now().After(end):
			if removed = RemoveGroups(stale); removed < len(stale) {
				return removed, fmt.Errorf("sweep groups: %d still in use: %s left that another user owns", len(stale)-removed, process.AreProcesses(refused))
			}
			return removed, nil
		}
		time.Sleep(pause)
	}
}

// living are those of pids that live, but for this process.
func living(pids map[int]bool) (list []process.Entry, err error) {
	for pid := range pids {
		if p, alive, err := process.Find(pid); err == nil && alive && pid != os.Getpid() {
			list = append(list, p)
		}
	}
	return list, nil
}
