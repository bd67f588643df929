package gcpbatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

const (
	tailLines = 10
	// newestFirst is the order of entries.
	newestFirst = "timestamp desc"
	mostTails   = 3 // for each look: a thousand agents that never came up say the same
	// besideTime is how long a request is sent again of which the answer is good to have.
	besideTime = 3 * time.Second
)

// beside is the caller for requests of which the answer is good to have, and not needed.
func (e *engine) beside() *rest.Caller {
	c := *e.caller()
	if c.Wait == 0 || c.Wait > besideTime {
		c.Wait = besideTime
	}
	return &c
}

// addTails gives starts of a job's tasks that have ended badly without an agent the end of what they printed: it says why none came up. What
// cannot be read is left out.
func (e *engine) addTails(ctx context.Context, at site, j seenJob, all []remote.Process, up []remote.Claimant, left *int) {
	_, first, _ := parseJobName(idOf(j.job))
	for i := range all {
		p := &all[i]
		if p.State != driver.Ended || p.Code == 0 || p.Terminated || slices.Contains(up, p.Claimant) {
			continue
		}
		key := fmt.Sprint("tail ", j.job.UID, " ", p.Index)
		e.mu.Lock()
		text, known := e.tails[key]
		e.mu.Unlock()
		if !known && *left > 0 {
			*left--
			var err error
			if text, err = e.readTail(ctx, at, j.job.UID, p.Index-first); err == nil && text != "" || fault.KindOf(err) == fault.Denied { // else a later look may find it
				e.mu.Lock()
				e.tails[key] = text
				e.mu.Unlock()
			}
		}
		p.Tail = text
	}
}

// readTail asks Cloud Logging for what a task printed last.
func (e *engine) readTail(ctx context.Context, at site, uid string, index int) (string, error) {
	caller := e.beside()
	in := map[string]any{"resourceNames": []string{"projects/" + at.project}, "orderBy": newestFirst, "pageSize": tailLines,
		"filter": fmt.Sprintf(`logName="projects/%s/logs/batch_task_logs" AND labels.job_uid="%s" AND labels.task_id=~"group0-%s(/|$)"`, at.project, uid, strconv.Itoa(index))}
	var out struct {
		Entries []struct {
			TextPayload string          `json:"textPayload"`
			JSONPayload json.RawMessage `json:"jsonPayload"`
		} `json:"entries"`
	}
	err := caller.Do(ctx, rest.Call{Doing: "read the log of a task in Cloud Logging", Method: http.MethodPost, URL: caller.Address("logging") + "/v2/entries:list", In: in, Out: &out})
	var lines []string
	for _, line := range slices.Backward(out.Entries) {
		text := line.TextPayload
		if text == "" {
			text = string(line.JSONPayload)
		}
		lines = append(lines, strings.TrimRight(text, "\n"))
	}
	return strings.Join(lines, "\n"), err
}
