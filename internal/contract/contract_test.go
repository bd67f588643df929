package contract_test

import (
	"encoding/json"
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

	"github.com/drover-run/drover/internal/contract"
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
			t.Fatalf("%q behind %q is no sorted environment", v, last)
		}
		set[name], last = value, name
	}
	return set
}

func TestWhatUserCodeSees(t *testing.T) {
	for name, f := range map[string]contract.Facts{"node-1-of-1": alone(), "node-2-of-2": second()} {
		var b strings.Builder
		for _, v := range f.Environ() {
			b.WriteString(v + "\n")
		}
		files := f.Files()
		for _, path := range slices.Sorted(maps.Keys(files)) {
			b.WriteString("\n" + path + "\n" + string(files[path]))
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s: go test ./internal/contract -update (-want +got):\n%s", name, diff)
		}
	}
}

// TestItIsWhatTheToolkitSays compares with what sagemaker-training 5.1.4 gave
// for the same three files, letter by letter.
func TestItIsWhatTheToolkitSays(t *testing.T) {
	for file, f := range map[string]contract.Facts{"toolkit-1.json": alone(), "toolkit-2.json": second()} {
		b, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var toolkit map[string]string
		if err := json.Unmarshal(b, &toolkit); err != nil {
			t.Fatal(err)
		}
		if len(toolkit) < 30 {
			t.Fatalf("%s holds %d variables", file, len(toolkit))
		}
		got := variables(t, f)
		for name, want := range toolkit {
			if name == "SM_USER_ARGS" {
				continue // the toolkit makes them from hyperparameters, we have them as they were typed
			}
			if value, ok := got[name]; !ok || value != want {
				t.Errorf("%s: %s is\n%s\nwant\n%s", file, name, value, want)
			}
		}
	}
}

func TestTheTwoWaysToReadHyperparametersAgree(t *testing.T) {
	f := alone()
	var text map[string]string
	if err := json.Unmarshal(f.Files()["/node/opt/ml/input/config/hyperparameters.json"], &text); err != nil {
		t.Fatal(err)
	}
	want := contract.Hyperparameters(f.Args)
	if len(text) != len(want) {
		t.Fatalf("%d in the file, %d decoded", len(text), len(want))
	}
	for name, value := range text {
		// As the toolkit does: JSON if it is some.
		decoded := contract.Hyperparameters([]string{"--" + name + "=" + value})
		if diff := cmp.Diff(want[name], decoded[name]); diff != "" {
			t.Errorf("%s (-decoded +from the file):\n%s", name, diff)
		}
	}
}

func TestHyperparametersAreReadFromArguments(t *testing.T) {
	n := func(text string) any { return json.Number(text) }
	for _, row := range []struct {
		args []string
		want map[string]any
	}{
		{nil, map[string]any{}},
		{[]string{"--epochs", "3"}, map[string]any{"epochs": n("3")}},
		{[]string{"--lr=.1"}, map[string]any{"lr": ".1"}}, // no JSON: the toolkit keeps the text too
		{[]string{"--lr=0.10"}, map[string]any{"lr": n("0.10")}},
		{[]string{"-x", "1"}, map[string]any{"x": n("1")}},
		{[]string{"--flag"}, map[string]any{"flag": true}},
		{[]string{"--flag", "--other", "-v"}, map[string]any{"flag": true, "other": true, "v": true}},
		{[]string{"--lr", "-1e-3", "--shift", "-.5"}, map[string]any{"lr": n("-1e-3"), "shift": "-.5"}},
		{[]string{"--a=b=c", "--d="}, map[string]any{"a": "b=c", "d": ""}},
		{[]string{"in.csv", "--k", "5", "out.csv", "-"}, map[string]any{"k": n("5")}},
		{[]string{"--k", "1", "--k", "2"}, map[string]any{"k": n("2")}},
		{[]string{"--k", "--", "--l", "1"}, map[string]any{"k": true}},
		{[]string{"-1", "-.5", "---", "--=x", "--1x", "-é", "- a", "--a b=1"}, map[string]any{}},
		{[]string{"--opt.name", "adam", "--batch-size=64"}, map[string]any{"opt.name": "adam", "batch-size": n("64")}},
		{[]string{"--l", "[1, \"a\"]", "--d", `{"b": null}`}, map[string]any{"l": []any{n("1"), "a"}, "d": map[string]any{"b": nil}}},
		{[]string{"--a", "null", "--b", "true", "--c", "True", "--d", "1 2", "--e", `"q"`, "--f", "007"},
			map[string]any{"a": nil, "b": true, "c": "True", "d": "1 2", "e": "q", "f": "007"}},
		{[]string{"--a", `"\u0000"`}, map[string]any{"a": `"\u0000"`}},
		{[]string{"--a", " 3 "}, map[string]any{"a": n("3")}},
	} {
		if diff := cmp.Diff(row.want, contract.Hyperparameters(row.args)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", row.args, diff)
		}
	}
}

