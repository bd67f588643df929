package sagemaker

import (
	"regexp"

	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// site is a region: what a target's name says after its slash, as REGION, and in full with the account, as
// eu-west-1/123456789012.
type site struct{ region, account string }

var sitePattern = regexp.MustCompile(`^([a-z]{2}(?:-[a-z0-9]+)+)(?:/([0-9]{12}))?$`)

// parseSite reads a detail; "" is the zero site.
func parseSite(detail string) (s site, err error) {
	if detail == "" {
		return s, nil
	}
	m := sitePattern.FindStringSubmatch(detail)
	if m == nil {
		return s, fault.New(fault.Invalid, "Write it as `--on sagemaker`, or `--on sagemaker/REGION`.", "read target: sagemaker/%s names no region", detail)
	}
	return site{m[1], m[2]}, nil
}

// String is the detail that parseSite reads.
func (s site) String() string {
	if s.account == "" {
		return s.region
	}
	return s.region + "/" + s.account
}

// readPlaces gives the regions in which this machine has started something.
func (e *engine) readPlaces() (all []site) {
	for _, line := range folder.ReadPlaces(e.state) {
		if at, err := parseSite(line); err == nil && at.region != "" {
			all = append(all, at)
		}
	}
	return all
}

// notePlace adds one, before anything is started there.
func (e *engine) notePlace(at site) error { return folder.NotePlace(e.state, at.String()) }
