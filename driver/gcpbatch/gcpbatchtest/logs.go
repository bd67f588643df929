package gcpbatchtest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// entriesForm is the filter by which drover asks for what a task has printed.
var entriesForm = regexp.MustCompile(`^logName="projects/` + Project + `/logs/batch_task_logs" AND labels\.job_uid="([a-z0-9-]+)-uid" AND labels\.task_id=~"group0-([0-9]+)\(/\|\$\)"$`)

// entries serves Cloud Logging: what a task's runnables have printed, the newest line first.
func (s *Server) entries(body []byte) (any, error) {
	var in struct {
		ResourceNames   []string
		Filter, OrderBy string
		PageSize        int
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
	}
	asked := entriesForm.FindStringSubmatch(in.Filter)
	if asked == nil || in.OrderBy != "timestamp desc" || !slices.Equal(in.ResourceNames, []string{"projects/" + Project}) {
		return nil, refuse(400, "INVALID_ARGUMENT", "the fake has no filter %s", in.Filter)
	}
	index, _ := strconv.Atoi(asked[2]) // digits
	j := s.jobs[asked[1]]
	if j == nil || index >= len(j.tasks) {
		return map[string]any{}, nil
	}
	all := []any{}
	for _, line := range slices.Backward(j.tasks[index].printed()) {
		if len(all) < in.PageSize {
			all = append(all, map[string]any{"textPayload": line, "labels": map[string]string{"job_uid": asked[1] + "-uid", "task_id": "task/" + asked[1] + "-uid-group0-" + asked[2] + "/0/0"}})
		}
	}
	return map[string]any{"entries": all}, nil
}

// printed are the lines of a task's newest machine.
func (t *task) printed() (lines []string) {
	logs, _ := filepath.Glob(filepath.Join(t.dir(), "log*")) // the pattern is well-formed
	for _, name := range logs {
		f, err := os.Open(name)
		if err != nil {
			t.job.s.t.Error(err)
			continue
		}
		for all := bufio.NewScanner(f); all.Scan(); {
			lines = append(lines, all.Text())
		}
		f.Close()
	}
	return lines
}

// SetQuota has the region have a quota, as CPUS, of which nothing is used.
func (s *Server) SetQuota(metric string, limit float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quotas[metric] = limit
}

// region serves Compute Engine: the region with its quotas.
func (s *Server) region(r *http.Request) (any, error) {
	if r.URL.Path != "/compute/v1/projects/"+Project+"/regions/"+Region {
		return nil, refuse(404, "NOT_FOUND", "The resource '%s' was not found", strings.TrimPrefix(r.URL.Path, "/compute/v1/"))
	}
	all := []any{}
	for metric, limit := range s.quotas {
		all = append(all, map[string]any{"metric": metric, "limit": limit, "usage": 0})
	}
	return map[string]any{"name": Region, "quotas": all}, nil
}
