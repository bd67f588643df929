package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
)

// anUnevenMap leaves a map of 60 numbers in the store that has ended: item n took
// about n² milliseconds, and those that end in 7 failed.
func (d *desk) anUnevenMap() (short string) {
	d.t.Helper()
	m := d.submitMap(job.Spec{Task: "uneven", Program: "./work.sh", Args: []string{"{}"}, Limits: job.Limits{Memory: 4 << 30, CPUs: 4}, Items: job.Items{From: "1-60"}},
		20, items.Source{From: "1-60"})
	m.work(func(t ledger.Try) ledger.Result {
		n := int64(t.Item)
		r := ledger.Result{Item: t.Item, Ended: 1_700_000_000_000_000 + n*1e6, Wall: n * n * 1000, CPU: n * n * 500, MaxRSS: (100 + (n*37)%60) << 20, Head: fmt.Sprintf(`{"n":%d}`, n), Size: 8}
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
	checkScreen(t, "map-figures", lines)
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
		Use   map[string]spreadJSON
		Ways  []drover.Group `json:"failed_groups"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	s := got.Use["seconds"]
	if got.State != "FAILED" || got.Items.Failed != 6 || len(got.Ways) != 1 || got.Ways[0].Items != 6 || s.Items != 60 || s.Max != 3.6 || s.MaxItem != 60 || s.P50 < 0.88 || s.P50 > 0.92 ||
		len(s.Histogram) != histogramBars || got.Use["cpu_seconds"].Max != 1.8 || got.Use["max_rss_bytes"].Items != 60 {
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
	if exitOf(err) != 1 || !strings.Contains(said, want) || !strings.HasSuffix(said, "exit 7': exit status 7\n") {
		t.Errorf("%q, %v", said, err)
	}
}

func TestANoticeThatTakesTooLongIsEnded(t *testing.T) {
	var out bytes.Buffer
	a := &app{err: &out, notify: "echo begun; sleep 1000 & sleep 1000; echo never"}
	err := newNotifier(a).runNotice(t.Context(), os.Environ(), 50*time.Millisecond)
	if err == nil || !strings.HasPrefix(err.Error(), "it took longer than 50ms") || strings.Contains(out.String(), "never") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWatchingWithoutATerminalSaysWhatChanges(t *testing.T) {
	var out bytes.Buffer
	now := at
	s := &watchScreen{out: &out, told: map[string]toldFact{}, now: func() time.Time { return now }, size: func() (int, int, bool) { return 0, 0, false }}
	frame := func(state job.State, done int) watchFrame {
		m := looked(state, job.Tally{Items: 1000, Succeeded: done}, nil)
		run := drover.Status{ID: "9q1m", Project: "demo", Task: "train", State: state, Attempt: 1 + done/500}
		return watchFrame{facts: []watchFact{factOf(m.Status, &m), factOf(run, nil)}, live: !state.Settled(), idle: state == job.Interrupted, stuck: errors.New("stuck")}
	}
	var frames []watchFrame
	var after []time.Duration
	add := func(when time.Duration, state job.State, done int) {
		frames, after = append(frames, frame(state, done)), append(after, when)
	}
	add(0, job.Starting, 0)
	add(1*time.Second, job.Running, 10)
	add(2*time.Second, job.Running, 20) // 1 % more
	add(3*time.Second, job.Running, 200)
	add(12*time.Second, job.Running, 210) // 9 s later
	add(13*time.Second, job.Running, 220)
	add(14*time.Second, job.Running, 600)
	add(15*time.Second, job.Succeeded, 1000)
	i, base := 0, now
	look := func(context.Context) (watchFrame, error) {
		now = base.Add(after[i])
		i++
		return frames[i-1], nil
	}
	ticks := make(chan time.Time, len(frames))
	for range frames {
		ticks <- time.Time{}
	}
	if err := newWatcher((&app{})).showFrames(t.Context(), look, ticks, s); err != nil {
		t.Fatal(err)
	}
	want := `3xw8 photos/resize ◌ starting   0.0%  1,000 left
9q1m demo/train ◌ starting
3xw8 photos/resize ● running   1.0%  10 succeeded, 990 left
9q1m demo/train ● running
3xw8 photos/resize ● running   20.0%  200 succeeded, 800 left
3xw8 photos/resize ● running   22.0%  220 succeeded, 780 left
3xw8 photos/resize ● running   60.0%  600 succeeded, 400 left
9q1m demo/train ● running   attempt 2
3xw8 photos/resize ✓ succeeded   100.0%  1,000 succeeded
9q1m demo/train ✓ succeeded   attempt 3
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestWatchingEndsAsTheJobDoes(t *testing.T) {
	s := &watchScreen{out: &bytes.Buffer{}, told: map[string]toldFact{}, now: time.Now, size: func() (int, int, bool) { return 0, 0, false }}
	ticks := make(chan time.Time, 100)
	for range 100 {
		ticks <- time.Time{}
	}
	for name, row := range map[string]struct {
		frames []watchFrame
		want   string
		looks  int
	}{
		"success":     {[]watchFrame{{live: true}, {}}, "<nil>", 2},
		"failure":     {[]watchFrame{{live: true}, {code: 7}}, "exit status 7", 2},
		"interrupted": {[]watchFrame{{live: true, idle: true, stuck: errors.New("nobody works on it")}}, "nobody works on it", watchIdle + 1},
	} {
		n := 0
		look := func(context.Context) (watchFrame, error) {
			n++
			return row.frames[min(n, len(row.frames))-1], nil
		}
		if err := newWatcher((&app{})).showFrames(t.Context(), look, ticks, s); fmt.Sprint(err) != row.want || n != row.looks {
			t.Errorf("%s: %v after %d looks", name, err, n)
		}
	}
}

func TestWatchingOnATerminalDrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := &watchScreen{out: &out, size: func() (int, int, bool) { return 20, 5, true }}
	text := "1\n2\n" + strings.Repeat("wide ", 10) + "\n4\n5\n6\n"
	show := func(f watchFrame) string {
		out.Reset()
		if err := s.show(f); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := show(watchFrame{text: text, live: true}); got != "1\x1b[K\n2\x1b[K\nwide wide wide wid…\x1b[K\n... 3 lines more\x1b[K\n\x1b[J" {
		t.Errorf("first %q", got)
	}
	if got := show(watchFrame{text: "1\n", live: true}); got != "\x1b[4A\r1\x1b[K\n\x1b[J" {
		t.Errorf("second %q", got)
	}
	if got := show(watchFrame{text: text}); strings.Count(got, "\n") != 6 { // the last frame stays, whole
		t.Errorf("last %q", got)
	}
}

// aMapScreen is drover top of a map that runs.
func aMapScreen(width, height int) topState {
	s := topState{paper: paper{width: width, height: height}, now: noon, open: "3xw8"}
	m := looked(job.Running, job.Tally{Items: 1_000_000, Succeeded: 616_150, Failed: 613}, func(m *drover.MapStatus) {
		m.Running, m.Workers, m.Retried, m.Started = 3, 3, 1204, noon.Add(-12*time.Minute)
		m.Agents = []drover.MapAgent{
			{Host: "laptop", State: "running", Slots: 2, Running: 2, Recorded: 41_201, Failed: 12, Items: [][2]int{{614_401, 618_496}}},
			{Host: "gpu-07", State: "running", Slots: 8, Running: 1, Recorded: 1, Items: [][2]int{{1, 1}, {4097, 5000}, {7000, 7001}}},
			{Host: "gpu-08", State: "preparing", Doing: "building environment"},
		}
		code := 1
		for i := range 4 {
			m.Newest = append(m.Newest, drover.ItemResult{Item: 900 + i, State: job.ItemFailed, Try: drover.Try{Code: &code, Reason: "cannot identify\x1b[2J image", Ended: at.Add(time.Duration(i) * time.Second)}})
		}
	})
	f := drover.Figures{Groups: []drover.Group{{Why: "exit status 1", Signature: "cannot identify image file '...'", Items: 602, First: 997}, {Why: "out of memory: 4 GB limit", Items: 11, First: 81220}}}
	f.Seconds = drover.Spread{Count: 100, Min: 0.2, Max: 31, MaxItem: 77, Buckets: map[int]int{-20: 20, 0: 60, 10: 15, 60: 4, 87: 1}}
	f.CPU = drover.Spread{Count: 100, Min: 0.1, Max: 30, MaxItem: 77, Buckets: map[int]int{-20: 60, 0: 40}}
	f.Memory = drover.Spread{Count: 100, Min: 1e8, Max: 3e8, MaxItem: 5, Buckets: map[int]int{470: 95, 490: 5}}
	s = s.enter(m.Status)
	s = s.seeJob("3xw8", topJob{status: m.Status, many: &topMap{s: m, rate: 831.2, figures: f}}, nil)
	return s.seeLog([]string{"[614402] ok", "[614403] ok", "[614404] GET s3://photos/raw/614404.jpg"}, 3)
}

func TestTheScreenOfAMapFitsItsTerminal(t *testing.T) {
	for _, size := range [][2]int{{100, 30}, {80, 24}, {40, 12}, {20, 5}} {
		lines := aMapScreen(size[0], size[1]).lines()
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if ansi.StringWidth(l) > size[0] || strings.Contains(l, "\x1b") {
				t.Errorf("%v: %q is %d wide", size, l, ansi.StringWidth(l))
			}
		}
		checkScreen(t, fmt.Sprintf("top-map-%dx%d", size[0], size[1]), lines)
	}
	s := aMapScreen(80, 24)
	if s, ask := s.key("down", ""); ask != askNothing || s.node != 0 {
		t.Error("a map has no nodes to go to")
	}
}
