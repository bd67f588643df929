package sagemaker

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/drover-run/drover/driver"
)

// jobName is the name of a placement's job, and begins those of its workers.
func jobName(h driver.Handle) string { return fmt.Sprintf("drover-%s-%d", h.Job, h.Placement) }

// secretName is the name in Secrets Manager of what a placement's agents are handed.
func secretName(h driver.Handle) string { return "drover/" + jobName(h) }

// nameForm is the form of the names of jobs of drover's.
var nameForm = regexp.MustCompile(`^(drover-([a-z0-9]+)-([1-9][0-9]*))(?:-(0|[1-9][0-9]*))?$`)

// parseJobName is the handle without a Detail that jobName has named, and the number of the worker; -1: it is no worker's.
func parseJobName(name string) (h driver.Handle, worker int, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return h, 0, false
	}
	n, err := strconv.Atoi(m[3])
	worker = -1
	if err == nil && m[4] != "" {
		worker, err = strconv.Atoi(m[4])
	}
	return driver.Handle{Target: Name, Job: m[2], Placement: n}, worker, err == nil
}

// jobNames are the names of the jobs of a placement: one job with all nodes of a run, or one for each of several workers.
func jobNames(h driver.Handle, n driver.Needs, agents int) []string {
	if agents == 1 || n.Place.Nodes > 1 {
		return []string{jobName(h)}
	}
	var all []string
	for k := range agents {
		all = append(all, fmt.Sprintf("%s-%d", jobName(h), k))
	}
	return all
}
