package console

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/job"
)

// An agent that is leaving tells of a failure that another process has settled, if it is the one that the engine asks.
func TestAFailureIsToldByTheAgentThatIsAsked(t *testing.T) {
	t.Parallel()
	failed, succeeded := &protocol.Settled{State: job.Failed, Reason: "exit status 3"}, &protocol.Settled{State: job.Succeeded}
	for _, test := range []struct {
		order  runagent.Order
		file   bool // the engine looks for one
		before int
		want   int
		says   string
	}{
		{runagent.Order{Settled: failed}, true, 0, FailedStatus, "exit status 3"},
		{runagent.Order{Settled: failed}, true, 75, 75, "exit status 3"},
		{runagent.Order{Settled: failed, Rank: 1}, true, 0, 0, ""},
		{runagent.Order{Settled: succeeded}, true, 0, 0, ""},
		{runagent.Order{}, true, 75, 75, ""},
		{runagent.Order{Settled: failed}, false, 0, 0, ""},
	} {
		file := filepath.Join(t.TempDir(), "output", "failure")
		n := &node.Node{}
		if test.file {
			n.Machine.Failure = file
		}
		c := Console{Node: n}
		if got := c.StatusAfter(test.order, test.before); got != test.want {
			t.Errorf("%+v: status %d, want %d", test, got, test.want)
		}
		if err := c.WriteEnd(); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(file); string(text) != test.says || (err == nil) != (test.says != "") {
			t.Errorf("%+v: %q, %v", test, text, err)
		}
	}
}
