package contract_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/job"
)

var update = flag.Bool("update", false, "write the golden files anew")

// alone is one node that has a bit of everything.
func alone() contract.Facts {
	return contract.Facts{
		Job: "demo-digits-7fk2", ID: "7fk2abcdabcdabcd", Project: "demo", Task: "digits", Attempt: 1,
		Program: "train.py",
		Args: []string{
			"--epochs", "3", "--lr=.1", "--verbose", "--name", "two words", "--layers", "[1, 2]", "-x", "1", "--batch-size=64",
			"--none", "null", "--opt", `"adam"`, "--id", "007", "--text", "é <&>", "--sure", "True", "--ratio", "1.0", "--empty=",
		},
		Hosts: contract.Hosts(1), Region: "eu-west-1", Root: "/node", CPUs: 2,
		Inputs: map[string]string{"data": "/node/opt/ml/input/data/data", "my-data": "/node/opt/ml/input/data/my-data"},
		Env:    map[string]string{"MODE": "fast"},
	}
}

// second is rank 1 of two nodes that has little.
func second() contract.Facts {
	return contract.Facts{
		Job: "demo-digits-7fk2", Program: "train.py", Hosts: contract.Hosts(2), Rank: 1,
		Machine: "ml.g5.xlarge", Interface: "ens5", Root: "/node", CPUs: 2,
	}
}

// variables gives Environ by name, and refuses what is no environment.
func variables(t *testing.T, f contract.Facts) map[string]string {
	t.Helper()
	set := map[string]string{}
	last := ""
	for _, v := range f.Environ() {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name <= last || strings.ContainsRune(v, 0) {
			t.Fatalf("%q behind %q is not a sorted environment", v, last)
		}
		set[name], last = value, name
	}
	return set
}

// node is one of n nodes that know their peers; rank 0 is 10.0.0.1.
func node(rank, n int) contract.Facts {
	f := contract.Facts{
		Job: "demo-digits-7fk2", Program: "train.py", Hosts: contract.Hosts(n), Rank: rank,
		Machine: "ml.g5.xlarge", Interface: "ens5", Root: "/node", CPUs: 2,
	}
	for i := range n {
		f.Peers = append(f.Peers, contract.Peer{Address: fmt.Sprintf("10.0.0.%d", i+1), Port: 40001 + i})
	}
	return f
}

// golden compares with a file of testdata, and with -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: go test ./internal/contract -update (-want +got):\n%s", name, diff)
	}
}

// sight is all that user code sees, for people to read.
func sight(f contract.Facts) string {
	var b strings.Builder
	for _, v := range f.Environ() {
		b.WriteString(v + "\n")
	}
	files := f.Files()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		b.WriteString("\n" + path + "\n" + string(files[path]))
	}
	return b.String()
}

func TestWhatUserCodeSees(t *testing.T) {
	golden(t, "node-1-of-1", sight(alone()))
	golden(t, "node-2-of-2", sight(second()))
	golden(t, "node-3-of-3", sight(node(2, 3)))
}

// TestItIsWhatTheToolkitSays compares with what sagemaker-training 5.1.4 gave
// for the same three files, letter by letter.
func TestItIsWhatTheToolkitSays(t *testing.T) {
	launched := func(l job.Launcher, procs int) contract.Facts {
		f := node(1, 2)
		f.Launcher, f.Procs = l, procs
		return f
	}
	for _, row := range []struct {
		file  string
		facts contract.Facts
	}{
		{"toolkit-1", alone()}, {"toolkit-2", second()}, {"toolkit-2", node(1, 2)},
		{"toolkit-mpi", launched(job.MPI, 2)}, {"toolkit-tf", launched(job.TF, 1)},
		{"toolkit-torch", launched(job.Torch, 2)}, {"toolkit-torch", launched(job.TorchRun, 0)},
	} {
		var toolkit map[string]string
		decodeFile(t, row.file+".json", &toolkit)
		if len(toolkit) < 30 {
			t.Fatalf("%s holds %d variables", row.file, len(toolkit))
		}
		got := variables(t, row.facts)
		for name, want := range toolkit {
			if name == "SM_USER_ARGS" {
				continue // the toolkit makes them from hyperparameters, we have them as they were typed
			}
			if value, ok := got[name]; !ok || value != want {
				t.Errorf("%s: %s is\n%s\nwant\n%s", row.file, name, value, want)
			}
		}
	}
}

