//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
)

// work is a job and what must come of it, which follows from its numbers alone.
type work struct {
	kind    string // items: a process each; stream: programs that stay; run: one program
	items   int
	workers int
	slots   int
	retries int
	bad     int // every item that this divides fails; 0: none does
	pause   float64
	outputs bool
	steps   int // of a run
}

// programs are the jobs' code. Each notes every item that it begins in one write, in
// a file that no hit reaches: so what truly ran is known, whatever the store says.
var programs = map[string]string{
	"step.sh": `echo "$1" >>"$RUNS"
sleep "$PAUSE"
if [ "$BAD" -gt 0 ] && [ $(($1 % BAD)) -eq 0 ]; then echo bad >&2; exit 3; fi
if [ -n "$2" ]; then echo "output of $1" >"$2" || exit 4; fi
echo "item $1"
`,
	"stay.py": `import os, time
import drover

bad = int(os.environ["BAD"])
for item in drover.items():
    n = int(item.value)
    with open(os.environ["RUNS"], "a") as runs:
        runs.write(f"{n}\n")
    time.sleep(float(os.environ["PAUSE"]))
    if bad and n % bad == 0:
        item.fail("bad")
        continue
    if item.outs:
        with open(item.out, "w") as f:
            f.write(f"output of {n}\n")
    item.done(n * n)
`,
	"train.py": `import os, sys, time

here = os.path.join(os.environ["DROVER_CHECKPOINT_DIR"], "steps")
steps = open(here).read() if os.path.exists(here) else ""
for n in range(steps.count("\n") + 1, int(sys.argv[1]) + 1):
    time.sleep(float(os.environ["PAUSE"]))
    steps += f"{n}\n"
    with open(here + ".new", "w") as f:
        f.write(steps)
    os.rename(here + ".new", here)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "steps.txt"), "w") as f:
    f.write(steps)
`,
}

// drawWork makes a job of some seconds.
func drawWork(r *rand.Rand) work {
	w := work{workers: 1 + r.IntN(4), slots: 1 + r.IntN(3), retries: r.IntN(4), outputs: r.IntN(2) == 0}
	switch n := r.IntN(10); {
	case n < 5:
		w.kind = "items"
	case n < 9:
		w.kind = "stream"
	default:
		return work{kind: "run", retries: w.retries, steps: 10 + r.IntN(30), pause: 0.1}
	}
	w.pause = []float64{0, 0.01, 0.05, 0.2}[r.IntN(4)]
	length := 2 + 6*r.Float64()
	each := 0.01 + w.pause/float64(w.workers*w.slots)
	w.items = max(20, int(length/each))
	if r.IntN(3) == 0 {
		w.bad = 17
	}
	return w
}

// commandArgs is the command line, the same each time.
func (w work) commandArgs(task, runs string) []string {
	if w.kind == "run" {
		return []string{"run", "-t", task, "--retries", strconv.Itoa(w.retries), "--env", fmt.Sprintf("PAUSE=%g", w.pause), "train.py", strconv.Itoa(w.steps)}
	}
	args := []string{"map", "-t", task, "--from", fmt.Sprintf("1-%d", w.items), "--workers", strconv.Itoa(w.workers), "-j", strconv.Itoa(w.slots),
		"--retries", strconv.Itoa(w.retries), "--grace", "2s", "--env", "RUNS=" + runs, "--env", fmt.Sprintf("PAUSE=%g", w.pause), "--env", fmt.Sprintf("BAD=%d", w.bad)}
	if w.outputs {
		args = append(args, "--out", "o/{}.txt")
	}
	if w.kind == "stream" {
		return append(args, "--stream", "--", "python3", "stay.py")
	}
	args = append(args, "--", "sh", "step.sh", "{}")
	if w.outputs {
		args = append(args, "{out}")
	}
	return args
}

// mustFail says whether item n must.
func (w work) mustFail(n int) bool { return w.bad > 0 && n%w.bad == 0 }

func (w work) countFailing() int {
	if w.bad == 0 {
		return 0
	}
	return w.items / w.bad
}

// mostInFlight is how many items may have run without a record of it where an agent was
// hit: what it has sent to its programs or supervisors, which go on while it waits for
// a store. The figures are those of internal/agent/maprunner: what it keeps ahead of short
// items.
func (w work) mostInFlight(of reach) int {
	sent, cores := 2*w.slots, runtime.NumCPU()
	switch {
	case w.kind == "run" || of == nobody:
		return 0
	case w.kind == "stream" && w.pause == 0:
		sent = 8192
	case w.pause < 0.05:
		sent = 128 * min(cores, w.slots)
	}
	if of == oneProgram && w.kind != "stream" {
		return 0 // it has failed, and that is recorded
	}
	return sent
}

// resultText is what item n's result holds.
func (w work) resultText(n int) string {
	if w.kind == "stream" {
		return strconv.Itoa(n * n)
	}
	return fmt.Sprintf("item %d\n", n)
}

// outputText is what item n leaves.
func (w work) outputText(n int) string { return fmt.Sprintf("output of %d\n", n) }

// factsFolder says where a round's facts are, if that is not a folder.
func (r *round) factsFolder() string {
	if r.overS3 {
		return " over S3"
	}
	return ""
}

func (w work) String() string {
	if w.kind == "run" {
		return fmt.Sprintf("a run of %d steps", w.steps)
	}
	return fmt.Sprintf("%s: %d on %dx%d", w.kind, w.items, w.workers, w.slots)
}
