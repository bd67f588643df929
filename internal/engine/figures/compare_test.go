package figures

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

func TestItemsDifferInWhatTheyLeave(t *testing.T) {
	code, other := 0, 3
	base := func(change func(*report.ItemResult)) report.ItemResult {
		r := report.ItemResult{Item: 7, Value: "x", State: job.ItemSucceeded, Try: report.Try{Code: &code, Stdout: "a\n", StdoutBytes: 2, Seconds: 1, Agent: "1-0-a",
			Outputs: []report.ItemFile{{Name: "o.txt", Bytes: 3, SHA256: "aa"}}}}
		if change != nil {
			change(&r)
		}
		return r
	}
	for _, row := range []struct {
		what, before, after string
		change              func(*report.ItemResult)
	}{
		{"", "", "", nil},
		{"", "", "", func(r *report.ItemResult) {
			r.Seconds, r.Agent, r.Interruptions, r.CPU, r.Failures = 9, "2-0-b", 3, 1, 2
		}},
		{"state", "SUCCEEDED", "FAILED", func(r *report.ItemResult) { r.State = job.ItemFailed }},
		{"exit status", "exit status 0", "exit status 3", func(r *report.ItemResult) { r.Code = &other }},
		{"result", "a\n", "b\n", func(r *report.ItemResult) { r.Stdout = "b\n" }},
		{"result", "a\n", "a\n ... z (9 bytes)", func(r *report.ItemResult) { r.Tail, r.StdoutBytes = "z", 9 }},
		{"outputs", "1", "0", func(r *report.ItemResult) { r.Outputs = nil }},
		{"outputs", "o.txt", "p.txt", func(r *report.ItemResult) { r.Outputs = []report.ItemFile{{Name: "p.txt", SHA256: "aa"}} }},
		{"o.txt", "aa", "bb", func(r *report.ItemResult) { r.Outputs = []report.ItemFile{{Name: "o.txt", SHA256: "bb"}} }},
		{"o.txt", "mode 0", "mode 0755", func(r *report.ItemResult) { r.Outputs = []report.ItemFile{{Name: "o.txt", SHA256: "aa", Mode: 0o755}} }},
	} {
		var want *report.Difference
		if row.what != "" {
			want = &report.Difference{Item: 7, Value: "x", What: row.what, Before: row.before, After: row.after}
		}
		if diff := cmp.Diff(want, differ(base(nil), base(row.change))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.what, diff)
		}
	}
}