func TestAShellCanSayEveryName(t *testing.T) {
	f := alone()
	f.Args = []string{"--batch-size", "64", "--learning-rate", "1", "--learning_rate", "2"}
	got := variables(t, f)
	for name, want := range map[string]string{
		"SM_HP_BATCH-SIZE": "64", "SM_HP_BATCH_SIZE": "64",
		"SM_HP_LEARNING-RATE": "1", "SM_HP_LEARNING_RATE": "2", // who spelt it so meant it
		"SM_CHANNEL_MY-DATA": f.Inputs["my-data"], "SM_CHANNEL_MY_DATA": f.Inputs["my-data"], "DROVER_INPUT_MY_DATA": f.Inputs["my-data"],
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestTheUsersVariablesWin(t *testing.T) {
	f := alone()
	f.Env = map[string]string{"PYTHONUNBUFFERED": "", "SM_MODEL_DIR": "/mine", "OTHER": "a=b"}
	got := variables(t, f)
	for name, want := range f.Env {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
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
		p := contract.Facts{Root: root}.Paths()
		for _, got := range append(p.Folders(), p.Failure) {
			if !strings.HasPrefix(got, want) || got != filepath.Clean(got) {
				t.Errorf("with root %q there is %q", root, got)
			}
		}
		if p.Model != want+"opt/ml/model" || p.State != want+"state" {
			t.Errorf("with root %q the model is %q and the state %q", root, p.Model, p.State)
		}
	}
}

func TestWriteMakesWhatFilesAndPathsSay(t *testing.T) {
	f := alone()
	f.Root = t.TempDir()
	for range 2 { // a second time changes nothing
		if err := f.Write(); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range f.Paths().Folders() {
		if s, err := os.Stat(folder); err != nil || !s.IsDir() {
			t.Errorf("%s is no folder: %v", folder, err)
		}
	}
	for path, want := range f.Files() {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != string(want) || !json.Valid(got) {
			t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
		}
	}
	for _, absent := range []string{f.Paths().Failure, filepath.Join(f.Paths().Output, "intermediate")} {
		if _, err := os.Lstat(absent); !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", absent, err)
		}
	}
}

func TestWriteSaysWhereItStopped(t *testing.T) {
	f := alone()
	f.Root = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(f.Root, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(); err == nil || !strings.HasPrefix(err.Error(), "write contract: mkdir "+f.Root) {
		t.Errorf("text is %v", err)
	}
}

// FuzzEnviron: whatever a script is given, it can be started and reads JSON.
func FuzzEnviron(f *testing.F) {
	for _, args := range []string{"--epochs\n3", "--a=\"\\u0000\"", "-\xff\n--\xff=\xfe", "--a\n[[1e999, \"🚀\u2028\"]]", "--a-b=1\n--a_b=2", "--A\n1\n--a\n2"} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		if strings.ContainsRune(lines, 0) || len(lines) > 4096 {
			return // Normal refuses a NUL
		}
		facts := alone()
		facts.Args = strings.Split(lines, "\n")
		got := variables(t, facts)
		for name, value := range got {
			whole := name == "SM_HPS" || name == "SM_USER_ARGS" || name == "SM_TRAINING_ENV"
			if whole && (!json.Valid([]byte(value)) || strings.ContainsFunc(value, func(r rune) bool { return r >= 0x80 })) {
				t.Fatalf("%s is %q", name, value)
			}
		}
		for path, b := range facts.Files() {
			if !json.Valid(b) {
				t.Fatalf("%s is %q", path, b)
			}
		}
		var text map[string]string
		if err := json.Unmarshal(facts.Files()["/node/opt/ml/input/config/hyperparameters.json"], &text); err != nil {
			t.Fatal(err)
		}
		if len(text) != len(contract.Hyperparameters(facts.Args)) {
			t.Fatalf("%d in the file, %d decoded", len(text), len(contract.Hyperparameters(facts.Args)))
		}
	})
}
