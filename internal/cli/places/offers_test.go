package places

import (
	"testing"

	"github.com/drover-run/drover/drover"
)

func TestAPriceOfSpotCapacityStandsBesideThatOfOnDemand(t *testing.T) {
	for want, p := range map[string]*drover.Price{
		"-":                     nil,
		"1.006 USD":             {OnDemand: 1.006, Currency: "USD"},
		"1.006 USD (spot 0.41)": {OnDemand: 1.006, Spot: 0.41, Currency: "USD"},
		"0.41 USD (spot)":       {Spot: 0.41, Currency: "USD"},
	} {
		if got := price(drover.Choice{Price: p}); got != want {
			t.Errorf("%+v is %q, want %q", p, got, want)
		}
	}
}
