package figures

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// maxGroups is how many ways to fail are told apart; after them all is one.
const maxGroups = 200

// grouping puts failures together.
type grouping struct {
	at     map[[2]string]int // by why and signature: the place in groups
	groups []report.Group
}

// addResult takes in an item that ended without success.
func (g *grouping) addResult(r report.ItemResult) {
	why := r.Status()
	if r.State == job.ItemQuarantined || why == "" {
		why = r.FailedWhy()
	}
	g.mergeGroup(report.Group{Why: why, Signature: signature(r.Reason), Items: 1, First: r.Item, Said: r.Reason, Pattern: pattern(r.Reason)})
}

// others is what is left when there are too many ways to fail.
const others = "others"

// mergeGroup takes in a group of other items.
func (g *grouping) mergeGroup(o report.Group) {
	if g.at == nil {
		g.at = map[[2]string]int{}
	}
	i, ok := g.at[[2]string{o.Why, o.Signature}]
	if !ok && len(g.groups) >= maxGroups {
		o = report.Group{Why: others, Items: o.Items, First: o.First}
		i, ok = g.at[[2]string{others, ""}]
	}
	if !ok {
		g.at[[2]string{o.Why, o.Signature}] = len(g.groups)
		g.groups = append(g.groups, o)
		return
	}
	into := &g.groups[i]
	into.Items += o.Items
	if o.First < into.First {
		into.First, into.Said, into.Pattern = o.First, o.Said, o.Pattern
	}
}

// sortedGroups are the groups, the largest first.
func (g *grouping) sortedGroups() []report.Group {
	slices.SortFunc(g.groups, func(a, b report.Group) int { return cmp.Or(b.Items-a.Items, a.First-b.First) })
	g.at = nil
	return g.groups
}

// What differs between failures of one kind: names in quotes, paths and URLs,
// addresses and digests, numbers.
var differing = regexp.MustCompile(`'[^']*'|"[^"]*"|` + "`[^`]*`" +
	`|[a-z][a-z0-9+.-]*://[^\s,;)]+` +
	`|(?:[A-Za-z]:)?[\w.~@%+=-]*(?:/[\w.~@%+=-]+)+/?` +
	`|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b` +
	`|\b0[xX][0-9a-fA-F]+\b|\b(?:[0-9]+[a-f]|[a-f]+[0-9])[0-9a-f]{6,}\b` +
	`|[-+]?\b[0-9]+(?:[.,:][0-9]+)*(?:[eE][-+]?[0-9]+)?`)

// signature is a line with what differs from item to item left out.
func signature(line string) string {
	return differing.ReplaceAllStringFunc(line, func(found string) string {
		switch c := found[0]; {
		case c == '\'' || c == '"' || c == '`':
			return string(c) + "..." + string(c)
		case strings.Contains(found, "://") || strings.Contains(found, "/"):
			return "..."
		}
		return "N"
	})
}

// pattern is an expression for the lines of a signature: its longest part that does
// not differ.
func pattern(line string) string {
	best := ""
	for _, part := range differing.Split(line, -1) {
		if part = strings.Trim(part, " \t:,;()[]"); len(part) > len(best) {
			best = part
		}
	}
	return regexp.QuoteMeta(best)
}
