package program

import (
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// A process that an engine has started to supervise an agent may have no arguments: its target
// adopts it all the same. Only what no target has started was typed by hand.
func TestAProcessWithoutArgumentsIsAdoptedToo(t *testing.T) {
	for _, args := range [][]string{nil, {"--no-such-flag"}, {"--store", "/s", "no-path"}} {
		adopted, ended := false, 0
		p := program{targets: []driver.Target{{Name: "far", Adopt: func(driver.AgentProcess) (*driver.Allocation, error) {
			adopted = true
			return &driver.Allocation{End: func(code int, _ string) { ended = code }}, nil
		}}}}
		if code := p.runAgent(args); code != fault.ExitUsage || !adopted || ended != fault.ExitUsage {
			t.Errorf("%q: status %d, adopted %t, its end is %d", args, code, adopted, ended)
		}
	}
}
