package look

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/app/apptest"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/job"
)

func TestWatchingWithoutATerminalSaysWhatChanges(t *testing.T) {
	var out bytes.Buffer
	now := clitest.At
	s := &WatchScreen{out: &out, told: map[string]toldFact{}, now: func() time.Time { return now }, size: func() (int, int, bool) { return 0, 0, false }}
	frame := func(state job.State, done int) WatchFrame {
		m := clitest.Looked(state, job.Tally{Items: 1000, Succeeded: done}, nil)
		run := drover.Status{ID: "9q1m", Project: "demo", Task: "train", State: state, Attempt: 1 + done/500}
		return WatchFrame{facts: []watchFact{factOf(m), factOf(run)}, Live: !state.Settled(), Idle: state == job.Interrupted, stuck: errors.New("stuck")}
	}
	var frames []WatchFrame
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
	look := func(context.Context) (WatchFrame, error) {
		now = base.Add(after[i])
		i++
		return frames[i-1], nil
	}
	ticks := make(chan time.Time, len(frames))
	for range frames {
		ticks <- time.Time{}
	}
	if err := NewWatcher((&app.App{})).ShowFrames(t.Context(), look, ticks, s); err != nil {
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
	s := &WatchScreen{out: &bytes.Buffer{}, told: map[string]toldFact{}, now: time.Now, size: func() (int, int, bool) { return 0, 0, false }}
	ticks := make(chan time.Time, 100)
	for range 100 {
		ticks <- time.Time{}
	}
	for name, row := range map[string]struct {
		frames []WatchFrame
		want   string
		looks  int
	}{
		"success":     {[]WatchFrame{{Live: true}, {}}, "<nil>", 2},
		"failure":     {[]WatchFrame{{Live: true}, {code: 7}}, "exit status 7", 2},
		"interrupted": {[]WatchFrame{{Live: true, Idle: true, stuck: errors.New("nobody works on it")}}, "nobody works on it", summary.WatchIdle + 1},
	} {
		n := 0
		look := func(context.Context) (WatchFrame, error) {
			n++
			return row.frames[min(n, len(row.frames))-1], nil
		}
		if err := NewWatcher((&app.App{})).ShowFrames(t.Context(), look, ticks, s); fmt.Sprint(err) != row.want || n != row.looks {
			t.Errorf("%s: %v after %d looks", name, err, n)
		}
	}
}

func TestWatchingOnATerminalDrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := &WatchScreen{out: &out, size: func() (int, int, bool) { return 20, 5, true }}
	text := "1\n2\n" + strings.Repeat("wide ", 10) + "\n4\n5\n6\n"
	show := func(f WatchFrame) string {
		out.Reset()
		if err := s.showFrame(f); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := show(WatchFrame{text: text, Live: true}); got != "1\x1b[K\n2\x1b[K\nwide wide wide wid…\x1b[K\n... 3 lines more\x1b[K\n\x1b[J" {
		t.Errorf("first %q", got)
	}
	if got := show(WatchFrame{text: "1\n", Live: true}); got != "\x1b[4A\r1\x1b[K\n\x1b[J" {
		t.Errorf("second %q", got)
	}
	if got := show(WatchFrame{text: text}); strings.Count(got, "\n") != 6 { // the last frame stays, whole
		t.Errorf("last %q", got)
	}
}

func TestManyWaysToFailAreCut(t *testing.T) {
	f := drover.Figures{}
	for i := range 2*summary.FirstGroups + 2 {
		f.Groups = append(f.Groups, drover.Group{Items: i + 1, First: i + 1, Pattern: fmt.Sprintf("failure %d", i)})
	}
	lines := apptest.OnScreen(func(a *app.App) { NewStatus(a).printFigures(f, nil) })
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "and 2 more ways to fail\n") {
		t.Errorf("it prints\n%s", text)
	}
}
