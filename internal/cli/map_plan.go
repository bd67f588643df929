package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// mapLines say what a map comes to: which items run, how many at once, where
// their outputs go.
func mapLines(p *drover.Plan) []string {
	s, it := p.Spec, p.Items
	if s.Verb != job.Map {
		return nil
	}
	what := count(it.Count, "item")
	if it.Format != "" && it.Format != "lines" {
		what += " (" + it.Format + ")"
	}
	lines := []string{"items    " + what + " from " + orElse(from(s.From), "-")}
	for i, n := range it.Notes {
		if i == 3 {
			lines = append(lines, fmt.Sprintf("         and %s", count(len(it.Notes)-3, "more note")))
			break
		}
		lines = append(lines, "         "+plainText(n))
	}
	if len(it.Fields) > 0 {
		lines = append(lines, "         fields {"+plainText(strings.Join(it.Fields, "} {"))+"}")
	}
	if line := changeLine(p); line != "" {
		lines = append(lines, "         "+line)
	}
	lines = append(append(lines, "runs     "+slotsLine(s)), crowdLine(p.Offer, s.Workers, "workers")...)
	switch {
	case s.Stream:
		lines = append(lines, "         each asks for items over $DROVER_SOCK: for item in drover.items()")
	case !usesItem(s):
		lines = append(lines, "         no {} in the command: each item is in $DROVER_ITEM")
	}
	lines = append(lines, fetchLines(p)...)
	for i, out := range s.Out {
		key := "         "
		if i == 0 {
			key = "outputs  "
		}
		lines = append(lines, key+plainText(out))
	}
	switch {
	case s.Stream:
		lines = append(lines, "results  what the program answers for each item")
	case len(s.Out) == 0:
		lines = append(lines, "results  each item's stdout and exit status")
	}
	return lines
}

// fetchLines say what is brought here, and how much of it there is at once.
func fetchLines(p *drover.Plan) []string {
	if !p.Spec.Fetch {
		return nil
	}
	what := "each item's file"
	if len(p.Items.Fields) > 0 {
		what = "the files that fields name"
	}
	return []string{fmt.Sprintf("fetches  %s before it begins, the next ones while others run, in up to %s of disk",
		what, job.FetchRoom(p.Spec.Disk).Words())}
}

func from(typed string) string {
	if typed == "-" {
		return "standard input"
	}
	return plainText(typed)
}

// changeLine says what of the items runs, when it is not simply all of them.
func changeLine(p *drover.Plan) string {
	var words []string
	if p.Action == "extend" || p.Action == "reopen" {
		if p.Items.New > 0 {
			words = append(words, fmt.Sprintf("%s new", comma(p.Items.New)))
		}
		if p.Items.Again > 0 {
			words = append(words, fmt.Sprintf("%s again, without success so far", comma(p.Items.Again)))
		}
	}
	if p.Items.Gone > 0 {
		words = append(words, fmt.Sprintf("%s are no longer in the list; their results stay", comma(p.Items.Gone)))
	}
	return strings.Join(words, "; ")
}

// slotsLine is "8 at once on each of 2 workers, each with 2 cores, tried up to 3 times".
func slotsLine(s job.Spec) string {
	line := "one at once for each core"
	if s.Stream {
		line = "one stream program for each core"
	}
	switch {
	case s.Slots > 0:
		line = comma(s.Slots) + " at once"
		if s.Stream {
			line = count(s.Slots, "program") + " that " + map[bool]string{true: "stays", false: "stay"}[s.Slots == 1]
		}
	case s.CPUs > 0 || s.Memory > 0 || s.GPUs > 0:
		line = "as many at once as fit"
	}
	if s.Workers > 1 {
		line += " on each of " + comma(s.Workers) + " workers"
	}
	each := limitsOf(s)
	if s.ItemTimeout > 0 {
		each = append(each, "up to "+s.ItemTimeout.String())
	}
	if len(each) > 0 {
		line += ", each with " + strings.Join(each, ", ")
	}
	if s.Retries > 0 {
		line += ", tried up to " + count(s.Retries+1, "time")
		if len(s.RetryOn) > 0 {
			line += " (after " + strings.Join(s.RetryOn, ", ") + " alone)"
		}
		if s.MemoryStep > 1 {
			line += fmt.Sprintf(", with %gx the memory after each time it ran out, at most %s", s.MemoryStep, s.Memory.Stepped(s.MemoryStep, s.Retries, 0).Words())
		}
	}
	if s.MaxFails != "" {
		line += "; it stops when more than " + s.MaxFails + " have failed"
	}
	return line
}

// limitsOf is what each item of a map may use.
func limitsOf(s job.Spec) (words []string) {
	if s.CPUs > 0 {
		words = append(words, coreWords(s.CPUs))
	}
	if s.Memory > 0 {
		words = append(words, s.Memory.Words()+" of memory")
	}
	if s.GPUs > 0 {
		words = append(words, count(s.GPUs, "GPU"))
	}
	if s.Processes > 0 {
		words = append(words, processes(s.Processes))
	}
	return words
}

// usesItem says whether something in a command could stand for the item, or the
// program gets it by its standard input.
func usesItem(s job.Spec) bool {
	holds := func(arg string) bool { return strings.Contains(arg, "{") }
	return s.Stdin || slices.ContainsFunc(append([]string{s.Program}, s.Args...), holds) || strings.Contains(strings.Join(append([]string{s.Program}, s.Args...), " "), "DROVER_ITEM")
}

// mapPlanJSON is what --plan --json says of a map's items.
func mapPlanJSON(p *drover.Plan) map[string]any {
	it := p.Items
	if p.Action == "start" || p.Action == "replace" {
		it.New = it.Count
	}
	return map[string]any{"count": it.Count, "format": it.Format, "fields": it.Fields, "notes": it.Notes, "new": it.New, "again": it.Again,
		"gone": it.Gone, "chunks": it.Chunks}
}
