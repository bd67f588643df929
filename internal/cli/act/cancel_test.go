package act

import (
	"testing"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/job"
)

func TestHowManyItemsAreLeftIsInWords(t *testing.T) {
	for running, want := range map[int][2]string{
		0: {"nothing runs, 9 are left", "nothing runs"},
		1: {"1 item runs to its end, 8 are left", "1 running item may finish"},
		8: {"8 items run to their end, 1 is left", "8 running items may finish"},
	} {
		s := drover.Status{MapStatus: &drover.MapStatus{Items: job.Tally{Items: 10, Succeeded: 1}, Running: running}}
		if got := summary.LastOnes(s); got != want[0] {
			t.Errorf("%d run: %q, want %q", running, got, want[0])
		}
		if got := drained(s); got != want[1] {
			t.Errorf("%d run: %q, want %q", running, got, want[1])
		}
	}
}
