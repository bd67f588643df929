package start

import (
	"fmt"
	"strings"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// mapLines say what a map comes to: which items run, how many at once, where
// their outputs go.
func mapLines(p *drover.Plan) []string {
	s, it := p.Spec, p.Items
	if s.Verb != job.Map {
		return nil
	}
	what := terminal.Count(it.Count, "item")
	if it.Format != "" && it.Format != "lines" {
		what += " (" + it.Format + ")"
	}
	lines := []string{"items    " + what + " from " + terminal.OrElse(summary.From(s.From), "-")}
	for i, n := range it.Notes {
		if i == 3 {
			lines = append(lines, fmt.Sprintf("         and %s", terminal.Count(len(it.Notes)-3, "more note")))
			break
		}
		lines = append(lines, "         "+terminal.PlainText(n))
	}
	if len(it.Fields) > 0 {
		lines = append(lines, "         fields {"+terminal.PlainText(strings.Join(it.Fields, "} {"))+"}")
	}
	if line := changeLine(p); line != "" {
		lines = append(lines, "         "+line)
	}
	lines = append(append(lines, "runs     "+summary.SlotsLine(s)), summary.CrowdLine(p.Properties, p.Offer, s.Workers, "workers")...)
	switch {
	case s.Stream:
		lines = append(lines, "         each asks for items over $DROVER_SOCK: for item in drover.items()")
	case !summary.UsesItem(s):
		lines = append(lines, "         no {} in the command: each item is in $DROVER_ITEM")
	}
	lines = append(lines, fetchLines(p)...)
	for i, out := range s.Out {
		key := "         "
		if i == 0 {
			key = "outputs  "
		}
		lines = append(lines, key+terminal.PlainText(out))
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

// changeLine says what of the items runs, when it is not simply all of them.
func changeLine(p *drover.Plan) string {
	var words []string
	if p.Action == "extend" || p.Action == "reopen" {
		if p.Items.New > 0 {
			words = append(words, fmt.Sprintf("%s new", terminal.Comma(p.Items.New)))
		}
		if p.Items.Again > 0 {
			words = append(words, fmt.Sprintf("%s again, without success so far", terminal.Comma(p.Items.Again)))
		}
	}
	if p.Items.Gone > 0 {
		words = append(words, fmt.Sprintf("%s are no longer in the list; their results stay", terminal.Comma(p.Items.Gone)))
	}
	return strings.Join(words, "; ")
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
