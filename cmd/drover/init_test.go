package main_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// At a terminal init says what there is, asks for a store, and tries it out.
func TestInitAsksWhoSitsAtATerminal(t *testing.T) {
	home, environ := topHome(t)
	dir := filepath.Join(home, "proj")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "init")
	c.Dir, c.Env = dir, append(environ, "AWS_ACCESS_KEY_ID=x")
	c.Stdin, c.Stderr = tty, tty
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	var said strings.Builder
	answered := false
	buffer := make([]byte, 4096)
	for {
		n, err := terminal.Read(buffer)
		said.Write(buffer[:n])
		if !answered && strings.HasSuffix(said.String(), "\nstore: ") {
			answered = true
			if _, err := io.WriteString(terminal, "../facts\n"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break // its other end was closed
		}
	}
	err = c.Wait()
	text, _ := os.ReadFile(filepath.Join(dir, "drover.yaml"))
	if err != nil || !strings.Contains(string(text), "project: proj\nstore: ../facts\n") || !strings.Contains(said.String(), "  s3://bucket/prefix, as you are signed in to AWS here") {
		t.Errorf("%v\n%s\ndrover.yaml: %s", err, &said, text)
	}
}
