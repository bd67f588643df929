package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// acts are the ways in which output acts on a terminal, by what stands in the bytes that
// reach it.
var acts = map[string]*regexp.Regexp{
	"clipboard": regexp.MustCompile(`\x1b\]52`),
	"title":     regexp.MustCompile(`\x1b\][012];`),
	"clear":     regexp.MustCompile(`\x1b\[2J`),
	"home":      regexp.MustCompile(`\x1b\[1;1H`),
	"conceal":   regexp.MustCompile(`\x1b\[8m`),
	"C1":        regexp.MustCompile(`\x{9b}`),
	"bidi":      regexp.MustCompile(`\x{202e}`),
}

// found names the ways in which bytes act, in order.
func found(out []byte) string {
	var names []string
	for _, name := range []string{"clipboard", "title", "clear", "home", "conceal", "C1", "bidi"} {
		if acts[name].Match(out) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// onTerminal runs one command line with all its streams on a terminal of its own, and
// returns every byte that reached the terminal.
func onTerminal(t *testing.T, home string, environ []string, args ...string) []byte {
	t.Helper()
	return untilShown(t, home, environ, "", nil, args...)
}

// untilShown is onTerminal that calls then once the terminal has shown a text.
func untilShown(t *testing.T, home string, environ []string, text string, then func(), args ...string) []byte {
	t.Helper()
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), args...)
	cmd.Dir, cmd.Env = home, environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	var out, part []byte
	part = make([]byte, 4096)
	for {
		n, err := ptmx.Read(part)
		out = append(out, part[:n]...)
		if then != nil && bytes.Contains(out, []byte(text)) {
			then()
			then = nil
		}
		if err != nil { // EIO: its last process has closed the terminal
			break
		}
	}
	_ = cmd.Wait() // the program fails on purpose
	return out
}

const hostile = `\033]52;c;cm0gLXJmIH4K\007\033]0;PWNTITLE\007\033[2J\033[1;1H\033[8mhidden\033[0m\302\23331m\342\200\256 \033[31mred\033[0m`

// TestNoOutputActsOnTheTerminal: a program prints what sets the clipboard and the title,
// clears the screen, hides text and turns its direction. Each verb that shows something of
// it is run on a real terminal. In a pipe its bytes are those that it printed.
func TestNoOutputActsOnTheTerminal(t *testing.T) {
	t.Parallel()
	home, environ := topHome(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(home, "code"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("code/p.sh", "#!/bin/sh\nprintf '"+hostile+" out\\n10%%\\r20%%\\033[K\\n\\033[1Aup\\n'\nprintf '"+hostile+" err\\n' >&2\nexit 3\n")
	write("code/i.sh", "#!/bin/sh\nprintf '"+hostile+" err\\n' >&2\nprintf '"+hostile+" out\\n'\n[ \"$2\" = 2 ] && exit 3\nexit 0\n")
	write("items", "a\x1b]52;c;x\a\x1b[2J\x1b[1;1H\u009b1m\u202eb\nsecond\x1b]0;PWNTITLE\a\n")
	bob := append([]string(nil), environ...)
	for i, kv := range bob {
		if strings.HasPrefix(kv, "USER=") {
			bob[i] = "USER=bob"
		}
	}

	own := onTerminal(t, home, environ, "run", "-p", "demo", "-t", "x", "code/p.sh")
	// of one's own program, concealing and bidi are what it prints, and act on nothing else
	if got := found(own); got != "conceal bidi" {
		t.Errorf("run passes %s: %q", got, own)
	}
	for _, want := range []string{"\x1b[31mred\x1b[0m", "10%\r20%\x1b[K", "\x1b[1Aup", `\u009b31m`} {
		if !bytes.Contains(own, []byte(want)) {
			t.Errorf("run shows no %q of: %q", want, own)
		}
	}
	all := [][]string{{"map", "-p", "demo", "-t", "m", "--from", "items", "--", "code/i.sh", "{}", "{n}"}}
	for _, line := range []string{"status", "status x", "status m", "logs x", "logs x -f", "logs x --tail 5", "logs x --timestamps", "logs m", "logs m --item 1", "logs m --prefix", "logs --search out x",
		"logs --search out m", "why x", "why m", "items m", "items m 1", "items m 2", "results m", "results m --csv", "events x", "events m", "metrics x", "verify m", "worker ls", "data", "get x -o o",
		"logs x --json", "logs m --json", "items m --json", "items m 1 --json", "results m --json", "status --json", "status m --json", "events x --json", "why x --json", "why m --json", "config", "cancel x"} {
		words := strings.Fields(line)
		all = append(all, append(append([]string{words[0]}, "-p", "demo"), words[1:]...))
	}
	for _, args := range all {
		if words := strings.Join(args, " "); strings.HasPrefix(words, "worker") || strings.HasPrefix(words, "config") {
			args = append([]string{args[0]}, args[3:]...)
		}
		out := onTerminal(t, home, environ, args...)
		if got := found(out); got != "" {
			t.Errorf("%s passes %s: %q", strings.Join(args, " "), got, out)
		}
		if len(out) == 0 {
			t.Errorf("%s shows nothing", strings.Join(args, " "))
		}
	}
	gate := filepath.Join(home, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	write("code/live.sh", "#!/bin/sh\nprintf '"+hostile+" out\n'\nprintf 'seen\n'\nread line <"+gate+"\n")
	droverIn(t, home, environ, "run", "-q", "--detach", "-p", "demo", "-t", "live", "code/live.sh")
	out := untilShown(t, home, bob, "seen\r\n", func() { write("gate", "go\n") }, "run", "-p", "demo", "-t", "live", "code/live.sh")
	if found(out) != "" || !bytes.Contains(out, []byte(`\x1b]52;`)) || !bytes.Contains(out, []byte("\x1b[31mred")) {
		t.Errorf("following a job of another user passes %s: %q", found(out), out)
	}

	cmd := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "logs", "-p", "demo", "x")
	cmd.Dir, cmd.Env = home, environ
	if out, err := cmd.Output(); err != nil || found(out) != "clipboard title clear home conceal C1 bidi" {
		t.Errorf("a pipe gets %q: %v", out, err)
	}
}
