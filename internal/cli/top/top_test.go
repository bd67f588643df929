package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/job"
)

// aScreen is drover top with three jobs in its list.
func aScreen(width, height int) topState {
	s := topState{Paper: plot.Paper{Width: width, Height: height}, now: clitest.Noon}
	return s.updateJobs([]drover.Status{
		{ID: "a1b2c3", Project: "vision", Task: "old", State: job.Succeeded, Attempt: 1, Submitted: clitest.Noon.Add(-3 * time.Hour), Started: clitest.Noon.Add(-3 * time.Hour), Ended: clitest.Noon.Add(-2 * time.Hour)},
		{ID: "7f3k2a", Project: "vision", Task: "resnet", State: job.Running, Attempt: 2, Submitted: clitest.Noon.Add(-time.Hour), Started: clitest.Noon.Add(-50 * time.Minute),
			Nodes: []drover.Node{{Rank: 0, State: "running", Host: "gn042"}, {Rank: 1, State: "running", Host: "gn043"}}},
		{ID: "9q1m7k", Project: "nlp", Task: "embed", State: job.Failed, Attempt: 1, Submitted: clitest.Noon.Add(-2 * time.Hour), Started: clitest.Noon.Add(-2 * time.Hour), Ended: clitest.Noon.Add(-119 * time.Minute),
			Reason: "ValueError: could not convert string to float: 'n\x1b[31mone' (exit status 1)"},
	}, nil)
}

// anOpenJob is the running one, with all there may be to show.
func anOpenJob(width, height int) topState {
	s := pressed(aScreen(width, height), "enter")
	look := topJob{status: s.jobs[0], series: clitest.ATraining(100), usage: []plot.NodeUsage{clitest.SomeUsage(0, 90, 2), clitest.SomeUsage(1, 40, 2)}}
	for i := range 6 {
		look.events = append(look.events, job.Event{Time: clitest.Noon.Add(time.Duration(i-6) * time.Minute).Local(), Kind: "agent", Text: fmt.Sprintf("saved checkpoint %d: 161960 bytes", i)})
	}
	s = s.updateJob("7f3k2a", look, nil)
	var log []string
	for i := range 40 {
		log = append(log, topLine(fmt.Sprintf("epoch %d\tloss=%.3f 損失\r\n", i+60, 2/float64(i+1))))
	}
	return s.updateLog(append(log, topLine("  0%|    |\r 50%|##  |\r100%|####|\n"), topLine("\x1b[2J\x1b]0;title\x07done")), 42)
}

func pressed(s topState, keys ...string) topState {
	for _, k := range keys {
		text := ""
		switch {
		case k == "space":
			text = " "
		case len(k) == 1:
			text = k
		}
		s, _ = s.pressKey(k, text)
	}
	return s
}

func TestTheScreensOfTop(t *testing.T) {
	t.Setenv("TZ", "UTC")
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	for name, s := range map[string]topState{
		"list-80x24":           aScreen(80, 24),
		"list-30x6":            aScreen(30, 6),
		"list-empty-80x6":      topState{Paper: plot.Paper{Width: 80, Height: 6}}.updateJobs(nil, nil),
		"job-80x24":            anOpenJob(80, 24),
		"job-130x30":           anOpenJob(130, 30),
		"job-40x12":            anOpenJob(40, 12),
		"job-20x5":             anOpenJob(20, 5),
		"job-second-node":      pressed(anOpenJob(80, 16), "down"),
		"job-searching":        pressed(anOpenJob(80, 12), "/", "0", ".", "0", "7"),
		"job-searched":         pressed(anOpenJob(80, 12), "/", "0", ".", "0", "7", "enter"),
		"job-asking":           pressed(anOpenJob(80, 12), "c"),
		"job-scrolled":         pressed(anOpenJob(80, 12), "pgup", "pgup"),
		"help-80x24":           pressed(aScreen(80, 24), "?"),
		"job-just-opened":      pressed(aScreen(60, 10), "enter"),
		"list-unreadable":      aScreen(60, 6).updateJobs(nil, errors.New("read jobs: the disk is gone")),
		"job-nothing-measured": aScreen(80, 10).openJob(drover.Status{ID: "x", Project: "p", Task: "t", State: job.Pending}),
	} {
		clitest.CheckScreen(t, name, s.screenLines())
	}
}

