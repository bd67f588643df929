package folder

import (
	"testing"
	"testing/fstest"
)

func TestTheTightestCgroupCounts(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	whole := Hardware{Cores: 8, Memory: 64 << 30}
	for name, c := range map[string]struct {
		root fstest.MapFS
		want Hardware
	}{
		"none": {fstest.MapFS{}, whole},
		"version 2, no limits": {fstest.MapFS{
			"proc/self/cgroup":             file("0::/a/b"),
			"sys/fs/cgroup/a/b/cpu.max":    file("max 100000"),
			"sys/fs/cgroup/a/b/memory.max": file("max"),
		}, whole},
		"version 2, the parent's are tighter": {fstest.MapFS{
			"proc/self/cgroup":             file("0::/a/b"),
			"sys/fs/cgroup/a/b/cpu.max":    file("600000 100000"),
			"sys/fs/cgroup/a/cpu.max":      file("150000 100000"),
			"sys/fs/cgroup/a/b/memory.max": file("8589934592"),
			"sys/fs/cgroup/a/memory.max":   file("4294967296"),
		}, Hardware{Cores: 2, Memory: 4 << 30}},
		"version 2, seen from inside": {fstest.MapFS{
			"proc/self/cgroup":         file("0::/"),
			"sys/fs/cgroup/memory.max": file("1073741824"),
		}, Hardware{Cores: 8, Memory: 1 << 30}},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/d\n3:cpu,cpuacct:/d"),
			"sys/fs/cgroup/memory/d/memory.limit_in_bytes": file("2147483648"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   file("9223372036854771712"),
			"sys/fs/cgroup/cpu/d/cpu.cfs_quota_us":         file("50000"),
			"sys/fs/cgroup/cpu/d/cpu.cfs_period_us":        file("100000"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":           file("-1"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":          file("100000"),
		}, Hardware{Cores: 1, Memory: 2 << 30}},
	} {
		if got := limited(whole, c.root); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func FuzzALimitNeverRaisesAndNeverTakesAll(f *testing.F) {
	f.Add("0::/a/b", "100000 100000", "max")
	f.Add("0::/../..", "-1 0", "-5")
	f.Add("1:cpu:x\n::", "99999999999999999 1", "9223372036854775807")
	f.Fuzz(func(t *testing.T, groups, cpu, memory string) {
		whole := Hardware{Cores: 8, Memory: 64 << 30}
		got := limited(whole, fstest.MapFS{
			"proc/self/cgroup":         {Data: []byte(groups)},
			"sys/fs/cgroup/cpu.max":    {Data: []byte(cpu)},
			"sys/fs/cgroup/memory.max": {Data: []byte(memory)},
		})
		if got.Cores < 1 || got.Cores > whole.Cores || got.Memory < 1 || got.Memory > whole.Memory {
			t.Errorf("%q, %q, %q: %+v", groups, cpu, memory, got)
		}
	})
}
