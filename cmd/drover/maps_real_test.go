//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program that leaves a line for each time it runs, in one write: so a test knows
// what truly ran, whatever the store says.
const teller = `
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
	char line[64];
	int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0644);
	int n = snprintf(line, sizeof line, "%s\n", argv[2]);
	if (fd < 0 || write(fd, line, n) != n) return 9;
	return 0;
}
`

// compiled is the teller's file.
func (h home) compiled(t *testing.T) string {
	t.Helper()
	put(t, filepath.Join(h.work, "teller.c"), []byte(teller))
	out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-static", "-o", filepath.Join(h.work, "teller"), filepath.Join(h.work, "teller.c")).CombinedOutput()
	if err != nil {
		t.Fatalf("apt-get install gcc libc6-dev: %v\n%s", err, out)
	}
	return filepath.Join(h.work, "teller")
}

// runs is a file outside the working folder: one in it would be code that changes.
func (h home) runs(name string) string { return filepath.Join(filepath.Dir(h.work), name) }

// ran counts how often each item of 1..n was run, by the teller's lines.
func ran(t *testing.T, file string, n int) (extra int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	times := make([]int, n+1)
	for line := range strings.Lines(string(text)) {
		i, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || i < 1 || i > n {
			t.Fatalf("%s holds %q", file, line)
		}
		times[i]++
	}
	for i, k := range times[1:] {
		if k == 0 {
			t.Errorf("item %d never ran", i+1)
		}
		extra += max(0, k-1)
	}
	return extra
}

// verified is what drover verify says of the newest job, which must be without doubt.
func (h home) verified(t *testing.T) (v struct {
	State string
	Tally struct{ Items, Succeeded, Failed int }
	Extra struct{ Retries, Interrupted, Unexplained int } `json:"extra_runs"`
	Bound int
}) {
	t.Helper()
	out, _ := h.drover(t, 0, "verify", "--json", "last")
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return v
}

// Everything of a job is killed with -9, ten times, at any moment: command line,
// agent, spawners, items. The same command goes on each time.
func TestRealMapKilledTenTimes(t *testing.T) {
	onlyReal(t)
	const items = 60_000
	h := newHome(t)
	program := h.compiled(t)
	command := func(runs string) []string {
		return []string{"map", "-j", "8", "--from", "1-" + strconv.Itoa(items), "--", program, h.runs(runs), "{}"}
	}
	began := time.Now()
	h.drover(t, 0, command("calm")...)
	calm := time.Since(began)
	if extra := ran(t, h.runs("calm"), items); extra != 0 {
		t.Errorf("nobody was killed, and %d items ran again", extra)
	}
	// Each life is a tenth of what the whole takes, give or take.
	for range 10 {
		c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), command("wild")...)
		c.Dir, c.Env = h.work, h.environ
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(float64(calm) * (0.05 + 0.05*rand.Float64()))) // at any moment: there is no event to wait for
		h.killAll()
		_ = c.Wait()
	}
	h.drover(t, 0, command("wild")...)
	v := h.verified(t)
	if v.Tally.Succeeded != items || v.State != "SUCCEEDED" {
		t.Errorf("verify says %+v", v)
	}
	extra := ran(t, h.runs("wild"), items)
	t.Logf("%d items ran again, the bound is %d", extra, v.Bound)
	if extra > v.Bound {
		t.Errorf("%d items ran again, the bound is %d", extra, v.Bound)
	}
}