func TestNoSizeOfAScreenIsTooSmall(t *testing.T) {
	for _, base := range []topState{aScreen(80, 24), anOpenJob(80, 24)} {
		base.Colour = true
		for _, h := range []int{0, 1, 2, 3, 4, 5, 7, 9, 12, 17, 24, 40} {
			for _, w := range []int{0, 1, 5, 20, 33, 79, 110, 200} {
				for _, keys := range [][]string{nil, {"?"}, {"c"}, {"/", "x"}, {"/", "l", "enter", "pgup"}, {"down", "home"}} {
					s := base
					s.Width, s.Height = w, h
					lines := pressed(s, keys...).screenLines()
					if len(lines) > h {
						t.Fatalf("%dx%d after %q: %d lines", w, h, keys, len(lines))
					}
					for _, l := range lines {
						if ansi.StringWidth(l) > w || strings.ContainsAny(ansi.Strip(l), "\x1b\n\r\x07\t") {
							t.Fatalf("%dx%d after %q: %q", w, h, keys, l)
						}
					}
				}
			}
		}
	}
}

func TestWithoutColourOfTopNothingIsPaintedAndNothingIsLost(t *testing.T) {
	plain, painted := anOpenJob(100, 24), anOpenJob(100, 24)
	painted.Colour = true
	bare := strings.Join(plain.screenLines(), "\n")
	if strings.Contains(bare, "\x1b") {
		t.Errorf("it is painted: %q", bare)
	}
	coloured := strings.Join(painted.screenLines(), "\n")
	if !strings.Contains(coloured, "\x1b[36m● running") {
		t.Errorf("it is not painted: %q", coloured)
	}
	if diff := cmp.Diff(bare, ansi.Strip(coloured)); diff != "" {
		t.Errorf("colours say more than words (-without +with):\n%s", diff)
	}
}

func TestTheKeysOfTop(t *testing.T) {
	list := aScreen(80, 24)
	if got, _ := list.chosenJob(); got.ID != "7f3k2a" {
		t.Errorf("the live job is not the first, but %s", got.ID)
	}
	for _, row := range []struct {
		from topState
		keys string
		want topAsk
		open string
		id   string // of the target
		node int
	}{
		{list, "q", askQuit, "", "7f3k2a", 0},
		{list, "ctrl+c", askQuit, "", "7f3k2a", 0},
		{list, "ctrl+z", askPause, "", "7f3k2a", 0},
		{list, "down", askNothing, "", "9q1m7k", 0},
		{list, "down down down down", askNothing, "", "a1b2c3", 0},
		{list, "j j k", askNothing, "", "9q1m7k", 0},
		{list, "up", askNothing, "", "7f3k2a", 0},
		{list, "enter", askLook, "7f3k2a", "7f3k2a", 0},
		{list, "/", askNothing, "", "7f3k2a", 0}, // there is no log to search
		{list, "down enter esc", askLook, "", "9q1m7k", 0},
		{list, "c y", askCancel, "", "7f3k2a", 0},
		{list, "c n", askNothing, "", "7f3k2a", 0},
		{list, "c enter", askNothing, "", "7f3k2a", 0}, // only y is yes
		{list, "c ctrl+c", askQuit, "", "7f3k2a", 0},
		{list, "down c y", askNothing, "", "9q1m7k", 0}, // it has ended: y is no answer to anything
		{list, "? q", askQuit, "", "7f3k2a", 0},
		{list, "? x", askNothing, "", "7f3k2a", 0},
		{list, "enter down", askLook, "7f3k2a", "7f3k2a", 1},
		{list, "enter down down", askNothing, "7f3k2a", "7f3k2a", 1}, // there is no third
		{list, "enter down up", askLook, "7f3k2a", "7f3k2a", 0},
		{list, "enter / q enter", askNothing, "7f3k2a", "7f3k2a", 0}, // q is searched for
		{list, "enter / ctrl+c", askQuit, "7f3k2a", "7f3k2a", 0},
		{list, "enter / x enter esc", askNothing, "7f3k2a", "7f3k2a", 0}, // the search goes first
		{list, "enter c y", askCancel, "7f3k2a", "7f3k2a", 0},
		{topState{}, "down", askNothing, "", "", 0},
		{topState{}, "enter", askNothing, "", "", 0},
		{topState{}, "c", askNothing, "", "", 0},
	} {
		keys := strings.Fields(row.keys)
		s := pressed(row.from, keys[:len(keys)-1]...)
		last := keys[len(keys)-1]
		s, got := s.pressKey(last, last)
		target, _ := s.chosenJob()
		if got != row.want || s.open != row.open || target.ID != row.id || s.node != row.node {
			t.Errorf("%s: asks %d, open %q, on %q, node %d; want %+v", row.keys, got, s.open, target.ID, s.node, row)
		}
	}
}

