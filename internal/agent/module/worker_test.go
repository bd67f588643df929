package module_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/agent/module"
	"github.com/drover-run/drover/internal/contract"
)

var record = flag.Bool("record", false, "TestRealTheirOwnToolkit writes what their own toolkit gave")

// worker is one node of a job by simple-sagemaker's rules, and what it finds.
type worker struct {
	script  string
	args    []string
	rank    int
	nodes   int
	process bool
	hps     map[string]string
	environ map[string]string
	files   map[string]string // below the program's "/"
}

var inputs = map[string]string{
	"opt/ml/input/data/data/a b.txt":          "A",
	"opt/ml/input/data/persons/persons.json":  "[]",
	"opt/ml/input/data/persons/nested.txt":    "N",
	"opt/ml/processing/data/sample.txt":       "S",
	"opt/ml/processing/input/data/more/x.txt": "X",
}

// before is a state that three nodes have left.
var before = map[string]string{
	"state/algo-1/runs": "1", "state/algo-2/runs": "4", "state/algo-2/deep/er": "x", "state/algo-3/runs": "9",
	"state/algorithm/own": "kept", "state/common": "kept", "state/notes/n": "kept",
}

// workers are what version 0.9.24's own toolkit is asked, and ours.
var workers = map[string]worker{
	"first run":          {script: "config.py", hps: map[string]string{"task_type": "1", "lr": "0.1"}},
	"second of two":      {script: "config.py", rank: 1, nodes: 2, files: before},
	"tenth of twelve":    {script: "config.py", rank: 2, nodes: 12, files: before}, // hosts are sorted as text
	"no conveniences":    {script: "bare.py", files: before, nodes: 2},
	"a level":            {script: "config.py", environ: map[string]string{"SM_LOG_LEVEL": "10"}},
	"words win":          {script: "config.py", args: []string{"--num_gpus", "7", "--output-data-dir=/elsewhere", "--hosts", `["a", "algo-1"]`, "--lr", "-0.1"}},
	"packed words":       {script: "config.py", args: []string{"--lr", "1", "--external_hps", `"arg1 -arg2 --arg3 'argument 4'"`, "--z", "2"}},
	"packed and left":    {script: "bare.py", args: []string{"--external_hps", `"a b"`}},
	"a bad word":         {script: "config.py", args: []string{"--num_gpus", "many"}},
	"a bad variable":     {script: "config.py", environ: map[string]string{"SM_HOSTS": "algo-1"}},
	"a host of no job":   {script: "config.py", environ: map[string]string{"SM_CURRENT_HOST": "elsewhere"}},
	"letters":            {script: "config.py", hps: map[string]string{"text": "é \"q\" \\ <&>\n", "my-name": "", "list": "[1]", "flag": "true"}},
	"into a namespace":   {script: "namespace.py", args: []string{"--workers", "9"}, nodes: 2, rank: 1},
	"the article's":      {script: "article.py", rank: 1, nodes: 2, files: before, hps: map[string]string{"task_type": "1"}},
	"processing":         {script: "process.py", process: true, nodes: 2},
	"processing again":   {script: "process.py", process: true, nodes: 1, files: before},
	"a state elsewhere":  {script: "config.py", nodes: 1, environ: map[string]string{"SSM_STATE": "elsewhere/deep"}},
	"no variables":       {script: "config.py", environ: map[string]string{"SM_CHANNELS": "[]", "SM_HPS": "[]", "SM_MODEL_DIR": ""}},
	"a channel not here": {script: "config.py", environ: map[string]string{"SM_CHANNELS": `["data","gone"]`}},
}

// seen is what a worker has printed, logged and left.
type seen struct {
	Status int    `json:"status"`
	Stdout string `json:"stdout"`
	Log    string `json:"log"`
}

// facts are what the agent would say of w's job, below root.
func (w worker) facts(root string) contract.Facts {
	f := contract.Facts{
		Job: "ssm-ex-ex3-1-7fk2", Program: w.script, Args: w.args, Hosts: contract.Hosts(max(1, w.nodes)), Rank: w.rank,
		Root: root, CPUs: 2, SSM: true, Hyperparameters: w.hps, Env: w.environ, Process: w.process,
	}
	f.Inputs = map[string]string{"data": root + "/opt/ml/input/data/data", "persons": root + "/opt/ml/input/data/persons"}
	if w.process {
		f.Inputs = map[string]string{"data": root + "/opt/ml/processing/data", "more": root + "/opt/ml/processing/input/data/more"}
	}
	return f
}

// run runs w with the worker_toolkit in folder toolkit.
func (w worker) run(t *testing.T, toolkit string) seen {
	t.Helper()
	root := t.TempDir()
	f := w.facts(root)
	if err := f.Write(""); err != nil {
		t.Fatal(err)
	}
	for _, files := range []map[string]string{inputs, w.files} {
		for name, text := range files {
			put(t, filepath.Join(root, name), text)
		}
	}
	for _, script := range []string{w.script, "probe.py"} { // by their names alone, which are in what is recorded
		text, err := os.ReadFile(filepath.Join("testdata", "workers", script))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(f.Paths().Code, script), string(text))
	}
	c := exec.CommandContext(t.Context(), "python3", append([]string{"-B", w.script}, w.args...)...)
	c.Dir = f.Paths().Code
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "PYTHONPATH=" + toolkit, "COLUMNS=80", "LC_ALL=C.UTF-8"}, f.Environ()...)
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	s := seen{}
	if err := c.Run(); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		s.Status = exit.ExitCode()
	}
	s.Stdout, s.Log = strings.ReplaceAll(out.String(), root, ""), strings.ReplaceAll(log.String(), root, "")
	return s
}

