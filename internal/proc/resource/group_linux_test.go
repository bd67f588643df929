package resource

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/proctest"
)

// fakeKernel is a machine's control groups as plain files. It makes the files of
// a new group that the kernel would; what is written to them has no effect.
type fakeKernel struct {
	cgroups
	t *testing.T
}

// fake is a machine with those mounts and own groups, a line each.
func fake(t *testing.T, mounts, own string) fakeKernel {
	t.Helper()
	k := fakeKernel{t: t}
	k.root = t.TempDir()
	k.rmdir = os.RemoveAll
	k.mkdir = func(path string) error {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		down, _ := read(filepath.Dir(path), "cgroup.subtree_control")
		for controller, files := range map[string][]string{
			forMemory:    {"memory.max", "memory.swap.max", "memory.oom.group"},
			forCPUs:      {"cpu.max"},
			forProcesses: {"pids.max"},
		} {
			if strings.Contains(down, controller) {
				for _, f := range files {
					proctest.WriteFile(t, filepath.Join(path, f), "", 0o644)
				}
			}
		}
		for _, f := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.swappiness", "cpu.cfs_period_us", "cpu.cfs_quota_us", "pids.max"} {
			if down == "" { // v1
				proctest.WriteFile(t, filepath.Join(path, f), "", 0o644)
			}
		}
		return nil
	}
	k.file("proc/self/mountinfo", mounts)
	k.file("proc/self/cgroup", own)
	return k
}

func (k fakeKernel) file(path, text string) {
	k.t.Helper()
	proctest.WriteFile(k.t, filepath.Join(k.root, path), text, 0o644)
}

// parent is a group that others lie below. Without down it refuses to hand down
// what it has, as one with processes does.
func (k fakeKernel) parent(path, has, down string) {
	k.t.Helper()
	k.file(path+"/cgroup.procs", "")
	k.file(path+"/cgroup.controllers", has)
	if down != "" {
		k.file(path+"/cgroup.subtree_control", down)
	}
}

// texts are the files of a group that have one.
func (k fakeKernel) texts(folder string) map[string]string {
	k.t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		k.t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range list {
		if text, err := read(folder, e.Name()); err == nil && text != "" {
			all[e.Name()] = text
		}
	}
	return all
}

const mount2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

var everything = Limits{Memory: 64 << 20, CPUs: 1.5, Processes: 50}