func TestASearchInTopIsTypedMendedAndTakenBack(t *testing.T) {
	for typed, want := range map[string]string{
		"/ L O S S = 0 . 0 5 1":    "1 line", // small and large letters are the same
		"/ x backspace d o n e":    "1 line", // what was printed, made harmless
		"/ n o t ctrl+u e p o c h": "40 lines",
		"/ (":                      "0 lines", // no expression: a text
		"/ e p o c h enter / z z":  "0 lines",
		"/ e p o c h enter / esc":  "40 lines",
		"/ h space 8 . space":      "10 lines",
	} {
		s := pressed(anOpenJob(80, 24), append(strings.Fields(typed), "enter")...)
		if typed == "/ e p o c h enter / esc" {
			s = pressed(anOpenJob(80, 24), strings.Fields(typed)...)
		}
		if got := s.logTitle(); !strings.Contains(got, ": "+want+" with") {
			t.Errorf("%s: %q, want %s", typed, got, want)
		}
	}
	if s := pressed(anOpenJob(80, 24), "/", "x", "enter", "/", "enter"); s.search != nil {
		t.Errorf("an empty search finds %q", s.search)
	}
	s, _ := pressed(anOpenJob(80, 24), "/").pressKey("paste", "a\x1b[2Jb\nc")
	if s.typed != `a\x1b[2Jb c` {
		t.Errorf("pasted %q", s.typed)
	}
}

func TestTopKeepsThePlaceOfTheReader(t *testing.T) {
	s := pressed(anOpenJob(80, 24), "pgup")
	at := func(s topState) string { return s.logLines(3)[0] }
	before := at(s)
	s = s.updateLog(append(s.log, "one more", "two more"), 2)
	if got := at(s); got != before {
		t.Errorf("the log moved under the reader from %q to %q", before, got)
	}
	s = pressed(s, "end")
	if got := s.logLines(1)[0]; got != "two more" {
		t.Errorf("the end is %q", got)
	}
	// A job that comes and one that ends move the list, not the marker.
	s = pressed(aScreen(80, 24), "down")
	jobs := append([]drover.Status{{ID: "new", State: job.Pending, Submitted: clitest.Noon}}, s.jobs...)
	jobs[1].State = job.Cancelled
	s = s.updateJobs(jobs, nil)
	if got, _ := s.chosenJob(); got.ID != "9q1m7k" {
		t.Errorf("the marker is on %s", got.ID)
	}
	// What was asked for a job that is not open any more comes too late.
	if got := anOpenJob(80, 24).updateJob("other", topJob{}, nil); got.job.status.ID != "7f3k2a" {
		t.Errorf("another job's news were taken: %+v", got.job.status)
	}
}

func TestTheTailOfALogIsBounded(t *testing.T) {
	var tail topTail
	if _, total := tail.linesSince(0); total != 0 {
		t.Errorf("%d lines in none", total)
	}
	for i := range 3*topKept + 7 {
		tail.addLine(fmt.Sprint(i))
	}
	lines, total := tail.linesSince(0)
	if total != 3*topKept+7 || len(lines) != topKept || lines[topKept-1] != fmt.Sprint(total-1) {
		t.Errorf("%d of %d lines, the last is %s", len(lines), total, lines[len(lines)-1])
	}
	if len(tail.lines) > 2*topKept {
		t.Errorf("it keeps %d lines", len(tail.lines))
	}
	if lines, same := tail.linesSince(total); lines != nil || same != total {
		t.Errorf("nothing came, and it gives %d lines", len(lines))
	}
}

