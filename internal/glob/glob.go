// Package glob reads shells' patterns: * and ? and [] within one name, ** for any folders. It parts
// a pattern at its first such name, and spells names as path.Match reads them. It looks at no
// folder and no bucket: its callers match the names that they list. Proved by its fuzz test, and
// by those of input and items with a shell as oracle.
package glob

import (
	"path"
	"slices"
	"strings"
)

// IsPattern says whether text is a pattern, if nothing of that name exists.
func IsPattern(text string) bool { return strings.ContainsAny(text, "*?[") }

// IsSound says whether path.Match takes a pattern that Spell has written: its brackets and
// backslashes are whole.
func IsSound(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil
}

// Cut parts a pattern at its first name that is one. What is before is a path,
// what follows are names in path.Match's spelling, without empty ones; none where no name is one.
func Cut(pattern string) (fixed string, parts []string) {
	all := strings.Split(pattern, "/")
	i := slices.IndexFunc(all, IsPattern)
	if i < 0 {
		return pattern, nil
	}
	fixed = strings.Join(all[:i], "/")
	switch {
	case i == 1 && all[0] == "":
		fixed = "/"
	case fixed == "":
		fixed = "."
	}
	for _, name := range all[i:] {
		switch {
		case name == "" || name == ".":
		case name == "**" && len(parts) > 0 && parts[len(parts)-1] == "**": // twice is once
		default:
			parts = append(parts, Spell(name))
		}
	}
	return fixed, parts
}

// Spell writes a shell's pattern as path.Match reads it: "!" for not, and "]"
// and "-" that stand for themselves at the ends of a bracket.
func Spell(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		b.WriteByte(name[i])
		switch {
		case name[i] == '\\' && i+1 < len(name):
			i++
			b.WriteByte(name[i])
		case name[i] == '[':
			i = spellBracket(&b, name, i+1) - 1 // the closing one is written as all else
		}
	}
	return b.String()
}

func spellBracket(b *strings.Builder, name string, i int) int {
	if i < len(name) && (name[i] == '!' || name[i] == '^') {
		b.WriteByte('^')
		i++
	}
	for first := true; i < len(name) && (first || name[i] != ']'); i++ {
		last := i+1 < len(name) && name[i+1] == ']'
		if name[i] == ']' || name[i] == '[' || name[i] == '-' && (first || last) {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
		if name[i] == '\\' && i+1 < len(name) {
			i++
			b.WriteByte(name[i])
		}
		first = false
	}
	return i
}
