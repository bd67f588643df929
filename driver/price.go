package driver

import (
	"fmt"
	"time"
)

// Price is what an agent costs for each hour that its machine is kept for it, as the seller
// says. The zero value is that of a target that costs nothing or has no price that it knows.
type Price struct {
	OnDemand float64 // for one agent and one hour
	Spot     float64 // the same for spot capacity; 0: there is none, or its price is not known
	Currency string  // "USD"
	Source   string  // for people: "AWS price list, eu-central-1"
	Day      string  // the day on which the source said so: "2026-11-23"
}

// Known says whether there is a price.
func (p Price) Known() bool { return p.OnDemand != 0 || p.Spot != 0 }

// Check refuses a price that cannot be looked up again, without a source and a day: prices
// change, and users rely on one that a plan shows.
func (p Price) Check() error {
	if p == (Price{}) {
		return nil
	}
	_, err := time.Parse(time.DateOnly, p.Day)
	switch {
	case p.OnDemand < 0 || p.Spot < 0 || !p.Known():
		return fmt.Errorf("check price: %v on-demand and %v as spot is none", p.OnDemand, p.Spot)
	case p.Currency == "":
		return fmt.Errorf("check price: it has no currency")
	case p.Source == "":
		return fmt.Errorf("check price: it has no source")
	case err != nil:
		return fmt.Errorf("check price: %q is not the day on which its source said so", p.Day)
	}
	return nil
}

// String is the price in words, that of on-demand capacity first: "1.006 USD an hour on-demand,
// 0.4102 as spot (AWS price list, eu-central-1, 2026-11-23)".
func (p Price) String() string {
	from := " (" + p.Source + ", " + p.Day + ")"
	switch {
	case !p.Known():
		return ""
	case p.Spot == 0:
		return fmt.Sprintf("%.4g %s an hour on-demand", p.OnDemand, p.Currency) + from
	case p.OnDemand == 0:
		return fmt.Sprintf("%.4g %s an hour as spot", p.Spot, p.Currency) + from
	}
	return fmt.Sprintf("%.4g %s an hour on-demand, %.4g as spot", p.OnDemand, p.Currency, p.Spot) + from
}
