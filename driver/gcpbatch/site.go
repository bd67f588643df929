package gcpbatch

import (
	"cmp"
	"os"
	"regexp"
	"strings"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// site is where jobs run: what a target's name says after its slash, as REGION or REGION@PROJECT.
type site struct{ region, project string }

var sitePattern = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)?(?:@([a-z][a-z0-9:.-]{4,61}[a-z0-9]))?$`)

// parseSite reads a detail; "" is the zero site.
func parseSite(detail string) (site, error) {
	m := sitePattern.FindStringSubmatch(detail)
	if m == nil {
		return site{}, fault.New(fault.Invalid, "Write it as `--on gcp/europe-west1`, or `--on gcp/europe-west1@my-project`.", "read target: gcp/%s names no region of Google Cloud", detail)
	}
	return site{m[1], m[2]}, nil
}

// String is the detail that parseSite reads.
func (s site) String() string {
	if s.project == "" {
		return s.region
	}
	return s.region + "@" + s.project
}

// complete fills in what a detail leaves out, by this machine's configuration.
func (s site) complete() (site, error) {
	s.region = cmp.Or(s.region, os.Getenv("CLOUDSDK_BATCH_LOCATION"), os.Getenv("CLOUDSDK_COMPUTE_REGION"), os.Getenv("GOOGLE_CLOUD_REGION"))
	s.project = cmp.Or(s.project, os.Getenv("CLOUDSDK_CORE_PROJECT"), google.Source{}.Configured().Project)
	switch {
	case s.project == "":
		return s, fault.New(fault.Invalid, "Say which: `--on gcp/REGION@PROJECT`, or export GOOGLE_CLOUD_PROJECT=PROJECT.", "ask Google Batch: there is no project")
	case s.region == "":
		return s, fault.New(fault.Invalid, "Say where: `--on gcp/europe-west1`, or export CLOUDSDK_COMPUTE_REGION=REGION.", "ask Google Batch: there is no region")
	}
	return s, nil
}

// readPlaces gives where this machine has started something.
func (e *engine) readPlaces() (all []site) {
	for _, line := range folder.ReadPlaces(e.state) {
		if at, err := parseSite(strings.TrimSpace(line)); err == nil && at.region != "" && at.project != "" {
			all = append(all, at)
		}
	}
	return all
}

// notePlace adds one, before anything is started there.
func (e *engine) notePlace(at site) error { return folder.NotePlace(e.state, at.String()) }
