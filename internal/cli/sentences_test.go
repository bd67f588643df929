package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/cli/ssm"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/internal/verify"
	"github.com/drover-run/drover/job"
)

// onScreen is what a command line prints on both of its outputs, a screen of its own
// each time.
func onScreen(print func(a *app)) []string {
	var out bytes.Buffer
	print(&app{out: &out, err: &out})
	return append(strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), "")
}

func TestWhatVerifyFoundIsInWords(t *testing.T) {
	var lines []string
	for _, r := range []drover.Verified{
		{Job: "p/t/1", State: job.Succeeded, Items: 100, Tally: job.Tally{Items: 100, Succeeded: 100}, Entries: 1, Chunks: 1, Claims: 1, Outputs: 1, Bytes: 10},
		{Job: "p/t/2", Items: 100, Tally: job.Tally{Items: 100, Succeeded: 97}, Entries: 12, Chunks: 4, Claims: 9, Handed: 3, Losses: 2, Bound: 16, Stopped: 4,
			Extra:   verify.ExtraRuns{Retries: 1, Interrupted: 2, Unexplained: 3},
			Ignored: []verify.Note{{Log: "job", Entry: 1, Why: "a"}, {Log: "job", Entry: 2, Why: "b"}, {Log: "job", Entry: 3, Why: "c"}, {Log: "job", Entry: 4, Why: "d"}, {Log: "job", Entry: 5, Why: "e"}, {Log: "job", Entry: 6, Why: "f"}}, Told: 8},
		{Job: "p/t/3", State: job.Failed, Attempts: 1, Entries: 3, Doubted: 3, Doubts: []verify.Doubt{{Rule: verify.RuleHole, Note: verify.Note{Log: "job", Entry: 1, Why: "it is missing"}}}},
	} {
		lines = append(lines, onScreen(func(a *app) { newVerifyVerb(a).printVerified(r) })...)
	}
	checkScreen(t, "verify", lines)
}

func TestWhatACommandWouldDoIsInWords(t *testing.T) {
	var lines []string
	show := func(change func(p *drover.Plan)) {
		p := &drover.Plan{Plan: engine.Plan{Action: "start", Spec: job.Spec{Verb: job.Run, Project: "p", Task: "t", Program: "train.py", Nodes: 1, On: "local"}}}
		change(p)
		lines = append(lines, onScreen(func(a *app) {
			if err := newPlanner(a).showPlan(p); err != nil && exitOf(err) != fault.ExitComplete {
				t.Error(err)
			}
		})...)
	}
	for _, action := range []engine.Action{"start", "attach", "resume", "replace", "skip", "extend", "reopen"} {
		show(func(p *drover.Plan) { p.Action = action })
	}
	show(func(p *drover.Plan) { p.TakesNewCode = true })
	show(func(p *drover.Plan) {
		p.Spec.Nodes, p.Spec.Procs, p.Spec.Launcher, p.Spec.GPUs, p.Spec.Machine = 2, 4, job.MPI, 1, "ml.p3.2xlarge"
		p.Spec.Processes = 1
		p.Offer = driver.Offer{Machine: "this machine", Attached: true, Containers: true, Cores: 1}
	})
	for _, stream := range []bool{true, false} {
		show(func(p *drover.Plan) {
			p.Spec.Verb, p.Spec.From, p.Spec.Fetch, p.Spec.Stream, p.Spec.Processes = job.Map, "list.csv", true, stream, 1
			p.Items = engine.ItemsPlan{Count: 3, Fields: []string{"file"}}
		})
	}
	checkScreen(t, "plan-actions", lines)
}

func TestWhatADrillDoesIsInWords(t *testing.T) {
	lines := onScreen(func(a *app) {
		for _, hit := range []string{"SIGKILL", "SIGTERM", "notice", "pause", "program"} {
			newTrial(a).noteDrillEvent(drover.DrillEvent{Hit: hit, Agent: "1-0-33b2", After: time.Second})
		}
	})
	for _, stage := range []string{"calm", "drill", "again"} {
		lines = append(lines, stageLine(stage, 100, "t-"+stage))
	}
	checkScreen(t, "drill-stages", lines)
}

func TestWhatWasCopiedIsInWords(t *testing.T) {
	var lines []string
	for _, c := range []drover.Copied{
		{Progress: transfer.Progress{Files: 1, Bytes: 10}, Took: time.Second},
		{Progress: transfer.Progress{Files: 3, Bytes: 1 << 20, Same: 2, SameBytes: 4096}, Took: time.Minute, LeftOut: 2},
		{Progress: transfer.Progress{Files: 3, Bytes: 1 << 20, SameBytes: 4096}, Took: time.Minute},
	} {
		lines = append(lines, onScreen(func(a *app) {
			if err := newBringer(a).reportCopied(c, nil, "photos"); err != nil {
				t.Error(err)
			}
		})...)
	}
	checkScreen(t, "copied", lines)
}

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
	if lines := (topState{paper: paper{width: 80, height: 24}, job: topJob{many: &topMap{}}}).agentLines(); len(lines) != 1 || lines[0] != "  no worker has started yet" {
		t.Errorf("top shows %q", lines)
	}
	if _, said, err := asked(t, false, metricsFlags{node: -1, attempt: -1}, nil, nil); err != nil || !strings.Contains(said, "no metrics: drover finds name=number in what a program prints; say otherwise with run --metric") {
		t.Errorf("metrics prints %q, %v", said, err)
	}
}

// noQueues is a machine on which nothing was reserved.
type noQueues struct{ Queues }

func (noQueues) Lines() ([]Line, error) { return nil, nil }