// decodeFile reads a JSON file of testdata.
func decodeFile(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestAShellCanSayEveryName(t *testing.T) {
	f := alone()
	f.Args = []string{"--batch-size", "64", "--learning-rate", "1", "--learning_rate", "2", "--opt.name", "sgd"}
	f.Inputs["a.b"], f.Inputs["RAW_X"], f.Inputs["raw-x"] = "/dot", "/underscore", "/dash"
	got := variables(t, f)
	for name, want := range map[string]string{
		"SM_HP_BATCH-SIZE": "64", "SM_HP_BATCH_SIZE": "64",
		"SM_HP_LEARNING-RATE": "1", "SM_HP_LEARNING_RATE": "2", // that spelling was meant
		"SM_CHANNEL_MY-DATA": f.Inputs["my-data"], "SM_CHANNEL_MY_DATA": f.Inputs["my-data"], "DROVER_INPUT_MY_DATA": f.Inputs["my-data"],
		"SM_HP_OPT.NAME": "sgd", "SM_CHANNEL_A.B": "/dot", "DROVER_INPUT_A_B": "/dot",
		"SM_CHANNEL_RAW-X": "/dash", "SM_CHANNEL_RAW_X": "/underscore", "DROVER_INPUT_RAW_X": "/underscore",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestTheUsersVariablesWin(t *testing.T) {
	for _, f := range everyKind() {
		for _, ours := range append(f.Environ(), f.Defaults()...) {
			name, _, _ := strings.Cut(ours, "=")
			f.Env[name] = "mine"
		}
		f.Env["OTHER"], f.Env["PYTHONUNBUFFERED"] = "a=b", ""
		if diff := cmp.Diff(f.Env, variables(t, f)); diff != "" {
			t.Errorf("%s (-the user's +got):\n%s", kind(f), diff)
		}
		if left := f.Defaults(); len(left) > 0 {
			t.Errorf("%s: %q are set though the user said otherwise", kind(f), left)
		}
	}
}

func TestWhatIsNotKnownIsNotSaid(t *testing.T) {
	got := variables(t, second())
	for _, name := range []string{"DROVER_JOB", "DROVER_PROJECT", "DROVER_TASK", "AWS_REGION"} {
		if value, ok := got[name]; ok {
			t.Errorf("%s is %q, and nobody said so", name, value)
		}
	}
	// A plain script that finds these believes it has peers to wait for.
	for _, name := range []string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "TF_CONFIG"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s is set", name)
		}
	}
}

func TestManyArgumentsDoNotKeepAProgramFromStarting(t *testing.T) {
	f := alone()
	for range 4000 {
		f.Args = append(f.Args, "/data/images/2024/01/01/image-000000000000.jpeg")
	}
	f.Args = append(f.Args, "--big", strings.Repeat("x", 127<<10), "--bigger", strings.Repeat("y", 127<<10))
	got := variables(t, f)
	for _, name := range []string{"SM_USER_ARGS", "SM_HPS", "SM_HP_BIG", "SM_TRAINING_ENV"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s is there, with %d bytes", name, len(got[name]))
		}
	}
	if got["SM_MODEL_DIR"] == "" {
		t.Error("SM_MODEL_DIR went with them")
	}
	var all map[string]string
	if err := json.Unmarshal(f.Files()["/node/opt/ml/input/config/hyperparameters.json"], &all); err != nil || len(all["bigger"]) != 127<<10 {
		t.Errorf("the file is not whole: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), self, "-test.run=^$")
	program.Env = f.Environ()
	if out, err := program.CombinedOutput(); err != nil {
		t.Errorf("a program in this environment: %v\n%s", err, out)
	}
}

func TestAVariableJustShortEnoughIsKept(t *testing.T) {
	f := second()
	const most = 128<<10 - 1
	for _, row := range []struct {
		length int
		kept   bool
	}{{most, true}, {most + 1, false}} {
		f.Program = strings.Repeat("p", row.length-len("SM_ENTRY_SCRIPT="))
		if _, ok := variables(t, f)["SM_ENTRY_SCRIPT"]; ok != row.kept {
			t.Errorf("with %d bytes it is kept: %v", row.length, ok)
		}
	}
}

func TestHostsAreSortedAndRankIsThePlace(t *testing.T) {
	for n, want := range map[int][]string{
		0: {}, 1: {"algo-1"}, 2: {"algo-1", "algo-2"},
		11: {"algo-1", "algo-10", "algo-11", "algo-2", "algo-3", "algo-4", "algo-5", "algo-6", "algo-7", "algo-8", "algo-9"},
	} {
		if diff := cmp.Diff(want, contract.Hosts(n)); diff != "" {
			t.Errorf("%d hosts (-want +got):\n%s", n, diff)
		}
	}
	f := second()
	f.Hosts = contract.Hosts(11)
	for f.Rank = range f.Hosts {
		var hosts []string
		got := variables(t, f)
		if err := json.Unmarshal([]byte(got["SM_HOSTS"]), &hosts); err != nil {
			t.Fatal(err)
		}
		slices.Sort(hosts)
		if place := slices.Index(hosts, got["SM_CURRENT_HOST"]); place != f.Rank {
			t.Errorf("rank %d finds itself in place %d", f.Rank, place)
		}
	}
}

// trainingJob is SageMaker's rule for TrainingJobName.
var trainingJob = regexp.MustCompile(`^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$`)

func TestJobNameIsOneSageMakerTakes(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, row := range []struct{ project, task, short, want string }{
		{"demo", "digits", "7fk2", "demo-digits-7fk2"},
		{long, long, "7fk2", long + "-" + long[:17] + "-7fk2"},
		{long, strings.Repeat("y-", 19) + "y", "7fk2", long + "-" + strings.Repeat("y-", 8) + "y-7fk2"},
		{long, strings.Repeat("y", 16) + "-y", "7fk2", long + "-" + strings.Repeat("y", 16) + "-7fk2"},
		{long, long, "7fk2abcdabcdabcd", long + "-xxxxx-7fk2abcdabcdabcd"},
	} {
		got := contract.JobName(row.project, row.task, row.short)
		if got != row.want || !trainingJob.MatchString(got) {
			t.Errorf("%s %s %s is job %q, want %q", row.project, row.task, row.short, got, row.want)
		}
	}
}

func TestPathsLieBelowTheRoot(t *testing.T) {
	for root, want := range map[string]string{"": "/", "/": "/", "/node/": "/node/", "/a/../b": "/b/", "node": "node/"} {
		for _, process := range []bool{false, true} {
			p := contract.Facts{Root: root, Process: process}.Paths()
			for _, got := range append(p.Folders(), p.Failure, p.Message) {
				if !strings.HasPrefix(got, want) || got != filepath.Clean(got) {
					t.Errorf("with root %q there is %q", root, got)
				}
			}
			if p.State != want+"state" || p.Message != want+"opt/ml/output/message" {
				t.Errorf("with root %q the state is %q and the message %q", root, p.State, p.Message)
			}
			if model := p.Model == want+"opt/ml/model"; model == process {
				t.Errorf("with root %q the model is %q, processing: %v", root, p.Model, process)
			}
		}
	}
}
