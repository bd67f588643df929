package cli

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/ledger"
	prices "github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/job"
)

func TestAMistypedMapIsOneErrorWithTheNextStep(t *testing.T) {
	d := newDesk(t)
	write(t, "items.txt", "a\nb\n")
	write(t, "work.sh", "")
	write(t, "run.yaml", "verb: run\nprogram: ./work.sh\n")
	for _, row := range []struct{ typed, text, hint string }{
		{"map ./work.sh {}", "no items given", "Try drover map --from items.txt -- ./work.sh {}."},
		{"map --from items.txt", "no program given", "Try drover map --from items.txt -- ./work.sh {}."},
		{"map --from items.txt --", "no program given", "Try drover map --from items.txt -- ./work.sh {}."},
		{"map --from items.txt -j 0 -- ./work.sh {}", "read --slots: 0", "Use 1 or more."},
		{"map --from items.txt -j -1 -- ./work.sh {}", "read --slots: -1", "Use 1 or more."},
		{"map --from items.txt -j many -- ./work.sh {}", `read --slots: "many" is not a whole number`, "drover help map lists the flags."},
		{"map --from items.txt -j 20000 -- ./work.sh {}", "20000 items at once", "Use -j 1 to 10000."},
		{"map --from items.txt --workers 0 -- ./work.sh {}", "read --workers: 0", "Use 1 or more."},
		{"map --from items.txt --retries -1 -- ./work.sh {}", "read --retries: -1", "Use 0 or more."},
		{"map --from items.txt --max-fails some -- ./work.sh {}", `at most "some" items may fail`, "Use a number such as 10, or percent such as 5%."},
		{"map --from items.txt --max-fails 101% -- ./work.sh {}", `at most "101%" items may fail`, "Use a number such as 10, or percent such as 5%."},
		{"map --from items.txt --item-timeout soon -- ./work.sh {}", `"soon"`, "Write it as 90s, 15m, 2h or 1d."},
		{"map --from items.txt --format xml -- ./work.sh {}", `unknown format "xml"`, "Use lines, csv or jsonl."},
		{"map --from items.txt --out ../x -- ./work.sh {}", `output "../x" is not a name below the folder for outputs`, "Use a name such as thumbs/{.stem}.png."},
		{"map --from items.txt --nodes 2 -- ./work.sh {}", "drover map has no --nodes", "Use --workers for more agents."},
		{"map --from items.txt --ic 2 -- ./work.sh {}", "drover map has no --nodes", "Use --workers for more agents."},
		{"map --from items.txt --timeout 2h -- ./work.sh {}", "drover map has no --timeout", "Use --item-timeout: it is the limit of each item."},
		{"map --from items.txt --no-mounts -- ./work.sh {}", "drover map has no --no-mounts", "Leave it out: items see the machine as it is."},
		{"map --from items.txt --launcher mpi -- ./work.sh {}", `drover map has no flag "--launcher"`, "drover help map lists the flags."},
		{"map --form items.txt -- ./work.sh {}", `drover map has no flag "--form"`, "Did you mean --from?"},
		{"map --from items.txt --shell echo {}", "--shell takes one command line, got 2 words", "Quote the whole line:"},
		{"map --from items.txt -o items.txt -- ./work.sh {}", `read --output: "items.txt" is a file`, "Name a folder with -o."},
		{"map --from nothing.txt -- ./work.sh {}", `read items from "nothing.txt": it is not there`, "Check the path, or pipe the items in with --from -."},
		{"map --from itmes.txt -- ./work.sh {}", `read items from "itmes.txt": it is not there`, "Did you mean items.txt?"},
		{"map --from items.txt run.yaml", "read job file run.yaml: it says verb: run", "Use drover run run.yaml, or write verb: map in it."},
		{"run --from items.txt ./work.sh", `drover run has no flag "--from"`, "Items are for drover map: drover map --from items.txt -- ./work.sh {}."},
		{"items last", "there are none yet", "Start one: drover run train.py."},
		{"items last x", "there are none yet", "Start one: drover run train.py."},
		{"items a b c", "drover items takes a job and a number, not 3 words", "Name a job, and one item: drover items a b."},
		{"items last --state done", `"done" is not an item state`, "Use pending, leased, succeeded, failed, quarantined, cancelled."},
		{"items last --state faild", `"faild" is not an item state`, "Did you mean failed?"},
		{"results --csv --json", "both --csv and --json", "Leave one of them out."},
		{"verify a b", "2 jobs named, drover verify takes one", "Name one job: drover verify a."},
	} {
		args := strings.Fields(row.typed)
		if args[0] == "map" || args[0] == "run" {
			args = slices.Insert(args, 1, "--on", "mem")
		}
		out, _, err := d.typed(args...)
		if fault.Exit(err) != fault.ExitUsage || out != "" || !strings.Contains(fmt.Sprint(err), row.text) || !strings.HasPrefix(fault.Hint(err), row.hint) {
			t.Errorf("drover %s: %v\n  %s\n%s", row.typed, err, fault.Hint(err), out)
		}
	}
}

