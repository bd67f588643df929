//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// client is a program of docs/how-to/stream.md in another language.
type client struct {
	file    string
	needs   string // a line for sh: is it all there?
	from    string // where Debian has it
	build   []string
	command []string
}

var clients = map[string]client{
	"bash": {"square.sh", "command -v bash && command -v jq && nc -h 2>&1 | grep OpenBSD", "netcat-openbsd jq", nil, []string{"bash", "square.sh"}},
	"go":   {"square.go", "command -v go", "golang", []string{"go", "build", "-o", "square", "square.go"}, []string{"./square"}},
	"js":   {"square.js", "command -v node", "nodejs", nil, []string{"node", "square.js"}},
}

// The programs on the page work as they stand there. A program is skipped where its
// language is not installed.
func TestClientsOnThePage(t *testing.T) {
	for language, c := range clients {
		t.Run(language, func(t *testing.T) {
			if exec.CommandContext(t.Context(), "sh", "-c", c.needs).Run() != nil {
				t.Skipf("apt-get install %s", c.from)
			}
			c.squares(t, language)
		})
	}
}

// All of them must be there where real parts are.
func TestRealClientsOnThePage(t *testing.T) {
	onlyReal(t)
	for language, c := range clients {
		t.Run(language, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", c.needs).CombinedOutput(); err != nil {
				t.Fatalf("apt-get install %s: %v\n%s", c.from, err, out)
			}
			c.squares(t, language)
		})
	}
}

// onPage is the one block of a language.
func onPage(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "stream.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("the page has %d blocks of %s", len(blocks), language)
	}
	return blocks[0][1]
}

// squares has it square 200 numbers and give up what is none.
func (c client) squares(t *testing.T, language string) {
	const n = 200
	h := newHome(t)
	put(t, filepath.Join(h.work, c.file), []byte(onPage(t, language)))
	var list strings.Builder
	for i := range n {
		fmt.Fprintln(&list, i+1)
	}
	put(t, filepath.Join(h.work, "list.txt"), []byte(list.String()+"many\n"))
	if c.build != nil {
		b := exec.CommandContext(t.Context(), c.build[0], c.build[1:]...)
		b.Dir, b.Env = h.work, append(os.Environ(), "GO111MODULE=off", "CGO_ENABLED=0")
		if out, err := b.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	h.drover(t, 1, slices.Concat([]string{"map", "-q", "-j", "2", "--from", "list.txt", "--stream", "--"}, c.command)...)
	results, _ := h.drover(t, 0, "results", "--json", "last")
	item := 0
	for line := range strings.Lines(results) {
		var r struct {
			State, Stdout, Reason string
			Failures              int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		switch item++; {
		case item > n && (r.State != "FAILED" || r.Reason == "" || r.Failures != 1):
			t.Errorf("item %d: %s", item, line)
		case item <= n && (r.State != "SUCCEEDED" || r.Stdout != fmt.Sprint(item*item) || r.Failures != 0):
			t.Errorf("item %d: %s", item, line)
		}
	}
	if item != n+1 {
		t.Errorf("%d results, want %d", item, n+1)
	}
	if v := h.verified(t); v.Tally.Succeeded != n {
		t.Errorf("verify says %+v", v)
	}
}
