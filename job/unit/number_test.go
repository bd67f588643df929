package unit_test

import (
	"math"
	"testing"

	"github.com/drover-run/drover/job/unit"
)

func TestLargeNumbersHaveCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 7: "7", -7: "-7", 999: "999", -999: "-999", 1000: "1,000", -1000: "-1,000", 12345: "12,345",
		100_000: "100,000", -100_000: "-100,000", 1_000_000: "1,000,000", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := unit.Comma(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
