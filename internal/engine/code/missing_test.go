package code

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/job"
)

// A hint is tried before it is given: what it says ships the file.
func TestAFileThatStayedAtHomeHasAWayThatWorks(t *testing.T) {
	t.Parallel()
	d := newFolder(t)
	d.write(map[string]string{"scripts/read.py": "", "data/sub/x.csv": "", "top.py": "", ".droverignore": "/data\n"})
	big, err := os.Create(filepath.Join(d.dir, "big.bin"))
	d.check(err)
	d.check(big.Truncate(101_000_000))
	d.check(big.Close())
	d.write(map[string]string{".droverignore": "/data\n/big.bin\n"})
	outside := filepath.Join(filepath.Dir(d.dir), filepath.Base(d.dir)+"-outside.csv")
	d.check(os.WriteFile(outside, nil, 0o644))
	t.Cleanup(func() { os.Remove(outside) })
	j := job.Job{Spec: job.Spec{Program: "top.py"}, Folder: d.dir, Host: d.Caller.Host}
	python := func(name string) string {
		return "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file or directory: '" + name + "'\n"
	}
	for _, row := range []struct{ name, trace, want string }{
		{"an ignored file", python("data/sub/x.csv"), "data/sub/x.csv exists here and was not shipped: -d data ships it, at its place"},
		{"the same, by its whole path there", python("/opt/ml/code/data/sub/x.csv"), "data/sub/x.csv exists here and was not shipped: -d data ships it, at its place"},
		{"an ignored folder", python("./data/sub"), "data/sub exists here and was not shipped: -d data ships it, at its place"},
		{"as the shell says it", "cat: data/sub/x.csv: No such file or directory\nhead: cannot open 'data/sub/x.csv' for reading: No such file or directory\n", "data/sub/x.csv exists here and was not shipped: -d data ships it, at its place"},
		{"too big to ship", python("big.bin"), "big.bin exists here and was not shipped; big.bin is too big to ship as code: -i in=big.bin makes it an input, at $SM_CHANNEL_IN"},
		{"outside", python("../" + filepath.Base(outside)), outside + " exists on this machine, outside of the folder that was shipped: -i in=../" + filepath.Base(outside) + " makes it an input, at $SM_CHANNEL_IN"},
		{"what was shipped", python("top.py"), ""},
		{"nowhere", python("nothing.csv"), ""},
		{"no file of the code", python("/etc/passwd"), ""},
		{"no such words", "killed", ""},
	} {
		if got := d.StayedHome(t.Context(), j, row.trace); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	j.Host = "another"
	if got := d.StayedHome(t.Context(), j, python("data/sub/x.csv")); got != "" {
		t.Errorf("on another machine: %q", got)
	}
}
