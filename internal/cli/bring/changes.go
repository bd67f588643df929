package bring

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// shownLeft is how many files the plan names that are no code.
const shownLeft = 3

// LeftLine is "not code: map.log, err.txt (output of this command)"; "" when nothing was
// left out.
func LeftLine(left []drover.LeftFile) string {
	if len(left) == 0 {
		return ""
	}
	var groups []string
	names := map[string][]string{}
	for i, l := range left {
		if names[l.Why] == nil {
			groups = append(groups, l.Why)
		}
		if names[l.Why] = append(names[l.Why], terminal.PlainText(l.Name)); i+1 == shownLeft {
			break
		}
	}
	line := ""
	for _, why := range groups {
		line += ", " + strings.Join(names[why], ", ") + " (" + terminal.PlainText(why) + ")"
	}
	if more := len(left) - shownLeft; more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return "not code: " + strings.TrimPrefix(line, ", ")
}

// LeftOut is what --plan --json says of files that are no code.
func LeftOut(left []drover.LeftFile) []map[string]string {
	all := []map[string]string{}
	for _, l := range left {
		all = append(all, map[string]string{"name": l.Name, "why": l.Why})
	}
	return all
}

// ChangesBelow is c as seen from the folder above.
func ChangesBelow(folder string, c drover.Changes) drover.Changes {
	c.Beside, c.Gone = slices.Clone(c.Beside), slices.Clone(c.Gone)
	for i, b := range c.Beside {
		c.Beside[i] = drover.Beside{Name: folder + "/" + b.Name, Path: folder + "/" + b.Path}
	}
	for i, name := range c.Gone {
		c.Gone[i] = folder + "/" + name
	}
	return c
}

// firstOf names the first of some files, and counts the others.
func firstOf(names []string, all int) string {
	shown := names[:min(len(names), shownLeft)]
	text := terminal.PlainText(strings.Join(shown, ", "))
	if more := all - len(shown); more > 0 {
		text += fmt.Sprintf(" and %s more", terminal.Comma(more))
	}
	return text
}
