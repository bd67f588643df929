package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// typist is a person at a terminal on which a command runs.
type typist struct {
	t     *testing.T
	keys  *os.File // the terminal's other end
	tty   *os.File // kept open, to see what is left in it
	cmd   *exec.Cmd
	parts chan []byte // what is shown, as it comes
	shown []byte
	next  int // the part of shown that was waited for
}

// atKeyboard starts a command line with all its streams on a terminal of its own.
func atKeyboard(t *testing.T, home string, environ []string, args ...string) *typist {
	t.Helper()
	return atTerminal(t, home, environ, filepath.Join(built.dir, "drover"), args...)
}

// atTerminal is atKeyboard of any program.
func atTerminal(t *testing.T, home string, environ []string, program string, args ...string) *typist {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = home, environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &typist{t: t, keys: keys, tty: tty, cmd: cmd, parts: make(chan []byte)}
	go func() { // ends with the terminal
		defer close(p.parts)
		for {
			part := make([]byte, 4096)
			n, err := keys.Read(part)
			if n > 0 {
				p.parts <- part[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		tty.Close()
		for range p.parts { // until its last process has closed the terminal
		}
		keys.Close()
	})
	return p
}

// sees reads what is shown until text was, behind what was seen before.
func (p *typist) sees(text string) {
	p.t.Helper()
	for {
		if i := bytes.Index(p.shown[p.next:], []byte(text)); i >= 0 {
			p.next += i + len(text)
			return
		}
		select {
		case part := <-p.parts:
			p.shown = append(p.shown, part...)
		case <-time.After(patience):
			_ = p.cmd.Process.Kill()
			p.t.Fatalf("the terminal shows no %q:\n%s", text, p.shown)
		}
	}
}

func (p *typist) types(text string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the command and compares its exit status.
func (p *typist) ends(code int) {
	p.t.Helper()
	_ = p.cmd.Wait() // its status says it
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("it ended with %d, not %d:\n%s", got, code, p.shown)
	}
}

// echoes reports whether the terminal shows what is typed.
func (p *typist) echoes() bool {
	p.t.Helper()
	set, err := getTermios(p.tty)
	if err != nil {
		p.t.Fatal(err)
	}
	return uint64(set.Lflag)&unix.ECHO != 0
}

func typedHome(t *testing.T, script string) (home string, environ []string) {
	t.Helper()
	home, environ = topHome(t)
	if err := os.Mkdir(filepath.Join(home, "code"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "code", "p.sh"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return home, environ
}

// TestAProgramReadsWhatIsTyped: lines, and Ctrl-D as the end of what is read, for a program
// that finds a terminal at its standard input.
func TestAProgramReadsWhatIsTyped(t *testing.T) {
	t.Parallel()
	home, environ := typedHome(t, "[ -t 0 ] && echo at a terminal\necho name\nread x\necho \"hello $x\"\nwc -l\necho done\n")
	p := atKeyboard(t, home, environ, "run", "-p", "demo", "code/p.sh")
	p.sees("at a terminal\r\n")
	p.sees("name\r\n")
	p.types("ann\n")
	p.sees("hello ann\r\n")
	p.types("one\ntwo\n\x04")
	p.sees("2\r\ndone\r\n")
	p.ends(0)
}

// TestCtrlCEndsAProgramThatReadsTheTerminal, and a program that has hidden what is typed
// leaves the terminal as it was.
func TestCtrlCEndsAProgramThatReadsTheTerminal(t *testing.T) {
	t.Parallel()
	home, environ := typedHome(t, "stty -echo\necho password\nread x\necho \"got $x\"\nread y\n")
	p := atKeyboard(t, home, environ, "run", "-p", "demo", "code/p.sh")
	p.sees("password\r\n")
	for p.echoes() {
		runtime.Gosched()
	}
	p.types("secret\n")
	p.sees("got secret\r\n")
	p.types("\x03")
	p.sees("Stopping: sent SIGINT to the program")
	p.sees("interrupted")
	p.ends(130)
	if strings.Count(string(p.shown), "secret") != 1 {
		t.Errorf("the terminal shows the password as it is typed:\n%s", p.shown)
	}
	if !p.echoes() {
		t.Error("the terminal shows no longer what is typed")
	}
	droverIn(t, home, environ, "cancel", "-p", "demo", "last")
}

// TestWhatAProgramDoesNotReadIsLeftForTheShell: of what is typed meanwhile at most the first
// line is gone.
func TestWhatAProgramDoesNotReadIsLeftForTheShell(t *testing.T) {
	t.Parallel()
	home, environ := typedHome(t, "echo up\nwhile [ ! -e $GATES/go ]; do sleep 0.05; done\n")
	p := atKeyboard(t, home, environ, "run", "-p", "demo", "code/p.sh")
	p.sees("up\r\n")
	p.types("one\ntwo\n")
	p.sees("two\r\n") // the terminal itself shows it
	if err := os.WriteFile(filepath.Join(home, "gates", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.sees("succeeded")
	p.ends(0)
	if err := syscall.SetNonblock(int(p.tty.Fd()), true); err != nil {
		t.Fatal(err)
	}
	left := make([]byte, 100)
	n, err := unix.Read(int(p.tty.Fd()), left)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(left[:n]); text == "one\n" { // a terminal gives one line at a time
		if n, err = unix.Read(int(p.tty.Fd()), left); err != nil {
			t.Fatal(err)
		}
	}
	if text := string(left[:n]); text != "two\n" {
		t.Errorf("left is %q", text)
	}
}

// TestACommandInTheBackgroundLeavesTheTerminalAlone: what is typed is the shell's.
func TestACommandInTheBackgroundLeavesTheTerminalAlone(t *testing.T) {
	t.Parallel()
	home, environ := typedHome(t, "echo up\nwhile [ ! -e $GATES/go ]; do sleep 0.05; done\n")
	// A shell with jobs: the command is in a process group behind its own.
	shell := "set -m; drover run -q -p demo code/p.sh & read x; echo shell has $x; : > $GATES/go; wait"
	p := atTerminal(t, home, environ, "sh", "-c", shell)
	p.sees("up\r\n")
	p.types("mine\n")
	p.sees("shell has mine\r\n")
	p.ends(0)
}
