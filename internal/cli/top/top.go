// Package top is drover top: all jobs, and one of them, on a screen that is kept up to
// date. The state of the screen is a value, and each key a pure function of it.
// Proved by golden screens and by a terminal in the test.
package top

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Top is drover top.
type Top struct{ *app.App }

// NewTop returns a Top of an invocation.
func NewTop(a *app.App) Top { return Top{a} }

// Command returns the verb's command, with its flags.
func (a Top) Command() *cobra.Command {
	c := &cobra.Command{Use: "top [JOB]", Short: "Watch jobs, or one job, on the whole screen", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		out, ok := a.Out.(*os.File)
		screen := ok && term.IsTerminal(int(out.Fd())) && a.In != nil && term.IsTerminal(int(a.In.Fd())) && os.Getenv("TERM") != "dumb"
		cl, err := a.OpenClient(cmd.Context())
		if err != nil {
			return err
		}
		src := &topStore{client: cl, project: a.Settings.Project, jobs: map[string]*drover.Job{}, maps: map[string]*topMapLook{}, ended: map[string]drover.Status{}}
		s := topState{Paper: plot.Paper{Colour: screen && terminal.WantColour(out)}, now: time.Now(), project: a.Settings.Project}
		if len(args) > 0 {
			j, st, err := a.JobAndStatus(cmd.Context(), args)
			if err != nil {
				return err
			}
			src.jobs[st.ID] = j
			s = s.openJob(st)
		}
		if !screen {
			return a.printOnce(cmd.Context(), s, src)
		}
		return a.runScreen(cmd.Context(), s, src, a.In, out)
	}
	return c
}

// printOnce prints what the screen would show, once and plainly, where there is none
// to draw on.
func (a Top) printOnce(ctx context.Context, s topState, src topSource) error {
	s.Width, s.Height = topWide-1, 40
	var text []string
	var bad error
	if s.open == "" {
		jobs, err := src.Jobs(ctx)
		if bad, err = summary.Unreadable(err); err != nil {
			return err
		}
		s = s.updateJobs(jobs, nil)
		s.Height = len(jobs) + 8
		text = s.listLines()
	} else {
		j, err := src.Job(ctx, s.open)
		if err != nil {
			return err
		}
		s = s.updateJob(s.open, j, nil)
		text = s.screenLines()
		text = text[:len(text)-1] // it says which keys there are
	}
	for i, l := range text {
		text[i] = strings.TrimRight(s.Cut(strings.Replace(l, "▸", " ", 1), s.Width), " ") // nothing can be selected
	}
	text = slices.DeleteFunc(text, func(l string) bool { return strings.HasPrefix(l, "── log") }) // a log would take time to read
	_, err := fmt.Fprintln(a.Out, strings.TrimRight(strings.Join(text, "\n"), "\n"))
	if terminal.Closed(err) {
		return nil
	}
	return cmp.Or(err, bad)
}

// topSource is where drover top looks. Jobs, Job and Log may be called at once.
type topSource interface {
	// Jobs are the newest jobs; those that cannot be read are a *drover.Unreadable beside
	// the others.
	Jobs(ctx context.Context) ([]drover.Status, error)
	// Job looks at one of them.
	Job(ctx context.Context, id string) (topJob, error)
	// Log gives what a node printed, line by line, until ctx ends or no more comes.
	Log(ctx context.Context, id string, node int, line func(string)) error
	// Cancel stops a job for good; stands is false when it had already ended.
	Cancel(ctx context.Context, id string) (stands bool, err error)
}

// topStore is drover itself as a source.
type topStore struct {
	client  *drover.Client
	project string

	mu    sync.Mutex
	jobs  map[string]*drover.Job
	ended map[string]drover.Status // never changes, so it is read once
	last  topJob                   // the newest look at a job that has ended: nor does that
	maps  map[string]*topMapLook   // by id: each is read on
}

// topRecent is how far back what items printed is shown.
const topRecent = time.Minute

// topMost is how many jobs are looked at each time: a store may hold thousands.
const topMost = 200

