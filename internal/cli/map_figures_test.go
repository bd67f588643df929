package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app/apptest"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// anUnevenMap leaves a map of 60 numbers in the store that has ended: item n took
// about n² milliseconds, and those that end in 7 failed.
func (d *desk) anUnevenMap() (short string) {
	d.t.Helper()
	m := d.submitMap(job.Spec{Task: "uneven", Program: "./work.sh", Args: []string{"{}"}, Limits: job.Limits{Memory: 4 << 30, CPUs: 4}, Items: job.Items{From: "1-60"}},
		20, items.Source{From: "1-60"})
	m.work(func(t mapagent.Try) protocol.Result {
		n := int64(t.Item)
		r := protocol.Result{Item: t.Item, Ended: 1_700_000_000_000_000 + n*1e6, Wall: n * n * 1000, CPU: n * n * 500, MaxRSS: (100 + (n*37)%60) << 20, Head: fmt.Sprintf(`{"n":%d}`, n), Size: 8}
		if t.Item%10 == 7 {
			r.Failed, r.Code, r.Why, r.Head = true, 3, fmt.Sprintf("cannot open '%d.png'", t.Item), ""
		}
		return r
	})
	return m.job.Short
}

func TestWhatItemsUsedAndWhichUsedMost(t *testing.T) {
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	short := d.anUnevenMap()
	var lines []string
	for _, typed := range []string{"status last", "items --slowest 3", "items last --slowest=2 --state failed", "items --largest 2 last", "items 1 last --largest", "why last", "top last", "top"} {
		out, said, err := d.typed(strings.Fields(typed)...)
		if err != nil {
			t.Errorf("drover %s: %v", typed, err)
		}
		if typed == "top" { // its ages and times differ
			out = strings.SplitAfterN(out, "\n", 3)[0]
		}
		lines = append(append(lines, "$ drover "+typed), faceless(out+said, short)...)
	}
	t.Chdir(home) // of the screens
	clitest.CheckScreen(t, "map-figures", lines)
}

func TestFiguresAreForPrograms(t *testing.T) {
	d := newDesk(t)
	d.anUnevenMap()
	out, _, err := d.typed("status", "last", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		State string
		Items job.Tally
		Use   map[string]summary.SpreadJSON
		Ways  []drover.Group `json:"failed_groups"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	s := got.Use["seconds"]
	if got.State != "FAILED" || got.Items.Failed != 6 || len(got.Ways) != 1 || got.Ways[0].Items != 6 || s.Items != 60 || s.Max != 3.6 || s.MaxItem != 60 || s.P50 < 0.88 || s.P50 > 0.92 ||
		len(s.Histogram) != summary.HistogramBars || got.Use["cpu_seconds"].Max != 1.8 || got.Use["max_rss_bytes"].Items != 60 {
		t.Errorf("%s", out)
	}
	out, _, err = d.typed("items", "last", "--slowest=2", "--json")
	if err != nil || strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, `{"v":1,"item":60,`) {
		t.Errorf("%s, %v", out, err)
	}
}

func TestMostOfWhatIsRefused(t *testing.T) {
	d := newDesk(t)
	d.anUnevenMap()
	for _, row := range []struct{ typed, text, hint string }{
		{"items last --slowest=many", `read --slowest: "many"`, "Use a number from 1 to 10000: --slowest=20."},
		{"items last --largest 0", `read --largest: "0"`, "Use a number from 1 to 10000: --largest=20."},
		{"items last --slowest=20000", `read --slowest: "20000"`, "Use a number from 1 to 10000"},
		{"items last --slowest --largest", "both --slowest and --largest", "Use one of them at a time:"},
		{"items last 3 --slowest=3", "--slowest does not go with item 3", "Leave one of them out."},
		{"items last --slowest --state done", `"done" is not an item state`, "Use pending,"},
		{"status --watch --json", "--watch does not go with --json", "Use drover events -f --json"},
		{"run --on mem --detach --notify x true", "--detach returns before the job has ended", "Leave one of them out, or start it with --detach and have drover wait last --notify 'x' tell you."},
		{"map --on mem --detach --notify x --from 1-3 -- true", "--detach returns before the job has ended", "Leave one of them out"},
		{"resume --detach --notify x last", "--detach returns before the job has ended", "Leave one of them out"},
		{"retry --detach --notify x last", "--detach returns before the job has ended", "Leave one of them out"},
	} {
		out, _, err := d.typed(strings.Fields(row.typed)...)
		if fault.Exit(err) != fault.ExitUsage || out != "" || !strings.Contains(err.Error(), row.text) || !strings.HasPrefix(fault.Hint(err), row.hint) {
			t.Errorf("drover %s: %v\n  %s\n%s", row.typed, err, fault.Hint(err), out)
		}
	}
	if out, said, err := d.typed("items", "last", "--slowest", "--state", "quarantined"); err != nil || out != "" || said != "none of these items has run yet   54 succeeded, 6 failed\n" {
		t.Errorf("%q, %q, %v", out, said, err)
	}
}

func TestTheNoticeOfAJobThatHasEnded(t *testing.T) {
	d := newDesk(t)
	short := d.anUnevenMap()
	_, said, err := d.typed("wait", "last", "-p", "demo", "--notify", `echo "$DROVER_JOB $DROVER_PROJECT/$DROVER_TASK $DROVER_STATE $DROVER_EXIT: $DROVER_REASON; $DROVER_TALLY"; exit 7`)
	want := short + " demo/uneven FAILED 1: 6 of 60 items failed; 54 succeeded, 6 failed\n"
	if apptest.ExitOf(err) != 1 || !strings.Contains(said, want) || !strings.HasSuffix(said, "exit 7': exit status 7\n") {
		t.Errorf("%q, %v", said, err)
	}
}
