package job_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// small is the least that Normal accepts.
func small() job.Spec { return job.Spec{Project: "demo", Task: "digits", Program: "train.py"} }

func TestNormalFillsInWhatWasLeftOut(t *testing.T) {
	got, err := small().Normal()
	if err != nil {
		t.Fatal(err)
	}
	want := job.Spec{
		Project: "demo", Task: "digits", Verb: job.Run, Program: "train.py",
		Nodes: 1, Grace: job.DefaultGrace, On: "local", Queue: job.DefaultQueue,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("normal form (-want +got):\n%s", diff)
	}
	again, err := got.Normal()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("a normal form changed when made normal again:\n%s", diff)
	}
}

func TestNormalKeepsWhatWasSaid(t *testing.T) {
	s := full()
	got, err := s.Normal()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("normal form (-said +got):\n%s", diff)
	}
}

func full() job.Spec {
	return job.Spec{
		Project: "demo", Task: "digits", Named: true, Verb: job.Run, Program: "train.py",
		Args: []string{"--lr", "0.1", ""}, Source: "src", Deps: []string{"lib"},
		Inputs: []job.Input{{Name: "data", Path: "d"}, {Name: "more", Path: "d"}},
		Env:    map[string]string{"A_1": "x=y", "_": ""}, Python: "python3.12",
		Nodes: 1000, Retries: 1000, Timeout: job.Duration(time.Hour), Grace: job.Duration(time.Second),
		Procs: 2, Launcher: job.Torch, GPUs: 2, Machine: "ml.p3.2xlarge", NoMounts: true,
		Queue: "night", Priority: 5, Limits: job.Limits{CPUs: 0.5, Memory: 1 << 30},
		On: "batch/gpu", Output: "out",
	}
}

func TestAProcessingJobGetsSageMakersFolders(t *testing.T) {
	s := small()
	s.Verb, s.Inputs = job.Process, []job.Input{{Name: "raw", Path: "d"}, {Name: "more", Path: "e", To: "/opt/ml/processing/more"}}
	got, err := s.Normal()
	if err != nil {
		t.Fatal(err)
	}
	if s.Inputs[0].To != "" {
		t.Error("Normal changed the spec it was given")
	}
	want := []job.Input{{Name: "raw", Path: "d", To: "/opt/ml/processing/input/raw"}, {Name: "more", Path: "e", To: "/opt/ml/processing/more"}}
	if diff := cmp.Diff(want, got.Inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]job.Result{{Name: "output", From: "/opt/ml/processing/output"}}, got.Results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if again, err := got.Normal(); err != nil || cmp.Diff(got, again) != "" {
		t.Errorf("a normal form changed when made normal again: %v", err)
	}
}

func TestNoLauncherByNameIsNone(t *testing.T) {
	s := small()
	s.Launcher = "none"
	if got, err := s.Normal(); err != nil || got.Launcher != job.Alone {
		t.Errorf("%q, %v", got.Launcher, err)
	}
}

func TestInputsAreNamedLikeChannels(t *testing.T) {
	s := small()
	s.Inputs = []job.Input{{Name: "My_data.v2", Path: "d"}}
	if _, err := s.Normal(); err != nil {
		t.Error(err)
	}
	s.Inputs[0].Name = "../x"
	if _, err := s.Normal(); err == nil {
		t.Error("a path is taken for a name")
	}
}

