package driver_test

import (
	"testing"

	"github.com/drover-run/drover/driver"
)

func TestAPriceNamesItsSourceAndItsDay(t *testing.T) {
	whole := driver.Price{OnDemand: 1.006, Spot: 0.41021, Currency: "USD", Source: "price list, eu-central-1", Day: "2026-11-23"}
	for want, p := range map[string]driver.Price{
		"": {},
		"1.006 USD an hour on-demand, 0.4102 as spot (price list, eu-central-1, 2026-11-23)": whole,
		"1.006 USD an hour on-demand (price list, 2026-11-23)":                               {OnDemand: 1.006, Currency: "USD", Source: "price list", Day: "2026-11-23"},
		"0.41 USD an hour as spot (price list, 2026-11-23)":                                  {Spot: 0.41, Currency: "USD", Source: "price list", Day: "2026-11-23"},
	} {
		if err := p.Check(); err != nil || p.String() != want {
			t.Errorf("%q, %v; want %q", p, err, want)
		}
	}
	for want, change := range map[string]func(p *driver.Price){
		"check price: 0 on-demand and 0 as spot is none":                        func(p *driver.Price) { p.OnDemand, p.Spot = 0, 0 },
		"check price: -1 on-demand and 0.41021 as spot is none":                 func(p *driver.Price) { p.OnDemand = -1 },
		"check price: it has no currency":                                       func(p *driver.Price) { p.Currency = "" },
		"check price: it has no source":                                         func(p *driver.Price) { p.Source = "" },
		`check price: "" is not the day on which its source said so`:            func(p *driver.Price) { p.Day = "" },
		`check price: "23 November" is not the day on which its source said so`: func(p *driver.Price) { p.Day = "23 November" },
	} {
		p := whole
		change(&p)
		if err := p.Check(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
}
