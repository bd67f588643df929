package follow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// MapFollower follows a map: a progress block, or its items' output, until it has settled.
type MapFollower struct{ *app.App }

// NewMapFollower returns a MapFollower of an invocation.
func NewMapFollower(a *app.App) MapFollower { return MapFollower{a} }

// followMap shows a live map's progress until it has settled, then what came of
// it. attached says that its agents live beside us, so that Ctrl-C is for them.
func (a MapFollower) followMap(ctx context.Context, j *drover.Job, id, output string, attached bool) error {
	return a.FollowMapTo(ctx, j, id, attached, func(ctx context.Context) error { return a.reportMapEnd(ctx, j, output) })
}

// FollowMapTo is followMap with another end.
func (a MapFollower) FollowMapTo(ctx context.Context, j *drover.Job, id string, attached bool, finish func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT) // before the first item begins: a user may see that and press Ctrl-C
	defer signal.Stop(signals)
	ended := make(chan error, 1)
	waiting := make(chan []drover.Waiting)
	go func() {
		_, err := j.WaitTold(ctx, func(all []drover.Waiting) {
			select {
			case waiting <- all:
			case <-ctx.Done():
			}
		})
		ended <- err
	}()
	w := a.watchMap(ctx, j)
	defer w.endWatch()

	settled := make(chan struct{})
	printed, hush := a.PrintItems(ctx, j, settled)
	defer hush()
	show := a.newProgress()
	show.Quiet = show.Quiet || a.KeepOrder && terminal.IsTerminal(a.Out) // one would stand in the other
	again := time.NewTicker(time.Second)                                 // rate and ETA change though no item ends
	defer again.Stop()
	var newest lookAt
	for {
		select {
		case newest = <-w.looks:
			show.Show(newest.Status, newest.last)
		case all := <-waiting:
			show.Clear()
			NewFollower(a.App).NoteWaiting(all)
		case now := <-again.C:
			if newest.V > 0 {
				m := *newest.MapStatus // the watch may still read its own
				m.Time = now
				newest.MapStatus = &m
				show.Show(newest.Status, newest.last)
			}
		case err := <-ended:
			signal.Stop(signals) // from here on Ctrl-C ends us: the job needs us no more
			w.endWatch()
			show.Clear()
			if err != nil {
				return err
			}
			close(settled)
			if err := <-printed; err != nil {
				return err
			}
			return finish(context.WithoutCancel(ctx))
		case <-signals:
			stop(errors.New("Ctrl-C"))
			<-ended
			w.endWatch()
			hush()
			<-printed
			show.Clear()
			return a.leaveMap(context.WithoutCancel(ctx), j, id, attached, signals, finish)
		}
	}
}

// PrintItems prints what items print to stdout, in the order of the items, where that was
// asked for: --keep-order. printed gives how that ended; hush ends it.
func (a MapFollower) PrintItems(ctx context.Context, j *drover.Job, settled <-chan struct{}) (printed <-chan error, hush context.CancelFunc) {
	ended := make(chan error, 1)
	if !a.KeepOrder {
		ended <- nil
		return ended, func() {}
	}
	// Or "| head" would end us with the pipe, before the outputs are brought.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, hush = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := j.PrintInOrder(ctx, a.EscapedOutput(), drover.PrintOptions{Settled: settled, Note: func(text string) { a.Note("note: %s", text) }})
		if terminal.Closed(err) || ctx.Err() != nil {
			err = nil // the output is no longer read; the job and this command go on
		}
		ended <- err
	}()
	return ended, hush
}

// leaveMap is Ctrl-C: agents beside us are asked to go, others stay.
func (a MapFollower) leaveMap(ctx context.Context, j *drover.Job, id string, attached bool, signals chan os.Signal, finish func(context.Context) error) error {
	if !attached {
		return NewFollower(a.App).confirmDetach(ctx, j, id, "wait", signals)
	}
	if err := NewFollower(a.App).interruptJob(ctx, j, signals); err != nil {
		return err
	}
	signal.Stop(signals)
	s, err := j.Status(ctx)
	if err != nil {
		return err
	}
	if s.State.Settled() { // it had just ended
		return finish(ctx)
	}
	a.Note("%s %s interrupted: %s   continue: drover resume %s", a.PaintState(job.Interrupted, job.Interrupted.Symbol()), s.ID, strings.Join(progress.Counts(s), ", "), s.ID)
	return app.Status(fault.ExitInterrupted)
}