func TestHowManyItemsAreLeftIsInWords(t *testing.T) {
	for running, want := range map[int][2]string{
		0: {"nothing runs, 9 are left", "nothing runs"},
		1: {"1 item runs to its end, 8 are left", "1 running item may finish"},
		8: {"8 items run to their end, 1 is left", "8 running items may finish"},
	} {
		s := drover.MapStatus{Items: job.Tally{Items: 10, Succeeded: 1}, Running: running}
		if got := lastOnes(s); got != want[0] {
			t.Errorf("%d run: %q, want %q", running, got, want[0])
		}
		if got := drained(s); got != want[1] {
			t.Errorf("%d run: %q, want %q", running, got, want[1])
		}
	}
}

func TestManyWaysToFailAreCut(t *testing.T) {
	f := drover.Figures{}
	for i := range 2*firstGroups + 2 {
		f.Groups = append(f.Groups, drover.Group{Items: i + 1, First: i + 1, Pattern: fmt.Sprintf("failure %d", i)})
	}
	lines := onScreen(func(a *app) { newStatusVerb(a).printFigures(f, nil) })
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "and 2 more ways to fail\n") {
		t.Errorf("it prints\n%s", text)
	}
}

func TestSettingsSayWhatTheyMean(t *testing.T) {
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	write(t, d.configFile(), "targets:\n  big:\n    on: mem\n  local:\n    queues:\n      night:\n        cpus: 2\n")
	out, _, err := d.typed("config")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(home) // where the screens are
	checkScreen(t, "config", strings.Split(regexp.MustCompile(" {2,}").ReplaceAllString(strings.ReplaceAll(out, filepath.Dir(d.configFile()), "CONFIG"), "  "), "\n"))
	if _, said, err := d.typed("config", "set", "python", "python3.12"); err != nil || said != "python is now python3.12 in "+d.configFile()+"\n" {
		t.Errorf("it says %q, %v", said, err)
	}
	d.refuses("", refusal{"config set targets.big.mops 3", fault.Invalid, `find setting: there is no "targets.big.mops"`,
		"Limits of a queue are targets.local.queues.NAME.cpus, .memory and .gpus; a target of your own has targets.NAME.on, .args, .workers, .cpus, .memory, .gpus, .timeout and .store."})
	for key, want := range map[string]string{
		"project": "-", "python": "is a program that runs", "image_mirror": "is where images that run come from", "agent_role": "is whom agents act as",
		"output": "receives results", "targets.big.args": "holds options of the target's engine", "store": "receives code, results and your credentials",
	} {
		if got := whatFor("/home/ann/project", key, "/elsewhere"); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestAProjectFileThatCannotBeReadSaysWhatToDo(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "drover.yaml")
	for why, row := range map[string]struct {
		make   func() error
		remedy string
	}{
		"it is not a regular file": {func() error { return syscall.Mkfifo(loop, 0o600) }, "mend it or remove it"},
		"it has more than 1 MiB":   {func() error { return os.WriteFile(loop, make([]byte, maxSettingsFile+1), 0o600) }, "mend it or remove it"},
		"not a directory":          {func() error { return os.WriteFile(filepath.Dir(loop)+"/file", nil, 0o600) }, "leave the folder, or have it made readable"},
	} {
		os.Remove(loop)
		if err := row.make(); err != nil {
			t.Fatal(err)
		}
		path := loop
		if why == "not a directory" {
			path = filepath.Dir(loop) + "/file/drover.yaml"
		}
		if p, got, remedy := openProjectFile(path, confirmations(t.TempDir())); p != nil || got != why || remedy != row.remedy {
			t.Errorf("it is %v, %q, %q; want %q, %q", p, got, remedy, why, row.remedy)
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
	write(t, "code/train.py", "")
	write(t, "a.py", "")
	for _, row := range []refusal{
		{"ssm shell -p p -t t -o out --cmd_line ls -- more", fault.Invalid, `read command line: ssm shell takes no words after "--"`, "Put them into the line: --cmd_line '...'."},
		{"ssm process -p p -t t -o out --code a.py --entrypoint bash", fault.Invalid, "read command line: ssm process takes --code or --entrypoint, not both", "Write the words before it with --command."},
		{"ssm process -p p -t t -o out --command bash", fault.Invalid, "read command line: --command is for --code, which is missing", "Add --code FILE, or write --entrypoint for --command."},
		{"ssm process -p p -t t -o out", fault.Invalid, "read command line: ssm process needs a program to run", "Add --code FILE, or --entrypoint PROGRAM."},
		{"ssm run -p p -t t -o out -s code -e gone/other.py", fault.Invalid, `read command line: -e: there is no script "code/gone/other.py"`, "Check the path; with -s it is that below this folder."},
	} {
		d.refuses("", row)
	}
	if err := ssmLine(ssm.Command{}, &job.Spec{}); err == nil || err.Error() != "read command line: ssm shell needs a command line" {
		t.Error(err)
	}
	lines := onScreen(func(a *app) {
		newSsmSpecs(newSsmVerb(a)).jobMetrics(ssm.Command{Metrics: []ssm.Pair{{Name: "loss", Value: "loss=("}, {Name: "acc", Value: "acc=.*"}}})
	})
	want := []string{`note: --md loss is left out: "loss=(" is not a regular expression that drover reads`, `note: --md acc is left out: "acc=.*" has no group for the number`, ""}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("it notes %q", lines)
	}
}

func TestAJobThatTopNoLongerListsIsNamed(t *testing.T) {
	if _, err := (&topStore{}).find("7fk2"); err == nil || err.Error() != "show job 7fk2: it is not in the list any more" {
		t.Error(err)
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
