package waiting

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/report"
)

func TestWhatAgentsWaitForIsToldOnceForEachChange(t *testing.T) {
	waits := func(reasons ...string) (all []driver.Member) {
		for i, r := range reasons {
			m := driver.Member{Index: i, State: driver.Waiting, Reason: r}
			if r == "runs" {
				m.State, m.Reason = driver.Running, "as it should"
			}
			all = append(all, m)
		}
		return all
	}
	var told []string
	r := Reporter{Tell: func(all []report.Waiting) {
		text := ""
		for _, w := range all {
			text += fmt.Sprintf("%d %s;", w.Agents, w.Reason)
		}
		told = append(told, text)
	}}
	for _, look := range []struct {
		at      time.Duration
		members []driver.Member
	}{
		{0, nil},
		{1, waits("starts", "starts")}, // for a moment
		{2, waits("quota", "quota", "quota", "nodes")},
		{4, waits("quota", "quota", "quota", "nodes")},
		{5, waits("nodes", "quota", "quota", "quota")},
		{9, waits("nodes", "runs", "runs", "quota")}, // fewer of them
		{10, waits("nodes", "runs", "runs", "runs")},
		{14, waits("nodes", "runs", "runs", "runs")},
		{15, waits("runs", "runs")},
		{19, waits("runs", "runs")},
		{20, waits("nodes")}, // another agent
		{24, waits("nodes")},
	} {
		r.Note(look.members, look.at*time.Second)
	}
	if want := []string{"3 quota;1 nodes;", "1 nodes;", "1 nodes;"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
