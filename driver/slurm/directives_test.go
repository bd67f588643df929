package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// The words are those that sbatch of Slurm 22.05 found in the same lines.
func TestAScriptsLinesAreReadAsSbatchReadsThem(t *testing.T) {
	for lines, want := range map[string]string{
		"#SBATCH -p gpu --time=1:00:00":                             "--partition=gpu --time=1:00:00",
		"#SBATCH --partition gpu -A bio # -q no":                    "--partition=gpu --account=bio",
		"#SBATCH --qos=a#b -A c":                                    "--qos=a",
		"# a word\n\n  # more\n#SBATCH -C'a b'\n#SBATCH -q \"c\"d":  "--constraint=a b --qos=cd",
		`#SBATCH -A "a \" b" -q 'x"y' -C a\#b`:                      `--account=a " b --qos=x"y --constraint=a#b`,
		"#SBATCH -q a\ntrue\n#SBATCH -A late":                       "--qos=a",
		"\"\"\"What it does.\"\"\"\n#SBATCH -A late":                "",
		"##SBATCH -A off\n #SBATCH -A indented\n#SBATCH-q near":     "--qos=near",
		"#SBATCH -sp a --exclusive --nice --no-kill=off\r":          "--oversubscribe --partition=a --exclusive --nice --no-kill=off",
		"#SBATCH --mail-type=END,FAIL --mail-user a@b.c":            "--mail-type=END,FAIL --mail-user=a@b.c",
		"#SBATCH --reservation=r --gres=gpu:a100:2 -x n[1-2] -G 4":  "--reservation=r --gres=gpu:a100:2 --exclude=n[1-2] --gpus=4",
		"#SBATCH --part gpu --gpus 2 --mem 1G --time-min=5":         "--partition=gpu --gpus=2 --mem=1G --time-min=5",
		"#SBATCH -t\n#SBATCH 5":                                     "--time=5",
		"#SBATCH --mem=4G -c 8 -L matlab:1 --tmp=10G --contiguous ": "--mem=4G --cpus-per-task=8 --licenses=matlab:1 --tmp=10G --contiguous",
	} {
		said, err := Directives([]byte("#!/bin/sh\n"+lines), driver.Needs{})
		if diff := cmp.Diff(want, strings.Join(said.Args, " ")); diff != "" || err != nil || said.Left != nil {
			t.Errorf("%q: %v %v\n%s", lines, err, said.Left, diff)
		}
	}
}

func TestWhatAScriptSaysAndDroverDecides(t *testing.T) {
	const head = "#!/bin/sh\n#SBATCH -J x -o a.txt --error=b.txt -N 2-4 --ntasks-per-node=8\n#SBATCH --requeue --signal=USR1@60 -A bio --mem-per-cpu=2G -t 5 -p cpu -c 2\n#SBATCH -q low --gres=gpu:1"
	said, err := Directives([]byte(head), driver.Needs{Detail: "gpu", CPUs: 2, GPUs: 2, Memory: 1 << 30, Time: time.Hour, Args: []string{"-qhigh"}})
	want := driver.Said{Mark: "#SBATCH", Args: []string{"--account=bio"}, Nodes: 2, Left: []string{
		"--job-name=x: drover finds its jobs by their names; -t names a task.",
		"--output=a.txt --error=b.txt: Output is stored by drover: drover logs.",
		"--nodes=2-4: A job has a fixed number of nodes, here the least.",
		"--ntasks-per-node=8: Use --nodes of drover run, and --procs-per-node for more of a launcher's processes.",
		"--requeue: drover does this itself.",
		"--signal=USR1@60: Programs get SIGTERM before the time limit and when they have to go: docs/how-to/slurm.md.",
		"--mem-per-cpu=2G --time=5 --partition=cpu --qos=low --gres=gpu:1: The command or the config says otherwise.",
	}}
	if diff := cmp.Diff(want, said); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// What is taken passes the check that options have to pass, and no option of a script
// that the driver keeps to itself is among it.
func TestWhatAScriptSaysCanBeStarted(t *testing.T) {
	for _, own := range taken {
		for _, name := range own.names {
			said, err := Directives([]byte("#SBATCH "+name+" 1\n"), driver.Needs{})
			if err == nil && (len(said.Args) > 0 || len(said.Left) == 0 && said.Nodes == 0) {
				t.Errorf("%s is taken: %+v", name, said)
			}
		}
	}
}

func TestAnArrayIsItemsOfAMap(t *testing.T) {
	for line, want := range map[string]string{"--array=0-99%8": "drover map --from 0-99 --workers 8 --", "-a 1-5": "drover map --from 1-5 --", "--arr=1-5": "drover map --from 1-5 --", "-a 1,3": "drover map --from 0-99 --"} {
		said, err := Directives([]byte("#SBATCH "+line), driver.Needs{})
		if err != nil || !strings.Contains(fault.Hint(said.Many), want) || len(said.Left) != 1 || said.Args != nil {
			t.Errorf("%s: %+v, %q, %v", line, said, fault.Hint(said.Many), err)
		}
	}
}

func TestLinesThatSbatchRefusesAreRefused(t *testing.T) {
	for _, line := range []string{"stray -q z", "--comment=\"a", "-", "--", "-? x", ": -p x", "-q", "hetjob", "-N x", "-N 0", "-d afterok:3", "--hold", "--qos=a\x00b"} {
		said, err := Directives([]byte("#SBATCH "+line+"\n"), driver.Needs{})
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q: %+v, %v", line, said, err)
		}
	}
}

// On a machine with Slurm's commands and no cluster, one line says so.
func TestAMachineWithoutAClusterSaysSo(t *testing.T) {
	bin := t.TempDir()
	sinfo := "#!/bin/sh\necho 'sinfo: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsinfo: fatal: Could not establish a configuration source' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "sinfo"), []byte(sinfo), 0o755); err != nil {
		t.Fatal(err)
	}
	d := New(t.TempDir())
	d.path = bin
	_, err := d.Offer(t.Context(), driver.Needs{})
	if err == nil || err.Error() != "ask Slurm: its commands find no slurm.conf here, and no server that has one" || !strings.Contains(fault.Hint(err), "SLURM_CONF=") {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
	d.path = t.TempDir()
	_, err = d.Offer(t.Context(), driver.Needs{})
	if err == nil || err.Error() != "find sinfo: it is not on PATH" || !strings.Contains(fault.Hint(err), "login node") {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func FuzzScriptsAreRead(f *testing.F) {
	f.Add("#!/bin/sh\n#SBATCH -p gpu -N2 -sp x --time=5 \\# 'a b' # c\ntrue\n")
	f.Fuzz(func(t *testing.T, head string) {
		said, err := Directives([]byte(head), driver.Needs{CPUs: 1})
		if err != nil {
			return
		}
		if err := checkArgs(said.Args); err != nil {
			t.Errorf("%q gives %q, which is refused: %v", head, said.Args, err)
		}
		again, err := options(said.Args)
		if diff := cmp.Diff(said.Args, again); diff != "" || err != nil {
			t.Errorf("%q is read another way again: %v\n%s", head, err, diff)
		}
	})
}
