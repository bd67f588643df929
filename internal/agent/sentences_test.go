package agent

import (
	"testing"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

func TestAProgramThatIsBeyondItsLimitsSaysWhichAndHowToRaiseIt(t *testing.T) {
	a := newAgent(node.Config{})
	a.Job.Spec = job.Spec{Limits: job.Limits{Memory: 1 << 30, Processes: 8, Disk: 1 << 30}}
	for reason, row := range map[string]struct {
		exit  proc.Exit
		peak  int64
		apart bool
		full  int64
		hint  string
	}{
		"out of memory: 1 GB limit":                          {exit: proc.Exit{OOM: true}, hint: "Give it more: --memory 2G."},
		"out of memory: 1 GB limit, 1 GB in use at the peak": {exit: proc.Exit{OOM: true}, peak: 1 << 30, hint: "Give it more: --memory 2G."},
		"out of memory: 1 GB limit, which includes /dev/shm": {exit: proc.Exit{OOM: true}, apart: true, hint: "Give it more: --memory 2G."},
		"too many processes: limit of 8":                     {exit: proc.Exit{Crowd: true}, hint: "Give it more: --procs 16."},
		"out of disk: 1 GB limit, 3 GB in its folders":       {full: 3 << 30, hint: "Give it more: --disk 4608M."},
	} {
		p := &program{apart: row.apart}
		p.full.Store(row.full)
		e := protocol.Exit{Peak: row.peak}
		a.exits.exitBeyondLimits(&e, row.exit, p)
		if e.Reason != reason || e.Hint != row.hint || e.Code != 137 {
			t.Errorf("it ends with %q, %q, %d; want %q, %q", e.Reason, e.Hint, e.Code, reason, row.hint)
		}
	}
}

func TestWhatLivesOnAndWhoseStateItIsIsInWords(t *testing.T) {
	for n, want := range map[int]string{1: "1 process could not be ended: it runs as another user", 3: "3 processes could not be ended: they run as another user"} {
		if got := leftNote(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	if got := whose(protocol.Saved{Job: "abcd2345abcd2345", Attempt: 2}); got != "saved by attempt 2 of job abcd" {
		t.Errorf("it is %q", got)
	}
	if got := whose(protocol.Saved{Job: "abcd2345abcd2345", Agent: "cli-1"}); got != "stored with drover put" {
		t.Errorf("it is %q", got)
	}
}
