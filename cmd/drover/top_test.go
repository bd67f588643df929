package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"
)

// screen is a terminal of the test's own with drover top on it.
type screen struct {
	t     *testing.T
	home  string
	cmd   *exec.Cmd
	ptmx  *os.File
	tty   *os.File
	state *term.State // of tty, before anything ran on it
	moved bool        // it was resized: the emulator forgets what stands behind
	done  chan error

	mu    sync.Mutex
	vt    vt10x.Terminal
	raw   []byte        // all that was written
	fresh chan struct{} // closed at every write, and made anew
}

// prompt stands on the screen before drover does, and again when it has gone.
const prompt = "user@host$ drover top"

// topHome is a HOME for one test, and the environment that goes with it.
func topHome(t *testing.T) (home string, environ []string) {
	t.Helper()
	home = t.TempDir()
	t.Cleanup(func() {
		if left := leftovers(home, patience); len(left) > 0 {
			t.Errorf("left running:\n%s", strings.Join(left, "\n"))
		}
	})
	for _, dir := range []string{"gates", "locks"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return home, []string{"HOME=" + home, "USER=tester", "TERM=xterm-256color", "LANG=C.UTF-8", "PWD=" + home, "PIP_NO_INDEX=1", "UV_OFFLINE=1",
		"GATES=" + filepath.Join(home, "gates"), "LOCKS=" + filepath.Join(home, "locks"),
		"PATH=" + strings.Join([]string{built.dir, built.python, os.Getenv("PATH")}, string(os.PathListSeparator))}
}

// droverIn runs one command line to its end.
func droverIn(t *testing.T, home string, environ []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(built.dir, "drover"), args...)
	cmd.Dir, cmd.Env = home, environ
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("drover %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// onScreen starts drover in a terminal of 100 columns and 30 rows.
func onScreen(t *testing.T, home string, environ []string, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, home: home, done: make(chan error, 1), vt: vt10x.New(vt10x.WithSize(100, 30)), fresh: make(chan struct{})}
	var err error
	if s.ptmx, s.tty, err = pty.Open(); err != nil {
		t.Fatal(err)
	}
	s.resize(100, 30)
	if s.state, err = term.GetState(int(s.tty.Fd())); err != nil {
		t.Fatal(err)
	}
	_, _ = s.vt.Write([]byte(prompt + "\r\n"))
	s.cmd = exec.Command(filepath.Join(built.dir, "drover"), args...)
	s.cmd.Dir, s.cmd.Env = home, environ
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.tty, s.tty, s.tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go s.read(read)
	ended := make(chan struct{})
	go func() { s.done <- s.cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-ended
		_ = s.tty.Close() // the reader's end: no process has the terminal open any more
		<-read
		_ = s.ptmx.Close()
	})
	return s
}

// unknown are sequences that are for newer terminals alone. The emulator takes
// them for others, where a terminal passes them by.
var unknown = regexp.MustCompile(`\x1b\[[<=>][0-9;]*[a-zA-Z]`)

// whole is a sequence that has ended.
var whole = regexp.MustCompile(`^\x1b(\[[0-9:;<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|P[^\x1b]*\x1b\\|[^\[\]P])`)

func (s *screen) read(done chan<- struct{}) {
	defer close(done)
	var rest []byte
	buf := make([]byte, 4096)
	for {
		n, err := s.ptmx.Read(buf)
		rest = append(rest, buf[:n]...)
		end := len(rest)
		if i := bytes.LastIndexByte(rest, 0x1b); i >= 0 && !whole.Match(rest[i:]) {
			end = i
		}
		for i := 1; i <= min(utf8.UTFMax, end); i++ {
			if c := rest[end-i]; utf8.RuneStart(c) {
				if !utf8.FullRune(rest[end-i : end]) {
					end -= i
				}
				break
			}
		}
		s.mu.Lock()
		s.raw = append(s.raw, buf[:n]...)
		_, _ = s.vt.Write(unknown.ReplaceAll(rest[:end], nil))
		close(s.fresh)
		s.fresh = make(chan struct{})
		s.mu.Unlock()
		rest = append([]byte(nil), rest[end:]...)
		if err != nil {
			return // EIO: the other side is closed
		}
	}
}