// lookAt is a look at a map, and what the newest item that failed said.
type lookAt struct {
	drover.Status
	last string
}

// mapWatch reads the state of a map while another goroutine waits for its end.
type mapWatch struct {
	looks chan lookAt
	stop  context.CancelFunc
	done  chan struct{}
}

func (w *mapWatch) endWatch() {
	w.stop()
	<-w.done
}

func (a MapFollower) watchMap(ctx context.Context, j *drover.Job) *mapWatch {
	ctx, stop := context.WithCancel(ctx)
	w := &mapWatch{looks: make(chan lookAt), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if a.Quiet {
			return
		}
		f := failures{j: j}
		for s, err := range j.Statuses(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					a.Note("note: progress cannot be read at the moment: %s", err)
				}
				return
			}
			select {
			case w.looks <- lookAt{s, f.newestFailure(ctx, s)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// failures finds what the newest failed item said. That reads the results, so it
// is done of small maps, and seldom.
type failures struct {
	j    *drover.Job
	seen int // how many had failed at the last look
	at   time.Time
	line string
}

const (
	failuresOf    = 20_000 // items
	failuresEvery = 5 * time.Second
)

func (f *failures) newestFailure(ctx context.Context, s drover.Status) string {
	if s.Items.Failed == f.seen || s.Items.Items > failuresOf || s.Time.Sub(f.at) < failuresEvery {
		return f.line
	}
	f.seen, f.at = s.Items.Failed, s.Time
	var newest drover.ItemResult
	for r, err := range f.j.Results(ctx, drover.ResultOptions{States: []job.ItemState{job.ItemFailed}}) {
		if err != nil {
			return f.line // the next look may read it
		}
		if r.Ended.After(newest.Ended) || newest.Item == 0 {
			newest = r
		}
	}
	if newest.Item == 0 {
		return f.line
	}
	f.line = FailedLine(newest)
	return f.line
}

// FailedLine is "item 17: cannot identify image file (exit status 3)".
func FailedLine(r drover.ItemResult) string {
	return fmt.Sprintf("item %d: %s", r.Item, r.FailedWhy())
}

// reportMapEnd says how a map has ended, which items failed and where the rest is,
// and gives its exit status.
func (a MapFollower) reportMapEnd(ctx context.Context, j *drover.Job, output string) error {
	s, err := a.PrintMapEnd(ctx, j)
	if err != nil {
		return err
	}
	if err := bring.NewBringer(a.App).BringItems(ctx, j, output); err != nil {
		if s.Code == nil || *s.Code == 0 {
			return err
		}
		a.PrintError(err) // the map's own status says more
	}
	if s.Code != nil && *s.Code != 0 {
		return app.Status(*s.Code)
	}
	return nil
}

// PrintMapEnd says how a map has ended, and which items failed.
func (a MapFollower) PrintMapEnd(ctx context.Context, j *drover.Job) (drover.Status, error) {
	s, err := j.Status(ctx)
	if err != nil {
		return s, err
	}
	head := fmt.Sprintf("%s %s %s/%s %s", a.PaintState(s.State, s.State.Symbol()), s.ID, s.Project, s.Task, strings.ToLower(string(s.State)))
	if !s.Started.IsZero() && s.Ended.After(s.Started) {
		head += " in " + terminal.Span(s.Ended.Sub(s.Started))
	}
	head += fmt.Sprintf(": %s, %s", terminal.Count(s.Items.Items, "item"), strings.Join(progress.Counts(s), ", "))
	a.Note("%s", head)
	bad := s.Items.Failed + s.Items.Quarantined
	if s.Reason != "" && (s.State == job.Cancelled || s.Items.Cancelled > 0) {
		a.Note("  %s", terminal.PlainText(s.Reason))
	}
	if bad > 0 && !a.Quiet {
		err = a.noteFailedItems(ctx, j, s.ID)
	}
	if err == nil && !a.Quiet {
		err = a.noteLostItems(ctx, j)
	}
	return s, err
}

// noteLostItems says which files of the user's own have changed below items, which they have
// left that are not kept, and what would keep them.
func (a MapFollower) noteLostItems(ctx context.Context, j *drover.Job) error {
	made, err := j.Leftovers(ctx)
	if err != nil {
		return err
	}
	if made.Changed > 0 {
		a.Note("  files of yours changed: %s that the items had as links, such as %s", terminal.Count(made.Changed, "file"), terminal.PlainText(made.ChangedFirst))
	}
	files, first := made.Lost, made.LostFirst
	if files == 0 {
		return nil
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	form, err := outForm(ctx, j, first)
	if err != nil {
		return err
	}
	a.Note("  not kept: %s in the items' working folder, such as %s. Have the program write to {out}, and add:", terminal.Count(files, "file"), terminal.PlainText(first))
	line := "--out " + terminal.PlainText(terminal.ShellWord(form))
	if typed := slices.Clone(a.Typed); len(typed) > 1 && typed[0] == "map" {
		if !rec.Spec.ByShell && !slices.ContainsFunc(typed, func(word string) bool { return strings.Contains(word, "{out}") }) {
			at := len(typed)
			if lists := slices.Index(typed, terminal.ListMark); lists > 0 {
				at = lists
			}
			typed = slices.Insert(typed, at, "{out}")
		}
		line = terminal.Pasted(slices.Insert(typed, 1, "--out", form), rec.Spec.From == "-" && !slices.Contains(typed, terminal.ListMark))
	}
	a.Note("    %s", line)
	return nil
}

// looksAtItems is how many items are looked at for the one that a file is named after.
const looksAtItems = 100

// outForm is a pattern for --out that gives the name of a file which an item left.
func outForm(ctx context.Context, j *drover.Job, name string) (string, error) {
	form, longest := "{n}"+filepath.Ext(name), 0
	for r, err := range j.Results(ctx, drover.ResultOptions{}) {
		if err != nil {
			return "", err
		}
		base := filepath.Base(r.Value)
		ext := filepath.Ext(base)
		for _, part := range []struct{ value, placeholder string }{{r.Value, "{}"}, {base, "{.name}"}, {strings.TrimSuffix(base, ext), "{.stem}"}} {
			if len(part.value) > longest && part.value != "." && part.value != "/" && strings.Contains(name, part.value) && !strings.ContainsAny(name, "{}") {
				form, longest = strings.Replace(name, part.value, part.placeholder, 1), len(part.value)
			}
		}
		if r.Item >= looksAtItems {
			break
		}
	}
	return form, nil
}

// noteFailedItems says in which ways items failed, and what to do about it.
func (a MapFollower) noteFailedItems(ctx context.Context, j *drover.Job, id string) error {
	f, err := j.Figures(ctx)
	groups := f.Groups
	if err != nil || len(groups) == 0 {
		return err
	}
	for i, g := range groups {
		if i == summary.FirstGroups {
			a.Note("  and %s", terminal.Count(len(groups)-i, "more way")+" to fail: drover why "+id)
			break
		}
		a.Note("  %s", terminal.PlainText(summary.GroupLine(g)))
	}
	g := groups[0]
	a.Note("  failed:  drover items %s --state failed", id)
	a.Note("  output:  drover logs %s --item %d", id, g.First)
	if len(groups) > 1 && g.Pattern != "" {
		a.Note("  again:   drover retry %s --error %s   or the same command, for all of them", id, terminal.ShellWord(g.Pattern))
		return nil
	}
	a.Note("  again:   drover retry %s, or the same command", id)
	return nil
}

func (a MapFollower) newProgress() *progress.Progress {
	return &progress.Progress{Out: a.Err, Quiet: a.Quiet, Paint: a.PaintState, Away: a.Away, Size: func() (int, bool) {
		f, ok := a.Err.(*os.File)
		if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
			return 0, false
		}
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w, true
		}
		return 80, true
	}}
}
