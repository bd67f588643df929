package agent

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// alone runs a Python script with the module and without drover.
func alone(t *testing.T, script, stdin string, environ, args []string) (stdout, stderr string, status int) {
	t.Helper()
	dir, err := filepath.Abs("module")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "python3", append([]string{"-B", "-c", "import drover, sys, os\n" + script}, args...)...)
	c.Dir, c.Stdin = t.TempDir(), strings.NewReader(stdin)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir, "PYTHONPATH=" + dir}, environ...)
	var out, bad bytes.Buffer
	c.Stdout, c.Stderr = &out, &bad
	err = c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out.String(), bad.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), bad.String(), 0
}

func TestTheModuleOnItsOwn(t *testing.T) {
	t.Parallel()
	squares := "for item in drover.items(): item.done(int(item.value)**2)"
	for name, row := range map[string]struct {
		script, stdin string
		environ, args []string
		stdout        string
		stderr        string // is in it
		status        int
	}{
		"items are the arguments":      {squares, "9\n", nil, []string{"3", "4"}, "9\n16\n", "", 0},
		"or else the lines of stdin":   {squares, "1\r\n2\n3", nil, nil, "1\n4\n9\n", "", 0},
		"or the one of this process":   {squares, "9\n", []string{"DROVER_ITEM=5"}, []string{"3"}, "25\n", "", 0},
		"of which there may be none":   {squares, "", nil, nil, "", "", 0},
		"their numbers, tries, places": {"for i in drover.items(): print(i.n, i.attempt, i.out, i.outs, i)", "", []string{"DROVER_OUT=/o"}, []string{"x"}, "1 1 /o ('/o',) <item 1: 'x'>\n", "", 0},
		"no place":                     {"for i in drover.items(): i.out", "", nil, []string{"x"}, "", "AttributeError: this map declares no output: use drover map --out NAME", 1},
		"answers":                      {"for i in drover.items(): i.done({'ü': [1, None, {2}, b'b']})", "", nil, []string{"x"}, `{"ü":[1,null,[2],"b"]}` + "\n", "", 0},
		"a text is printed as it is":   {"for i in drover.items(): i.done('a \"b\"')", "", nil, []string{"x"}, "a \"b\"\n", "", 0},
		"no answer":                    {"for i in drover.items(): pass", "", nil, []string{"x"}, "", "", 0},
		"done twice":                   {"for i in drover.items():\n  i.done(1)\n  i.done(2)", "", nil, []string{"x"}, "1\n", "RuntimeError: item 1 was answered before", 1},
		"done, then failed":            {"for i in drover.items():\n  i.done(1)\n  i.fail('no')", "", nil, []string{"x"}, "1\n", "RuntimeError: item 1 was answered before", 1},
		"what JSON cannot say":         {"for i in drover.items(): i.done(object())", "", nil, []string{"x"}, "", "TypeError: item.done() takes what JSON can say, and this is a object", 1},
		"one that is given up":         {"for i in drover.items(): i.fail('odd') if i.n == 1 else i.done(i.n)", "", nil, []string{"x", "y"}, "2\n", "item x failed: odd\n", 0},
		"one of this process":          {"import atexit\nfor i in drover.items(): i.fail('odd')\nprint('after')", "", []string{"DROVER_ITEM=x"}, nil, "after\n", "item x failed: odd\n", 1},
		"map":                          {"drover.map(lambda v: int(v) + 1)", "", nil, []string{"1", "2"}, "2\n3\n", "", 0},
		"map, and one raises":          {"drover.map(int)", "", nil, []string{"1", "x", "3"}, "1\n3\n", "item x failed: ValueError: invalid literal for int() with base 10: 'x'\n", 0},
		"map by threads":               {"import threading\nb = threading.Barrier(3)\ndef f(v):\n  b.wait(60)\ndrover.map(f, workers=3)\nprint('ok')", "1\n2\n3\n4\n5\n6\n", nil, nil, "ok\n", "", 0},
		"each of them once":            {"l = []\ndrover.map(lambda v: l.append(int(v)), workers=4)\nprint(sorted(l) == list(range(100)))", lines(100), nil, nil, "True\n", "", 0},
		"map by batches":               {"drover.map(lambda vs: [len(vs)] * len(vs), batch=2)", "a\nb\nc\n", nil, nil, "2\n2\n1\n", "", 0},
		"batches in threads":           {"l = []\ndrover.map(lambda vs: [l.extend(vs)] * len(vs), workers=2, batch=7)\nprint(len(l), len(set(l)))", lines(100), nil, nil, "100 100\n", "", 0},
		"a batch that is too short":    {"drover.map(lambda vs: vs[1:], batch=2)", "", nil, []string{"x", "y"}, "", "item y failed: ValueError: f returned 1 results for 2 items", 0},
		"metrics are nobody's":         {"drover.metric(loss=1, step=2)", "", nil, nil, "", "", 0},
		"and are numbers":              {"drover.metric(loss='a')", "", nil, nil, "", "could not convert string to float: 'a'", 1},
		"checkpoints":                  {"print(drover.checkpoint(), os.path.isdir('checkpoints'))", "", nil, nil, "checkpoints True\n", "", 0},
		"none of an item":              {"drover.checkpoint()", "", []string{"DROVER_ITEM_N=1"}, nil, "", "RuntimeError: drover.checkpoint() is for drover run, and this is an item of a map", 1},
		"nor of one that stays":        {"drover.checkpoint()", "", []string{"DROVER_SOCK=/nowhere"}, nil, "", "or answer with item.done(result)", 1},
		"who asks outlives SIGTERM":    {"import signal\nprint(drover.stopping())\nos.kill(os.getpid(), signal.SIGTERM)\nopen(os.environ['DROVER_NOTICE'], 'w').close()\nprint(drover.stopping())", "", []string{"DROVER_NOTICE=notice"}, nil, "False\nTrue\n", "", 0},
		"who asks outlives Ctrl-C":     {"import signal\nprint(drover.stopping())\nos.kill(os.getpid(), signal.SIGINT)\nopen(os.environ['DROVER_NOTICE'], 'w').close()\nprint(drover.stopping())", "", []string{"DROVER_NOTICE=notice"}, nil, "False\nTrue\n", "", 0},
		"and its children do not":      {"import signal\ndrover.stopping()\nif os.fork() == 0:\n  os.kill(os.getpid(), signal.SIGTERM)\n  signal.pause()\nprint(os.wait()[1])", "", []string{"DROVER_NOTICE=notice"}, nil, "15\n", "", 0},
		"and of Ctrl-C they hear":      {"import signal\ndrover.stopping()\nif os.fork() == 0:\n  try:\n    os.kill(os.getpid(), signal.SIGINT)\n    signal.pause()\n  except KeyboardInterrupt:\n    os._exit(3)\nprint(os.wait()[1] >> 8)", "", []string{"DROVER_NOTICE=notice"}, nil, "3\n", "", 0},
		"nobody stops it":              {"print(drover.stopping())", "", nil, nil, "False\n", "", 0},
		"nothing is touched": {"h = (sys.excepthook, sys.stdout, sys.stderr)\nfor i in drover.items(): pass\ndrover.map(str)\ndrover.metric(a=1)\ndrover.stopping()\n" +
			"print(h == (sys.excepthook, sys.stdout, sys.stderr), os.listdir('.'))", "", nil, []string{"x"}, "x\nTrue []\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, status := alone(t, row.script, row.stdin, row.environ, row.args)
			if stdout != row.stdout || !strings.Contains(stderr, row.stderr) || row.stderr == "" && stderr != "" || status != row.status {
				t.Errorf("exit status %d\n%s%s\nwant %d\n%s%s", status, stdout, stderr, row.status, row.stdout, row.stderr)
			}
		})
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i) + "\n")
	}
	return b.String()
}

