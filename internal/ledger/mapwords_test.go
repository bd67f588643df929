package ledger

import (
	"testing"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// TestReasonsOfManyItemsCanBeRead: what people are told has commas, and percent are as
// they were typed.
func TestReasonsOfManyItemsCanBeRead(t *testing.T) {
	m := chunks.NewMap(job.Job{Manifest: job.Manifest{Count: 1_000_000}, Spec: job.Spec{Items: job.Items{MaxFails: "10000"}}})
	tally := job.Tally{Items: 1_000_000, Succeeded: 988_500, Failed: 11_000, Quarantined: 500}
	if s := m.Next(chunks.Evidence{Done: true, Tally: tally}).Settle; s == nil || s.Reason != "11,500 of 1,000,000 items failed" {
		t.Errorf("settled: %+v", s)
	}
	for limit, want := range map[string]string{"10000": "20,000 items failed, at most 10,000 may", "1%": "20,000 items failed, at most 1% may", "7": "20,000 items failed, at most 7 may"} {
		m.Spec.MaxFails = limit
		if s := m.Next(chunks.Evidence{Failed: 20_000}).Fail; s == nil || s.Reason != want {
			t.Errorf("at most %s: %+v, want %s", limit, s, want)
		}
	}
	if got := views.CountOf(12_000, "new item"); got != "12,000 new items" {
		t.Error(got)
	}
}
