package look

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Watcher is drover status -w: what it prints is kept up to date.
type Watcher struct{ *app.App }

// NewWatcher returns a Watcher of an invocation.
func NewWatcher(a *app.App) Watcher { return Watcher{a} }

// WatchFrame is one look of drover status --watch.
type WatchFrame struct {
	text string // as drover status prints it, for a terminal
	// facts are a line for each job, by its id; beside them how far it is, which
	// an output that is no terminal shows only now and then.
	facts []watchFact
	Live  bool  // something may still happen
	Idle  bool  // but no agent works on it
	code  int   // of the one job that is watched, once it has ended
	stuck error // what to say when it stays idle
	bad   error // what to say at the end: jobs that cannot be read
}

type watchFact struct {
	id, line, progress string
	percent            float64
}

// watchStatus is drover status --watch: it looks until all that it shows has settled.
func (a Watcher) watchStatus(cmd *cobra.Command, args []string, all bool, tags []string) error {
	if a.Settings.JSON {
		return fault.New(fault.Invalid, "Use `drover events -f --json`, or `drover status --json` again and again.", "read command line: --watch does not go with --json")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT)
	defer stop()
	look, err := a.NewFrameReader(ctx, args, all, tags)
	if err != nil {
		return err
	}
	ticks := time.NewTicker(summary.WatchEvery)
	defer ticks.Stop()
	err = a.ShowFrames(ctx, look, ticks.C, NewWatchScreen(a.Out))
	if ctx.Err() != nil && cmd.Context().Err() == nil {
		return app.Status(fault.ExitInterrupted) // Ctrl-C is for us; jobs go on
	}
	return err
}

// NewFrameReader gives the looks at one job, or at the list.
func (a Watcher) NewFrameReader(ctx context.Context, args []string, all bool, tags []string) (func(context.Context) (WatchFrame, error), error) {
	if len(args) == 1 {
		j, err := a.FindJob(ctx, args)
		if err != nil {
			return nil, err
		}
		return a.newJobFrameReader(ctx, j)
	}
	jobs, most, err := NewStatus(a.App).newOverview(ctx, all)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (WatchFrame, error) { return a.readListFrame(ctx, jobs, most, tags) }, nil
}

