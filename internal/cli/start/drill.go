package start

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// maxSeed keeps a seed that drover chooses short to type.
const maxSeed = 100_000

// stageLine is a run that begins.
func stageLine(stage string, items int, task string) string {
	return fmt.Sprintf("%-8s %s, %s: task %s", stage, terminal.Count(items, "item"), stageWords[stage], task)
}

// seedLine is the first line of a drill.
func seedLine(seed uint64) string {
	return fmt.Sprintf("drill    seed %d: --seed %d does the same again", seed, seed)
}

var stageWords = map[string]string{"calm": "undisturbed", "drill": "the same, with agents hit at random", "again": "once more without interruptions, to see what differs anyway"}

// hitWords say what befalls an agent.
var hitWords = map[string]string{"SIGKILL": "SIGKILL to %s", "SIGTERM": "SIGTERM to %s", "notice": "notice to %s, as if its machine were being taken away",
	"pause": "SIGSTOP to %s, and SIGCONT a moment later", "program": "SIGKILL to a program of %s"}

// agentWord is "agent 3-0": its placement, and its number in it.
func agentWord(id string) string {
	parts := strings.SplitN(id, "-", 3)
	return "agent " + strings.Join(parts[:min(2, len(parts))], "-")
}

// firstDifferences is how many items a verdict names.
const firstDifferences = 5

// drillLines are the verdict.
func drillLines(r drover.DrillReport) []string {
	befell := strings.Join(drillHits(r), ", ")
	switch {
	case r.Struck() == 0:
		return []string{fmt.Sprintf("- not tried: %s had already ended anything could be hit", terminal.Count(r.Items, "item")),
			"  Take more items, with --pilot 1000."}
	case r.Same():
		return []string{fmt.Sprintf("✓ same outputs: %s, %s", terminal.Count(r.Items, "item"), befell)}
	}
	verb := map[bool]string{true: "differs", false: "differ"}[len(r.Differences) == 1]
	lines := []string{fmt.Sprintf("✗ %s of %s %s: %s", terminal.Comma(len(r.Differences)), terminal.Count(r.Items, "item"), verb, befell)}
	if len(r.Differences) == 0 {
		lines[0] = fmt.Sprintf("✗ same outputs, but verify found problems in the job's logs: %s", befell)
	}
	anyway := 0
	for i, d := range r.Differences {
		if d.Anyway {
			anyway++
		}
		if i < firstDifferences {
			lines = append(lines, differenceLines(d)...)
		}
	}
	if more := len(r.Differences) - firstDifferences; more > 0 {
		lines = append(lines, "  and "+terminal.Count(more, "more item"))
	}
	return append(lines, drillHints(r, anyway)...)
}

func differenceLines(d drover.Difference) []string {
	why := "differs because of the interruptions"
	if d.Anyway {
		why = "differs from run to run, without any interruption too"
	}
	return []string{fmt.Sprintf("  item %d (%s): its %s %s", d.Item, terminal.Short(d.Value), terminal.PlainText(d.What), why),
		"    calm   " + terminal.Short(d.Before), "    drill  " + terminal.Short(d.After)}
}

// drillHints say what to do about it, by why items differ.
func drillHints(r drover.DrillReport, anyway int) (lines []string) {
	if anyway > 0 {
		lines = append(lines, "  Time stamps or random numbers in outputs make every run differ: seed them.")
	}
	aside := func(d drover.Difference) bool { return d.After == string(job.ItemQuarantined) }
	switch {
	case slices.ContainsFunc(r.Differences, aside):
		lines = append(lines, "  An item that is running when three agents are killed is quarantined: try another --seed.")
	case len(r.Differences) > anyway:
		lines = append(lines, "  What an item leaves behind when it is killed must not change its next try: write to {out}, or to a temporary name that is renamed at the end.")
	}
	if r.Findings > 0 {
		lines = append(lines, fmt.Sprintf("  %s: drover verify %s", terminal.Count(r.Findings, "finding"), r.Drill))
	}
	if len(r.Differences) > 0 {
		lines = append(lines, fmt.Sprintf("  compare: drover items %s %d and drover items %s %d", r.Calm, r.Differences[0].Item, r.Drill, r.Differences[0].Item))
	}
	return lines
}

// drillHits is "7 agents killed", "3 notices", "12 extra runs".
func drillHits(r drover.DrillReport) (words []string) {
	for _, h := range []struct{ kind, one, many string }{{"SIGKILL", "agent killed", "agents killed"}, {"notice", "notice", "notices"}, {"SIGTERM", "SIGTERM", "SIGTERMs"},
		{"pause", "pause", "pauses"}, {"program", "program killed", "programs killed"}} {
		switch n := r.Hits[h.kind]; {
		case n == 1:
			words = append(words, "1 "+h.one)
		case n > 1:
			words = append(words, terminal.Comma(n)+" "+h.many)
		}
	}
	if r.Extra > 0 { // those that were cut off leave no word, and run again
		words = append(words, terminal.Count(r.Extra, "extra run"))
	}
	return words
}