func TestNormalRefuses(t *testing.T) {
	manyEnv := map[string]string{}
	for i := range 513 {
		manyEnv[fmt.Sprintf("V%d", i)] = ""
	}
	for _, row := range []struct {
		name   string
		change func(*job.Spec)
		want   string // the whole text
		hint   bool
	}{
		{"no project", func(s *job.Spec) { s.Project = "" }, `check job: "" is not a valid name for a project`, true},
		{"a project of the store's", func(s *job.Spec) { s.Project = "ids" }, `check job: project "ids" is a name the store keeps for itself`, true},
		{"no task", func(s *job.Spec) { s.Task = "" }, `check job: "" is not a valid name for a task`, true},
		{"a task with a path in it", func(s *job.Spec) { s.Task = "../x" }, `check job: "../x" is not a valid name for a task`, true},
		{"a verb there is not", func(s *job.Spec) { s.Verb = "fly" }, `check job: unknown verb "fly"`, true},
		{"no program", func(s *job.Spec) { s.Program = "" }, `check job: no script or program given`, true},
		{"a blank command line", func(s *job.Spec) { s.Verb, s.Program = job.Shell, " \n" }, `check job: no script or program given`, true},
		{"shell with words behind it", func(s *job.Spec) { s.Verb, s.Program, s.Args = job.Shell, "echo", []string{"a"} }, `check job: shell takes one command line, got 2 words`, true},
		{"too many arguments", func(s *job.Spec) { s.Args = make([]string, 4097) }, `check job: 4097 arguments, at most 4096`, true},
		{"a NUL in the program", func(s *job.Spec) { s.Program = "a\x00" }, `check job: argument "a\x00" holds a NUL byte`, false},
		{"a NUL in an argument", func(s *job.Spec) { s.Args = []string{"ok", "\x00"} }, `check job: argument "\x00" holds a NUL byte`, false},
		{"an argument that is not text", func(s *job.Spec) { s.Args = []string{"--x", "\xff\xfe"} }, `check job: "\xff\xfe" is not UTF-8`, true},
		{"a program that is not text", func(s *job.Spec) { s.Program = "a\xff" }, `check job: "a\xff" is not UTF-8`, true},
		{"a hyperparameter that is not text", func(s *job.Spec) { s.Hyperparameters = map[string]string{"lr": "1", "x": "\xff"} }, `check job: "\xff" is not UTF-8`, true},
		{"a hyperparameter whose name is not text", func(s *job.Spec) { s.Hyperparameters = map[string]string{"\xff": "1"} }, `check job: "\xff" is not UTF-8`, true},
		{"a variable that is not text", func(s *job.Spec) { s.Env = map[string]string{"A": "\xff"} }, `check job: "\xff" is not UTF-8`, true},
		{"a tag that is not text", func(s *job.Spec) { s.Tags = map[string]string{"a": "\xff"} }, `check job: "\xff" is not UTF-8`, true},
		{"an input that is not text", func(s *job.Spec) { s.Inputs = []job.Input{{Name: "x", Path: "d\xff"}} }, `check job: "d\xff" is not UTF-8`, true},
		{"a dependency that is not text", func(s *job.Spec) { s.Deps = []string{"d\xff"} }, `check job: "d\xff" is not UTF-8`, true},
		{"a time limit that could not be read again", func(s *job.Spec) { s.Timeout = job.Duration(36501 * 24 * time.Hour) }, `check job: 876024h0m0s is too long a time`, true},
		{"a grace that could not be read again", func(s *job.Spec) { s.Grace = job.Duration(1<<63 - 1) }, `check job: 2562047h47m16.854775807s is too long a time`, true},
		{"nodes below one", func(s *job.Spec) { s.Nodes = -1 }, `check job: -1 nodes`, true},
		{"too many nodes", func(s *job.Spec) { s.Nodes = 1001 }, `check job: 1001 nodes`, true},
		{"retries below none", func(s *job.Spec) { s.Retries = -1 }, `check job: -1 retries`, true},
		{"too many retries", func(s *job.Spec) { s.Retries = 1001 }, `check job: 1001 retries`, true},
		{"processes below none", func(s *job.Spec) { s.Procs = -1 }, `check job: -1 processes on each node`, true},
		{"GPUs below none", func(s *job.Spec) { s.GPUs = -1 }, `check job: -1 GPUs`, true},
		{"a launcher there is not", func(s *job.Spec) { s.Launcher = "torhc" }, `check job: unknown launcher "torhc"`, true},
		{"a launcher for a command line", func(s *job.Spec) { s.Verb, s.Launcher = job.Shell, job.MPI }, `check job: shell takes no launcher`, true},
		{"processes that nobody starts", func(s *job.Spec) { s.Procs = 2 }, `check job: 2 processes on each node need a launcher that starts them`, true},
		{"torchrun of a program", func(s *job.Spec) { s.Program, s.Launcher = "a.out", job.TorchRun }, `check job: torchrun starts Python scripts, not "a.out"`, true},
		{"results of a run", func(s *job.Spec) { s.Results = []job.Result{{Name: "x", From: "/opt/ml/processing/x"}} }, `check job: results are for processing jobs`, true},
		{"a folder chosen by a run", func(s *job.Spec) { s.Inputs = []job.Input{{Name: "x", Path: "x", To: "/opt/ml/processing/x"}} }, `check job: input x: only processing jobs choose the folder`, true},
		{"an input outside", func(s *job.Spec) {
			s.Verb, s.Inputs = job.Process, []job.Input{{Name: "x", Path: "x", To: "/opt/ml/processing/../x"}}
		}, `check job: input x: "/opt/ml/processing/../x" is not below /opt/ml/processing`, true},
		{"a result outside", func(s *job.Spec) { s.Verb, s.Results = job.Process, []job.Result{{Name: "x", From: "/tmp/x"}} }, `check job: result x: "/tmp/x" is not below /opt/ml/processing`, true},
		{"two results of one folder", func(s *job.Spec) {
			s.Verb, s.Results = job.Process, []job.Result{{Name: "x", From: "/opt/ml/processing/x"}, {Name: "y", From: "/opt/ml/processing/x"}}
		}, `check job: result y: /opt/ml/processing/x is where result x is`, true},
		{"two results of one name", func(s *job.Spec) {
			s.Verb, s.Results = job.Process, []job.Result{{Name: "x", From: "/opt/ml/processing/x"}, {Name: "x", From: "/opt/ml/processing/y"}}
		}, `check job: two results are named "x"`, true},
		{"an input around the code", func(s *job.Spec) {
			s.Verb, s.Inputs = job.Process, []job.Input{{Name: "x", Path: "x", To: "/opt/ml/processing/input"}}
		}, `check job: the code: /opt/ml/processing/input/code is where input x is`, true},
		{"an input where the code is", func(s *job.Spec) { s.Verb, s.Inputs = job.Process, []job.Input{{Name: "code", Path: "x"}} }, `check job: input code: /opt/ml/processing/input/code is where the code is`, true},
		{"a time limit in the past", func(s *job.Spec) { s.Timeout = -1 }, `check job: time limit -1ns is negative`, true},
		{"machines that are kept for a negative time", func(s *job.Spec) { s.KeepWarm = -1 }, `check job: --keep-warm -1ns is negative`, true},
		{"a negative grace", func(s *job.Spec) { s.Grace = job.Duration(-time.Second) }, `check job: grace -1s is negative`, true},
		{"an input without a name", func(s *job.Spec) { s.Inputs = []job.Input{{Path: "x"}} }, `check job: "" is not a valid name for an input`, true},
		{"an input without a path", func(s *job.Spec) { s.Inputs = []job.Input{{Name: "x"}} }, `check job: input "x" has no path`, true},
		{"two inputs of one name", func(s *job.Spec) { s.Inputs = []job.Input{{Name: "x", Path: "a"}, {Name: "x", Path: "b"}} }, `check job: two inputs are named "x"`, true},
		{"too many variables", func(s *job.Spec) { s.Env = manyEnv }, `check job: 513 environment variables, at most 512`, true},
		{"a variable without a name", func(s *job.Spec) { s.Env = map[string]string{"": "x"} }, `check job: "" is not a valid name of an environment variable`, true},
		{"a variable that begins with a digit", func(s *job.Spec) { s.Env = map[string]string{"1A": "x"} }, `check job: "1A" is not a valid name of an environment variable`, true},
		{"a variable with a sign in it", func(s *job.Spec) { s.Env = map[string]string{"A=B": "x"} }, `check job: "A=B" is not a valid name of an environment variable`, true},
		{"a variable beyond ASCII", func(s *job.Spec) { s.Env = map[string]string{"Ä": "x"} }, `check job: "Ä" is not a valid name of an environment variable`, true},
		{"a NUL in a variable", func(s *job.Spec) { s.Env = map[string]string{"A": "\x00"} }, `check job: environment variable A holds a NUL byte`, false},
	} {
		s := small()
		row.change(&s)
		_, err := s.Normal()
		if err == nil {
			t.Errorf("%s: accepted", row.name)
			continue
		}
		if err.Error() != row.want {
			t.Errorf("%s: text is %q, want %q", row.name, err, row.want)
		}
		if got := fault.KindOf(err); got != fault.Invalid {
			t.Errorf("%s: kind is %v, want %v", row.name, got, fault.Invalid)
		}
		if got := fault.Hint(err) != ""; got != row.hint {
			t.Errorf("%s: hint is %q", row.name, fault.Hint(err))
		}
	}
}

