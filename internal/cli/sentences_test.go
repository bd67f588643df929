package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/app/apptest"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/sagemaker"
	"github.com/drover-run/drover/internal/cli/ssm"
	"github.com/drover-run/drover/job"
)

func TestWhatIsNotThereYetIsInWords(t *testing.T) {
	d := newDesk(t)
	d.app.Queues = noQueues{}
	t.Setenv("DROVER_ON", "mem")
	for _, row := range [][2]string{
		{"status --tag team=vision --tag size=big", "no job with the tag team=vision and size=big\n"},
		{"status", "no jobs yet   start one: drover run train.py\n"},
		{"gc", "nothing to remove\n"},
		{"queue ls", "no job has reserved any part of this machine\n"},
	} {
		if out, said, err := d.typed(strings.Fields(row[0])...); err != nil || out != "" || said != row[1] {
			t.Errorf("drover %s prints %q and %q, %v; want %q", row[0], out, said, err, row[1])
		}
	}
	if _, _, err := d.typed("put", "early", "state", ".", "-p", "p"); err != nil {
		t.Fatal(err)
	}
	if out, _, err := d.typed("data", "early", "-p", "p"); err != nil || !strings.HasPrefix(out, "p/early   0 jobs, no job yet\n") {
		t.Errorf("data prints %q, %v", out, err)
	}
}

// noQueues is a machine on which nothing was reserved.
type noQueues struct{ app.Queues }

func (noQueues) Lines() ([]app.Line, error) { return nil, nil }

func TestSettingsSayWhatTheyMean(t *testing.T) {
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	clitest.Write(t, d.configFile(), "targets:\n  big:\n    on: mem\n  local:\n    queues:\n      night:\n        cpus: 2\n")
	out, _, err := d.typed("config")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(home) // where the screens are
	clitest.CheckScreen(t, "config", strings.Split(regexp.MustCompile(" {2,}").ReplaceAllString(strings.ReplaceAll(out, filepath.Dir(d.configFile()), "CONFIG"), "  "), "\n"))
	if _, said, err := d.typed("config", "set", "python", "python3.12"); err != nil || said != "python is now python3.12 in "+d.configFile()+"\n" {
		t.Errorf("it says %q, %v", said, err)
	}
	d.refuses("", refusal{"config set targets.big.mops 3", fault.Invalid, `find setting: there is no "targets.big.mops"`,
		"Limits of a queue are targets.local.queues.NAME.cpus, .memory and .gpus; a target of your own has targets.NAME.on, .args, .workers, .cpus, .memory, .gpus, .timeout, .store, .machine, .where and .spot."})
	for key, want := range map[string]string{
		"project": "-", "python": "is a program that runs", "image_mirror": "is where images that run come from", "image_registry": "receives images with your code", "agent_role": "is whom agents act as",
		"output": "receives results", "targets.big.args": "holds options of the target's engine", "store": "receives code, results and your credentials",
	} {
		if got := config.WhatFor("/home/ann/project", key, "/elsewhere"); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestAnythingIsAskedBeforeItIsRemoved(t *testing.T) {
	d := newDesk(t)
	if _, _, err := d.typed("put", "early", "state", ".", "-p", "p"); err != nil {
		t.Fatal(err)
	}
	a, screen := d.atTerminalSeen("y\n")
	root := newCommandTree(a).newRoot()
	root.SetArgs([]string{"data", "early", "-p", "p", "--clear", "state"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	const asked = "The state of p/early is emptied. Go on? [y/N] "
	text := make([]byte, 4096)
	for seen := ""; !strings.Contains(seen, asked); { // the terminal's echo of the answer may come first
		n, err := screen.Read(text)
		if seen += string(text[:n]); err != nil {
			t.Fatalf("it asks %q, %v", seen, err)
		}
	}
}

func TestSlipsInTheToolsWordsHaveANextStep(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, "code/train.py", "")
	clitest.Write(t, "a.py", "")
	for _, row := range []refusal{
		{"ssm shell -p p -t t -o out --cmd_line ls -- more", fault.Invalid, `read command line: ssm shell takes no words after "--"`, "Put them into the line: --cmd_line '...'."},
		{"ssm process -p p -t t -o out --code a.py --entrypoint bash", fault.Invalid, "read command line: ssm process takes --code or --entrypoint, not both", "Write the words before it with --command."},
		{"ssm process -p p -t t -o out --command bash", fault.Invalid, "read command line: --command is for --code, which is missing", "Add --code FILE, or write --entrypoint for --command."},
		{"ssm process -p p -t t -o out", fault.Invalid, "read command line: ssm process needs a program to run", "Add --code FILE, or --entrypoint PROGRAM."},
		{"ssm run -p p -t t -o out -s code -e gone/other.py", fault.Invalid, `read command line: -e: there is no script "code/gone/other.py"`, "Check the path; with -s it is that below this folder."},
	} {
		d.refuses("", row)
	}
	if err := sagemaker.SsmLine(ssm.Command{}, &job.Spec{}); err == nil || err.Error() != "read command line: ssm shell needs a command line" {
		t.Error(err)
	}
	lines := apptest.OnScreen(func(a *app.App) {
		sagemaker.NewSpecs(a, "p", "t").JobMetrics(ssm.Command{Metrics: []ssm.Pair{{Name: "loss", Value: "loss=("}, {Name: "acc", Value: "acc=.*"}}})
	})
	want := []string{`note: --md loss is left out: "loss=(" is not a regular expression that drover reads`, `note: --md acc is left out: "acc=.*" has no group for the number`, ""}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("it notes %q", lines)
	}
}

// The words that other programs have for a verb lead to drover's own.
func TestVerbsOfOtherProgramsLeadToThoseOfDrover(t *testing.T) {
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	var said faulttest.Sayings
	for _, verb := range strings.Fields("kill scancel abort stop rm delete remove clean list jobs squeue show describe info history watch tail log output download fetch upload " +
		"exec ssh submit sbatch start launch restart rerun continue parallel foreach bash plot debug nodes workers targets clusters login configure setup") {
		_, _, err := d.typed(verb, "x")
		said.Error(verb, err)
	}
	_, _, err = d.typed("map", "--item-timeout", "soon", "--from", "1-3", "true")
	said.Error("a time that is none", err)
	t.Chdir(home)
	said.Compare(t, "other-verbs")
}
