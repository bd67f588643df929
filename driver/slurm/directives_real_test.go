package slurm

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
)

// sbatchReads is what Slurm's own sbatch finds in a script, which it says before it looks
// for its cluster: that of the configuration is nowhere.
func sbatchReads(t *testing.T, head string) (options []string) {
	t.Helper()
	dir := t.TempDir()
	conf := "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nAuthType=auth/none\nCredType=cred/none\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n"
	for name, text := range map[string]string{"slurm.conf": conf, "job.sh": head} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := exec.CommandContext(ctx, "sbatch", "-vv", filepath.Join(dir, "job.sh"))
	c.Env = append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	for lines := bufio.NewScanner(said); !ended && lines.Scan(); {
		line := strings.TrimPrefix(lines.Text(), "sbatch: ")
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if ok && slices.Contains([]string{"account", "qos", "partition", "reservation", "constraint", "mail-user"}, name) {
			options = append(options, "--"+name+"="+strings.TrimPrefix(value, " "))
		}
		ended = line == "end of defined options"
	}
	cancel()
	_ = c.Wait() // it was looking for its cluster
	if !ended {
		t.Errorf("sbatch does not say what it finds in %q", head)
	}
	slices.Sort(options)
	return options
}

// We and sbatch find the same in a script.
func TestRealSbatchReadsLinesAsWeDo(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") == "" {
		t.Skip("needs sbatch: DROVER_TEST_REAL=1")
	}
	for _, lines := range []string{
		"#SBATCH -p gpu --account=bio # -q no",
		"#SBATCH --qos=a#b -A c",
		"#SBATCH -C'a' \n\n  # more\n#SBATCH -q \"c\"d",
		`#SBATCH -A "a \" b" -q 'x"y' -p a\#b --reservation=q\z`,
		"#SBATCH -q a\ntrue\n#SBATCH -A late",
		"##SBATCH -A off\n #SBATCH -A indented\n#SBATCH-q near",
		"#SBATCH -sp a --exclusive --part b --mail-user u",
		"#SBATCH -A\n#SBATCH across",
	} {
		said, err := Directives([]byte("#!/bin/sh\n"+lines+"\n"), driver.Needs{})
		if err != nil {
			t.Errorf("%q: %v", lines, err)
			continue
		}
		last := map[string]string{} // of what is said twice the last stands
		for _, o := range said.Args {
			if name, _, ok := strings.Cut(o, "="); ok {
				last[name] = o
			}
		}
		var ours []string
		for _, o := range last {
			ours = append(ours, o)
		}
		slices.Sort(ours)
		if diff := cmp.Diff(sbatchReads(t, "#!/bin/sh\n"+lines+"\n"), ours); diff != "" {
			t.Errorf("%q:\n%s", lines, diff)
		}
	}
}