// The module is there in a run as it is in a map. A module of that name beside the
// script, or where the caller has Python look, comes first.
func TestARunFindsTheModule(t *testing.T) {
	t.Parallel()
	script := "import drover, sys\nprint(drover.__name__, hasattr(drover, 'metric'))\n"
	for name, row := range map[string]struct {
		files   map[string]string
		environ map[string]string
		want    string
	}{
		"ours":              {map[string]string{"train.py": script}, nil, "drover True\n"},
		"the script's own":  {map[string]string{"train.py": script, "drover.py": ""}, nil, "drover False\n"},
		"the caller's path": {map[string]string{"train.py": script + "import mine\n", "lib/mine.py": "print('mine')\n"}, map[string]string{"PYTHONPATH": "lib"}, "drover True\nmine\n"},
		"the caller's own":  {map[string]string{"train.py": script, "lib/drover.py": ""}, map[string]string{"PYTHONPATH": "lib"}, "drover False\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			j := p.submit(job.Spec{Program: "train.py", Env: row.environ}, row.files)
			p.run(j)
			if out := p.said(j, record.Stdout); out != row.want {
				t.Errorf("it printed %q and %q, want %q", out, p.said(j, record.Stderr), row.want)
			}
		})
	}
}

// A run inside a stream's program is none of its items.
func TestAProgramsSocketIsNotHandedDown(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.environ = append(p.environ, "DROVER_SOCK=/nowhere", "DROVER_METRICS=1")
	j := p.submit(job.Spec{Program: "a.py", Args: []string{"4"}}, map[string]string{"a.py": "import drover\nfor item in drover.items(): item.done(item.value * 2)\ndrover.metric(loss=1, **{'a b': True})\n"})
	p.run(j)
	if out := p.said(j, record.Stdout); out != "44\nloss=1 a_b=1\n" {
		t.Errorf("it printed %q and %q", out, p.said(j, record.Stderr))
	}
}

