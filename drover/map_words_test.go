package drover

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// TestWhyOfManyItemsCanBeRead: large numbers have commas, but those of items, which are
// pasted, and of processes.
func TestWhyOfManyItemsCanBeRead(t *testing.T) {
	s := Status{MapStatus: &MapStatus{Items: job.Tally{Items: 1_000_000, Succeeded: 1_000}, Running: 2_000, Workers: 1_200}}
	s.State = job.Failed
	var w Reason
	w.mapWaiting(s, true, nil)
	got := []string{w.Answer}
	s.Running = 0
	w.mapWaiting(s, true, nil)
	got = append(got, w.Answer)
	w.mapInterrupted(s, []protocol.Heartbeat{{Asked: true}})
	got = append(got, w.Answer, were(12_345), were(1))
	w.addFailures(s, Figures{Groups: []Group{{Items: 10_000, First: 123_456, Why: "exit status 3"}}}, 0)
	got = append(got, w.Detail...)
	want := []string{
		"2,000 items run on 1,200 workers, 999,000 of 1,000,000 items are left",
		"no item runs just now: its agents look for work, or wait until what failed may run again; 999,000 of 1,000,000 items are left",
		"no agent is working on it: it was stopped by hand; 999,000 of 1,000,000 items are left",
		"12,345 items were", "1 item was",
		"10,000 × exit status 3, such as item 123456",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
