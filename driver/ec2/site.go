package ec2

import (
	"regexp"
	"strings"

	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// site is where and how machines run agents: what a target's name says after its slash, as REGION or ami/REGION, and in full with the
// account, as eu-west-1/123456789012.
type site struct {
	bare            bool // agents run on the machine as it is, and not in a container
	region, account string
}

// bareWord is the word for agents on the machine as it is in a target's name.
const bareWord = "ami"

var sitePattern = regexp.MustCompile(`^([a-z]{2}(?:-[a-z0-9]+)+)(?:/([0-9]{12}))?$`)

// parseSite reads a detail; "" is the zero site.
func parseSite(detail string) (s site, err error) {
	rest := detail
	if word, after, _ := strings.Cut(detail, "/"); word == bareWord {
		s.bare, rest = true, after
	}
	if rest == "" {
		return s, nil
	}
	m := sitePattern.FindStringSubmatch(rest)
	if m == nil {
		return s, fault.New(fault.Invalid, "Write it as `--on ec2`, `--on ec2/REGION`, or `--on ec2/ami/REGION`.", "read target: ec2/%s names no region", detail)
	}
	return site{s.bare, m[1], m[2]}, nil
}

// String is the detail that parseSite reads.
func (s site) String() string {
	var parts []string
	if s.bare {
		parts = append(parts, bareWord)
	}
	for _, part := range []string{s.region, s.account} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
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