// A worker written for simple-sagemaker finds what it imports and what that reads; a
// command by its rules has the same as variables.
func TestWorkersOfSSMRunUnchanged(t *testing.T) {
	t.Parallel()
	python := `from worker_toolkit import worker_lib
c = worker_lib.WorkerConfig()
open(c.instance_state + "/seen", "w").close()
print(c.hps, c.num_nodes, c.host_rank, c.current_host, c.instance_state[-13:], c.job_name[:12], c.tensorboard_dir[-26:])
import os
os.rmdir(c.tensorboard_dir)
`
	for name, row := range map[string]struct {
		spec  job.Spec
		files map[string]string
		want  string
	}{
		"a worker": {job.Spec{Program: "worker.py", Args: []string{"x", "--lr", "0.1"}, Hyperparameters: map[string]string{"lr": "0.1"}}, map[string]string{"worker.py": python},
			"{'lr': '0.1'} 1 0 algo-1 /state/algo-1 demo-digits- /opt/ml/output/tensorboard\n"},
		"a command": {job.Spec{Verb: job.Shell, Program: `cd "$SSM_INSTANCE_STATE" && touch here && ls "$SSM_STATE"/*/* | grep -o "algo-1/here" && echo $SSM_NUM_NODES $SSM_HOST_RANK $SM_HPS`}, nil,
			"algo-1/here\n1 0 {}\n"},
		"without their rules": {job.Spec{Program: "worker.py", Args: []string{"x", "--lr", "0.1"}}, map[string]string{"worker.py": strings.Split(python, "import os")[0]},
			"{'lr': 0.1} 1 0 algo-1 /state/algo-1 demo-digits- /opt/ml/output/tensorboard\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			if name != "without their rules" {
				row.spec.Rules = job.SSM
			}
			j := p.submit(row.spec, row.files)
			p.run(j)
			if out := p.said(j, record.Stdout); out != row.want {
				t.Errorf("it printed %q and %q, want %q", out, p.said(j, record.Stderr), row.want)
			}
		})
	}
}
