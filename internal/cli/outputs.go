package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/proc/written"
)

// rememberOutputs notes in drover's state folder which files this command prints into,
// so that no later command takes them for code. What goes wrong is no reason to refuse
// a command: a later one may then ship a log.
func rememberOutputs(dirs Dirs) {
	folder, err := os.Getwd()
	if err != nil || dirs.State == "" {
		return
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	_ = written.Memory{Path: filepath.Join(dirs.State, written.MemoryName)}.AddStreams(written.Outputs(os.Stdout, os.Stderr), folder)
}

// commandWithFlag is the command that was typed, with one flag more after its verb.
func (a *app) commandWithFlag(flag string) string {
	typed := slices.Clone(a.typed)
	if flag != "" && !slices.Contains(typed, flag) && len(typed) > 0 {
		typed = slices.Insert(typed, 1, flag)
	}
	return pasted(typed, false)
}

// pasted is a command line of drover's to paste, from the verb on.
func pasted(typed []string, piped bool) string {
	line := "drover"
	if piped {
		line = "... | drover"
	}
	for _, word := range typed {
		line += " " + plainText(quoted(word))
	}
	return line
}

// shownLeft is how many files the plan names that are no code.
const shownLeft = 3

// leftLine is "not code: map.log, err.txt (output of this command)"; "" when nothing was
// left out.
func leftLine(left []bundle.Left) string {
	if len(left) == 0 {
		return ""
	}
	var groups []string
	names := map[string][]string{}
	for i, l := range left {
		if names[l.Why] == nil {
			groups = append(groups, l.Why)
		}
		if names[l.Why] = append(names[l.Why], plainText(l.Name)); i+1 == shownLeft {
			break
		}
	}
	line := ""
	for _, why := range groups {
		line += ", " + strings.Join(names[why], ", ") + " (" + plainText(why) + ")"
	}
	if more := len(left) - shownLeft; more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return "not code: " + strings.TrimPrefix(line, ", ")
}

// printPlanNote prints why the plan does what it does, and what else may be meant.
func (a planner) printPlanNote(p *drover.Plan) {
	note := a.hintInGrammar(p.Note)
	if note == "" {
		return
	}
	a.note("note: %s", plainText(note))
	for _, line := range p.Choices {
		a.note("  %s", plainText(line))
	}
}

// leftOut is what --plan --json says of files that are no code.
func leftOut(left []bundle.Left) []map[string]string {
	all := []map[string]string{}
	for _, l := range left {
		all = append(all, map[string]string{"name": l.Name, "why": l.Why})
	}
	return all
}

// printChanges says which files of the user's stay, and what was removed, a line each.
func (a bringer) printChanges(c drover.Changes) {
	if c.Kept > 0 {
		names := make([]string, len(c.Beside))
		for i, b := range c.Beside {
			names[i] = b.Path
		}
		remedy := " (--overwrite replaces yours)"
		if a.grammar != nil { // which has no such flag
			remedy = ""
		}
		if c.Kept == 1 {
			a.note("  kept your %s: the new file is %s%s", plainText(c.Beside[0].Name), plainText(names[0]), remedy)
		} else {
			a.note("  kept %s of yours: the new ones are %s%s", count(c.Kept, "file"), firstOf(names, c.Kept), remedy)
		}
	}
	if c.Removed > 0 {
		a.note("  removed %s that this result does not have: %s", count(c.Removed, "earlier output"), firstOf(c.Gone, c.Removed))
	}
}

// changesBelow is c as seen from the folder above.
func changesBelow(folder string, c drover.Changes) drover.Changes {
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
	text := plainText(strings.Join(shown, ", "))
	if more := all - len(shown); more > 0 {
		text += fmt.Sprintf(" and %s more", comma(more))
	}
	return text
}

// addOverwriteFlag adds --overwrite, which belongs to -o.
func (a *app) addOverwriteFlag(f *pflag.FlagSet) {
	f.BoolVar(&a.overwrite, "overwrite", false, "with -o: replace files of your own, too (default: they stay, and new files come beside them)")
}
