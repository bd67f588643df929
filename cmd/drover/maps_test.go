//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An item that kills its agent at every start is found, tried alone, and put aside; all
// others succeed (M13). It cannot reach the agent by itself, so it asks a process outside,
// as an item that eats the machine's memory would cause the kernel to act.
func TestMapPutsAsideWhatKillsItsAgents(t *testing.T) {
	h := newHome(t)
	put(t, filepath.Join(h.work, "item.sh"), []byte("if [ $1 = 13 ]; then echo $1 >>"+h.work+"/die; sleep 1000; fi\n"))
	var said bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "map", "-j", "4", "--from", "1-30", "--", "sh", "item.sh", "{}")
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }() // ends with the program, which has the test's context
	starts, killed := 0, 0
	for over := false; !over; {
		select {
		case err := <-ended:
			exit := &exec.ExitError{}
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("%v\n%s", err, &said)
			}
			over = true
		case <-time.After(5 * time.Millisecond): // the item asks by a line in a file
		}
		text, _ := os.ReadFile(filepath.Join(h.work, "die"))
		if starts = bytes.Count(text, []byte("\n")); starts > killed {
			killed = starts
			for pid, name := range processesOf(filepath.Dir(h.work)) {
				if strings.Contains(name, "drover agent ") {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	}
	h.drover(t, 0, "verify", "last")
	items, _ := h.drover(t, 0, "items", "--json", "last")
	states := map[string]int{}
	for line := range strings.Lines(items) {
		var it struct {
			Item  int    `json:"item"`
			State string `json:"state"`
		}
		if err := json.Unmarshal([]byte(line), &it); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		states[it.State]++
		if (it.Item == 13) != (it.State == "QUARANTINED") {
			t.Errorf("item %d is %s", it.Item, it.State)
		}
	}
	if states["SUCCEEDED"] != 29 || states["QUARANTINED"] != 1 || killed > 5 {
		t.Errorf("%v, and %d agents died, five at most\n%s", states, killed, &said)
	}
}
