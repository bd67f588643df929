package resource

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/reason"
)

// cgroups is the kernel's control groups: files, below root. Tests have a fake
// one, with a mkdir that also makes the files that a kernel would.
type cgroups struct {
	root         string // "/"
	mkdir, rmdir func(path string) error
}

// kernelGroups is the real one. What mkdir makes is our own to write to.
var kernelGroups = cgroups{
	root:  "/",
	mkdir: func(path string) error { return os.Mkdir(path, 0o755) },
	rmdir: func(path string) error { return os.NewSyscallError("rmdir", unix.Rmdir(path)) },
}

// hierarchy is one tree of groups, and our place in it.
type hierarchy struct {
	version     int
	controllers []string // v1: what it controls. In v2 each group has its own list
	top, own    string   // folders: where it is mounted, and our own group; own "": out of sight
}

// hierarchies are those that are mounted, as we see them.
func (c cgroups) hierarchies() ([]hierarchy, error) {
	mounts, err := os.ReadFile(filepath.Join(c.root, "proc/self/mountinfo"))
	if err != nil {
		return nil, err
	}
	places, err := os.ReadFile(filepath.Join(c.root, "proc/self/cgroup"))
	if err != nil {
		return nil, err
	}
	own := map[string]string{} // controller -> group; "": v2
	for line := range strings.Lines(string(places)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 {
			for controller := range strings.SplitSeq(f[1], ",") {
				own[controller] = f[2]
			}
		}
	}
	var list []hierarchy
	for line := range strings.Lines(string(mounts)) {
		if h, ok := parseMount(line); ok {
			h.top = filepath.Join(c.root, h.top)
			first := ""
			if h.version == 1 {
				first = h.controllers[0]
			}
			if at, known := own[first]; known {
				h.groupFolder(at)
			}
			list = append(list, h)
		}
	}
	return list, nil
}

// groupFolder finds the folder of the group at, which is counted from the same top as
// h.own, the group that is mounted.
func (h *hierarchy) groupFolder(at string) {
	rest, inside := strings.CutPrefix(at+"/", strings.TrimSuffix(h.own, "/")+"/")
	h.own = ""
	if inside && !strings.Contains(at, "..") { // a namespace's "/../x" lies outside of what we see
		h.own = filepath.Join(h.top, rest)
	}
}

// parseMount reads a line of proc(5)'s mountinfo. The mount's root is in own.
func parseMount(line string) (h hierarchy, ok bool) {
	left, right, found := strings.Cut(line, " - ")
	f, kind := strings.Fields(left), strings.Fields(right)
	if !found || len(f) < 5 || len(kind) < 3 {
		return h, false
	}
	h.own, h.top = mount.Unescape(f[3]), mount.Unescape(f[4])
	switch kind[0] {
	case "cgroup2":
		h.version = 2
		return h, true
	case "cgroup":
		h.version = 1
		for option := range strings.SplitSeq(kind[2], ",") {
			if option == "cpuacct" || slices.Contains([]string{forMemory, forCPUs, forProcesses}, option) {
				h.controllers = append(h.controllers, option)
			}
		}
		return h, len(h.controllers) > 0
	}
	return h, false
}

// makeGroups makes the groups of that name that hold l, and says by controller why
// what is not held could not be.
func (c cgroups) makeGroups(name string, l Limits) (groups []*group, why map[string]string) {
	why = map[string]string{}
	list, err := c.hierarchies()
	rest := l.neededControllers()
	for _, h := range list {
		mine := func(k string) bool { return h.version == 1 && h.own != "" && slices.Contains(h.controllers, k) }
		wanted := keep(rest, mine)
		rest = slices.DeleteFunc(rest, mine)
		if len(wanted) > 0 {
			g := &group{cgroups: c, version: 1, folder: filepath.Join(h.own, name), limits: l}
			g.makeGroup(wanted, why)
			groups = g.appendIfMade(groups)
		}
	}
	for _, h := range list {
		if h.version == 2 && h.own != "" && len(rest) > 0 {
			g, refusals := c.makeUnifiedGroup(h, name, l, rest)
			for _, k := range rest {
				if refusals[k] != "" {
					why[k] = refusals[k]
				}
			}
			rest = nil
			groups = g.appendIfMade(groups)
		}
	}
	for _, k := range rest {
		why[k] = "no cgroup file system is there"
		if err != nil {
			why[k] = reason.Of(err)
		}
	}
	return groups, why
}

// makeUnifiedGroup makes one group for all. A group with processes, as our own is, cannot
// hand controllers to groups below it, unless it is the very first; so where that
// is refused, the new one becomes our own group's neighbour and keeps its limits.
func (c cgroups) makeUnifiedGroup(h hierarchy, name string, l Limits, wanted []string) (*group, map[string]string) {
	below := &group{cgroups: c, version: 2, folder: filepath.Join(h.own, name), limits: l}
	why := map[string]string{}
	below.makeGroup(below.delegated(wanted, why), why)
	if len(why) == 0 || h.own == h.top {
		return below, why
	}
	beside := &group{cgroups: c, version: 2, folder: filepath.Join(filepath.Dir(h.own), name), limits: l.cappedByFolder(h.own)}
	why2 := map[string]string{}
	beside.makeGroup(beside.delegated(beside.limits.neededControllers(), why2), why2)
	if len(beside.controllers) <= len(below.controllers) {
		beside.removeGroup()
		return below, why
	}
	below.removeGroup()
	return beside, why2
}

// keep is the part of list for which f holds.
func keep(list []string, f func(string) bool) (kept []string) {
	for _, s := range list {
		if f(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// read is a file's text without its newline.
func read(path ...string) (string, error) {
	b, err := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(b)), err
}

// put writes to a file that is there: the kernel's cannot be made.
func put(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// number reads a file with one number; "max" is none.
func number(path ...string) (int64, bool) {
	text, err := read(path...)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// field reads "name number" lines.
func field(name string, path ...string) (int64, bool) {
	text, err := read(path...)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
