package contract_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/job"
)

// processing is one of n nodes of a processing job.
func processing(rank, n int) contract.Facts {
	f := node(rank, n)
	f.Process, f.Region, f.ID, f.Program, f.Args = true, "eu-west-1", "7fk2abcdabcdabcd", "clean.py", []string{"--ratio", "0.2", "é"}
	f.Job = "Demo-digits-7fk2"
	f.Inputs = map[string]string{"raw": "/node/opt/ml/processing/input/raw", "my-lookup": "/node/opt/ml/processing/tables/deep/lookup"}
	f.Results = []job.Result{{Name: "train", From: "/opt/ml/processing/train"}, {Name: "test", From: "/opt/ml/processing/out/test"}}
	f.Env = map[string]string{"MODE": "fast"}
	return f
}

// everyKind is each launcher on 1 and 3 nodes, in both contracts, with and
// without a root.
func everyKind() (all []contract.Facts) {
	for _, launcher := range append(slices.Clone(job.Launchers), job.Alone) {
		if launcher == "none" {
			continue // a spec's normal form says Alone
		}
		for _, nodes := range []int{1, 3} {
			for _, root := range []string{"", "/a root"} {
				training, process := node(nodes-1, nodes), processing(nodes-1, nodes)
				training.Inputs = map[string]string{"data": "/node/opt/ml/input/data/data", "my.data": "/node/opt/ml/input/data/my.data"}
				training.Args = []string{"--lr", "1e-3"}
				for procs, f := range []contract.Facts{training, training, training, process, process, process} {
					f = moved(f, root)
					f.Launcher, f.Procs, f.Pinned, f.Env = launcher, procs%3, "0,1", map[string]string{}
					all = append(all, f)
				}
			}
		}
	}
	return all
}

func kind(f contract.Facts) string {
	return fmt.Sprintf("launcher %q, %d nodes, %d processes, processing %v, root %q", f.Launcher, len(f.Hosts), f.Procs, f.Process, f.Root)
}

func TestWhatAProcessingJobSees(t *testing.T) {
	golden(t, "process-1-of-1", sight(processing(0, 1)))
	golden(t, "process-2-of-2", sight(processing(1, 2)))
	bare := contract.Facts{Job: "demo-clean-7fk2", Program: "clean.py", Hosts: contract.Hosts(1), Process: true}
	golden(t, "process-bare", sight(bare))
}

func TestAProcessingJobHasNothingOfTraining(t *testing.T) {
	for _, f := range everyKind() {
		if !f.Process {
			continue
		}
		for name := range variables(t, f) {
			if strings.HasPrefix(name, "SM_") || name == "TRAINING_JOB_NAME" || name == "DROVER_MODEL_DIR" {
				t.Errorf("%s: %s is set", kind(f), name)
			}
		}
		for path := range f.Files() {
			if strings.Contains(path, "/opt/ml/input/") || strings.HasSuffix(path, "hyperparameters.json") {
				t.Errorf("%s: there is %s", kind(f), path)
			}
		}
		if f.Paths().Model != "" || slices.Contains(f.Paths().Folders(), "") {
			t.Errorf("%s: the model is %q, the folders %q", kind(f), f.Paths().Model, f.Paths().Folders())
		}
	}
}

func TestBothContractsHaveWhatIsOurs(t *testing.T) {
	for _, f := range everyKind() {
		p, got := f.Paths(), variables(t, f)
		want := map[string]string{
			"DROVER_RANK": fmt.Sprint(f.Rank), "DROVER_NODES": fmt.Sprint(len(f.Hosts)), "DROVER_ATTEMPT": "0",
			"DROVER_CODE_DIR": p.Code, "DROVER_OUTPUT_DIR": p.OutputData, "DROVER_CHECKPOINT_DIR": p.Checkpoints,
			"DROVER_STATE_DIR": p.State, "DROVER_FAILURE_FILE": p.Failure, "DROVER_MESSAGE_FILE": p.Message,
			"PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		}
		for name, folder := range f.Inputs {
			want["DROVER_INPUT_"+strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(name))] = folder
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %q, want %q", kind(f), name, got[name], value)
			}
		}
	}
}

func TestNothingPointsOutsideTheRoot(t *testing.T) {
	for _, f := range everyKind() {
		if f.Root == "" {
			continue // all is below it
		}
		for name, value := range variables(t, f) {
			belowRoot(t, f, name, value)
		}
		for path, b := range f.Files() {
			belowRoot(t, f, "a file", path)
			belowRoot(t, f, path, string(b))
		}
	}
}

// belowRoot looks at a value, and at every text in it if it is JSON.
func belowRoot(t *testing.T, f contract.Facts, where, value string) {
	t.Helper()
	for _, top := range []string{"/opt/ml", "/state"} {
		if strings.Count(value, top) != strings.Count(value, f.Root+top) {
			t.Errorf("%s: %s leaves the root: %s", kind(f), where, value)
		}
	}
	var document any
	if json.Unmarshal([]byte(value), &document) != nil {
		document = value
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.HasPrefix(v, "/") && !strings.HasPrefix(v, f.Root+"/") {
				t.Errorf("%s: %s points to %s", kind(f), where, v)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		case map[string]any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(document)
}

func TestFoldersOfAProcessingJobAreThereAtTheStart(t *testing.T) {
	f := processing(0, 1)
	f.Inputs["elsewhere"] = "/home/someone/data" // was there before us, and is not ours to make
	want := []string{
		"/node/opt/ml/checkpoints", "/node/opt/ml/config", "/node/opt/ml/output",
		"/node/opt/ml/processing/input", "/node/opt/ml/processing/input/code", "/node/opt/ml/processing/out/test",
		"/node/opt/ml/processing/tables/deep", "/node/opt/ml/processing/train", "/node/state",
	}
	p := f.Paths()
	if diff := cmp.Diff(want, p.Folders()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/node/opt/ml/processing/train", "/node/opt/ml/processing/out/test"}, p.Results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if p.OutputData != p.Results[0] {
		t.Errorf("output is %q, want the first result's folder", p.OutputData)
	}
	f.Results = nil
	if p := f.Paths(); p.OutputData != "/node/opt/ml/processing/output" || len(p.Results) != 1 {
		t.Errorf("without results the output is %q", p.OutputData)
	}
}

func TestFoldersComeOuterOnesFirst(t *testing.T) {
	for _, f := range everyKind() {
		seen := map[string]bool{}
		for _, folder := range f.Paths().Folders() {
			for earlier := range seen {
				if strings.HasPrefix(earlier, folder+"/") || earlier == folder {
					t.Errorf("%s: %s comes behind %s", kind(f), folder, earlier)
				}
			}
			seen[folder] = true
		}
	}
}
