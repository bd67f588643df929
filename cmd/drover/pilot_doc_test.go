package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a machine is, how long it takes, and what things are named there differ.
var ofTheMachine = []struct {
	found *regexp.Regexp
	mask  string
}{
	{regexp.MustCompile(`on this machine, .*`), "on this machine, ..."},
	{regexp.MustCompile(`work-sh-[0-9a-f]{6}`), "work-sh-HASH"},
	{regexp.MustCompile(`from /\S+`), "from FOLDER"},
	{regexp.MustCompile(`✓ [0-9a-z]{4,} `), "✓ ID "},
	{regexp.MustCompile(`forecast about \S+( \(\S+ to \S+\))? for`), "forecast about TIME for"},
	{regexp.MustCompile(`[0-9,]+ requests, for \$[0-9.]+$`), "REQUESTS"},
	{regexp.MustCompile(`\b[0-9.]+(ms|s)\b`), "TIME"},
	{regexp.MustCompile(`up to \S+ MB`), "up to SIZE"},
}

func masked(text string) string {
	for _, m := range ofTheMachine {
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			lines[i] = m.found.ReplaceAllString(l, m.mask)
		}
		text = strings.Join(lines, "\n")
	}
	return text
}

// The page about pilots shows one. It is run here, and says the same.
func TestThePilotInTheDocsIsAsItIs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "pilot.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```console\n$ ")
	block, _, ok := strings.Cut(rest, "```\n")
	line, want, ok2 := strings.Cut(block, "\n")
	if !ok || !ok2 {
		t.Fatal("the page has no transcript")
	}
	dir := t.TempDir()
	demo := filepath.Join(dir, "demo")
	if err := os.Mkdir(demo, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(demo, "work.sh"), []byte("#!/bin/sh\nsleep 0.05\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = demo
	cmd.Env = []string{"HOME=" + filepath.Join(dir, "home"), "USER=ann", "PATH=" + built.dir + ":" + os.Getenv("PATH")}
	got, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, got)
	}
	var shown []string // on a slow machine there is a line of progress too
	for _, l := range strings.Split(string(got), "\n") {
		if !strings.Contains(l, "items/s") {
			shown = append(shown, l)
		}
	}
	if diff := cmp.Diff(masked(want), masked(strings.Join(shown, "\n"))); diff != "" {
		t.Errorf("docs/how-to/pilot.md (-page +what it is):\n%s", diff)
	}
}
