//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// verified is what drover verify --json says, as far as it is looked at.
type verified struct {
	State string
	Items int
	Tally struct{ Items, Succeeded, Failed, Quarantined, Cancelled int }
	Extra struct {
		Retries, Interrupted, Unexplained int
	} `json:"extra_runs"`
	Bound    int
	Findings int `json:"doubt_count"`
}

// judgeOutcome holds what is left against what the programs must have given.
func (r *round) judgeOutcome(ctx context.Context) error {
	for _, p := range r.lane.waitUntilGone(ctx, goneWithin) {
		r.stray++
		r.noteWrong("a process is left %s after the end: %d %s %s", goneWithin, p.pid, p.kind, p.text)
	}
	if err := r.runVerify(ctx); err != nil {
		return err
	}
	if r.work.kind == "run" {
		r.judgeModel(ctx)
	} else {
		r.judgeItems(ctx)
		if err := r.judgeRuns(); err != nil {
			return err
		}
	}
	r.judgeDamage(ctx)
	return r.judgeLeftovers(ctx)
}

func (r *round) runVerify(ctx context.Context) error {
	text, err := r.runReadCommand(ctx, "verify", "last", "--json")
	if err != nil {
		r.noteWrong("%v", err)
		return nil
	}
	if err := json.Unmarshal(text, &r.found); err != nil {
		return fmt.Errorf("read what drover verify says: %w in %s", err, text)
	}
	t := r.found.Tally
	switch {
	case r.found.Findings > 0:
		r.noteWrong("verify has doubts: %s", text)
	case r.work.kind != "run" && (r.found.Items != r.work.items || t.Items != r.work.items || t.Failed != r.work.countFailing() ||
		t.Succeeded+t.Failed+t.Quarantined+t.Cancelled != t.Items):
		r.noteWrong("the counts do not add up to %d items, %d of them failed: %s", r.work.items, r.work.countFailing(), text)
	}
	return nil
}

// judgeModel looks at what a run brought home.
func (r *round) judgeModel(ctx context.Context) {
	home := r.lane.outputPath("home")
	if _, err := r.runReadCommand(ctx, "get", "last", "-o", home); err != nil {
		r.noteWrong("%v", err)
		return
	}
	var want strings.Builder
	for n := range r.work.steps {
		fmt.Fprintf(&want, "%d\n", n+1)
	}
	text, err := os.ReadFile(filepath.Join(home, "model", "steps.txt"))
	if err != nil || string(text) != want.String() {
		r.lost++
		r.noteWrong("the model holds %q and not the steps 1 to %d: %v", text, r.work.steps, err)
	}
}

// result is a line of drover results --json, as far as it is looked at.
type result struct {
	Item         int
	Value, State string
	Stdout       string
	Outputs      []struct{ Name string }
}

// judgeItems holds every result and every output that came home against the item.
func (r *round) judgeItems(ctx context.Context) {
	text, err := r.runReadCommand(ctx, "results", "last", "--json")
	if err != nil {
		r.noteWrong("%v", err)
		return
	}
	r.judgeResults(text)
	if !r.work.outputs {
		return
	}
	home := r.lane.outputPath("home")
	if _, err := r.runReadCommand(ctx, "get", "last", "-o", home); err != nil {
		r.noteWrong("%v", err)
		return
	}
	r.judgeOutputs(home)
}

func (r *round) judgeResults(text []byte) {
	seen := map[int]int{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var x result
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			r.noteWrong("a line of results is none: %v: %s", err, lines.Bytes())
			continue
		}
		seen[x.Item]++
		if why := r.work.differenceOf(x); why != "" {
			r.lost++
			r.noteWrong("item %d: %s: %s", x.Item, why, lines.Bytes())
		}
	}
	for n := 1; n <= r.work.items; n++ {
		switch {
		case seen[n] == 0:
			r.lost++
			r.noteWrong("item %d has no result", n)
		case seen[n] > 1:
			r.double++
			r.noteWrong("item %d has %d results", n, seen[n])
		}
	}
}

