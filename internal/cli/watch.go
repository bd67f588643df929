package cli

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
	"github.com/drover-run/drover/job"
)

// watcher is drover status -w: what it prints is kept up to date.
type watcher struct{ *app }

func newWatcher(a *app) watcher { return watcher{a} }

// watchFrame is one look of drover status --watch.
type watchFrame struct {
	text string // as drover status prints it, for a terminal
	// facts are a line for each job, by its id; beside them how far it is, for who
	// has no terminal and is told of that only now and then.
	facts []watchFact
	live  bool  // something may still happen
	idle  bool  // but nobody works on it
	code  int   // of the one job that is watched, once it has ended
	stuck error // what to say when it stays idle
	bad   error // what to say at the end: jobs that cannot be read
}

type watchFact struct {
	id, line, progress string
	percent            float64
}

// watchStatus is drover status --watch: it looks until all that it shows has settled.
func (a watcher) watchStatus(cmd *cobra.Command, args []string, all bool, tags []string) error {
	if a.settings.json {
		return fault.New(fault.Invalid, "Use drover events -f --json, or drover status --json again and again.", "read command line: --watch does not go with --json")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT)
	defer stop()
	look, err := a.newFrameReader(ctx, args, all, tags)
	if err != nil {
		return err
	}
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	err = a.showFrames(ctx, look, ticks.C, newWatchScreen(a.out))
	if ctx.Err() != nil && cmd.Context().Err() == nil {
		return status(fault.ExitInterrupted) // Ctrl-C is for us; jobs go on
	}
	return err
}

// newFrameReader gives the looks at one job, or at the list.
func (a watcher) newFrameReader(ctx context.Context, args []string, all bool, tags []string) (func(context.Context) (watchFrame, error), error) {
	if len(args) == 1 {
		j, err := a.findJob(ctx, args)
		if err != nil {
			return nil, err
		}
		return a.newJobFrameReader(ctx, j)
	}
	jobs, most, err := newStatusVerb(a.app).newOverview(ctx, all)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (watchFrame, error) { return a.readListFrame(ctx, jobs, most, tags) }, nil
}

