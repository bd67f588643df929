package job_test

import (
	"math"
	"testing"

	"github.com/drover-run/drover/job"
)

func TestLargeNumbersHaveCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 7: "7", -7: "-7", 999: "999", -999: "-999", 1000: "1,000", -1000: "-1,000", 12345: "12,345",
		100_000: "100,000", -100_000: "-100,000", 1_000_000: "1,000,000", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := job.Comma(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	tally := job.Tally{Items: 1_000_000, Succeeded: 980_000, Failed: 10_000, Quarantined: 1_000, Cancelled: 7}
	if got, want := tally.String(), "1,000,000 items: 980,000 succeeded, 10,000 failed, 1,000 quarantined, 7 cancelled, 8,993 open"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
