package driver

import (
	"fmt"
	"strings"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// MachineRefusal says why a target that is one machine, without types, spot capacity or
// options of its own, cannot meet the needs, and what to do about it; "" if it can. place
// names the machine in a sentence: "this machine". own are its attributes.
func (n Needs) MachineRefusal(place string, own where.Attributes) (reason, hint string) {
	const elsewhere = ", or choose another target with --on."
	switch {
	case len(n.Args) > 0:
		return fmt.Sprintf("%s takes no options of a target: %q", place, strings.Join(n.Args, " ")), "Leave --target-arg out" + elsewhere
	case n.Spot == job.SpotOnly || n.Spot == job.SpotFirst:
		return place + " has no spot capacity", "Leave --spot out" + elsewhere
	case len(n.Machine) > 1 || len(n.Machine) == 1 && strings.ContainsAny(n.Machine[0], "*?"):
		return fmt.Sprintf("%s has no types of machines to choose from, and --machine %s is no single type", place, strings.Join(n.Machine, ",")),
			"Name one type, as a label" + elsewhere
	}
	if unmet := n.Where.Unmet(own); unmet != "" {
		return place + " is not what --where says: " + unmet, "Leave --where out" + elsewhere
	}
	return "", ""
}
