package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

func TestAMistypedTrialIsOneErrorWithTheNextStep(t *testing.T) {
	d := newDesk(t)
	for _, row := range []struct{ typed, text, hint string }{
		{"map --from 1-9 --pilot 0 -- true", "read --pilot: 0", "Use 1 or more, such as --pilot 20."},
		{"map --from 1-9 --pilot -1 -- true", "read --pilot: -1", "Use 1 or more, such as --pilot 20."},
		{"map --from 1-9 --pilot some -- true", `read --pilot: "some" is not a whole number`, "drover help map lists the flags."},
		{"map --from 1-9 --seed 1 -- true", "read --seed: it is for --drill", "Add --drill, or leave it out."},
		{"map --from 1-9 --drill --detach -- true", "it cannot run detached", "Omit --detach."},
		{"run --pilot 3 work.sh", `drover run has no flag "--pilot"`, ""},
	} {
		out, _, err := d.typed(strings.Fields(row.typed)...)
		if fault.Exit(err) != fault.ExitUsage || out != "" || !strings.Contains(err.Error(), row.text) || !strings.HasPrefix(fault.Hint(err), row.hint) {
			t.Errorf("drover %s: %v\n  %s\n%s", row.typed, err, fault.Hint(err), out)
		}
	}
}

func TestAPilotsFigures(t *testing.T) {
	var lines []string
	for _, r := range []drover.Pilot{
		{Items: 20, Of: 1_000_000, Tally: job.Tally{Items: 20, Succeeded: 20}, Mean: 0.052, Least: 0.0121, Most: 0.21, MaxRSS: 31 << 20,
			Forecast: drover.Forecast{Seconds: 6500, Low: 5100, High: 7900, Slots: 8, Writes: 3021, Lists: 12, Reads: 4188, Dollars: 0.0168}},
		{Items: 20, Of: 100, Tally: job.Tally{Items: 20, Succeeded: 17, Failed: 2, Quarantined: 1}, Mean: 42, Least: 41.5, Most: 43,
			Forecast: drover.Forecast{Seconds: 4200, Low: 4150, High: 4250, Slots: 1, Reads: 1, Dollars: 4e-7}},
		{Items: 1, Of: 2, Tally: job.Tally{Items: 1, Succeeded: 1}, Mean: 0.0004, Least: 0.0004, Most: 0.0004, Forecast: drover.Forecast{Seconds: 0.3, Low: 0.3, High: 0.3, Slots: 2}},
	} {
		lines = append(append(lines, pilotLines(r, r.Of != 2)...), "")
	}
	checkScreen(t, "map-pilot", lines)
}

func TestADrillsVerdict(t *testing.T) {
	report := func(change func(*drover.DrillReport)) drover.DrillReport {
		r := drover.DrillReport{V: 1, Seed: 7, Items: 100, Calm: "calm1", Drill: "drill2", Hits: map[string]int{"SIGKILL": 7, "notice": 3}, Extra: 12}
		if change != nil {
			change(&r)
		}
		return r
	}
	differences := func(n int, anyway bool) (all []drover.Difference) {
		for i := range n {
			all = append(all, drover.Difference{Item: i + 1, Value: "photo.png", What: "result", Before: "fresh\n", After: strings.Repeat("again ", 30), Anyway: anyway})
		}
		return all
	}
	var lines []string
	for _, r := range []drover.DrillReport{
		report(nil),
		report(func(r *drover.DrillReport) {
			r.Hits, r.Extra = map[string]int{"SIGTERM": 1, "pause": 1, "program": 2, "SIGKILL": 1}, 0
		}),
		report(func(r *drover.DrillReport) { r.Hits = nil }),
		report(func(r *drover.DrillReport) { r.Doubts = 1 }),
		report(func(r *drover.DrillReport) { r.Differences = differences(1, false) }),
		report(func(r *drover.DrillReport) { r.Differences = append(differences(2, true), differences(5, false)...) }),
		report(func(r *drover.DrillReport) {
			r.Differences = []drover.Difference{{Item: 3, Value: "x", What: "state", Before: "SUCCEEDED", After: "QUARANTINED"}, {Item: 4, Value: "y", What: "o/4.txt", Before: "", After: "ab"}}
		}),
	} {
		lines = append(append(lines, drillLines(r)...), "")
	}
	checkScreen(t, "map-drill", lines)
}

func TestTheCommandForAllItemsIsThatWithoutItsPilot(t *testing.T) {
	for _, row := range []struct {
		typed []string
		piped bool
		want  string
	}{
		{[]string{"map", "--from", "1-9", "--pilot", "20", "-j", "2", "--", "./w.sh", "{}"}, false, "drover map --from 1-9 -j 2 -- ./w.sh {}"},
		{[]string{"map", "--pilot=20", "--from", "-", "w.sh", "--pilot", "a b", "it's", ""}, true, `... | drover map --from - w.sh --pilot 'a b' 'it'\''s' ''`},
		{[]string{"map", "--from", "*.png", "--pilot", "2", "sh", "-c", "x | y"}, false, "drover map --from '*.png' sh -c 'x | y'"},
	} {
		a := &app{typed: row.typed}
		if diff := cmp.Diff(row.want, newTrial(a).commandWithoutPilot(row.piped)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestOnlyAYesIsAYes(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, "Y\n": true, " yes \n": true, "y": true, "\n": false, "": false, "n\n": false, "yesterday\n": false, "no\ny\n": false} {
		if got := answer(strings.NewReader(typed)); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
}

func TestOneAsksWhereSomebodyCanAnswer(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	a := &app{in: tty, err: tty}
	from, to, ok := a.answerStreams(false)
	if !ok || to != io.Writer(tty) {
		t.Fatalf("nobody is asked at a terminal: %v", ok)
	}
	if _, err := master.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	if !answer(from) {
		t.Error("the answer was not heard")
	}
	a.err = io.Discard
	if _, _, ok := a.answerStreams(false); ok {
		t.Error("one is asked who does not see the question")
	}
	a.err, a.in = tty, nil
	if _, _, ok := a.answerStreams(false); ok {
		t.Error("nobody is asked")
	}
}
