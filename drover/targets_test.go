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

// Who has named one kind is not offered the others.
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
