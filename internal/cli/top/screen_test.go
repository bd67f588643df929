package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
)

// deskSource is a source of top that says what a test wants it to.
type deskSource struct {
	jobs   func() []drover.Status
	log    func(line func(string))
	cancel func(id string)
}

var _, _ topSource = (*deskSource)(nil), (*topStore)(nil)

func (d *deskSource) Jobs(context.Context) ([]drover.Status, error) {
	if d.jobs == nil {
		return aScreen(80, 24).jobs, nil
	}
	return d.jobs(), nil
}

func (d *deskSource) Job(context.Context, string) (topJob, error) {
	return topJob{status: aScreen(80, 24).jobs[0]}, nil
}

func (d *deskSource) Log(ctx context.Context, _ string, _ int, line func(string)) error {
	if d.log != nil {
		d.log(line)
	}
	<-ctx.Done()
	return nil
}

func (d *deskSource) Cancel(_ context.Context, id string) (bool, error) {
	d.cancel(id)
	return true, nil
}

// topScenes are what may happen while drover top is on the screen. gate blocks
// until the test lets it go on.
var topScenes = map[string]func(gate func(), report io.Writer) *deskSource{
	"a look panics": func(gate func(), _ io.Writer) *deskSource {
		return &deskSource{jobs: func() []drover.Status { gate(); panic("a look that fails") }}
	},
	"a log panics": func(gate func(), _ io.Writer) *deskSource {
		return &deskSource{log: func(func(string)) { gate(); panic("a log that fails") }}
	},
	"a cancel takes its time": func(gate func(), report io.Writer) *deskSource {
		return &deskSource{cancel: func(id string) { fmt.Fprintf(report, "cancelling %s; ", id); gate() }}
	},
	"a log never stops": func(func(), io.Writer) *deskSource {
		return &deskSource{log: func(line func(string)) {
			for range 100_000 {
				line("noise")
			}
			line("the newest line")
		}}
	},
	"nothing": func(func(), io.Writer) *deskSource { return &deskSource{} },
}

// What the child process below finds open.
const reportFile, gateFile = 3, 4

// TestTopInAProcessOfItsOwn is no test but the process that the tests below
// start: a program that panics takes its goroutines with it only when it ends.
func TestTopInAProcessOfItsOwn(*testing.T) {
	scene := topScenes[os.Getenv("DROVER_TEST_TOP")]
	if scene == nil {
		return
	}
	report := os.NewFile(reportFile, "report")
	gate := sync.OnceFunc(func() { _, _ = io.Copy(io.Discard, os.NewFile(gateFile, "gate")) })
	err := NewTop((&app.App{Err: report})).runScreen(context.Background(), topState{now: time.Now()}, scene(gate, report), os.Stdin, os.Stdout)
	fmt.Fprintf(report, "ended: %v", err)
	os.Exit(0)
}

// topDesk is such a process on a terminal of its own.
type topDesk struct {
	t         *testing.T
	ptmx, tty *os.File
	cmd       *exec.Cmd
	before    *term.State
	gate      *os.File // closed: go on
	report    *os.File

	mu    sync.Mutex
	raw   []byte
	fresh chan struct{}
}

func newTopDesk(t *testing.T, scene string) *topDesk {
	t.Helper()
	d := &topDesk{t: t, fresh: make(chan struct{})}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	d.ptmx, d.tty, err = pty.Open()
	check(err)
	check(pty.Setsize(d.ptmx, &pty.Winsize{Cols: 80, Rows: 24}))
	d.before, err = term.GetState(int(d.tty.Fd()))
	check(err)
	var reporting, gated *os.File
	d.report, reporting, err = os.Pipe()
	check(err)
	gated, d.gate, err = os.Pipe()
	check(err)
	d.cmd = exec.Command(os.Args[0], "-test.run=^TestTopInAProcessOfItsOwn$")
	d.cmd.Env = append(os.Environ(), "DROVER_TEST_TOP="+scene, "TERM=xterm-256color", "NO_COLOR=1")
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr, d.cmd.ExtraFiles = d.tty, d.tty, d.tty, []*os.File{reporting, gated}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	check(d.cmd.Start())
	reporting.Close()
	gated.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(d, d.ptmx) // until no process holds the other end
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		d.gate.Close()
		d.tty.Close()
		<-read
		d.ptmx.Close()
		d.report.Close()
	})
	return d
}

func (d *topDesk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.raw = append(d.raw, b...)
	close(d.fresh)
	d.fresh = make(chan struct{})
	return len(b), nil
}

// patient is how long a test waits for what comes at once: reaching it means never.
const patient = 60 * time.Second

