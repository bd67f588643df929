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
)

const (
	tailLines = 10
	// newestFirst is the order of entries.
	newestFirst = "timestamp desc"
	mostTails   = 3 // for each look: a thousand agents that never came up say the same
	// tailTime is after how long a log is asked for again that had nothing.
	tailTime = time.Minute
	// besideTime is how long an answer is waited for that is good to have, and not needed.
	besideTime = 3 * time.Second
)

// tail is what a task printed last, as it was at a time; "": nothing, or it could not be read.
type tail struct {
	text string
	at   time.Time
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
		key := fmt.Sprint(j.job.UID, " ", p.Index)
		e.mu.Lock()
		known := e.tails[key]
		e.mu.Unlock()
		if known.text == "" && time.Since(known.at) >= tailTime && *left > 0 {
			*left--
			text, _ := e.readTail(ctx, at, j.job.UID, p.Index-first) // a later look may find it
			known = tail{text, time.Now()}
			e.mu.Lock()
			e.tails[key] = known
			e.mu.Unlock()
		}
		p.Tail = known.text
	}
}

// readTail asks Cloud Logging for what a task printed last.
func (e *engine) readTail(ctx context.Context, at site, uid string, index int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, besideTime)
	defer cancel()
	caller := e.caller()
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