// aMapScreen is drover top of a map that runs.
func aMapScreen(width, height int) topState {
	s := topState{Paper: plot.Paper{Width: width, Height: height}, now: clitest.Noon, open: "3xw8"}
	m := clitest.Looked(job.Running, job.Tally{Items: 1_000_000, Succeeded: 616_150, Failed: 613}, func(m *drover.Status) {
		m.Running, m.Workers, m.Retried, m.Started = 3, 3, 1204, clitest.Noon.Add(-12*time.Minute)
		m.Agents = []drover.MapAgent{
			{Host: "laptop", State: "running", Slots: 2, Running: 2, Recorded: 41_201, Failed: 12, Items: [][2]int{{614_401, 618_496}}},
			{Host: "gpu-07", State: "running", Slots: 8, Running: 1, Recorded: 1, Items: [][2]int{{1, 1}, {4097, 5000}, {7000, 7001}}},
			{Host: "gpu-08", State: "preparing", Doing: "building environment"},
		}
		code := 1
		for i := range 4 {
			m.Newest = append(m.Newest, drover.ItemResult{Item: 900 + i, State: job.ItemFailed, Try: drover.Try{Code: &code, Reason: "cannot identify\x1b[2J image", Ended: clitest.At.Add(time.Duration(i) * time.Second)}})
		}
	})
	f := drover.Figures{Groups: []drover.Group{{Why: "exit status 1", Signature: "cannot identify image file '...'", Items: 602, First: 997}, {Why: "out of memory: 4 GB limit", Items: 11, First: 81220}}}
	f.Seconds = drover.Spread{Count: 100, Min: 0.2, Max: 31, MaxItem: 77, Buckets: map[int]int{-20: 20, 0: 60, 10: 15, 60: 4, 87: 1}}
	f.CPU = drover.Spread{Count: 100, Min: 0.1, Max: 30, MaxItem: 77, Buckets: map[int]int{-20: 60, 0: 40}}
	f.Memory = drover.Spread{Count: 100, Min: 1e8, Max: 3e8, MaxItem: 5, Buckets: map[int]int{470: 95, 490: 5}}
	s = s.openJob(m)
	s = s.updateJob("3xw8", topJob{status: m, many: &topMap{s: m, rate: 831.2, figures: f}}, nil)
	return s.updateLog([]string{"[614402] ok", "[614403] ok", "[614404] GET s3://photos/raw/614404.jpg"}, 3)
}

func TestTheScreenOfAMapFitsItsTerminal(t *testing.T) {
	for _, size := range [][2]int{{100, 30}, {80, 24}, {40, 12}, {20, 5}} {
		lines := aMapScreen(size[0], size[1]).screenLines()
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if ansi.StringWidth(l) > size[0] || strings.Contains(l, "\x1b") {
				t.Errorf("%v: %q is %d wide", size, l, ansi.StringWidth(l))
			}
		}
		clitest.CheckScreen(t, fmt.Sprintf("top-map-%dx%d", size[0], size[1]), lines)
	}
	s := aMapScreen(80, 24)
	if s, ask := s.pressKey("down", ""); ask != askNothing || s.node != 0 {
		t.Error("a map has no nodes to go to")
	}
}

func TestAJobThatTopNoLongerListsIsNamed(t *testing.T) {
	if _, err := (&topStore{}).findJob("7fk2"); err == nil || err.Error() != "show job 7fk2: it is not in the list any more" {
		t.Error(err)
	}
}

func TestTopSaysThatNoWorkerHasStarted(t *testing.T) {
	if lines := (topState{Paper: plot.Paper{Width: 80, Height: 24}, job: topJob{many: &topMap{s: drover.Status{MapStatus: &drover.MapStatus{}}}}}).agentLines(); len(lines) != 1 || lines[0] != "  no worker has started yet" {
		t.Errorf("top shows %q", lines)
	}
}
