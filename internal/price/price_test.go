package price_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/report"
)

func TestMoneySaysTwoDigitsThatCount(t *testing.T) {
	for m, want := range map[report.Dollars]string{0: "$0", 12.4: "$12.40", 0.0105: "$0.01", 0.00995: "$0.01", 0.0099: "$0.0099", 0.00032: "$0.00032",
		0.0003: "$0.0003", 0.0000004: "$0.0000004", 1234.5: "$1234.50", -0.5: "-$0.50"} {
		if got := m.String(); got != want {
			t.Errorf("%v is %q, want %q", float64(m), got, want)
		}
	}
}

func TestRequestsComeToWhatTheMakersExampleSays(t *testing.T) {
	// Google's own example: 10,000 of class A are $0.05, 50,000 of class B $0.02.
	g := price.GCS()
	for _, got := range []report.Dollars{g.Requests(10_000, 0, 50_000), g.Requests(0, 10_000, 50_000)} {
		if math.Abs(float64(got)-0.07) > 1e-9 {
			t.Errorf("they come to %v, want $0.07", got)
		}
	}
	if got := price.S3().Requests(1_000_000, 0, 10_000_000); math.Abs(float64(got)-9) > 1e-9 {
		t.Errorf("a million writes and ten million reads come to %v, want $9", got)
	}
}

func TestEachPriceSaysWhereItIsFrom(t *testing.T) {
	for url, name := range map[string]string{"s3://bucket/prefix": "S3", "gs://bucket": "GCS"} {
		s, ok := price.Of(url)
		if !ok || s.Name != name || s.Region == "" || !strings.HasPrefix(s.Source, "https://") {
			t.Errorf("%s: %+v, %v", url, s, ok)
		}
		if _, err := time.Parse(time.DateOnly, s.Day); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"/data/drover", "", "s3", "s3:bucket", "azure://x"} {
		if s, ok := price.Of(url); ok {
			t.Errorf("%q costs as %s", url, s.Name)
		}
	}
}