var (
	namespace = regexp.MustCompile(`(?m)^(worker_toolkit.worker_lib INFO Worker config: Namespace\().*$`)
	traceback = regexp.MustCompile(`(?ms)^Traceback .*?^(\w)`)
	usage     = regexp.MustCompile(`(?ms)^usage: .*?^(\w)`)
	invalid   = regexp.MustCompile(`: invalid \S+ value`)
)

// plain is s without what depends on Python's version or on the lines of a toolkit:
// the order of fields in a log line, a traceback's lines, a usage, the name of what
// reads a field.
func (s seen) plain() seen {
	s.Log = namespace.ReplaceAllString(s.Log, "$1")
	s.Log = traceback.ReplaceAllString(s.Log, "$1")
	s.Log = usage.ReplaceAllString(s.Log, "$1")
	s.Log = invalid.ReplaceAllString(s.Log, ": invalid value")
	return s
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ours is a folder with what programs import.
func ours(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for range 2 { // a second time changes nothing
		if err := module.Lay(dir); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestWorkersSeeWhatTheirOwnToolkitGave compares with testdata/seen.json, which
// TestRealTheirOwnToolkit has written from simple-sagemaker 0.9.24.
func TestWorkersSeeWhatTheirOwnToolkitGave(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "seen.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]seen
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(workers)), slices.Sorted(maps.Keys(want))); diff != "" {
		t.Fatalf("other workers were recorded; run TestRealTheirOwnToolkit -record (-here +recorded):\n%s", diff)
	}
	toolkit := ours(t)
	for name, w := range workers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want[name], w.run(t, toolkit).plain()); diff != "" {
				t.Errorf("-theirs +ours:\n%s", diff)
			}
		})
	}
}

// What differs, on purpose; TestRealTheirOwnToolkit says that it does.
var better = map[string]struct {
	worker
	why     string
	theirs  string // is in what it printed or logged
	ours    string
	without string // is in theirs, and must not be in ours
}{
	"a hyperparameter that begins a field's name": {worker{script: "config.py", args: []string{"--model", "gpt2"}},
		"what is typed as --model is not a folder", `"model_dir": "gpt2"`, `"model_dir": "/opt/ml/model"`, "gpt2\","},
	"one that begins several": {worker{script: "config.py", args: []string{"--input", "x"}},
		"a program must not end for a name of its own", "ambiguous option: --input could match", `"input_dir": "/opt/ml/input"`, "ambiguous"},
	"help is the script's own": {worker{script: "config.py", args: []string{"--help", "me"}},
		"a script's own parser answers", "show this help message", `"--help",`, "show this help message"},
	"a state that nodes share": {worker{script: "config.py", nodes: 2, environ: map[string]string{"SSM_STATE": "shared"},
		files: map[string]string{"opt/ml/code/shared/algo-2/live": "x", "opt/ml/code/shared/algo-3/gone": "y"}},
		"another node works in its folder", `"state": {
  "algo-1/": null
 }`, `"algo-2/live": "x"`, `algo-3/gone`},
}

func TestWhatIsBetterThanTheirs(t *testing.T) {
	t.Parallel()
	toolkit := ours(t)
	for name, row := range better {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := row.run(t, toolkit)
			if s.Status != 0 || !strings.Contains(s.Stdout+s.Log, row.ours) || strings.Contains(s.Stdout, row.without) {
				t.Errorf("%s: status %d, want %q and not %q in\n%s%s", row.why, s.Status, row.ours, row.without, s.Stdout, s.Log)
			}
		})
	}
}

// earlier are workers for versions before 0.9.20, which had other names, and the
// version that they are compared with.
var earlier = map[string]worker{
	"0.9.14": {script: "functions.py", rank: 1, nodes: 2, args: []string{"--epochs", "3", "--use-cuda", "yes"}, hps: map[string]string{"epochs": "3"},
		files: map[string]string{"state/algo-1/runs": "1", "state/algo-2/runs": "4", "state/common": "kept"}},
	"0.9.19": {script: "marked.py", rank: 1, nodes: 2, files: map[string]string{"state/algo-1/__COMPLETED__": "other", "state/algo-2/__COMPLETED__": "before"}},
}

func TestWorkersForEarlierVersions(t *testing.T) {
	t.Parallel()
	toolkit := ours(t)
	for version, want := range map[string]string{
		"0.9.14": "algo-2/__COMPLETED__', 'ssm-ex-ex3-1-7fk2')",
		"0.9.19": "/state/algo-2\nssm-ex-ex3-1-7fk2\n['algo-2/', 'algo-2/__COMPLETED__']\n",
	} {
		if s := earlier[version].run(t, toolkit); s.Status != 0 || !strings.Contains(s.Stdout, want) {
			t.Errorf("%s: status %d, want %q in\n%s%s", version, s.Status, want, s.Stdout, s.Log)
		}
	}
}