// differenceOf says in what a result is not the item's.
func (w work) differenceOf(x result) string {
	if x.Item < 1 || x.Item > w.items || x.Value != strconv.Itoa(x.Item) {
		return "no such item was given"
	}
	if w.mustFail(x.Item) {
		if x.State != "FAILED" {
			return "it must have failed"
		}
		return ""
	}
	switch {
	case x.State != "SUCCEEDED":
		return "it must have succeeded"
	case x.Stdout != w.resultText(x.Item):
		return fmt.Sprintf("its result must be %q", w.resultText(x.Item))
	case w.outputs && (len(x.Outputs) != 1 || x.Outputs[0].Name != fmt.Sprintf("o/%d.txt", x.Item)):
		return "it must have its output"
	}
	return ""
}

// judgeOutputs reads all that came home: there is a file for each item that has
// succeeded, it holds what the item wrote, and there is nothing else.
func (r *round) judgeOutputs(home string) {
	found := 0
	for n := 1; n <= r.work.items; n++ {
		if r.work.mustFail(n) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(home, "o", fmt.Sprintf("%d.txt", n)))
		if err != nil || string(text) != r.work.outputText(n) {
			r.lost++
			r.noteWrong("the output of item %d holds %q: %v", n, text, err)
		}
	}
	err := filepath.WalkDir(filepath.Join(home, "o"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found++
		}
		return err
	})
	if want := r.work.items - r.work.countFailing(); err != nil || found > want {
		r.noteWrong("%d outputs came home, and there are %d: %v", found, want, err)
	}
}

// judgeRuns counts what truly ran: each item did, and no more of them again than
// is recorded, or than verify says may have run unrecorded.
func (r *round) judgeRuns() error {
	text, err := r.readRunNotes()
	if err != nil {
		return fmt.Errorf("read what the programs noted: %w", err)
	}
	r.ran = map[int]int{}
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n < 1 || n > r.work.items {
			r.noteWrong("a program was given %q, which is no item", line)
			continue
		}
		r.ran[n]++
	}
	for n := 1; n <= r.work.items; n++ {
		if r.ran[n] == 0 {
			r.lost++
			r.noteWrong("item %d has a result, and never ran", n)
		}
	}
	if r.extraRuns() > r.allowedExtra() {
		r.noteWrong("%d items ran again, and at most %d may have: %+v", r.extraRuns(), r.allowedExtra(), r.found)
	}
	return nil
}

// readRunNotes are a line for each item that a program has begun.
func (r *round) readRunNotes() ([]byte, error) { return os.ReadFile(r.lane.outputPath("runs")) }

// countBegun is how many there are so far.
func (r *round) countBegun() int {
	text, _ := r.readRunNotes() // not there yet is none
	return bytes.Count(text, []byte("\n"))
}

func (r *round) extraRuns() (n int) {
	for _, times := range r.ran {
		n += times - 1
	}
	return n
}

// allowedExtra is how often items may have run beyond once: as recorded, as verify says
// for agents that died, and as follows from the hits.
func (r *round) allowedExtra() int {
	x := r.found.Extra
	return r.found.Bound + x.Retries + x.Interrupted + r.again
}

// judgeLeftovers runs a quiet job: its command and agent sweep what dead ones have left.
// Then nothing of any job may be there.
func (r *round) judgeLeftovers(ctx context.Context) error {
	c := r.lane.droverCommand(ctx, false, "map", "-q", "-t", "sweeper", "--from", "1-1", "--", "true")
	if out, err := c.CombinedOutput(); err != nil {
		r.noteWrong("a quiet job after the end does not run: %v: %s", err, out)
		return nil
	}
	for _, p := range r.lane.waitUntilGone(ctx, goneWithin) {
		r.stray++
		r.noteWrong("a process is left after a quiet job: %d %s %s", p.pid, p.kind, p.text)
	}
	state := filepath.Join(r.lane.dir, "disk", "home", ".local", "state", "drover")
	for _, pattern := range []string{filepath.Join(state, "work", "*"), filepath.Join(state, "local", "*"), filepath.Join(r.lane.dir, "disk", "tmp", "drover-items-*")} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, name := range left {
			r.noteWrong("%s is left", name)
		}
	}
	return nil
}
