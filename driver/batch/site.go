package batch

import (
	"regexp"
	"strings"

	"github.com/drover-run/drover/fault"
)

// site is a queue: what a target's name says after its slash, short as QUEUE or QUEUE@REGION, and in
// full with the account, as train@eu-west-1/123456789012.
type site struct {
	queue, region, account string
}

var sitePattern = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_-]{0,127})(?:@([a-z]{2}(?:-[a-z0-9]+)+)(?:/([0-9]{12}))?)?$`)

// parseSite reads a detail; "" is the zero site.
func parseSite(detail string) (s site, err error) {
	if detail == "" {
		return s, nil
	}
	m := sitePattern.FindStringSubmatch(detail)
	if m == nil {
		return s, fault.New(fault.Invalid, "Write it as `--on batch/QUEUE`, or `--on batch/QUEUE@REGION`.", "read target: batch/%s names no queue", detail)
	}
	return site{m[1], m[2], m[3]}, nil
}

// String is the detail that parseSite reads.
func (s site) String() string {
	text := s.queue
	if s.region != "" {
		text += "@" + s.region
	}
	if s.account != "" {
		text += "/" + s.account
	}
	return text
}

// name is the queue's name for requests: that of no other account's queue, where the account is known.
func (s site) name() string {
	if s.account == "" {
		return s.queue
	}
	partition := "aws"
	switch {
	case strings.HasPrefix(s.region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(s.region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return "arn:" + partition + ":batch:" + s.region + ":" + s.account + ":job-queue/" + s.queue
}
