package house_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// shower is a text that expects words of drover's: a script, a test or what a test
// compares with.
type shower struct{ name, text string }

// showers are all of them, scripts first.
func showers(root string) (list []shower, err error) {
	scripts, err := filepath.Glob(filepath.Join(root, "cmd/drover/testdata/*/*.txt"))
	if err != nil {
		return nil, err
	}
	more := []string{}
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && name != root && strings.HasPrefix(d.Name(), ".") {
			return cmp.Or(err, error(filepath.SkipDir))
		}
		if strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "house") || strings.HasSuffix(name, ".golden") || strings.Contains(name, "testdata/screens/") {
			more = append(more, name)
		}
		return nil
	})
	for _, name := range append(scripts, more...) {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s := shower{strings.TrimSuffix(filepath.Base(name), ".txt"), string(b)}
		if !slices.Contains(scripts, name) {
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			s.name = filepath.ToSlash(relative)
		}
		switch {
		case slices.Contains(scripts, name): // '' is a ' in a quoted word of a script
			s.text = strings.ReplaceAll(comments.ReplaceAllString(s.text, ""), "''", "'")
		case strings.HasSuffix(name, ".go"):
			if s.text, err = literals(name, b); err != nil {
				return nil, err
			}
		}
		s.text = strings.ReplaceAll(s.text, `\`, "")
		list = append(list, s)
	}
	return list, err
}

var comments = regexp.MustCompile(`(?m)^#.*$`)

// literals are the strings of a file in Go, one after the other.
func literals(name string, text []byte) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.ADD {
				ast.Inspect(n.X, visit)
				if _, ok := n.Y.(*ast.BasicLit); !ok {
					all.WriteByte(0)
				}
				ast.Inspect(n.Y, visit)
				return false
			}
			all.WriteByte(0)
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				all.WriteString(s)
			}
		default:
			all.WriteByte(0)
		}
		return true
	}
	ast.Inspect(file, visit)
	return all.String(), nil
}

// ownWords are the runs of a message between the values in it.
func ownWords(text string) []string {
	text = strings.ReplaceAll(text, `\`, "") // as in the texts of showers
	return strings.FieldsFunc(text, func(r rune) bool { return r == '…' || r == '"' || r == '\n' })
}

// shownBy finds the first script, or else test, that expects the longest run of a
// message's own words.
func shownBy(list []shower, text string) string {
	longest := ""
	for _, part := range ownWords(text) {
		if part = plain(part); len(part) > len(longest) {
			longest = part
		}
	}
	if len(longest) < 8 {
		return ""
	}
	for _, s := range list {
		if strings.Contains(s.text, longest) {
			return s.name
		}
	}
	return ""
}

// expectedRuns are runs of three words or more that a regexp or a literal consists of,
// with the shower that has each first. Values and signs of regexps divide them.
func expectedRuns(list []shower) map[string]string {
	runs := map[string]string{}
	for _, s := range list {
		for run := range strings.FieldsFuncSeq(s.text, func(r rune) bool { return strings.ContainsRune("\x00\n\"*+?|^$[]()", r) }) {
			run = plain(run)
			if _, ok := runs[run]; !ok && strings.Count(run, " ") >= 2 && len(run) >= 12 {
				runs[run] = s.name
			}
		}
	}
	return runs
}

// plain is a run without what stands around its words.
func plain(run string) string { return strings.Trim(run, " .,:;'") }

// runsOf are the runs of three words or more in a message's own words.
func runsOf(text string) (runs []string) {
	for _, part := range ownWords(text) {
		words := strings.Fields(part)
		for i := range words {
			for j := i + 3; j <= len(words); j++ {
				runs = append(runs, plain(strings.Join(words[i:j], " ")))
			}
		}
	}
	return runs
}

// partlyShown finds the tests that expect a run of words which no more than two
// messages have.
func partlyShown(all []message, runs map[string]string) {
	with := map[string]int{}
	for _, m := range all {
		for _, run := range runsOf(unmarked(m.text)) {
			with[run]++
		}
	}
	for i := range all {
		m := &all[i]
		for _, run := range runsOf(unmarked(m.text)) {
			if name := runs[run]; m.shown == "" && name != "" && with[run] <= 2 {
				m.shown = name
			}
		}
	}
}