// showFrames shows what look sees, at each tick, until nothing can change any more.
func (a watcher) showFrames(ctx context.Context, look func(context.Context) (watchFrame, error), ticks <-chan time.Time, screen *watchScreen) error {
	for idle := 0; ; {
		f, err := look(ctx)
		if err != nil {
			return err
		}
		if err := screen.show(f); closed(err) {
			return nil
		} else if err != nil {
			return err
		}
		if idle++; !f.idle {
			idle = 0
		}
		switch {
		case !f.live && f.code != 0:
			return status(f.code)
		case !f.live:
			return f.bad
		case idle > watchIdle:
			return f.stuck
		}
		select {
		case <-ticks:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchScreen shows frames: on a terminal each in the place of the one before, elsewhere
// a line for each job that has changed.
type watchScreen struct {
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

func newWatchScreen(out io.Writer) *watchScreen {
	return &watchScreen{out: out, now: time.Now, told: map[string]toldFact{}, size: func() (int, int, bool) {
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

func (s *watchScreen) show(f watchFrame) error {
	width, height, terminal := s.size()
	if !terminal {
		return s.tell(f)
	}
	lines := strings.Split(strings.TrimRight(f.text, "\n"), "\n")
	if most := max(height-1, 1); len(lines) > most && f.live {
		lines = append(lines[:most-1], fmt.Sprintf("... %s more", count(len(lines)-most+1, "line")))
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

// tell prints a line for each job whose state has changed, or that got further, as
// often as drover map does.
func (s *watchScreen) tell(f watchFrame) error {
	now := s.now()
	if len(f.facts) == 0 { // it says why
		_, err := io.WriteString(s.out, f.text)
		return err
	}
	for _, fact := range f.facts {
		was, seen := s.told[fact.id]
		further := fact.progress != was.progress && (now.Sub(was.at) >= tellEvery || fact.percent-was.percent >= tellPercent)
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

func factOf(s drover.Status, m *drover.MapStatus) watchFact {
	f := watchFact{id: s.ID, line: fmt.Sprintf("%s %s/%s %s %s", s.ID, s.Project, s.Task, s.State.Symbol(), strings.ToLower(string(s.State)))}
	if s.Attempt > 1 {
		f.line += fmt.Sprintf("   attempt %d", s.Attempt)
	}
	if m != nil {
		f.percent, f.progress = percent(m.Items), fmt.Sprintf("%.1f%%  %s", percent(m.Items), strings.Join(counts(*m), ", "))
		if m.Paused {
			f.line += "   paused"
		}
	} else if s.Reason != "" {
		f.line += "   " + plainText(s.Reason)
	}
	return f
}

// readListFrame is a look at the list of jobs.
func (a watcher) readListFrame(ctx context.Context, jobs *drover.Overview, most int, tags []string) (f watchFrame, err error) {
	list, left, err := rows(ctx, jobs, most, tags)
	if f.bad, err = unreadable(err); err != nil {
		return f, err
	}
	var text bytes.Buffer
	b := *a.app
	b.out, b.err = &text, &text
	if len(list) > 0 || f.bad == nil {
		if err := newStatusVerb(&b).printRows(list, left, tags); err != nil {
			return f, err
		}
	}
	f.text, f.idle = text.String(), true
	for _, row := range list {
		f.facts = append(f.facts, factOf(row.Status, row.many))
		f.live = f.live || !row.State.Settled()
		f.idle = f.idle && (row.State.Settled() || row.State == job.Interrupted)
	}
	f.stuck = fault.New(fault.Interrupted, "Continue one of them: drover resume JOB.", "watch jobs: no agent works on those that have not ended")
	slices.Reverse(f.facts) // the newest last, as they are told one after another
	return f, nil
}

// newJobFrameReader gives the looks at one job. A map is read on, not from its beginning.
func (a watcher) newJobFrameReader(ctx context.Context, j *drover.Job) (func(context.Context) (watchFrame, error), error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		return nil, err
	}
	show := func(s drover.Status, m *drover.MapStatus, print func(*app)) watchFrame {
		var text bytes.Buffer
		b := *a.app
		b.out = &text
		print(&b)
		f := watchFrame{text: text.String(), facts: []watchFact{factOf(s, m)}, live: !s.State.Settled(), idle: s.State == job.Interrupted}
		f.stuck = fault.New(fault.Interrupted, "Continue it: drover resume "+s.ID+".", "watch job %s: it is interrupted, and no agent works on it", s.ID)
		if s.Code != nil {
			f.code = *s.Code
		}
		return f
	}
	if rec.Spec.Verb != job.Map {
		return func(ctx context.Context) (watchFrame, error) {
			s, err := j.Status(ctx)
			return show(s, nil, func(b *app) { newStatusVerb(b).printRunStatus(s, rec.Spec) }), err
		}, nil
	}
	look, err := j.LookAtMap(ctx)
	if err != nil {
		return nil, err
	}
	var speed pace
	var figures drover.Figures
	var m measured
	var again time.Time
	return func(ctx context.Context) (watchFrame, error) {
		s, err := look.Status(ctx)
		if err != nil {
			return watchFrame{}, err
		}
		speed.note(s.Time, s.Items.Items-s.Items.Open())
		if begin := time.Now(); s.State.Settled() || begin.After(again) {
			if figures, m, err = measure(ctx, j, s); err != nil {
				return watchFrame{}, err
			}
			again = time.Now().Add(figuresShare * time.Since(begin))
		}
		m.MapStatus = s
		return show(s.Status, &s, func(b *app) {
			if !s.State.Settled() {
				v := progressView{s: s, rate: speed.rate(), width: 80, paint: func(_ job.State, text string) string { return text }}
				fmt.Fprintln(b.out, strings.Join(v.block(), "\n")+"\n")
			}
			newStatusVerb(b).printMapStatus(m, figures, rec.Spec)
		}), nil
	}, nil
}
