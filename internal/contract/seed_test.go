package contract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/job"
)

// processor is one node of a processing job of simple-sagemaker.
func processor() contract.Facts {
	f := processing(0, 1)
	f.SSM, f.Results, f.Entrypoint = true, nil, []string{"python3", "-u"}
	f.Inputs = map[string]string{"data": "/node/opt/ml/processing/data", "ex3_1_state": "/node/opt/ml/processing/input/data/ex3_1_state"}
	return f
}

func TestItsFoldersAreThere(t *testing.T) {
	for _, row := range []struct {
		facts contract.Facts
		want  []string
	}{
		{worker(1, 2), []string{"/node/state", "/node/opt/ml/output/tensorboard"}},
		{processor(), []string{"/node/opt/ml/processing/state", "/node/opt/ml/processing/output"}},
	} {
		folders := row.facts.Paths().Folders()
		for _, want := range row.want {
			if !slices.Contains(folders, want) {
				t.Errorf("%s is not among %q", want, folders)
			}
		}
	}
	if f := processor(); slices.Contains(f.Paths().Folders(), f.Paths().Before) || f.Paths().Before != "/node/opt/ml/processing/state_prev" {
		t.Errorf("what the state was before is %q, and there without one", f.Paths().Before)
	}
	plain := contract.Facts{SSM: true, Root: "/node"}.Paths() // it is not known yet which node it is
	if plain.Instance != "" || slices.Contains(plain.Folders(), "") {
		t.Errorf("%+v", plain)
	}
}

func TestNothingOfTheSeedPointsOutsideTheRoot(t *testing.T) {
	for _, f := range []contract.Facts{worker(1, 2), processor()} {
		for name, value := range variables(t, f) {
			if name != "SM_CHANNELS" && strings.Count(value, "/opt/ml") != strings.Count(value, "/node/opt/ml") {
				t.Errorf("%s leaves the root: %s", name, value)
			}
		}
	}
}

func TestWhoseFolderItIs(t *testing.T) {
	for name, want := range map[string]bool{"algo-1": true, "algo-12": true, "algo-0": false, "algo-01": false, "algo-": false, "algo-x": false,
		"algo-+1": false, "beta-1": false, "algo-1/x": false, "": false} {
		if contract.IsHost(name) != want {
			t.Errorf("%q is one: %v", name, !want)
		}
	}
	for _, name := range contract.Own(12) {
		if !contract.IsHost(name) {
			t.Errorf("%q is none", name)
		}
	}
	if job.ProcessingState != "/opt/ml/processing/state" {
		t.Errorf("the state is at %s", job.ProcessingState)
	}
}