// killAll ends all processes of a home at once. They are stopped first: an agent
// that saw an item killed would rightly record that it failed. What is starting just
// then is found in the next round.
func (h home) killAll() {
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGSTOP, syscall.SIGSTOP, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGKILL} {
		for pid := range processesOf(filepath.Dir(h.work)) {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// One of two agents is stopped until another has taken its chunk over and recorded
// results of it, and wakes up then: it is fenced, and every item counts once.
func TestRealMapFencesAPausedAgent(t *testing.T) {
	onlyReal(t)
	t.Parallel() // it waits, for the end of a lease
	const items = 200
	h := newHome(t)
	h.compiled(t)
	// Each of the first fills a slot until one of the agents has been stopped.
	put(t, filepath.Join(h.work, "slow.sh"), []byte("./teller $RUNS $1 && until [ -e $GATE ]; do sleep 0.1; done; sleep 0.5\n"))
	said := &tape{}
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "map", "--workers", "2", "-j", "4", "--from", "1-"+strconv.Itoa(items),
		"--env", "RUNS="+h.runs("runs"), "--env", "GATE="+h.runs("go"), "--", "sh", "slow.sh", "{}")
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	h.whenRan(t, "runs", 8) // the slots of both
	paused := h.oneOfTwo(t, said)
	if err := syscall.Kill(paused.Host.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	put(t, h.runs("go"), nil)
	h.takenOver(t, paused.Agent, said)
	if err := syscall.Kill(paused.Host.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	v := h.verified(t)
	if v.Tally.Succeeded != items {
		t.Errorf("verify says %+v", v)
	}
	// What ran when it was stopped ran again.
	extra := ran(t, h.runs("runs"), items)
	t.Logf("%d items ran again, the bound is %d", extra, v.Bound)
	if extra < 4 || extra > v.Bound {
		t.Errorf("%d items ran again, 4 to %d are right\n%s", extra, v.Bound, said)
	}
}

// takenOver waits until a chunk that an agent owned has results of its next owner.
func (h home) takenOver(t *testing.T, agent string, said *tape) {
	t.Helper()
	pattern := filepath.Join(filepath.Dir(h.work), "home", ".local", "share", "drover", "*", "*", "*", "chunks", "*", "*")
	for deadline := time.After(4 * patience); ; { // a lease, and the work that comes before what the agent left
		select {
		case <-deadline:
			t.Fatalf("nobody has taken over from agent %s\n%s", agent, said)
		case <-time.After(100 * time.Millisecond): // entries are files that appear
		}
		chunks, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range chunks {
			if takenFrom(t, dir, agent) {
				return
			}
		}
	}
}

// takenFrom says whether a chunk's log has results of an owner that claimed it after an
// agent.
func takenFrom(t *testing.T, dir, agent string) bool {
	t.Helper()
	entries, err := os.ReadDir(dir) // by name, which is by number
	if err != nil {
		t.Fatal(err)
	}
	owner, taken := "", false
	for _, file := range entries {
		var e struct {
			Claimed *struct{ Agent string }
			Results []json.RawMessage
		}
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Claimed != nil {
			taken = owner == agent
			owner = e.Claimed.Agent
		}
		if taken && len(e.Results) > 0 {
			return true
		}
	}
	return false
}

// beat is what a heartbeat says of an agent.
type beat struct {
	Agent string
	Host  struct{ PID int }
}

// oneOfTwo waits for the heartbeats of two agents and gives one.
func (h home) oneOfTwo(t *testing.T, said *tape) (one beat) {
	t.Helper()
	pattern := filepath.Join(filepath.Dir(h.work), "home", ".local", "share", "drover", "*", "*", "*", "agents", "*")
	for deadline := time.After(patience); ; {
		select {
		case <-deadline:
			t.Fatalf("there are no two agents\n%s", said)
		case <-time.After(50 * time.Millisecond): // heartbeats are files that appear
		}
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		beats := 0
		for _, file := range files {
			var b beat
			text, err := os.ReadFile(file)
			if err != nil || json.Unmarshal(text, &b) != nil || b.Host.PID == 0 {
				continue
			}
			beats, one = beats+1, b
		}
		if beats == 2 {
			return one
		}
	}
}

// One agent's items take ten times as long as the other's: what it has not begun is
// handed over, so it ends up with a small share.
func TestRealMapBalances(t *testing.T) {
	onlyReal(t)
	const items = 400
	h := newHome(t)
	runs := filepath.Join(h.work, "runs")
	// Each agent has a working folder of its own; the first item that runs chooses its agent
	// to be the slow one. No item begins before both agents are there. An item of the slow
	// agent ends when the other agent has begun 80 more: ten for each of its slots.
	put(t, filepath.Join(h.work, "uneven.sh"), []byte(`mkdir $1/first 2>/dev/null && pwd >$1/first/new && mv $1/first/new $1/first/slow
until [ -s $1/first/slow ]; do sleep 0.01; done
if [ "$(cat $1/first/slow)" != "$(pwd)" ]; then echo fast >>$1/runs; exec sleep 0.1; fi
until [ -e $1/runs ]; do sleep 0.01; done
echo slow >>$1/runs
before=$(grep -c fast $1/runs) most=50
until [ $(grep -c fast $1/runs) -ge $((before + 80)) ] || [ $most = 0 ]; do most=$((most - 1)); sleep 0.1; done
`))
	h.drover(t, 0, "map", "-q", "--workers", "2", "-j", "8", "--from", "1-"+strconv.Itoa(items), "--", "sh", "uneven.sh", h.work)
	text, err := os.ReadFile(runs)
	if err != nil {
		t.Fatal(err)
	}
	slow, all := bytes.Count(text, []byte("slow")), bytes.Count(text, []byte("\n"))
	if all != items || slow == 0 || slow > items/4 { // one in eleven is fair, and half without any hand-over
		t.Errorf("%d of %d items ran on the slow agent", slow, all)
	}
}
