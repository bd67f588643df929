package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/app/apptest"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/job"
)

func TestATableOfItemsIsCutToItsTerminal(t *testing.T) {
	var out bytes.Buffer
	table := ItemTable{out: &out, number: 4, cell: 10, width: 60}
	for range 2 {
		if err := table.printRow("1", "✓ succeeded", "0", "1.5s", strings.Repeat("välue ", 9), strings.Repeat("result\x1b[2J ", 9)); err != nil {
			t.Fatal(err)
		}
	}
	want := "   1  ✓ succeeded         0     1.5s  välue väl…  result\\x1…\n"
	if out.String() != want+want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

func TestWhatVerifyFoundIsInWords(t *testing.T) {
	var lines []string
	for _, r := range []drover.Verified{
		{Job: "p/t/1", State: job.Succeeded, Items: 100, Tally: job.Tally{Items: 100, Succeeded: 100}, Entries: 1, Chunks: 1, Claims: 1, Outputs: 1, Bytes: 10},
		{Job: "p/t/2", Items: 100, Tally: job.Tally{Items: 100, Succeeded: 97}, Entries: 12, Chunks: 4, Claims: 9, Handed: 3, Losses: 2, Bound: 16, Stopped: 4,
			Extra:   drover.ExtraRuns{Retries: 1, Interrupted: 2, Unexplained: 3},
			Ignored: []drover.VerifyNote{{Log: "job", Entry: 1, Why: "a"}, {Log: "job", Entry: 2, Why: "b"}, {Log: "job", Entry: 3, Why: "c"}, {Log: "job", Entry: 4, Why: "d"}, {Log: "job", Entry: 5, Why: "e"}, {Log: "job", Entry: 6, Why: "f"}}, Told: 8},
		{Job: "p/t/3", State: job.Failed, Attempts: 1, Entries: 3, Doubted: 3, Findings: []drover.Finding{{Rule: "hole", VerifyNote: drover.VerifyNote{Log: "job", Entry: 1, Why: "it is missing"}}}},
	} {
		lines = append(lines, apptest.OnScreen(func(a *app.App) { NewVerify(a).printVerified(r) })...)
	}
	clitest.CheckScreen(t, "verify", lines)
}
