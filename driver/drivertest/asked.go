package drivertest

import (
	"context"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// offerForOne is the answer to one agent with needs; a fault of kind Invalid counts as a
// refusal.
func (s *stage) offerForOne(n driver.Needs) driver.Offer {
	s.Helper()
	n.Agents = 1
	if s.place.Needs != nil && len(n.Args) == 0 {
		s.place.Needs(&n)
	}
	o, err := s.d.Offer(context.Background(), n)
	if fault.KindOf(err) == fault.Invalid && err != nil {
		o = driver.Offer{Reason: err.Error()}
	} else if err != nil {
		s.Fatalf("Offer(%+v): %v", n, err)
	}
	return o
}

// expectRefusal expects an offer that does not fit, with a reason of one sentence.
func (s *stage) expectRefusal(n driver.Needs, what string) {
	s.Helper()
	if o := s.offerForOne(n); o.Fits || o.Reason == "" || strings.Contains(o.Reason, "\n") {
		s.Errorf("Offer with %s gives %+v; want a reason of one line why it does not fit", what, o)
	}
}

// askedOfMachines expects that a target uses only machines of which it knows that they meet
// the conditions.
func askedOfMachines(s *stage) {
	for text, fits := range map[string]bool{
		"cpus >= 1":                 true,
		"cpus < 1":                  false,
		"cpus >= 10000000":          false,
		"node == no-machine-so":     false,
		"not node =~ *":             false,
		"zone == no-zone-1a":        false, // what is not known is not met
		"zone =~ no-* or cpus >= 1": true,
	} {
		e, err := where.Parse(text)
		if err != nil {
			s.Fatal(err)
		}
		if !fits {
			s.expectRefusal(driver.Needs{Where: e}, text)
		} else if o := s.offerForOne(driver.Needs{Where: e}); !o.Fits || o.Reason != "" {
			s.Errorf("Offer with %s gives %+v; want it to fit", text, o)
		}
	}
	s.expectRefusal(driver.Needs{Machine: []string{"no-such-type.*"}}, "a glob of types that there are not")
}

// spotOrRefused expects spot capacity to be offered as such, or refused.
func spotOrRefused(s *stage) {
	for _, spot := range []job.Spot{job.SpotOnly, job.SpotFirst} {
		if o := s.offerForOne(driver.Needs{Spot: spot}); o.Fits != o.Spot || !o.Fits && o.Reason == "" {
			s.Errorf("Offer with spot %s gives %+v; want spot capacity, or a reason why not", spot, o)
		}
	}
	if o := s.offerForOne(driver.Needs{Spot: job.SpotNever}); !o.Fits || o.Spot {
		s.Errorf("Offer without spot gives %+v; want it to fit, on-demand", o)
	}
}

// pricesHaveSources expects each price to have a source and a day, and spot capacity to have
// a price where on-demand machines have one.
func pricesHaveSources(s *stage) {
	for _, spot := range []job.Spot{job.SpotAny, job.SpotNever, job.SpotFirst, job.SpotOnly} {
		o := s.offerForOne(driver.Needs{Spot: spot})
		prices := map[string]driver.Price{"": o.Price}
		for _, c := range o.Choices {
			prices[c.Detail] = c.Price
		}
		for detail, p := range prices {
			if err := p.Check(); err != nil {
				s.Errorf("Offer with spot %q has for %q the price %+v: %v", spot, detail, p, err)
			}
		}
		if o.Fits && o.Spot && o.Price.OnDemand > 0 && o.Price.Spot == 0 {
			s.Errorf("Offer with spot %q is spot capacity at the price %+v; want its own price", spot, o.Price)
		}
	}
}

// foreignOptions expects that a target does not ignore an option which no engine can have.
func foreignOptions(s *stage) {
	s.expectRefusal(driver.Needs{Args: []string{"--no\x00option\nof=any"}}, "an option that no engine has")
}
