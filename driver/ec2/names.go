package ec2

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/stack"
)

// groupName is the name of a placement's group, and of its launch template.
func groupName(h driver.Handle) string { return fmt.Sprintf("drover-%s-%d", h.Job, h.Placement) }

// secretName is the name in Secrets Manager of what a placement's agents are handed.
func secretName(h driver.Handle) string { return "drover/" + groupName(h) }

var nameForm = regexp.MustCompile(`^drover-([a-z0-9]+)-([1-9][0-9]*)$`)

// parseGroupName is the handle without a Detail that groupName has named.
func parseGroupName(name string) (h driver.Handle, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return h, false
	}
	n, err := strconv.Atoi(m[2])
	return driver.Handle{Target: Name, Job: m[1], Placement: n}, err == nil
}

// The tags of a group, by which any command knows what it is to do.
const (
	tagUntil   = "drover-until"      // the end of the wait for machines, in seconds since 1970
	tagFirst   = "drover-spot-first" // machines may be on demand, when spot capacity does not come
	tagStopped = "drover-stopped"    // a Stop has set it to no machines
	tagProject = "drover-project"
)

// tags are labels as tags of AWS, which take few letters.
func tags(labels map[string]string) []api.Tag {
	all := []api.Tag{{Key: stack.TagManaged, Value: stack.ManagedBy}}
	for name, value := range labels {
		all = append(all, api.Tag{Key: "drover-" + amazon.TagText(name, 121), Value: amazon.TagText(value, 256)})
	}
	slices.SortFunc(all, func(a, b api.Tag) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// names is a list for people.
func names(all []string) string {
	if len(all) > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:3], ", "), len(all)-3)
	}
	return strings.Join(all, ", ")
}