// await waits until what was written passes.
func (d *topDesk) await(what string, ok func(raw string) bool) {
	d.t.Helper()
	never := time.After(patient)
	for {
		d.mu.Lock()
		raw, fresh := string(d.raw), d.fresh
		d.mu.Unlock()
		if ok(raw) {
			return
		}
		select {
		case <-fresh:
		case <-never:
			d.t.Fatalf("it never shows %s: %q\n%s", what, raw, onEmulator(raw))
		}
	}
}

// see waits until the screen shows a text. What is written does not tell: a
// letter that stays where it was is not written again.
func (d *topDesk) see(text string) {
	d.t.Helper()
	d.await(text, func(raw string) bool { return strings.Contains(onEmulator(raw), text) })
}

// newerModes are sequences that the emulator takes for others; a terminal that
// does not know them passes them by.
var newerModes = regexp.MustCompile(`\x1b\[[<=>][0-9;]*[a-zA-Z]`)

// onEmulator is the screen after all that was written.
func onEmulator(raw string) string {
	vt := vt10x.New(vt10x.WithSize(80, 24))
	_, _ = vt.Write([]byte(newerModes.ReplaceAllString(raw, "")))
	return vt.String()
}

func (d *topDesk) press(keys string) {
	d.t.Helper()
	if _, err := d.ptmx.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
}

// reports waits for what the process says beside the screen.
func (d *topDesk) reports(want string) {
	d.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(d.report, got); err != nil || string(got) != want {
		d.t.Errorf("it reports %q (%v), want %q", got, err, want)
	}
}

// restored waits until it has ended and the terminal is as before, and gives
// what the process reports.
func (d *topDesk) restored() string {
	d.t.Helper()
	report, err := io.ReadAll(d.report) // until it has ended
	if err != nil {
		d.t.Fatal(err)
	}
	for _, pair := range [][2]string{{"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?25l", "\x1b[?25h"}, {"\x1b[?2004h", "\x1b[?2004l"}} {
		d.await(pair[0]+" and then "+pair[1], func(raw string) bool {
			on := strings.LastIndex(raw, pair[0])
			return on >= 0 && on < strings.LastIndex(raw, pair[1])
		})
	}
	after, err := term.GetState(int(d.tty.Fd()))
	if err != nil || !reflect.DeepEqual(d.before, after) {
		d.t.Errorf("the terminal was %+v and is %+v (%v)", d.before, after, err)
	}
	return string(report)
}

func TestTopGivesTheTerminalBackAfterAPanic(t *testing.T) {
	t.Parallel()
	for scene, keys := range map[string]string{"a look panics": "", "a log panics": "\r"} {
		t.Run(scene, func(t *testing.T) {
			t.Parallel()
			d := newTopDesk(t, scene)
			first := "▸"
			if keys == "" {
				first = "looking"
			}
			d.see(first)
			d.press(keys)
			if keys != "" {
				d.see("log of node 0")
			}
			d.gate.Close()
			got := d.restored()
			if !strings.HasPrefix(got, "ended: show jobs: panic: a ") || !strings.Contains(got, " that fails\n") || !strings.Contains(got, "screen_test.go:") {
				t.Errorf("it reports %q", got)
			}
		})
	}
}

func TestTopWaitsForACancelThatWasSaidYesTo(t *testing.T) {
	t.Parallel()
	d := newTopDesk(t, "a cancel takes its time")
	d.see("▸")
	d.press("c")
	d.see("cancel 7f3k2a vision/resnet?")
	d.press("y")
	d.see("cancelling ...")
	d.reports("cancelling 7f3k2a; ")
	d.press("q")
	d.reports("cancelling: waiting until the job has ended\n") // that is after the screen
	d.gate.Close()
	if got := d.restored(); got != "ended: <nil>" {
		t.Errorf("it reports %q", got)
	}
}

func TestTopShowsTheNewestOfALogThatNeverStops(t *testing.T) {
	t.Parallel()
	d := newTopDesk(t, "a log never stops")
	d.see("▸")
	d.press("\r")
	d.see("the newest line")
	d.press("q")
	if got := d.restored(); got != "ended: <nil>" {
		t.Errorf("it reports %q", got)
	}
}

func TestTopIsInterruptedFromOutside(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]string{syscall.SIGTERM: "ended: <nil>", syscall.SIGINT: "ended: exit status 130"} {
		d := newTopDesk(t, "nothing")
		d.see("▸")
		if err := d.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if got := d.restored(); got != want {
			t.Errorf("after %s it reports %q, want %q", sig, got, want)
		}
	}
}
