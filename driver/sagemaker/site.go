package sagemaker

import (
	"regexp"
	"strings"

	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// site is where and as what jobs run: what a target's name says after its slash, as REGION or processing/REGION, and in full with the account, as
// eu-west-1/123456789012.
type site struct {
	processes       bool // jobs are processing jobs
	region, account string
}

// processes is the word for processing jobs in a target's name.
const processes = "processing"

var sitePattern = regexp.MustCompile(`^([a-z]{2}(?:-[a-z0-9]+)+)(?:/([0-9]{12}))?$`)

// parseSite reads a detail; "" is the zero site.
func parseSite(detail string) (s site, err error) {
	rest := detail
	if word, after, _ := strings.Cut(detail, "/"); word == processes {
		s.processes, rest = true, after
	}
	if rest == "" {
		return s, nil
	}
	m := sitePattern.FindStringSubmatch(rest)
	if m == nil {
		return s, fault.New(fault.Invalid, "Write it as `--on sagemaker`, `--on sagemaker/REGION`, or `--on sagemaker/processing/REGION`.", "read target: sagemaker/%s names no region", detail)
	}
	return site{s.processes, m[1], m[2]}, nil
}

// String is the detail that parseSite reads.
func (s site) String() string {
	var parts []string
	if s.processes {
		parts = append(parts, processes)
	}
	for _, part := range []string{s.region, s.account} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// kind is that of the jobs there.
func (s site) kind() kind {
	if s.processes {
		return processing
	}
	return training
}

// readPlaces gives where this machine has started something.
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
