package job

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

func TestANamedTargetIsItsTargetWithOptionsAndLimits(t *testing.T) {
	big := Target{On: "slurm/gpu", Args: []string{"--account=bio"}, Workers: 16, CPUs: 8, Memory: 64 << 30, GPUs: 4, Timeout: Duration(12 * time.Hour)}
	mine := map[string][]string{"slurm": {"--qos=low"}}
	s, err := big.Apply("big", Spec{Nodes: 16, On: "big", TargetArgs: mine})
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{Nodes: 16, On: "slurm/gpu", Timeout: big.Timeout, TargetArgs: map[string][]string{"slurm": {"--account=bio", "--qos=low"}}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	if len(mine["slurm"]) != 1 {
		t.Errorf("it changes the caller's options: %v", mine)
	}
	if s, _ := big.Apply("big", Spec{Timeout: Duration(time.Hour)}); s.Timeout != Duration(time.Hour) {
		t.Errorf("a time limit of its own becomes %s", s.Timeout)
	}
	for limit, s := range map[string]Spec{
		"--nodes 16": {Nodes: 17}, "--workers 16": {Verb: Map, Items: Items{Workers: 17}}, "--cpus 8": {Limits: Limits{CPUs: 9}},
		"--gpus 4": {GPUs: 5}, "--timeout 12h": {Timeout: big.Timeout + 1}, "--memory 64": {Limits: Limits{Memory: 65 << 30}},
	} {
		_, err := big.Apply("big", s)
		if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "place job on big: ") || !strings.Contains(fault.Hint(err), limit) {
			t.Errorf("%s: %v; hint %q", limit, err, fault.Hint(err))
		}
		if _, err := (Target{On: "slurm"}).Apply("free", s); err != nil {
			t.Errorf("without limits: %v", err)
		}
	}
}