func TestGroupsOfV2(t *testing.T) {
	t.Parallel()
	whole := map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "150000 100000", "pids.max": "50"}
	for name, c := range map[string]struct {
		mounts, own string
		make        func(k fakeKernel)
		want        string            // the group; "": none
		files       map[string]string // of the group
		why         []string          // the controllers that are not to be had
	}{
		"in the first group": {
			mount2, "0::/\n", func(k fakeKernel) { k.parent("sys/fs/cgroup", "cpu memory pids", "cpu memory pids") },
			"sys/fs/cgroup/drover-x", whole, nil,
		},
		"beside our own, as that has processes": {
			mount2, "0::/user.slice/session-1.scope\n", func(k fakeKernel) {
				k.parent("sys/fs/cgroup/user.slice", "cpu memory pids", "cpu memory pids")
				k.parent("sys/fs/cgroup/user.slice/session-1.scope", "cpu memory pids", "")
			},
			"sys/fs/cgroup/user.slice/drover-x", whole, nil,
		},
		"beside our own, within its limits": {
			mount2, "0::/user.slice/session-1.scope\n", func(k fakeKernel) {
				k.parent("sys/fs/cgroup/user.slice", "cpu memory pids", "cpu memory pids")
				k.parent("sys/fs/cgroup/user.slice/session-1.scope", "cpu memory pids", "")
				k.file("sys/fs/cgroup/user.slice/session-1.scope/memory.max", "33554432\n")
				k.file("sys/fs/cgroup/user.slice/session-1.scope/pids.max", "max\n")
				k.file("sys/fs/cgroup/user.slice/session-1.scope/cpu.max", "100000 200000\n")
			},
			"sys/fs/cgroup/user.slice/drover-x",
			map[string]string{"memory.max": "33554432", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "50000 100000", "pids.max": "50"}, nil,
		},
		"where not all is handed down": {
			mount2, "0::/app.slice/x.scope\n", func(k fakeKernel) {
				k.parent("sys/fs/cgroup/app.slice", "memory pids", "memory pids")
				k.parent("sys/fs/cgroup/app.slice/x.scope", "memory pids", "")
			},
			"sys/fs/cgroup/app.slice/drover-x",
			map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "50"}, []string{forCPUs},
		},
		"not in somebody else's": {
			mount2, "0::/user.slice/session-1.scope\n", func(k fakeKernel) {
				k.file("sys/fs/cgroup/user.slice/cgroup.controllers", "cpu memory pids")
				k.file("sys/fs/cgroup/user.slice/session-1.scope/cgroup.controllers", "cpu memory pids")
			},
			"", nil, []string{forCPUs, forMemory, forProcesses},
		},
		"in a container that sees a part": {
			"41 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/abc\n",
			func(k fakeKernel) { k.parent("sys/fs/cgroup", "cpu memory pids", "cpu memory pids") },
			"sys/fs/cgroup/drover-x", whole, nil,
		},
		"out of sight": {
			mount2, "0::/../other\n", func(k fakeKernel) { k.parent("sys/fs/cgroup", "cpu memory pids", "cpu memory pids") },
			"", nil, []string{forCPUs, forMemory, forProcesses},
		},
		"not mounted": {"", "0::/\n", func(fakeKernel) {}, "", nil, []string{forCPUs, forMemory, forProcesses}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := fake(t, c.mounts, c.own)
			c.make(k)
			groups, why := k.makeGroups("drover-x", everything)
			if diff := cmp.Diff(c.why, slices.Sorted(maps.Keys(why))); diff != "" && len(c.why)+len(why) > 0 {
				t.Errorf("not to be had: %s\n%v", diff, why)
			}
			if c.want == "" {
				if len(groups) > 0 {
					t.Errorf("made %s", groups[0].folder)
				}
			} else if len(groups) != 1 || groups[0].folder != filepath.Join(k.root, c.want) {
				t.Fatalf("made %+v", groups)
			} else if diff := cmp.Diff(c.files, k.texts(groups[0].folder)); diff != "" {
				t.Error(diff)
			}
			for _, g := range groups {
				g.removeGroup()
			}
			if left := groupsIn(k.root); slices.ContainsFunc(left, func(at string) bool { return filepath.Base(at) == "drover-x" }) {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestControllersAreAskedFor(t *testing.T) {
	t.Parallel()
	k := fake(t, mount2, "0::/\n")
	k.parent("sys/fs/cgroup", "cpu memory pids", "cpu pids\n")
	_, _ = k.makeGroups("drover-x", Limits{Memory: 1 << 30})
	if text, _ := read(k.root, "sys/fs/cgroup/cgroup.subtree_control"); !strings.HasPrefix(text, "+memory") {
		t.Errorf("got %q", text)
	}
}

func TestGroupsOfV1(t *testing.T) {
	t.Parallel()
	k := fake(t, `32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/a\040memory rw - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`, "8:pids:/user\n4:memory:/\n1:cpu,cpuacct:/user/me\n0::/user\n")
	for _, at := range []string{"cpu,cpuacct/user/me", "a memory", "pids/user", "unified/user"} {
		if err := os.MkdirAll(filepath.Join(k.root, "sys/fs/cgroup", at), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	groups, why := k.makeGroups("drover-x", everything)
	got := map[string]map[string]string{}
	for _, g := range groups {
		at, err := filepath.Rel(k.root, g.folder)
		if err != nil {
			t.Fatal(err)
		}
		got[at] = k.texts(g.folder)
	}
	want := map[string]map[string]string{
		"sys/fs/cgroup/a memory/drover-x":            {"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864", "memory.swappiness": "0"},
		"sys/fs/cgroup/cpu,cpuacct/user/me/drover-x": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"},
		"sys/fs/cgroup/pids/user/drover-x":           {"pids.max": "51"}, // the supervisor sets 50, on its way out
	}
	if diff := cmp.Diff(want, got); diff != "" || len(why) > 0 {
		t.Errorf("%v: %s", why, diff)
	}
}

func TestWhatAGroupHasCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version int
		files   map[string]string
		starved bool
		peak    int64
		memory  int64
		stood   time.Duration
	}{
		"v2 ended": {2, map[string]string{"memory.events": "low 0\noom 1\noom_kill 3\n", "memory.events.local": "oom 1\noom_kill 3\n", "memory.peak": "900\n",
			"memory.current": "1000\n", "memory.stat": "anon 5\ninactive_file 100\nactive_file 50\n", "cpu.stat": "usage_usec 9\nthrottled_usec 7\n"}, true, 900, 850, 7 * time.Microsecond},
		"v2 ended below":     {2, map[string]string{"memory.events": "oom 1\noom_kill 3\n", "memory.events.local": "oom 0\noom_kill 0\n"}, false, 0, 0, 0},
		"v2 before 5.2":      {2, map[string]string{"memory.events": "oom 1\noom_kill 1\n"}, true, 0, 0, 0},
		"v2 at peace":        {2, map[string]string{"memory.events": "oom 0\noom_kill 0\n", "memory.events.local": "oom 0\n"}, false, 0, 0, 0},
		"v1 ended":           {1, map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "memory.max_usage_in_bytes": "67108864\n"}, true, 64 << 20, 0, 0},
		"v1 ended elsewhere": {1, map[string]string{"memory.oom_control": "oom_kill 2\n", "memory.max_usage_in_bytes": "30000000\n"}, false, 30000000, 0, 0},
		"v1 at peace": {1, map[string]string{"memory.oom_control": "oom_kill 0\n", "memory.max_usage_in_bytes": "67108864\n", "memory.usage_in_bytes": "2000\n",
			"memory.stat": "inactive_file 1\ntotal_inactive_file 500\ntotal_active_file 100\n", "cpu.stat": "nr_throttled 1\nthrottled_time 8\n"}, false, 64 << 20, 1400, 8},
		"gone": {2, nil, false, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &group{version: c.version, folder: t.TempDir(), limits: everything}
			for file, text := range c.files {
				proctest.WriteFile(t, filepath.Join(g.folder, file), text, 0o644)
			}
			if g.killedForMemory() != c.starved || g.peakBytes() != c.peak || g.memoryInUse() != c.memory || g.throttled() != c.stood {
				t.Errorf("got %v, %d, %d, %v", g.killedForMemory(), g.peakBytes(), g.memoryInUse(), g.throttled())
			}
		})
	}
}

