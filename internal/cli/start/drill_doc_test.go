package start

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/job"
)

// TestTheDrillsInTheDocsAreAsTheyAre: the page's transcripts are what the command prints of
// such drills, to the letter.
func TestTheDrillsInTheDocsAreAsTheyAre(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "how-to", "drill.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```")
	if len(blocks) != 5 {
		t.Fatalf("the page has %d blocks, and two are known here", len(blocks)/2)
	}
	_, first, _ := strings.Cut(strings.TrimPrefix(blocks[1], "console\n"), "\n") // behind what was typed

	var said bytes.Buffer
	a := &app.App{Err: &said}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ended := func(after time.Duration) {
		s := drover.Status{MapStatus: &drover.MapStatus{Items: job.Tally{Items: 100, Succeeded: 100}}}
		s.State, s.Submitted, s.Ended = job.Succeeded, noon, noon.Add(after)
		newTrial(a).noteDrillEvent(drover.DrillEvent{Ended: &s})
	}
	a.Note("%s", seedLine(48213))
	a.Note("%s", stageLine("calm", 100, "classify-a81c22-calm"))
	ended(14 * time.Second)
	a.Note("%s", stageLine("drill", 100, "classify-a81c22-drill"))
	for _, hit := range []drover.DrillEvent{
		{Hit: "SIGKILL", Agent: "1-0-x", After: 900 * time.Millisecond}, {Hit: "notice", Agent: "2-0-x", After: 3800 * time.Millisecond},
		{Hit: "pause", Agent: "3-0-x", After: 7200 * time.Millisecond}, {Hit: "SIGKILL", Agent: "3-0-x", After: 9900 * time.Millisecond},
	} {
		newTrial(a).noteDrillEvent(hit)
	}
	ended(17 * time.Second)
	for _, l := range drillLines(drover.DrillReport{Items: 100, Hits: map[string]int{"SIGKILL": 2, "notice": 1, "pause": 1}, Extra: 4}) {
		a.Note("%s", l)
	}
	if diff := cmp.Diff(first, said.String()); diff != "" {
		t.Errorf("docs/how-to/drill.md, the first (-page +what it is):\n%s", diff)
	}

	second := strings.Join(drillLines(drover.DrillReport{Items: 60, Calm: "cvh6", Drill: "6ua7", Hits: map[string]int{"SIGKILL": 6, "notice": 5, "SIGTERM": 1}, Extra: 2,
		Differences: []drover.Difference{{Item: 13, Value: "13", What: "result", Before: "fresh", After: "again"}}}), "\n")
	if diff := cmp.Diff(strings.TrimSpace(blocks[3]), second); diff != "" {
		t.Errorf("docs/how-to/drill.md, the second (-page +what it is):\n%s", diff)
	}
}
