// Package tools finds the tools of a caller, on the PATH of its environment, and runs them:
// each dies whole, and what it prints comes line by line. All that is logged or quoted of
// addresses is masked here. It refuses to know what a tool is for. The tests of env, which
// drive real ones, prove it.
package tools

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Variable is os.Getenv over a list; the last one wins, as for exec.
func Variable(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// FindAll finds all programs of that name on the caller's PATH. Relative
// entries are left out: they would mean another folder here than at the caller's.
func FindAll(environ []string, name string) []string {
	var found []string
	for _, dir := range filepath.SplitList(Variable(environ, "PATH")) {
		path := filepath.Join(dir, name)
		if filepath.IsAbs(dir) && Runnable(path) && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}

func Runnable(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0
}

// Patience is how long a program may take to say its version or find a module:
// on a network folder the first start takes many seconds.
const Patience = 30 * time.Second

// maxOutput bounds what is kept of a tool's output, in bytes; the end says what
// went wrong. The log gets all of it.
const maxOutput = 64 << 10

// Answer runs a tool for its answer alone.
func Answer(ctx context.Context, dir string, environ []string, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := NewCommand(ctx, dir, environ, name, args...)
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

// NewCommand dies whole: pip and uv start processes of their own.
func NewCommand(ctx context.Context, dir string, environ []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// LineWriter cuts a stream into lines for the log and keeps its end.
type LineWriter struct {
	Each func(string)
	part []byte
	Kept []byte
}

func (l *LineWriter) Write(p []byte) (int, error) {
	l.Kept = append(l.Kept, p...)
	if over := len(l.Kept) - maxOutput; over > 0 {
		l.Kept = append(l.Kept[:0], l.Kept[over:]...)
	}
	l.part = append(l.part, p...)
	for {
		i := bytes.IndexAny(l.part, "\n\r")
		if i < 0 && len(l.part) < maxOutput {
			return len(p), nil
		}
		if i < 0 {
			i = len(l.part) - 1
		}
		l.logLine(l.part[:i+1])
		l.part = l.part[i+1:]
	}
}

func (l *LineWriter) Flush() { l.logLine(l.part); l.part = nil }

func (l *LineWriter) logLine(b []byte) {
	if s := strings.TrimRight(string(b), " \r\n"); s != "" {
		l.Each(s)
	}
}

// LastLine is ": line" for the last line that says something, or "".
func LastLine(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	s = strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
	return ": " + strings.TrimPrefix(strings.TrimPrefix(s, "error: "), "ERROR: ")
}
