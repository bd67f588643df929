package start

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

func TestThePlanSaysWhatIsAskedOfMachines(t *testing.T) {
	p := &drover.Plan{}
	p.Spec.Machine, p.Spec.Where, p.Spec.Spot = "g5.xlarge,g6.*", "cpus >= 4", job.SpotFirst
	p.Spec.TargetArgs = map[string][]string{job.AnyTarget: {"account=bio", "exclusive"}}
	want := []string{"machine  g5.xlarge,g6.*", "where    cpus >= 4", "spot     first, then on-demand", "options  account=bio exclusive"}
	if diff := cmp.Diff(want, placementLines(p)); diff != "" {
		t.Error(diff)
	}
}