// A user's own worker_toolkit stays: beside the script, before us on the path,
// or behind us, where packages are installed.
func TestAnotherToolkitComesFirst(t *testing.T) {
	t.Parallel()
	toolkit := ours(t)
	script := "from worker_toolkit import worker_lib\nprint(worker_lib.__doc__.split()[0])"
	for name, row := range map[string]struct {
		file string
		want string
	}{
		"none":            {"", "What\n"},
		"beside it":       {"code/worker_toolkit/worker_lib.py", "theirs\n"},
		"with an init":    {"code/worker_toolkit/__init__.py", "What\n"}, // and no worker_lib: it is another package
		"before":          {"before/worker_toolkit/worker_lib.py", "theirs\n"},
		"behind":          {"behind/worker_toolkit/worker_lib.py", "theirs\n"},
		"no module of it": {"behind/worker_toolkit/other.py", "What\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, filepath.Join(dir, "code", "worker.py"), script)
			if row.file != "" {
				put(t, filepath.Join(dir, row.file), `"""theirs"""`)
			}
			c := exec.CommandContext(t.Context(), "python3", "-B", filepath.Join(dir, "code", "worker.py"))
			c.Dir = dir
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYTHONPATH=" + strings.Join([]string{dir + "/before", toolkit, dir + "/behind"}, ":")}
			out, err := c.CombinedOutput()
			if name == "with an init" {
				if err == nil || !strings.Contains(string(out), "ImportError") {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if err != nil || string(out) != row.want {
				t.Errorf("%v: it printed %q, want %q", err, out, row.want)
			}
		})
	}
}

// A module for Python 3.6 has the grammar of 3.6, whatever runs the tests.
func TestTheToolkitIsPython36(t *testing.T) {
	t.Parallel()
	dir := ours(t)
	c := exec.CommandContext(t.Context(), "python3", "-B", "-c",
		"import ast, sys\nold = {'feature_version': (3, 6)} if sys.version_info >= (3, 8) else {}\n"+
			"for p in sys.argv[1:]: ast.parse(open(p, encoding='ascii').read(), p, **old)",
		dir+"/worker_toolkit/__init__.py", dir+"/worker_toolkit/worker_lib.py")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// download fetches a version of simple-sagemaker from the package index, and gives
// the folder that its toolkit is in.
func download(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, line := range [][]string{
		{"-m", "pip", "download", "-q", "--no-deps", "-d", dir, "simple-sagemaker==" + version},
		{"-m", "zipfile", "-e", filepath.Join(dir, "simple_sagemaker-"+version+"-py3-none-any.whl"), dir},
	} {
		if out, err := exec.CommandContext(t.Context(), "python3", line...).CombinedOutput(); err != nil {
			t.Fatalf("python3 %s: %v: %s", strings.Join(line, " "), err, out)
		}
	}
	lib := filepath.Join(dir, "simple_sagemaker", "worker_toolkit", "worker_lib.py")
	text, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	if version != "0.9.24" { // older ones know no other place: it must not be this machine's
		put(t, lib, strings.ReplaceAll(string(text), `"/state"`, `os.environ["SSM_STATE"]`))
	}
	return filepath.Join(dir, "simple_sagemaker")
}

// TestRealTheirOwnToolkit runs each worker with simple-sagemaker's own toolkit and
// with ours under the same environment: they print, log and leave the same. The
// recording and the list of what is better are proved with it.
func TestRealTheirOwnToolkit(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it: it downloads simple-sagemaker")
	}
	here, theirs := ours(t), download(t, "0.9.24")
	recorded := map[string]seen{}
	for name, w := range workers {
		got := w.run(t, theirs)
		recorded[name] = got.plain()
		mine := w.run(t, here)
		if got.Status != 0 { // a traceback has its own lines, a usage what can be said
			got, mine = got.plain(), mine.plain()
		}
		if diff := cmp.Diff(got, mine); diff != "" {
			t.Errorf("%s (-theirs +ours):\n%s", name, diff)
		}
	}
	for name, row := range better {
		if s := row.run(t, theirs); !strings.Contains(s.Stdout+s.Log, row.theirs) {
			t.Errorf("%s: theirs does not do what is said of it: %q is not in\n%s%s", name, row.theirs, s.Stdout, s.Log)
		}
	}
	for version, w := range earlier {
		if diff := cmp.Diff(w.run(t, download(t, version)).Stdout, w.run(t, here).Stdout); diff != "" {
			t.Errorf("version %s (-theirs +ours):\n%s", version, diff)
		}
	}
	path := filepath.Join("testdata", "seen.json")
	data, err := json.MarshalIndent(recorded, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if *record {
		if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != string(data)+"\n" {
		t.Errorf("%s is not what their own toolkit gives (%v): -record writes it anew", path, err)
	}
}