// ShowFrames shows what look sees, at each tick, until nothing can change any more.
func (a Watcher) ShowFrames(ctx context.Context, look func(context.Context) (WatchFrame, error), ticks <-chan time.Time, screen *WatchScreen) error {
	for idle := 0; ; {
		f, err := look(ctx)
		if err != nil {
			return err
		}
		if err := screen.showFrame(f); terminal.Closed(err) {
			return nil
		} else if err != nil {
			return err
		}
		if idle++; !f.Idle {
			idle = 0
		}
		switch {
		case !f.Live && f.code != 0:
			return app.Status(f.code)
		case !f.Live:
			return f.bad
		case idle > summary.WatchIdle:
			return f.stuck
		}
		select {
		case <-ticks:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WatchScreen shows frames: on a terminal each in the place of the one before, elsewhere
// a line for each job that has changed.
type WatchScreen struct {
	out   io.Writer
	size  func() (width, height int, terminal bool)
	now   func() time.Time
	drawn int // lines on the terminal
	told  map[string]toldFact
}

type toldFact struct {
	watchFact
	at time.Time
}

// NewWatchScreen draws in place on a terminal, and prints lines elsewhere.
func NewWatchScreen(out io.Writer) *WatchScreen {
	return &WatchScreen{out: out, now: time.Now, told: map[string]toldFact{}, size: func() (int, int, bool) {
		f, ok := out.(*os.File)
		if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
			return 0, 0, false
		}
		w, h, err := term.GetSize(int(f.Fd()))
		if err != nil || w < 1 || h < 1 {
			return 80, 24, true
		}
		return w, h, true
	}}
}

func (s *WatchScreen) showFrame(f WatchFrame) error {
	width, height, onTerminal := s.size()
	if !onTerminal {
		return s.printChanges(f)
	}
	lines := strings.Split(strings.TrimRight(f.text, "\n"), "\n")
	if most := max(height-1, 1); len(lines) > most && f.Live {
		lines = append(lines[:most-1], fmt.Sprintf("... %s more", terminal.Count(len(lines)-most+1, "line")))
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	for _, l := range lines {
		b.WriteString(ansi.Truncate(l, max(width-1, 1), "…") + "\x1b[K\n")
	}
	s.drawn = len(lines)
	_, err := io.WriteString(s.out, b.String()+"\x1b[J")
	return err
}

// printChanges prints a line for each job that has changed its state or got further, as often as
// drover map does.
func (s *WatchScreen) printChanges(f WatchFrame) error {
	now := s.now()
	if len(f.facts) == 0 { // it says why
		_, err := io.WriteString(s.out, f.text)
		return err
	}
	for _, fact := range f.facts {
		was, seen := s.told[fact.id]
		further := fact.progress != was.progress && (now.Sub(was.at) >= progress.TellEvery || fact.percent-was.percent >= progress.TellPercent)
		if seen && fact.line == was.line && !further {
			continue
		}
		s.told[fact.id] = toldFact{fact, now}
		line := strings.TrimRight(strings.Join([]string{fact.line, fact.progress}, "   "), " ")
		if _, err := fmt.Fprintln(s.out, line); err != nil {
			return err
		}
	}
	return nil
}

func factOf(s drover.Status) watchFact {
	f := watchFact{id: s.ID, line: fmt.Sprintf("%s %s/%s %s %s", s.ID, s.Project, s.Task, s.State.Symbol(), strings.ToLower(string(s.State)))}
	if s.Attempt > 1 {
		f.line += fmt.Sprintf("   attempt %d", s.Attempt)
	}
	if s.MapStatus != nil {
		f.percent, f.progress = progress.Percent(s.Items), fmt.Sprintf("%.1f%%  %s", progress.Percent(s.Items), strings.Join(progress.Counts(s), ", "))
		if s.Paused {
			f.line += "   paused"
		}
	} else if s.Reason != "" {
		f.line += "   " + terminal.PlainText(s.Reason)
	}
	return f
}

// readListFrame is a look at the list of jobs.
func (a Watcher) readListFrame(ctx context.Context, jobs *drover.Overview, most int, tags []string) (f WatchFrame, err error) {
	list, left, err := rows(ctx, jobs, most, tags)
	if f.bad, err = summary.Unreadable(err); err != nil {
		return f, err
	}
	var text bytes.Buffer
	b := *a.App
	b.Out, b.Err = &text, &text
	if len(list) > 0 || f.bad == nil {
		if err := NewStatus(&b).printRows(list, left, tags); err != nil {
			return f, err
		}
	}
	f.text, f.Idle = text.String(), true
	for _, row := range list {
		f.facts = append(f.facts, factOf(row))
		f.Live = f.Live || !row.State.Settled()
		f.Idle = f.Idle && (row.State.Settled() || row.State == job.Interrupted)
	}
	f.stuck = fault.New(fault.Interrupted, "Continue one of them: `drover resume JOB`.", "watch jobs: no agent works on those that have not ended")
	slices.Reverse(f.facts) // the newest last, as they are told one after another
	return f, nil
}

// newJobFrameReader gives the looks at one job. A map is read on, not from its beginning.
func (a Watcher) newJobFrameReader(ctx context.Context, j *drover.Job) (func(context.Context) (WatchFrame, error), error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		return nil, err
	}
	show := func(s drover.Status, print func(*app.App)) WatchFrame {
		var text bytes.Buffer
		b := *a.App
		b.Out = &text
		print(&b)
		f := WatchFrame{text: text.String(), facts: []watchFact{factOf(s)}, Live: !s.State.Settled(), Idle: s.State == job.Interrupted}
		f.stuck = fault.New(fault.Interrupted, "Continue it: `drover resume "+s.ID+"`.", "watch job %s: it is interrupted, and no agent works on it", s.ID)
		if s.Code != nil {
			f.code = *s.Code
		}
		return f
	}
	view, err := j.View(ctx)
	if err != nil {
		return nil, err
	}
	var speed progress.Pace
	var figures drover.Figures
	var m summary.Measured
	var again time.Time
	return func(ctx context.Context) (WatchFrame, error) {
		s, err := view.Status(ctx)
		if err != nil {
			return WatchFrame{}, err
		}
		if s.MapStatus == nil {
			return show(s, func(b *app.App) { NewStatus(b).printRunStatus(s, rec.Spec) }), nil
		}
		speed.Note(s.Time, s.Items.Items-s.Items.Open())
		if begin := time.Now(); s.State.Settled() || begin.After(again) {
			if figures, m, err = summary.Measure(ctx, j, s); err != nil {
				return WatchFrame{}, err
			}
			again = time.Now().Add(summary.FiguresShare * time.Since(begin))
		}
		m.Status = s
		return show(s, func(b *app.App) {
			if !s.State.Settled() {
				v := progress.ProgressView{S: s, Rate: speed.Rate(), Width: 80, Paint: func(_ job.State, text string) string { return text }}
				fmt.Fprintln(b.Out, strings.Join(v.Block(), "\n")+"\n")
			}
			NewStatus(b).printMapStatus(m, figures, rec.Spec)
		}), nil
	}, nil
}