func (s *screen) resize(width, height int) {
	s.t.Helper()
	s.mu.Lock()
	if w, h := s.vt.Size(); w != width || h != height {
		s.vt.Resize(width, height)
		s.moved = true
	}
	s.mu.Unlock()
	if err := pty.Setsize(s.ptmx, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) press(keys string) {
	s.t.Helper()
	if _, err := s.ptmx.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until check finds nothing missing. It is called with the lock.
func (s *screen) until(check func(now string) (missing string)) {
	s.t.Helper()
	never := time.After(patience)
	for {
		s.mu.Lock()
		now, fresh := s.vt.String(), s.fresh
		missing := check(now)
		s.mu.Unlock()
		if missing == "" {
			return
		}
		select {
		case <-fresh:
		case <-never:
			s.t.Fatalf("never on the screen: %s\n%s", missing, now)
		}
	}
}

// see waits until the screen shows all of these and none of those behind "!".
func (s *screen) see(texts ...string) {
	s.t.Helper()
	s.until(func(now string) string {
		for _, text := range texts {
			if not, ok := strings.CutPrefix(text, "!"); ok == strings.Contains(now, not) {
				return text
			}
		}
		return ""
	})
}

// gone waits for drover's end, and for the terminal as it was before.
func (s *screen) gone(want string) {
	s.t.Helper()
	select {
	case err := <-s.done:
		if got := fmt.Sprint(err); got != want {
			s.t.Errorf("it ended with %s, want %s", got, want)
		}
	case <-time.After(patience):
		s.t.Fatalf("it does not end:\n%s", s.vt.String())
	}
	s.until(func(now string) string {
		for _, pair := range [][2]string{{"\x1b[?2004h", "\x1b[?2004l"}, {"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?25l", "\x1b[?25h"}} {
			if on, off := bytes.LastIndex(s.raw, []byte(pair[0])), bytes.LastIndex(s.raw, []byte(pair[1])); on < 0 || on > off {
				return fmt.Sprintf("%q, and then %q", pair[0], pair[1])
			}
		}
		switch {
		case s.vt.Mode()&vt10x.ModeAltScreen != 0 || !s.vt.CursorVisible():
			return "the screen behind, with its cursor"
		case strings.Contains(now, "q quit"), !s.moved && !strings.Contains(now, prompt):
			return "what stood there before"
		}
		return ""
	})
	after, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	if !reflect.DeepEqual(s.state, after) {
		s.t.Errorf("the terminal's settings were %+v, and are %+v", s.state, after)
	}
}

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	home, environ := topHome(t)
	trainer, err := filepath.Abs(filepath.Join("testdata", "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	droverIn(t, home, environ, "run", "-q", "-p", "demo", "-t", "digits", trainer, "--epochs", "12")
	droverIn(t, home, environ, "shell", "-q", "-p", "demo", "-t", "evil", `printf 'a\033[2Jb\033]0;title\007c\n'`)

	s := onScreen(t, home, environ, "top", "digits", "-p", "demo")
	s.see("demo/digits", "✓ succeeded", "step 12   loss 0.0083", "epoch=12 loss=0.0083", "settled", "▸ 0", "q quit")
	s.press("/epoch=1\\d\r")
	s.see("3 lines with", "epoch=10", "!epoch=9")
	s.press("\x1b[A?")
	s.see("search the log", "Any key goes back")
	s.press("x")
	s.see("epoch=12", "!Any key goes back")
	s.resize(20, 5)
	s.see("▸ 0", "epoch=12", "!digits  ✓ succeeded   ")
	s.resize(120, 40)
	s.see("✓ succeeded", "3 lines with")
	s.press("\x1b")
	s.see("epoch=9", "!3 lines with")
	s.press("\x1b")
	s.see("drover top", "demo/digits", "demo/evil", "0 live, 2 more")
	s.press("\x1b[A\r") // the newest one
	s.see("demo/evil", `a\x1b[2Jb\x1b]0;title\x07c`)
	s.press("c")
	s.see("nothing to cancel")
	s.press("q")
	s.gone("<nil>")
}

func TestTopCancelsWhatIsUnderItsMarker(t *testing.T) {
	t.Parallel()
	home, environ := topHome(t)
	trainer, err := filepath.Abs(filepath.Join("testdata", "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	droverIn(t, home, environ, "run", "-q", "--detach", "-p", "demo", "-t", "digits", trainer, "--epochs", "4", "--hold", "2")
	s := onScreen(t, home, append(environ, "NO_COLOR=1"), "top", "-p", "demo")
	s.see("1 live", "▸ ")
	s.press("\r")
	s.see("● running", "holding at 2")
	s.press("cn")
	s.see("q quit", "holding at 2")
	s.press("c")
	s.see("cancel ", "demo/digits?  y: yes")
	s.press("y")
	s.see("– cancelled", "is cancelled")
	s.press("\x03")
	s.gone("<nil>")
	s.mu.Lock()
	defer s.mu.Unlock()
	if hit := regexp.MustCompile(`\x1b\[(3[0-7]|9[0-7]|38;[0-9;]+)m`).Find(s.raw); hit != nil {
		t.Errorf("with NO_COLOR it paints: %q", hit)
	}
	if got := droverIn(t, home, environ, "status", "digits", "-p", "demo"); !strings.Contains(got, "CANCELLED") {
		t.Errorf("%s", got)
	}
}

func TestTopGivesTheTerminalBackAtSIGTERM(t *testing.T) {
	t.Parallel()
	home, environ := topHome(t)
	s := onScreen(t, home, environ, "top")
	s.see("no jobs yet", "q quit")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.gone("<nil>")
}

func TestTopWithoutATerminalPrintsOneFrame(t *testing.T) {
	t.Parallel()
	home, environ := topHome(t)
	cmd := exec.Command(filepath.Join(built.dir, "drover"), "top")
	cmd.Dir, cmd.Env = home, environ
	out, err := cmd.CombinedOutput()
	if want := "drover top   0 live, 0 more\n\nno jobs yet   start one: drover run train.py\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
