package house_test

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	maxReceiver = 40   // methods of one type
	maxPackage  = 2500 // lines of a package, without its tests
)

// tallReceivers are the types with more methods than that: how many they may have, and why.
// They may only become fewer.
var tallReceivers = map[string]struct {
	most int
	why  string
}{
	"internal/agent.agent":  {50, "the stages of an agent, one after the other"},
	"internal/proc.spawner": {45, "one process with one loop; its parts share the loop's state"},
}

// largePackages are those with more lines than that: how many they may have, and why. They may
// only become fewer.
var largePackages = map[string]struct {
	most int
	why  string
}{
	"drover":          {4200, "the SDK: its types are its users' and cannot lie in several packages"},
	"internal/proc":   {3300, "both ends of a spawner share its calls"},
	"internal/agent":  {4050, "the stages of an attempt, one after the other"},
	"internal/engine": {4250, "the steps of a plan share what they have found"},
}

// mostPronounLines is how many lines of comments may have one of the words of pronoun: the
// subject of a sentence is a noun. It may only become smaller.
const mostPronounLines = 1

var pronoun = regexp.MustCompile(`(?i)\b(who|whoever|whom|whose|somebody|nobody|everybody|anybody|someone|anyone|everyone|he|him|his|she|her)\b`)

// oldWords are words of the last column of docs/glossary.md that name nothing else: what they once
// stood for has a word that engineers know. mostOldWords is how many identifiers may have one of
// them. It may only become smaller.
var oldWords = []string{"licence", "bell", "rung", "larder", "porter", "cargo", "scribe", "herd", "errand", "crew", "seat", "kit", "scout", "patrol",
	"survey", "glance", "barren", "hopeless", "desk", "minder", "fate", "weather", "storm", "doubt", "census", "heart", "bury", "dress"}

const mostOldWords = 0

// receiver is the type that a method belongs to; "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func receiversStaySmall(h *house) (found []string) {
	methods := map[string]int{}
	for _, f := range h.files {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !f.isTest() && receiver(fn) != "" {
				methods[path.Dir(f.path)+"."+receiver(fn)]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if most := max(maxReceiver, tallReceivers[name].most); methods[name] > most {
			found = append(found, fmt.Sprintf("%s has %d methods: above %d a type has more than one job; give a part of them a type", name, methods[name], most))
		}
	}
	return found
}

func packagesStaySmall(h *house) (found []string) {
	lines := map[string]int{}
	for _, f := range h.files {
		if !f.isTest() {
			lines[path.Dir(f.path)] += f.lines
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if most := max(maxPackage, largePackages[name].most); lines[name] > most {
			found = append(found, fmt.Sprintf("%s has %d lines: above %d a package has more than one subject; give one of them a package", name, lines[name], most))
		}
	}
	return found
}

func commentsHaveNouns(h *house) (found []string) {
	total, last := 0, ""
	for _, f := range h.files {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					if pronoun.MatchString(line) {
						total++
						last = fmt.Sprintf("%s:%d: %s", f.path, f.set.Position(c.Pos()).Line+i, strings.TrimSpace(line))
					}
				}
			}
		}
	}
	if most := mostPronounLines; total > most {
		found = append(found, fmt.Sprintf("%d lines of comments have a pronoun for a person, and %d may: say the agent, a reader, the caller, as in %s", total, most, last))
	}
	return found
}

// wordsOf are the words of an identifier: newMapMember has new, map and member.
var wordsOf = regexp.MustCompile(`[A-Z]?[a-z]+`)

func identifiersAreOfTheField(h *house) (found []string) {
	total, last := 0, ""
	for _, f := range h.files {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			for _, name := range declared(n) {
				for _, w := range wordsOf.FindAllString(name.Name, -1) {
					if slices.Contains(oldWords, strings.TrimSuffix(strings.ToLower(w), "s")) {
						total++
						last += fmt.Sprintf("; %s: %s", f.path, name.Name)
					}
				}
			}
			return true
		})
	}
	if total > mostOldWords {
		found = append(found, fmt.Sprintf("%d identifiers have a word of the last column of docs/glossary.md, and %d may: use the word of its first column, as for %s", total, mostOldWords, last))
	}
	return found
}

// declared are the names that a node declares for others to use: of functions, types, fields, and
// of constants and variables of a package.
func declared(n ast.Node) (names []*ast.Ident) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.StructType:
		for _, f := range n.Fields.List {
			names = append(names, f.Names...)
		}
	case *ast.InterfaceType:
		for _, f := range n.Methods.List {
			names = append(names, f.Names...)
		}
	case *ast.File:
		for _, d := range n.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						names = append(names, v.Names...)
					}
				}
			}
		}
	}
	return names
}