func (t *topStore) Jobs(ctx context.Context) ([]drover.Status, error) {
	var list []drover.Status
	var bad drover.Unreadable
	all, err := t.client.Jobs(ctx, t.project)
	if err != nil && !bad.Took(err) {
		return nil, err
	}
	for _, j := range slices.Backward(all[max(len(all)-topMost, 0):]) {
		s, err := t.jobStatus(ctx, j)
		if fault.KindOf(err) == fault.Missing || bad.Took(err) {
			continue // withdrawn or removed
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, bad.OrNil()
}

func (t *topStore) jobStatus(ctx context.Context, j *drover.Job) (drover.Status, error) {
	key := j.Path().String()
	t.mu.Lock()
	s, ok := t.ended[key]
	t.mu.Unlock()
	if ok {
		return s, nil
	}
	s, tally, err := summary.StatusWithTally(ctx, j)
	if err != nil {
		return s, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs[s.ID] = j
	if tally != "" {
		s.Reason = tally
	} else if s.State.Settled() { // a map may be opened again
		t.ended[key] = s
	}
	return s, nil
}

// findJob gives a job that Jobs has listed, or that top was called with.
func (t *topStore) findJob(id string) (*drover.Job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j := t.jobs[id]; j != nil {
		return j, nil
	}
	return nil, fmt.Errorf("show job %s: it is not in the list any more", id)
}

func (t *topStore) Job(ctx context.Context, id string) (topJob, error) {
	j, err := t.findJob(id)
	if err != nil {
		return topJob{}, err
	}
	t.mu.Lock()
	look := t.last
	t.mu.Unlock()
	if look.status.ID == id {
		return look, nil
	}
	look = topJob{}
	many, err := summary.IsMap(ctx, j)
	if err != nil {
		return look, err
	}
	if many {
		return t.lookAtMap(ctx, id, j)
	}
	if look.status, err = j.BriefStatus(ctx); err != nil {
		return look, err
	}
	if look.events, err = j.Events(ctx); err != nil {
		return look, err
	}
	if look.series, look.usage, err = plot.Measures(ctx, j, drover.MetricOptions{}); err != nil {
		return look, err
	}
	if look.status.State.Settled() {
		t.mu.Lock()
		t.last = look
		t.mu.Unlock()
	}
	return look, nil
}

func (t *topStore) lookAtMap(ctx context.Context, id string, j *drover.Job) (look topJob, err error) {
	t.mu.Lock()
	l := t.maps[id]
	t.mu.Unlock()
	if l == nil {
		if l, err = newTopMapLook(ctx, j); err != nil {
			return look, err
		}
		t.mu.Lock()
		t.maps[id] = l
		t.mu.Unlock()
	}
	if look.many, err = l.readMap(ctx); err != nil {
		return look, err
	}
	look.status = look.many.s
	return look, nil
}

func (t *topStore) Log(ctx context.Context, id string, node int, line func(string)) error {
	j, err := t.findJob(id)
	if err != nil {
		return err
	}
	if many, err := summary.IsMap(ctx, j); many || err != nil {
		return t.followItemLog(ctx, j, line)
	}
	for l, err := range j.Lines(ctx, drover.LogOptions{Nodes: []int{node}, Tail: topKept, Follow: true}) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			line("(drover: output cannot be read at the moment: " + err.Error() + ")")
		default:
			line(l.Text)
		}
	}
	return nil
}

// followItemLog is what items print from about now on, or printed at the end: the logs of a
// million items are not read to their end.
func (t *topStore) followItemLog(ctx context.Context, j *drover.Job, line func(string)) error {
	s, err := j.BriefStatus(ctx)
	if err != nil {
		return err
	}
	since := time.Now().Add(-topRecent)
	if s.State.Settled() {
		since = s.Ended.Add(-topRecent)
	}
	for l, err := range j.Lines(ctx, drover.LogOptions{Since: since, Follow: true}) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			line("(drover: output cannot be read at the moment: " + err.Error() + ")")
		default:
			line(fmt.Sprintf("[%d] %s", l.Item, l.Text))
		}
	}
	return nil
}

func (t *topStore) Cancel(ctx context.Context, id string) (bool, error) {
	j, err := t.findJob(id)
	if err != nil {
		return false, err
	}
	return j.Stop(ctx, "cancelled by hand")
}

// topTail is the end of a log: a reader adds lines, the screen looks at them now
// and then, so that a program that prints a million lines costs no million screens.
type topTail struct {
	mu    sync.Mutex
	lines []string
	total int
}

// topKept is how many lines a log keeps: what a person scrolls back.
const topKept = 2000

func (t *topTail) addLine(line string) {
	line = topLine(line)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) >= 2*topKept {
		t.lines = append([]string(nil), t.lines[topKept:]...)
	}
	t.lines = append(t.lines, line)
	t.total++
}

// linesSince gives the lines when there are more than seen, and how many there were.
func (t *topTail) linesSince(seen int) (lines []string, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total == seen {
		return nil, seen
	}
	return slices.Clone(t.lines[max(len(t.lines)-topKept, 0):]), t.total
}