func TestItemsThatNobodyPipesInAreRefused(t *testing.T) {
	d := newDesk(t)
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	d.app.in = tty
	_, _, err = d.typed("map", "--on", "mem", "--from", "-", "--", "true")
	if fault.Exit(err) != fault.ExitUsage || !strings.Contains(err.Error(), "read items from standard input: it is a terminal") || fault.Hint(err) == "" {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
}

func TestWhatIsTypedIsWhatTheSpecSays(t *testing.T) {
	d := newDesk(t)
	write(t, "map.yaml", "verb: map\nprogram: ./work.sh\nargs: ['{}']\nfrom: list.csv\nslots: 3\nworkers: 2\nout: [a]\n")
	for _, row := range []struct {
		typed string
		want  job.Spec
	}{
		{"map --from 1-9 -- ./work.sh -x {} --on", job.Spec{Program: "./work.sh", Args: []string{"-x", "{}", "--on"}, Items: job.Items{From: "1-9"}}},
		{"map --from - -j 8 --workers 3 --retries 2 --item-timeout 5s --max-fails 5% --stdin --out a --out b --format csv --cpus 2 --memory 1G --gpus 1 cat",
			job.Spec{Program: "cat", Retries: 2, GPUs: 1, Limits: job.Limits{CPUs: 2, Memory: 1 << 30},
				Items: job.Items{From: "-", Format: "csv", Slots: 8, Workers: 3, ItemTimeout: job.Duration(5 * time.Second), MaxFails: "5%", Stdin: true, Out: []string{"a", "b"}}}},
		{"map --shell --from 1-9 x.yaml", job.Spec{Program: "x.yaml", Items: job.Items{From: "1-9", ByShell: true}}},
		{"map -j 4 --out b map.yaml more", job.Spec{Program: d.t.Name(), Args: []string{"{}", "more"}, Items: job.Items{From: "list.csv", Slots: 4, Workers: 2, Out: []string{"a", "b"}}}},
	} {
		a := *d.app
		cmd := &cobra.Command{Use: "map"}
		s, m := newSpecReader(&a).mapFlags(cmd)
		if err := cmd.ParseFlags(strings.Fields(row.typed)[1:]); err != nil {
			t.Fatal(err)
		}
		got, err := newSpecReader(&a).readMapSpec(cmd, s, m, cmd.Flags().Args())
		if err != nil {
			t.Fatal(err)
		}
		got.Project, got.ProjectOf, got.Nodes = "", "", 0
		if row.want.Program == d.t.Name() { // of a job file: relative to its folder
			dir, _ := os.Getwd()
			row.want.Program, row.want.From = dir+"/work.sh", dir+"/list.csv"
		}
		row.want.Verb = job.Map
		if diff := cmp.Diff(row.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("drover %s (-want +got):\n%s", row.typed, diff)
		}
	}
}

var at = time.Date(2026, 11, 21, 14, 34, 18, 0, time.Local)

// looked is a map at one moment.
func looked(state job.State, t job.Tally, change func(*drover.MapStatus)) drover.MapStatus {
	s := drover.MapStatus{Status: drover.Status{V: 1, ID: "3xw8", Project: "photos", Task: "resize", State: state}, Time: at, Items: t, Workers: 1}
	if change != nil {
		change(&s)
	}
	return s
}

func unpainted(_ job.State, text string) string { return text }

func TestTheProgressBlockFitsItsTerminal(t *testing.T) {
	views := []progressView{
		{s: looked(job.Running, job.Tally{Items: 1_000_000, Succeeded: 616_150, Failed: 613}, func(s *drover.MapStatus) { s.Running, s.Workers, s.Retried = 96, 12, 1204 }),
			rate: 831.2, last: "item 997: exit status 1: cannot identify image file"},
		{s: looked(job.Starting, job.Tally{Items: 12}, func(s *drover.MapStatus) { s.Doing = []string{"preparing: building environment"} })},
		{s: looked(job.Pending, job.Tally{Items: 1}, func(s *drover.MapStatus) { s.Workers = 0 })},
		{s: looked(job.Running, job.Tally{Items: 999, Succeeded: 998}, func(s *drover.MapStatus) { s.Running = 3 }), rate: 0.01},
		{s: looked(job.Running, job.Tally{Items: 40_000, Succeeded: 3, Quarantined: 1}, func(s *drover.MapStatus) { s.Paused = true }), rate: 2},
		{s: looked(job.Running, job.Tally{Items: 3_000_000, Succeeded: 100}, nil), rate: 0.0001, last: "item 7: exit status 1: \x1b[31mred\nand more"},
		{s: looked(job.Cancelled, job.Tally{Items: 5, Succeeded: 3, Cancelled: 2}, nil)},
	}
	for _, width := range []int{100, 80, 40, 10} {
		var lines []string
		for _, v := range views {
			v.width, v.paint = width, unpainted
			block := v.block()
			if len(block) > 4 {
				t.Errorf("width %d: %d lines", width, len(block))
			}
			for _, l := range block {
				if ansi.StringWidth(l) >= width {
					t.Errorf("width %d: %q is %d wide", width, l, ansi.StringWidth(l))
				}
			}
			lines = append(append(lines, block...), "")
		}
		checkScreen(t, fmt.Sprintf("map-progress-%d", width), lines)
	}
}

func TestWithoutATerminalProgressIsALineNowAndThen(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, paint: unpainted, size: func() (int, bool) { return 0, false }}
	show := func(after time.Duration, done int) {
		p.show(looked(job.Running, job.Tally{Items: 1000, Succeeded: done}, func(s *drover.MapStatus) { s.Time = at.Add(after) }), "")
	}
	show(0, 0)
	show(500*time.Millisecond, 200) // too soon
	show(2*time.Second, 200)        // 20 %
	show(3*time.Second, 290)        // 9 % more
	show(4*time.Second, 300)        // 10 %
	show(13*time.Second, 310)       // 9 s later
	show(14*time.Second, 310)       // 10 s later
	show(30*time.Second, 310)       // its rate has changed
	for i := range 1000 {           // nothing else happens
		show(31*time.Second+time.Duration(i)*time.Millisecond, 310)
	}
	want := `3xw8  20.0%  200 succeeded, 800 left  100 items/s  ETA 8.0s (14:34)
3xw8  30.0%  300 succeeded, 700 left  75.0 items/s  ETA 9.3s (14:34)
3xw8  31.0%  310 succeeded, 690 left  22.1 items/s  ETA 31s (14:35)
3xw8  31.0%  310 succeeded, 690 left  10.3 items/s  ETA 1m06s (14:35)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	out.Reset()
	p.quiet = true
	if show(time.Hour, 900); out.Len() > 0 {
		t.Errorf("quiet: %q", out.String())
	}
}

func TestOnATerminalProgressIsRewrittenInPlace(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, paint: unpainted, size: func() (int, bool) { return 80, true }}
	s := looked(job.Running, job.Tally{Items: 10, Succeeded: 1}, nil)
	p.show(s, "item 3: exit status 1")
	if strings.Contains(out.String(), "A\r") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("first: %q", out.String())
	}
	out.Reset()
	p.show(s, "")
	if !strings.HasPrefix(out.String(), "\x1b[2A\r") || strings.Count(out.String(), "\n") != 1 || !strings.HasSuffix(out.String(), "\x1b[J") {
		t.Errorf("second: %q", out.String())
	}
	out.Reset()
	p.clear()
	p.clear()
	if out.String() != "\x1b[1A\r\x1b[J" {
		t.Errorf("clear: %q", out.String())
	}
}

func TestTheRateIsThatOfTheLastMinute(t *testing.T) {
	var p pace
	if p.rate() != 0 {
		t.Error("a rate of nothing")
	}
	p.note(at, 100)
	p.note(at.Add(500*time.Millisecond), 200)
	if p.rate() != 0 {
		t.Errorf("after half a second it is %g", p.rate())
	}
	for i := 1; i <= 600; i++ { // 10 a second for 5 minutes, then 2
		n := 200 + 5*i
		if i > 300 {
			n = 200 + 5*300 + (i - 300)
		}
		p.note(at.Add(time.Duration(i)*500*time.Millisecond), n)
	}
	if r := p.rate(); r < 1.99 || r > 2.01 || len(p.marks) > 130 {
		t.Errorf("rate %g of %d marks", r, len(p.marks))
	}
	p.note(at.Add(time.Hour), 10)
	if p.rate() != 0 || len(p.marks) != 1 {
		t.Errorf("after a reopen %g", p.rate())
	}
}

func TestThePlanOfAMap(t *testing.T) {
	plan := func(items engine.ItemsPlan, change func(*drover.Plan)) *drover.Plan {
		p := &drover.Plan{Plan: engine.Plan{Action: "start", Items: items,
			Spec: job.Spec{Verb: job.Map, Program: "./resize.sh", Args: []string{"{}", "{out}"}, Nodes: 1, Items: job.Items{From: "photos.txt", Workers: 1}}}}
		if change != nil {
			change(p)
		}
		return p
	}
	whole := func(p *drover.Plan) {
		p.Spec.From, p.Spec.Slots, p.Spec.Workers, p.Spec.Retries, p.Spec.MaxFails = "-", 16, 3, 2, "5%"
		p.Spec.Out, p.Spec.ItemTimeout = []string{"small/{.stem}.webp", "meta/{n}.json"}, job.Duration(90*time.Second)
		p.Spec.Limits, p.Spec.GPUs, p.Spec.Queue, p.Spec.Priority = job.Limits{CPUs: 2, Memory: 4 << 30, Processes: 10, Disk: 1 << 30}, 1, "night", 5
		p.Action = "reopen"
		p.Cost = engine.Cost{Requests: ledger.Requests{Reads: 1}, Price: prices.GCS(), Here: true}
	}
	var lines []string
	for _, p := range []*drover.Plan{
		plan(engine.ItemsPlan{Count: 1_000_000, Format: "lines", New: 1_000_000, Chunks: 245}, func(p *drover.Plan) {
			p.Cost = engine.Cost{Requests: ledger.Requests{Writes: 12_000, Lists: 20, Reads: 30_000}, Minute: ledger.Requests{Writes: 10, Reads: 20}, Price: prices.S3()}
		}),
		plan(engine.ItemsPlan{Count: 1, Format: "csv", Fields: []string{"name", "file"}, Notes: []string{"2 blank lines are skipped", "b", "c", "d", "e"},
			New: 3, Again: 1234, Gone: 7, Chunks: 1}, whole),
		plan(engine.ItemsPlan{Count: 12}, func(p *drover.Plan) { p.Spec.Args = nil }),
		plan(engine.ItemsPlan{Count: 12}, func(p *drover.Plan) { p.Spec.Args, p.Spec.Stdin = nil, true }),
	} {
		lines = append(append(lines, newPlanner((&app{})).planLines(p)...), "")
	}
	checkScreen(t, "map-plan", lines)
}

func TestCountsOfItemsAddUp(t *testing.T) {
	number := regexp.MustCompile(`[0-9,]+`)
	for _, s := range []drover.MapStatus{
		looked(job.Running, job.Tally{Items: 10}, func(s *drover.MapStatus) { s.Running = 12 }), // a heartbeat that is late
		looked(job.Running, job.Tally{Items: 10, Succeeded: 4, Failed: 1, Quarantined: 1, Cancelled: 1}, func(s *drover.MapStatus) { s.Running = 2 }),
		looked(job.Succeeded, job.Tally{Items: 10, Succeeded: 10}, nil),
		looked(job.Pending, job.Tally{}, nil),
	} {
		sum := 0
		for _, word := range counts(s) {
			var n int
			if _, err := fmt.Sscan(number.FindString(word), &n); err != nil || n <= 0 {
				t.Errorf("%q", word)
			}
			sum += n
		}
		if sum != s.Items.Items {
			t.Errorf("%q add up to %d, want %d", counts(s), sum, s.Items.Items)
		}
		if p := percent(s.Items); p < 0 || p > 100 || p == 100 && s.Items.Open() > 0 {
			t.Errorf("%v: %g %%", s.Items, p)
		}
	}
	if p := percent(job.Tally{Items: 1_000_000, Succeeded: 999_999}); p != 99.9 {
		t.Errorf("one is left, and it is %g %%", p)
	}
}
