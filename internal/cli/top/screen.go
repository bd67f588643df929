package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
)

// topScreen carries topState to a terminal and back: keys and news in, frames
// out. bubbletea owns the terminal, and gives it back also after a panic and at
// SIGTERM. All of its initialisers together take half a millisecond; measured
// again whenever its version changes.
type topScreen struct {
	topState
	world topWorld
	tail  *topTail
	seen  int    // lines of tail that the state has
	hush  func() // ends the reader that fills tail
	look  int    // the number of the look that is awaited; answers to older ones start no other
}

// topWorld is what the screen may ask for, with the context of the command.
type topWorld struct {
	look   func(id string) tea.Msg // "": the list
	log    func(id string, node int, to *topTail) (run func(), hush func())
	cancel func(id string) tea.Cmd
	// guard has a panic of a command end the screen as quitting does. bubbletea prints
	// one while the program is ending already, and so at times not at all.
	guard func(tea.Cmd) tea.Cmd
}

// What comes in beside keys and sizes.
type (
	topList struct {
		jobs []drover.Status
		err  error
	}
	topDetail struct {
		id  string
		job topJob
		err error
	}
	topCancelled struct {
		id     string
		stands bool
		err    error
	}
	topAnswer struct { // to look number n
		n    int
		news tea.Msg
	}
	topAgain struct{ n int }        // it is time for look n
	topBlink struct{ at time.Time } // it is time to show the newest lines
)

const (
	topEvery = time.Second            // between two looks: what a person waits for without asking
	topFrame = 200 * time.Millisecond // between two frames of a log: readable, and cheap
)

// runScreen shows s until it is quit.
func (a Top) runScreen(ctx context.Context, s topState, src topSource, in, out *os.File) error {
	inside, leave := context.WithCancel(ctx)
	defer leave()
	var cancels sync.WaitGroup // one that was said yes to is carried out though the screen is left
	var cancelling atomic.Int32
	var crash atomic.Pointer[string]
	world := topWorld{
		look: func(id string) tea.Msg {
			if id == "" {
				jobs, err := src.Jobs(inside)
				return topList{jobs, err}
			}
			j, err := src.Job(inside, id)
			return topDetail{id, j, err}
		},
		log: func(id string, node int, to *topTail) (func(), func()) {
			ctx, hush := context.WithCancel(inside)
			return func() {
				if err := src.Log(ctx, id, node, to.addLine); err != nil && ctx.Err() == nil {
					to.addLine("(drover: " + err.Error() + ")")
				}
			}, hush
		},
		cancel: func(id string) tea.Cmd {
			done := make(chan tea.Msg, 1)
			cancelling.Add(1)
			cancels.Go(func() { // until the job has settled, which cancels.Wait waits for
				stands, err := src.Cancel(context.WithoutCancel(ctx), id)
				cancelling.Add(-1)
				done <- topCancelled{id, stands, err}
			})
			return func() tea.Msg { return <-done }
		},
		guard: func(c tea.Cmd) tea.Cmd {
			return func() (msg tea.Msg) {
				defer func() {
					if r := recover(); r != nil {
						what := fmt.Sprintf("%v\n\n%s", r, debug.Stack())
						crash.CompareAndSwap(nil, &what)
						msg = tea.QuitMsg{}
					}
				}()
				return c()
			}
		},
	}
	_, err := tea.NewProgram(topScreen{topState: s, world: world, hush: func() {}}, tea.WithContext(inside), tea.WithInput(in), tea.WithOutput(out)).Run()
	if cancelling.Load() > 0 {
		a.Note("cancelling: waiting until the job has ended")
	}
	cancels.Wait()
	if what := crash.Load(); what != nil {
		return fault.New(fault.Bug, "", "show jobs: panic: %s", *what)
	}
	switch {
	case errors.Is(err, tea.ErrInterrupted):
		return app.Status(fault.ExitInterrupted)
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("show jobs: %w", err)
	}
	return nil
}

// Init begins to look.
func (t topScreen) Init() tea.Cmd {
	return tea.Batch(func() tea.Msg { return topAgain{-1} }, t.blinkCursor())
}

func (t topScreen) blinkCursor() tea.Cmd {
	return tea.Tick(topFrame, func(at time.Time) tea.Msg { return topBlink{at} })
}

// Update is what happens next.
func (t topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.Width, t.Height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return t.handleKey(msg.Keystroke(), msg.Text)
	case tea.PasteMsg:
		return t.handleKey("paste", msg.Content)
	case topAgain:
		if msg.n == -1 { // the first: a job that is open already has a log to read
			return t.refreshView()
		}
		if msg.n == t.look {
			return t, t.requestLook()
		}
	case topAnswer:
		t = t.applyNews(msg.news)
		if msg.n == t.look {
			t.look++
			n := t.look
			return t, tea.Tick(topEvery, func(time.Time) tea.Msg { return topAgain{n} })
		}
	case topCancelled:
		t.topState = t.cancelled(msg.id, msg.stands, msg.err)
		t.look++
		return t, t.requestLook()
	case topBlink:
		t.now = msg.at
		if t.tail != nil {
			if lines, total := t.tail.linesSince(t.seen); total > t.seen {
				t.topState, t.seen = t.updateLog(lines, total-t.seen), total
			}
		}
		return t, t.blinkCursor()
	}
	return t, nil
}

func (t topScreen) applyNews(news tea.Msg) topScreen {
	switch news := news.(type) {
	case topList:
		t.topState = t.updateJobs(news.jobs, news.err)
	case topDetail:
		t.topState = t.updateJob(news.id, news.job, news.err)
	}
	return t
}

// requestLook looks once, and is answered with its number.
func (t topScreen) requestLook() tea.Cmd {
	id, n, look := t.open, t.look, t.world.look
	return t.world.guard(func() tea.Msg { return topAnswer{n, look(id)} })
}

func (t topScreen) handleKey(name, text string) (tea.Model, tea.Cmd) {
	s, want := t.pressKey(name, text)
	t.topState = s
	switch want {
	case askQuit:
		t.hush()
		return t, tea.Quit
	case askPause:
		return t, tea.Suspend
	case askLook:
		return t.refreshView()
	case askCancel:
		target, _ := t.chosenJob()
		return t, t.world.cancel(target.ID)
	}
	return t, nil
}

// refreshView looks at what is open now, and reads the log of its node.
func (t topScreen) refreshView() (tea.Model, tea.Cmd) {
	t.hush()
	t.hush, t.tail, t.seen = func() {}, nil, 0
	t.look++
	if t.open == "" {
		return t, t.requestLook()
	}
	t.tail = &topTail{}
	read, hush := t.world.log(t.open, t.node, t.tail)
	t.hush = hush
	return t, tea.Batch(t.requestLook(), t.world.guard(func() tea.Msg { read(); return nil }))
}

// View is the frame.
func (t topScreen) View() tea.View {
	v := tea.NewView(strings.Join(t.screenLines(), "\n"))
	v.AltScreen = true
	return v
}
