package main

import (
	"strings"
	"testing"
	"time"
)

func TestAForecastThatIsFarOffBreaksItsClaim(t *testing.T) {
	t.Parallel()
	h := standInHall(t, "maps")
	report, broken, err := forecasts(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if len(broken) != len(pilots) || strings.Count(report, "DOES NOT HOLD") != len(pilots) {
		t.Errorf("of items that are foretold 1000 s and take none: %q\n%s", broken, report)
	}
	told, took, err := h.timeForecast(t.Context(), pilots[0], 40)
	if err != nil || told != 1000*time.Second || took >= told {
		t.Errorf("foretold %s, took %s: %v", told, took, err)
	}
	h.options.items = 20
	if report, broken, err := forecasts(t.Context(), h); err != nil || len(broken) > 0 || strings.Count(report, "not measured") != len(pilots) {
		t.Errorf("of 20 items: %q, %v\n%s", broken, err, report)
	}
}
