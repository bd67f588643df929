package gcpbatch

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
)

// mostTasks is the most tasks that Google Batch runs of a job at the same time. Source: quotas of Batch, 2026-11.
const mostTasks = 5000

// jobName is the name of a placement's first job, and begins those of the others.
func jobName(h driver.Handle) string { return fmt.Sprintf("drover-%s-%d", h.Job, h.Placement) }

// jobNames are the names of a placement's jobs: one for each 5,000 agents.
func jobNames(h driver.Handle, agents int) (all []string) {
	for k := 0; k*mostTasks < agents; k++ {
		name := jobName(h)
		if k > 0 {
			name = fmt.Sprintf("%s-%d", name, k+1)
		}
		all = append(all, name)
	}
	return all
}

// onDemandName is the name of the job that takes the place of a job of spot capacity for which no machine has come.
func onDemandName(name string) string { return name + onDemandEnd }

const onDemandEnd = "-d"

// placeOf is the id under which the starts of a job's tasks are claimed, and the attempts before its first: those of a job that takes another one's
// place go on from the last that the other one can have had.
func placeOf(name string) (id string, before int) {
	if id, onDemand := strings.CutSuffix(name, onDemandEnd); onDemand {
		return id, mostRetries + 1
	}
	return name, 0
}

// nameForm is the form of the names of jobs of drover's.
var nameForm = regexp.MustCompile(`^drover-([a-z0-9]+)-([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,5}))?(?:-d)?$`)

// parseJobName is the handle without a Detail that jobNames has named, and the number of its first agent.
func parseJobName(name string) (h driver.Handle, first int, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil || m[3] == "1" {
		return h, 0, false
	}
	n, _ := strconv.Atoi(m[2]) // nine digits at most
	if m[3] != "" {
		k, _ := strconv.Atoi(m[3]) // six
		first = (k - 1) * mostTasks
	}
	return driver.Handle{Target: Name, Job: m[1], Placement: n}, first, true
}

// secretName is the name in Secret Manager of what a placement's agents are handed.
func secretName(h driver.Handle) string { return jobName(h) }

// requestID is the same for each try to create a job: Google Batch creates one for it.
func requestID(project, region, name string) string {
	sum := sha256.Sum256([]byte("drover " + project + " " + region + " " + name))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// What Google Cloud takes of labels. Source: "Requirements for labels", Resource Manager, 2026-11.
const (
	mostLabels      = 64
	mostLabelLength = 63
)

// labels are those of a job as Google takes them: lower-case letters, digits, - and _. Those of drover begin with drover_: a filter names no label with a hyphen for certain.
func labels(of map[string]string) map[string]string {
	all := map[string]string{"drover": "agents"}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		key := labelText(name)
		if name == "project" || name == "task" || name == "job" || strings.HasPrefix(key, "batch-") || strings.HasPrefix(key, "goog") || key == "" || key[0] < 'a' || key[0] > 'z' {
			key = labelText("drover_" + name)
		}
		if _, there := all[key]; !there && len(all) < mostLabels {
			all[key] = labelText(of[name])
		}
	}
	return all
}

// ownLabels are a job's without those that Google Batch has added, such as batch-job-id: none may be asked for. Source: "Organize resources using labels", Batch, 2026-11.
func ownLabels(of map[string]string) map[string]string {
	all := maps.Clone(of)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return strings.HasPrefix(name, "batch-") || strings.HasPrefix(name, "goog-")
	})
	return all
}

// labelText bends a text to what a label may hold.
func labelText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	return s[:min(len(s), mostLabelLength)]
}
