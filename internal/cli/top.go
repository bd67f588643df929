package cli

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
)

func (a *app) topCommand() *cobra.Command {
	c := &cobra.Command{Use: "top [JOB]", Short: "Watch jobs, or one job, on the whole screen", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.storeFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		out, ok := a.out.(*os.File)
		if !ok || !term.IsTerminal(int(out.Fd())) || a.in == nil || !term.IsTerminal(int(a.in.Fd())) || os.Getenv("TERM") == "dumb" {
			return fault.New(fault.Invalid, "Without one, drover status lists jobs, and drover metrics "+cmp.Or(strings.Join(args, ""), "last")+" plots one.",
				"show jobs: top needs a terminal that it can draw on, for its input and its output")
		}
		cl, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		src := &topStore{client: cl, project: a.settings.project, jobs: map[string]*drover.Job{}, ended: map[string]drover.Status{}}
		s := topState{paper: paper{colour: wantColour(out)}, now: time.Now(), project: a.settings.project}
		if len(args) > 0 {
			j, st, err := a.look(cmd.Context(), args)
			if err != nil {
				return err
			}
			src.jobs[st.ID] = j
			s = s.enter(st)
		}
		return a.runTop(cmd.Context(), s, src, a.in, out)
	}
	return c
}

// topSource is where drover top looks. Jobs, Job and Log may be called at once.
type topSource interface {
	// Jobs are the newest jobs.
	Jobs(ctx context.Context) ([]drover.Status, error)
	// Job looks at one of them.
	Job(ctx context.Context, id string) (topJob, error)
	// Log gives what a node printed, line by line, until ctx ends or no more comes.
	Log(ctx context.Context, id string, node int, line func(string)) error
	// Cancel stops a job for good; stands is false when it had ended before.
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
}

// topMost is how many jobs are looked at each time: a store may hold thousands.
const topMost = 200

func (t *topStore) Jobs(ctx context.Context) ([]drover.Status, error) {
	all, err := t.client.Jobs(ctx, t.project)
	if err != nil {
		return nil, err
	}
	var list []drover.Status
	for _, j := range slices.Backward(all[max(len(all)-topMost, 0):]) {
		s, err := t.status(ctx, j)
		if fault.KindOf(err) == fault.Missing {
			continue // withdrawn or removed
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (t *topStore) status(ctx context.Context, j *drover.Job) (drover.Status, error) {
	key := j.Path().String()
	t.mu.Lock()
	s, ok := t.ended[key]
	t.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := j.Status(ctx)
	if err != nil {
		return s, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs[s.ID] = j
	if s.State.Settled() {
		t.ended[key] = s
	}
	return s, nil
}

// find gives a job that Jobs has listed, or that top was called with.
func (t *topStore) find(id string) (*drover.Job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j := t.jobs[id]; j != nil {
		return j, nil
	}
	return nil, fmt.Errorf("show job %s: it is not in the list any more", id)
}

func (t *topStore) Job(ctx context.Context, id string) (topJob, error) {
	j, err := t.find(id)
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
	if look.status, err = j.Status(ctx); err != nil {
		return look, err
	}
	if look.events, err = j.Events(ctx); err != nil {
		return look, err
	}
	if look.series, look.usage, err = measures(ctx, j, drover.MetricOptions{}); err != nil {
		return look, err
	}
	if look.status.State.Settled() {
		t.mu.Lock()
		t.last = look
		t.mu.Unlock()
	}
	return look, nil
}

func (t *topStore) Log(ctx context.Context, id string, node int, line func(string)) error {
	j, err := t.find(id)
	if err != nil {
		return err
	}
	for l, err := range j.Lines(ctx, drover.LogOptions{Nodes: []int{node}, Tail: topKept, Follow: true}) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			line("(drover: output cannot be read just now: " + err.Error() + ")")
		default:
			line(l.Text)
		}
	}
	return nil
}

func (t *topStore) Cancel(ctx context.Context, id string) (bool, error) {
	j, err := t.find(id)
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

func (t *topTail) add(line string) {
	line = topLine(line)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) >= 2*topKept {
		t.lines = append([]string(nil), t.lines[topKept:]...)
	}
	t.lines = append(t.lines, line)
	t.total++
}

// since gives the lines when there are more than seen, and how many there were.
func (t *topTail) since(seen int) (lines []string, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total == seen {
		return nil, seen
	}
	return slices.Clone(t.lines[max(len(t.lines)-topKept, 0):]), t.total
}
