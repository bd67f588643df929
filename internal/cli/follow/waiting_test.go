package follow

import (
	"strings"
	"testing"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
)

func TestWhatAgentsWaitForIsShownInFewLines(t *testing.T) {
	var out strings.Builder
	NewFollower(&app.App{Err: &out}).NoteWaiting([]drover.Waiting{
		{Agents: 3, Reason: "0/3 nodes are available: 3 Insufficient cpu", Hint: "Ask for less: --cpus."},
		{Agents: 1, Reason: "a new node starts"},
		{Agents: 1, Reason: "the image is pulled\x1b[2J"},
		{Agents: 1, Reason: "a disk"}, {Agents: 1, Reason: "another disk"},
	})
	want := `3 agents wait: 0/3 nodes are available: 3 Insufficient cpu
  Ask for less: --cpus.
1 agent waits: a new node starts
1 agent waits: the image is pulled\x1b[2J
  and for 2 other reasons: drover why last
`
	if out.String() != want {
		t.Errorf("it says\n%s\nwant\n%s", out.String(), want)
	}
}
