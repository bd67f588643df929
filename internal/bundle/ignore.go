package bundle

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/bundle/pattern"
	"github.com/drover-run/drover/internal/bundle/tree"
)

// builtin is what no user means to ship. A line in .droverignore can bring any
// of it back ("!node_modules"), and a file that git tracks stays anyway:
// a user chose it.
const builtin = ".git\n__pycache__/\n*.pyc\nnode_modules/\n.ipynb_checkpoints/\n.drover/\n" + tree.Workshop + "/\n"

// marks tell of folders that are no code: a virtual environment, and what drover
// itself brought home (the receipt that Get leaves). Without the second, -o beside
// a script would change its code with every run. They come back as builtin does.
var marks = []string{"pyvenv.cfg", Receipt}

// ignorer answers, for a folder, what its ignore files leave out. A deeper
// file wins over a higher one, a later line over an earlier one, and nothing
// inside a folder that is left out comes back.
type ignorer struct {
	root  string   // the folder that paths are relative to
	names []string // ignore files looked for in each folder; a later one wins
	base  []rule
	marks []string   // leave out folders that hold one of these files
	code  string     // the code's folder: in those above it, another user's ignore file holds no rules; "" for root
	notes tree.Notes // gets those files, where code is below root

	rules map[string][]rule // by folder, "." is the root
	out   map[string]bool   // verdicts on folders
}

func newIgnorer(root string, base []rule, names ...string) *ignorer {
	return &ignorer{root: root, names: names, base: base,
		rules: map[string][]rule{}, out: map[string]bool{".": false}}
}

// keepFolder has neither dir nor a folder around it left out.
func (g *ignorer) keepFolder(dir string) {
	for ; dir != "" && dir != "." && dir != "/"; dir = path.Dir(dir) {
		g.out[dir] = false
	}
}

// leavesOut tells whether name, slash-separated below the root, is left out.
func (g *ignorer) leavesOut(name string, folder bool) bool {
	if folder {
		if out, known := g.out[name]; known {
			return out
		}
	}
	out := g.leavesOut(path.Dir(name), true) || g.matchRules(name, folder)
	if folder {
		g.out[name] = out
	}
	return out
}

func (g *ignorer) matchRules(name string, folder bool) bool {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		rel := name
		if dir != "." {
			rel = name[len(dir)+1:]
		}
		if p := last(g.rulesOfFolder(dir), rel, folder); p != nil {
			return !p.not
		}
		if dir == "." {
			break
		}
	}
	if p := last(g.base, name, folder); p != nil {
		return !p.not
	}
	return folder && slices.ContainsFunc(g.marks, func(mark string) bool {
		_, err := os.Lstat(filepath.Join(g.root, name, mark))
		return err == nil
	})
}

// bringsBack tells whether the line of an ignore file that decides on name, or on a
// folder around it, begins with "!".
func (g *ignorer) bringsBack(name string) bool {
	folder := false
	for ; name != "."; name, folder = path.Dir(name), true {
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			rel := name
			if dir != "." {
				rel = name[len(dir)+1:]
			}
			if p := last(g.rulesOfFolder(dir), rel, folder); p != nil {
				if p.not {
					return true
				}
				break
			}
			if dir == "." {
				break
			}
		}
	}
	return false
}

func (g *ignorer) rulesOfFolder(dir string) []rule {
	rules, known := g.rules[dir]
	if known {
		return rules
	}
	for _, name := range g.names {
		rules = append(rules, parseIgnore(g.readIgnoreFile(dir, name))...)
	}
	g.rules[dir] = rules
	return rules
}

// last is the last pattern that matches, or nil.
func last(rules []rule, rel string, folder bool) *rule {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].matchesName(rel, folder) {
			return &rules[i]
		}
	}
	return nil
}

// pattern is one line of an ignore file.
type rule struct {
	not      bool // "!": brings back
	folder   bool // "x/": folders only
	anchored bool // matches the whole path, not its last element
	plain    string
	tokens   []pattern.Token // empty when plain is used
}

// parseIgnore reads an ignore file in gitignore(5)'s syntax. Lines that can
// match nothing are dropped.
func parseIgnore(text []byte) []rule {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var rules []rule
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if p, ok := parsePattern(trimSpaces(string(line))); ok {
			rules = append(rules, p)
		}
	}
	return rules
}

// trimSpaces cuts trailing spaces; one after a backslash stays, and so does
// everything before it.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(s))
	}
	return s[:end]
}

func parsePattern(s string) (rule, bool) {
	var p rule
	s, p.not = strings.CutPrefix(s, "!")
	s, p.folder = strings.CutSuffix(s, "/")
	p.anchored = strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	if s == "" {
		return p, false
	}
	if !strings.ContainsAny(s, `*?[\`) {
		p.plain = s
		return p, true
	}
	tokens, ok := pattern.Compile(s)
	p.tokens = tokens
	return p, ok
}

func (p *rule) matchesName(rel string, folder bool) bool {
	if p.folder && !folder {
		return false
	}
	if !p.anchored {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	if p.tokens == nil {
		return rel == p.plain
	}
	return pattern.Match(p.tokens, rel)
}
