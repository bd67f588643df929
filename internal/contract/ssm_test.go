package contract_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/contract"
)

// worker is one of n nodes of a job by simple-sagemaker's rules.
func worker(rank, n int) contract.Facts {
	f := node(rank, n)
	f.SSM, f.Program = true, "worker.py"
	f.Args = []string{"arg1", "-arg2", "--arg3", "argument 4", "--lr", "0.1", "--task_type", "1"}
	f.Hyperparameters = map[string]string{"lr": "0.1", "task_type": "1"}
	f.Inputs = map[string]string{"data": "/node/opt/ml/input/data/data", "persons": "/node/opt/ml/input/data/persons"}
	f.Shards = map[string]bool{"data": true}
	return f
}

func TestWhatAJobBySSMsRulesSees(t *testing.T) {
	golden(t, "ssm-2-of-2", sight(worker(1, 2)))
	process := processing(0, 1)
	process.SSM, process.Results = true, nil
	process.Inputs = map[string]string{"data": "/node/opt/ml/processing/data", "my-lookup": "/node/opt/ml/processing/input/data/my-lookup"}
	golden(t, "ssm-process", sight(process))
}

// What drover's own rules give is not touched: simple-sagemaker's adds, and the
// hyperparameters alone are other ones.
func TestSSMsRulesOnlyAdd(t *testing.T) {
	for _, f := range []contract.Facts{alone(), second(), processing(1, 2)} {
		own := variables(t, f)
		f.SSM, f.Hyperparameters = true, map[string]string{}
		for name, value := range contract.Hyperparameters(f.Args) {
			text, _ := value.(string)
			f.Hyperparameters[name] = text
		}
		theirs := variables(t, f)
		for name, value := range own {
			if strings.HasPrefix(name, "SM_HP") || name == "SM_TRAINING_ENV" || name == "DROVER_STATE_DIR" && f.Process {
				continue
			}
			if got, ok := theirs[name]; !ok || got != value {
				t.Errorf("%s is %q under ssm's rules, and %q without", name, got, value)
			}
		}
		if theirs["SSM_STATE"] != f.Paths().State || theirs["SSM_NUM_NODES"] != theirs["DROVER_NODES"] {
			t.Errorf("SSM_STATE=%s SSM_NUM_NODES=%s", theirs["SSM_STATE"], theirs["SSM_NUM_NODES"])
		}
	}
}

// Given text stays text, wherever a program looks for it and however it decodes it.
func TestGivenHyperparametersStayText(t *testing.T) {
	given := map[string]string{
		"lr": "0.1", "n": "10", "flag": "true", "none": "null", "list": "[1, 2]", "quoted": `"adam"`, "empty": "",
		"text": "two words", "slash": `a\b"c`, "letters": "é\t<&>\U0001F411", "my-name": "007", "line": "a\nb",
	}
	for _, ssm := range []bool{false, true} {
		f := alone() // its arguments say something else
		f.SSM, f.Hyperparameters = ssm, given
		set := variables(t, f)
		var all map[string]any
		if err := json.Unmarshal([]byte(set["SM_HPS"]), &all); err != nil {
			t.Fatal(err)
		}
		var trainingEnv struct{ Hyperparameters map[string]any }
		if err := json.Unmarshal([]byte(set["SM_TRAINING_ENV"]), &trainingEnv); err != nil {
			t.Fatal(err)
		}
		var file map[string]string
		if err := json.Unmarshal(f.Files()["/node/opt/ml/input/config/hyperparameters.json"], &file); err != nil {
			t.Fatal(err)
		}
		if len(all) != len(given) || len(file) != len(given) || len(trainingEnv.Hyperparameters) != len(given) {
			t.Errorf("%d in SM_HPS, %d in the file, %d in SM_TRAINING_ENV, want %d", len(all), len(file), len(trainingEnv.Hyperparameters), len(given))
		}
		for name, want := range given {
			var decoded string
			if err := json.Unmarshal([]byte(file[name]), &decoded); err != nil {
				t.Errorf("%s: the file's %q: %v", name, file[name], err)
			}
			variable := set["SM_HP_"+strings.ToUpper(name)]
			if all[name] != any(want) || trainingEnv.Hyperparameters[name] != any(want) || decoded != want || variable != want {
				t.Errorf("%s: SM_HPS %v, the file %q, SM_HP_ %q, SM_TRAINING_ENV %v, want %q", name, all[name], decoded, variable, trainingEnv.Hyperparameters[name], want)
			}
		}
	}
}

// What no variable can carry is in SM_HPS alone, and what is behind "--" is no
// hyperparameter by these rules.
func TestHyperparametersThatNoVariableCanCarry(t *testing.T) {
	f := worker(0, 1)
	f.Hyperparameters = map[string]string{"nul": "a\x00b", "a=b": "c"}
	set := variables(t, f)
	if want := `{"a=b":"c","nul":"a\u0000b"}`; set["SM_HPS"] != want {
		t.Errorf("SM_HPS is %s, want %s", set["SM_HPS"], want)
	}
	for name := range set {
		if strings.HasPrefix(name, "SM_HP_") {
			t.Errorf("%s=%q", name, set[name])
		}
	}
	f.Hyperparameters = nil
	if got := variables(t, f)["SM_HPS"]; got != "{}" {
		t.Errorf("without hyperparameters SM_HPS is %s", got)
	}
}

func TestWriteMakesWhatSSMsJobsFind(t *testing.T) {
	for program, want := range map[string][]string{
		"worker.py":  nil, // which makes it when it loads worker_toolkit
		"run.sh":     {"algo-2"},
		"uname && w": {"algo-2"},
	} {
		root := t.TempDir()
		f := worker(1, 2)
		f.Program = program
		f = moved(f, root)
		if err := f.Write(""); err != nil {
			t.Fatal(err)
		}
		var got []string
		there, err := os.ReadDir(f.Paths().State)
		for _, entry := range there {
			got = append(got, entry.Name())
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: the state (-want +got; %v):\n%s", program, err, diff)
		}
		set := variables(t, f)
		if s, err := os.Stat(set["SSM_TENSORBOARD_DIR"]); err != nil || !s.IsDir() {
			t.Errorf("%s: SSM_TENSORBOARD_DIR: %v", program, err)
		}
		if want := filepath.Join(root, "state", "algo-2"); set["SSM_INSTANCE_STATE"] != want {
			t.Errorf("SSM_INSTANCE_STATE is %s, want %s", set["SSM_INSTANCE_STATE"], want)
		}
	}
}
