package drover

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	drivermem "github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store/mem"
)

// several is a target with two kinds of machine.
type several struct{ driver.Driver }

func (several) Offer(context.Context, driver.Needs) (driver.Offer, error) {
	return driver.Offer{Fits: true, Machine: "many", Choices: []driver.Choice{{Detail: "big", All: 1}, {Detail: "small", All: 2, Default: true}}}, nil
}

// What an agent costs is said of each kind of machine, with the source of the price.
func TestOffersHaveThePriceOfTheirKindOfMachine(t *testing.T) {
	cheap := driver.Price{OnDemand: 0.1, Currency: "USD", Source: "list", Day: "2026-11-23"}
	dear := driver.Price{OnDemand: 1, Spot: 0.3, Currency: "USD", Source: "list", Day: "2026-11-22"}
	list := choices("t", driver.Offer{Fits: true, Spot: true, Price: cheap, Choices: []driver.Choice{{Detail: "big", Price: dear}, {Detail: "small"}}})
	want := []*Price{{OnDemand: 1, Spot: 0.3, Currency: "USD", Source: "list", Day: "2026-11-22"}, {OnDemand: 0.1, Currency: "USD", Source: "list", Day: "2026-11-23"}}
	if diff := cmp.Diff(want, []*Price{list[0].Price, list[1].Price}); diff != "" {
		t.Error(diff)
	}
	if free := choices("t", driver.Offer{Fits: true}); free[0].Price != nil {
		t.Errorf("what costs nothing has the price %+v", free[0].Price)
	}

	d := drivermem.New(nil)
	t.Cleanup(d.Close)
	d.SetPrice(dear)
	c, err := Open(t.Context(), Options{Bucket: mem.New(), Drivers: map[string]driver.Opened{"mem": drivermem.Open(d)}, Binary: "drover"})
	if err != nil {
		t.Fatal(err)
	}
	for spot, want := range map[job.Spot]bool{job.SpotAny: false, job.SpotFirst: true, job.SpotNever: false} {
		p, err := c.Plan(t.Context(), job.Spec{Project: "p", Task: "t", Verb: job.Shell, Program: "true", Source: t.TempDir(), On: "mem", Spot: spot, NoEnv: true}, PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list[0].Price, p.Price()); diff != "" || p.Offer.Spot != want {
			t.Errorf("spot %q: spot capacity is %v, and the price: %s", spot, p.Offer.Spot, diff)
		}
		p.Close()
	}
}

// A target that names one kind of machine is not offered the others.
func TestATargetThatNamesAKindOffersThatOne(t *testing.T) {
	d := drivermem.New(nil)
	t.Cleanup(d.Close)
	c, err := Open(t.Context(), Options{Bucket: mem.New(), Drivers: map[string]driver.Opened{"many": {Driver: several{d}}}, Binary: "drover",
		Targets: map[string]job.Target{"mine": {On: "many/big"}, "typo": {On: "many/bog"}}})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string][]string{"many": {"big", "small"}, "many/small": {"small"}, "mine": {"big"}, "typo": {""}} {
		list, err := c.Offers(t.Context(), target, driver.Needs{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range list {
			got = append(got, one.Detail)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", target, diff)
		}
	}
}