// ownGroupOfV2 is a folder of the real v2, with or without controllers, to make groups in.
func ownGroupOfV2(t *testing.T) string {
	t.Helper()
	list, err := kernelGroups.hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list {
		if h.version == 2 && h.own != "" {
			at := filepath.Join(h.own, groupName("test"))
			if err := kernelGroups.mkdir(at); err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { kernelGroups.removeFolder(at, removeLimit) })
			return at
		}
	}
	t.Skip("no cgroup v2 is mounted here")
	return ""
}

// groupSeenFrom is what a program sees of its own group when it starts behind f.
func groupSeenFrom(t *testing.T, f *Bounds) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pid, err := f.StartLimited(&syscall.SysProcAttr{Setsid: true}, func(attr *syscall.SysProcAttr) (int, error) {
		return syscall.ForkExec("/bin/cat", []string{"cat", "/proc/self/cgroup"}, &syscall.ProcAttr{Files: []uintptr{0, w.Fd(), 2}, Sys: attr})
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 1<<16)
	n, _ := r.Read(text)
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	return string(text[:n])
}

func TestAProgramIsBornInAGroupOfV2(t *testing.T) {
	at := ownGroupOfV2(t)
	f := &Bounds{Groups: []groupHandle{{Folder: []byte(at), Version: 2, Controllers: []string{forMemory}}}}
	f.OpenGroups()
	if got := groupSeenFrom(t, f); !strings.Contains(got, "/"+filepath.Base(at)+"\n") {
		t.Errorf("it is in %s; %v", got, f.MissedLimits())
	}
}

func TestAProgramStartsThoughItsGroupIsGone(t *testing.T) {
	at := ownGroupOfV2(t)
	f := &Bounds{FewCores: OwnCores()[:1], Groups: []groupHandle{{Folder: []byte(at), Version: 2, Controllers: []string{forMemory, forCPUs}}}}
	f.OpenGroups()
	kernelGroups.removeFolder(at, removeLimit)
	got := groupSeenFrom(t, f)
	if strings.Contains(got, filepath.Base(at)) || f.MissedLimits()[forMemory] == "" || f.MissedLimits()[forCPUs] == "" {
		t.Errorf("it is in %s; %v", got, f.MissedLimits())
	}
}

func TestNamesOfGroupsTellWhoMadeThem(t *testing.T) {
	t.Parallel()
	name := groupName("a_B-1")
	token, by, ok := parseGroupName(name)
	if !ok || token != "a_B-1" || by != process.Self() || name == groupName("a_B-1") {
		t.Errorf("%s: %q, %+v, %v", name, token, by, ok)
	}
	for _, no := range []string{"", "drover-", "drover-x", "drover-x.1.2.3", "drover-.1.2.3.4", "drover-x.a.2.3.4", "other-x.1.2.3.4"} {
		if _, _, ok := parseGroupName(no); ok {
			t.Errorf("%q was taken for ours", no)
		}
	}
}

// Whatever the kernel writes into its files, reading them ends well.
func FuzzKernelFiles(f *testing.F) {
	for _, s := range []string{mount2, `1 2 3:4 /a\040b /c\1 rw - cgroup x rw,cpu`, "Rss: 8 kB\nPss: 4 kB\nPss_Anon: 4 kB\n", "read_bytes: 7\n", "drover-x.1.2.3.4", "1 (x) R 1 1 1"} {
		f.Add(s)
	}
	if own, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(string(own))
	}
	f.Fuzz(func(t *testing.T, s string) {
		if h, ok := parseMount(s); ok {
			if h.groupFolder(s); h.own != "" && !strings.HasPrefix(h.own, filepath.Clean(h.top)) {
				t.Errorf("%q: %q is not below %q", s, h.own, h.top)
			}
		}
		if r, w := parseIO([]byte(s)); w < 0 && r >= 0 {
			t.Errorf("%q: %d", s, w)
		}
		parseRollup([]byte(s))
		new(uses).addFromStat([]byte(s))
		if token, _, ok := parseGroupName(s); ok && !process.IsToken(token) {
			t.Errorf("%q: token %q", s, token)
		}
	})
}

const mib = 1 << 20
