package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/sagemaker"
	"github.com/drover-run/drover/internal/cli/ssm"
	"github.com/drover-run/drover/job"
)

// asked is the spec that a command line of simple-sagemaker's comes to, and what is said.
func (d *desk) asked(line ...string) (job.Spec, string) {
	d.t.Helper()
	var said bytes.Buffer
	a := *d.app
	a.Out, a.Err = &said, &said
	c, err := ssm.Read(line, func(string) (string, bool) { return "", false })
	if err != nil {
		d.t.Fatalf("%q: %v", line, err)
	}
	spec, err := sagemaker.NewSpecs(&a, c.Project, c.Task).JobSpec(c)
	if err != nil {
		d.t.Fatalf("%q: %v", line, err)
	}
	if spec.On == "" {
		spec.On = "mem"
	}
	if _, err := spec.Normal(); err != nil {
		d.t.Errorf("%q makes no sound spec: %v", line, err)
	}
	return spec, said.String()
}

// Each flag of simple-sagemaker's sets what drover's own verbs set.
func TestSSMCommandLinesBecomeSpecs(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, "w.py", "")
	clitest.Write(t, "src/w.py", "")
	clitest.Write(t, "src/steps.sh", "")
	clitest.Write(t, "src/.hidden", "")
	day := job.Duration(24 * time.Hour)
	base := job.Spec{Project: "p", Task: "t", Named: true, Rules: job.SSM, Verb: job.Run, Program: "w.py", Nodes: 1, Timeout: day, PlainEnv: true}
	with := func(change func(*job.Spec)) job.Spec { s := base; change(&s); return s }
	run := []string{"run", "-p", "p", "-t", "t", "-e", "w.py"}
	process := []string{"process", "-p", "p", "-t", "t"}
	for _, c := range []struct {
		line []string
		want job.Spec
		said string
	}{
		{run, base, ""},
		{append(run, "--ic", "2", "--it", "ml.p3.2xlarge", "--max_run_mins", "15", "--cs", "-o", "out"),
			with(func(s *job.Spec) {
				s.Nodes, s.Machine, s.Timeout, s.CleanState, s.Output = 2, "ml.p3.2xlarge", job.Duration(15*time.Minute), true, "out"
			}), ""},
		{append(run, "--it", "local"), base, ""},
		{append(run, "-s", "src", "-d", "a", "b"), with(func(s *job.Spec) { s.Source, s.Deps = "src", []string{"a", "b"} }), ""},
		{append(run, "--lr", "0.10", "--debug", "--", "x"), with(func(s *job.Spec) {
			s.Args, s.Hyperparameters = []string{"x", "--debug", "--lr", "0.10"}, map[string]string{"lr": "0.10", "debug": "true"}
		}), ""},
		{append(run, "-s", "src", "-e", "steps.sh", "--lr", "1", "--", "x"), with(func(s *job.Spec) {
			s.Source, s.Program, s.Args, s.Hyperparameters = "src", "steps.sh", []string{"x"}, map[string]string{"lr": "1"}
		}), ""},
		{append(run, "-i", "d", "ShardedByS3Key", "sub/", "--model_uri", "m.tar.gz"), with(func(s *job.Spec) {
			s.Inputs = []job.Input{{Name: "data", Path: "d", Sharded: true, Subdir: "sub"}, {Name: "model", Path: "m.tar.gz"}}
		}), ""},
		{append(run, "-i", "d", "ShardedByS3Key", "--iit", "ex_model", "Ex-1", "model", "--iis", "persons", "file:///x", "ShardedByS3Key"), with(func(s *job.Spec) {
			s.Inputs = []job.Input{{Name: "data", Path: "d", Sharded: true}, {Name: "ex_model", Path: "task:Ex-1/model"}, {Name: "persons", Path: "file:///x", Sharded: true}}
		}), ""},
		{append(run, "-f", "tensorflow", "--fv", "2.3", "--pv", "py37", "--df", "RUN true"), with(func(s *job.Spec) {
			s.Framework, s.Dockerfile = "tensorflow:2.3:py37", "RUN true"
		}), ""},
		{append(run, "--pv", "py37"), with(func(s *job.Spec) { s.Framework = "pytorch" }), "note: --pv py37 counts with --fv VERSION alone\n"},
		{append(run, "--md", "a", "x=(.*)", "--md", "a", "y=(.*)", "--tag", "k", "1", "--tag", "k", "2"), with(func(s *job.Spec) {
			s.Metrics, s.Tags = []job.Metric{{Name: "a", Regex: "y=(.*)"}}, map[string]string{"k": "2"}
		}), ""},
		{append(run, "--distribution", `{"mpi": {"enabled": true, "processes_per_host": 4}}`), with(func(s *job.Spec) { s.Launcher, s.Procs = job.MPI, 4 }), ""},
		{append(run, "--distribution", `{"parameter_server": {"enabled": true}}`), with(func(s *job.Spec) { s.Launcher = job.TF }), ""},
		{append(run, "--distribution", `{"mpi": {"enabled": false}}`), base, ""},
		{append(run, "--distribution", `"mpi"`), base, "note: --distribution has no effect here\n"},
		{[]string{"shell", "-p", "p", "-t", "t", "--cmd", "ls", "--dir_files", "src", "--x", "1"}, with(func(s *job.Spec) {
			s.Verb, s.Program, s.Deps, s.Hyperparameters = job.Shell, "ls", []string{"src/steps.sh", "src/w.py"}, map[string]string{"x": "1"}
		}), ""},
		{append(process, "--code", "w.py", "-i", "d", "--iit", "m", "a", "state", "--env", "K", "v", "--arguments", "a", "--", "-b"), with(func(s *job.Spec) {
			s.Verb, s.Args, s.Env = job.Process, []string{"a", "-b"}, map[string]string{"K": "v"}
			s.Inputs = []job.Input{{Name: "data", Path: "d", To: "/opt/ml/processing/data"}, {Name: "m", Path: "task:a/state", To: "/opt/ml/processing/input/data/m"}}
		}), ""},
		{append(process, "--code", "w.py", "--command", "python3"), with(func(s *job.Spec) { s.Verb = job.Process }), ""},
		{append(process, "--code", "w.py", "--command", "bash", "x"), with(func(s *job.Spec) { s.Verb, s.Entrypoint = job.Process, []string{"bash", "x"} }), ""},
		{append(process, "--code", "src/steps.sh"), with(func(s *job.Spec) {
			s.Verb, s.Program, s.Entrypoint = job.Process, "src/steps.sh", []string{"python3"}
		}), ""},
		{append(process, "-e", "sh", "a b", "--", "c"), with(func(s *job.Spec) { s.Verb, s.Program, s.Args = job.Process, "sh", []string{"a b", "c"} }), ""},
	} {
		got, said := d.asked(c.line...)
		got.On = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.line, diff)
		}
		if said != c.said {
			t.Errorf("%q says %q, want %q", c.line, said, c.said)
		}
	}
}

// What is refused below is said in words that ssm has.
func TestSSMHintsAreInItsOwnWords(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, "w.py", "")
	var said bytes.Buffer
	a := *d.app
	a.Err, a.Grammar = &said, &app.Grammar{Hint: ssm.InWords}
	a.PrintError(fault.New(fault.Invalid, "Use --nodes 1 to 1000.", "check job: 2000 nodes"))
	a.PrintError(fault.New(fault.Denied, "Set it, or leave --secret K out.", "read secret K: it is not set"))
	if want := "drover: check job: 2000 nodes\n  Use --ic 1 to 1000.\ndrover: read secret K: it is not set\n"; said.String() != want {
		t.Errorf("said\n%s\nwant\n%s", said.String(), want)
	}
	for _, line := range [][]string{{"ssm", "run", "-p", "p", "-t", "t", "-e", "w.py", "--ic", "2000"}, {"ssm", "run", "-p", "p", "-t", strings.Repeat("x", 99), "-e", "w.py"}} {
		if _, _, err := d.typed(line...); fault.Exit(err) != fault.ExitUsage {
			t.Errorf("%q gives %v, exit status %d", line, err, fault.Exit(err))
		}
	}
}