func TestTheSameSpecGetsTheSameRefusal(t *testing.T) {
	s := small()
	s.Env = map[string]string{"a b": "", "c d": "", "e f": "", "A": "\x00"}
	for range 20 {
		if _, err := s.Normal(); err == nil || !strings.Contains(err.Error(), "environment variable A ") {
			t.Fatalf("text is %v, want the first variable in order", err)
		}
	}
}

func TestIsScriptIsAPythonFileThatIsRun(t *testing.T) {
	for _, row := range []struct {
		verb    job.Verb
		program string
		want    bool
	}{
		{job.Run, "train.py", true}, {job.Run, "a/b.py", true}, {job.Run, "train", false},
		{job.Run, "train.py.sh", false}, {job.Shell, "train.py", false},
	} {
		if got := (job.Spec{Verb: row.verb, Program: row.program}).IsScript(); got != row.want {
			t.Errorf("%s %s: script is %v", row.verb, row.program, got)
		}
	}
}

func TestASpecSurvivesJSON(t *testing.T) {
	want := full()
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got job.Spec
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want.Output = "" // where results go on this laptop is no business of the store's
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after JSON (-want +got):\n%s", diff)
	}
}

func TestAJobKnowsItsPath(t *testing.T) {
	j := job.Job{ID: "abcd2345abcd2345", Spec: small()}
	if got, want := j.Path().String(), "demo/digits/abcd2345abcd2345"; got != want {
		t.Errorf("path is %q, want %q", got, want)
	}
}

func TestATallyIsSaidWithItsCounts(t *testing.T) {
	tally := job.Tally{Items: 1_000_000, Succeeded: 980_000, Failed: 10_000, Quarantined: 1_000, Cancelled: 7}
	if got, want := tally.String(), "1,000,000 items: 980,000 succeeded, 10,000 failed, 1,000 quarantined, 7 cancelled, 8,993 open"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
