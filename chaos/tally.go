//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally is the sum of the rounds.
type tally struct {
	mu                  sync.Mutex
	rounds, runs, maps  int
	items, commands     int
	flaky, overS3       int
	extra, bound        int
	lost, double, stray int
	broken              int
	hits                map[string]int
	intruder            string   // what another user has tried
	achieved            []string // and what that user could do
}

func newTally() *tally { return &tally{hits: map[string]int{}} }

func (t *tally) addRound(r *round) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rounds++
	if r.work.kind == "run" {
		t.runs++
	} else {
		t.maps++
	}
	if r.flaky {
		t.flaky++
	}
	if r.overS3 {
		t.overS3++
	}
	t.items, t.commands = t.items+r.work.items, t.commands+r.commands
	t.extra, t.bound = t.extra+r.extraRuns(), t.bound+r.allowedExtra()
	t.lost, t.double, t.stray, t.broken = t.lost+r.lost, t.double+r.double, t.stray+r.stray, t.broken+len(r.broken)
	for name, n := range r.hit {
		t.hits[name] += n
	}
}

// addIntruder takes what another user of the machine has tried and could do.
func (t *tally) addIntruder(achieved []string, sum string, err error) error {
	t.intruder, t.achieved = sum, achieved
	t.broken += len(achieved)
	return err
}

// foundWrong says whether anything was found.
func (t *tally) foundWrong() bool { return t.broken > 0 }

func (t *tally) tallyText(took time.Duration) string {
	var b strings.Builder
	verdict := "every promise was kept"
	if t.foundWrong() {
		verdict = fmt.Sprintf("%d PROMISES WERE BROKEN", t.broken)
	}
	fmt.Fprintf(&b, "%s\n", verdict)
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("rounds", "%d: %d maps of %d items, %d runs; %d over S3, %d over a store that misbehaved; %d commands", t.rounds, t.maps, t.items, t.runs, t.overS3, t.flaky, t.commands)
	sum := 0
	for _, n := range t.hits {
		sum += n
	}
	line("hits", "%d", sum)
	for _, name := range slices.Sorted(maps.Keys(t.hits)) {
		line("", "%5d %s", t.hits[name], name)
	}
	line("extra", "%d runs of items beyond one for each; %d were allowed", t.extra, t.bound)
	line("lost", "%d", t.lost)
	line("double", "%d", t.double)
	line("orphans", "%d", t.stray)
	if t.intruder != "" {
		line("intruder", "%s; %d of them given way to", t.intruder, len(t.achieved))
		for _, what := range t.achieved[:min(len(t.achieved), named)] {
			line("", "%s", what)
		}
	}
	line("took", "%.0f s", took.Seconds())
	return strings.TrimSuffix(b.String(), "\n")
}

// named is how much of what is wrong with a round is said: often it is all the same.
const named = 8

// roundText is a round in a line; in more, if something is wrong with it.
func (r *round) roundText() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.hit)) {
		if n := r.hit[name]; n > 1 {
			name = fmt.Sprintf("%s %d times", name, n)
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	verdict := "sound"
	if n := len(r.broken); n > 0 {
		verdict = "BROKEN\n          " + strings.Join(r.broken[:min(n, named)], "\n          ")
		if n > named {
			verdict += fmt.Sprintf("\n          and %d more", n-named)
		}
	}
	return fmt.Sprintf("%s%s; %s; %d commands, %d extra runs of %d allowed, %.1f s: %s",
		r.work, r.factsFolder(), strings.Join(parts, ", "), r.commands, r.extraRuns(), r.allowedExtra(), r.took.Seconds(), verdict)
}
