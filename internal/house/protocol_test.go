package house_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// protocolPage describes the logs on the store and the rules that code and tests cite.
const protocolPage = "docs/protocol.md"

// notCited are rules that no line of code can cite, and why. Tests cite them all.
var notCited = map[string]string{
	"I1": "it follows from all folds together: no single place keeps it",
	"I6": "it is a property of whole histories: each step that is decided is a part of it",
}

// notRules allows, by file and word, a word of a comment that is spelled like a rule,
// and why. Unused ones are findings.
var notRules = map[[2]string]string{
	{"internal/image/build/words.go", "K2"}:          "a name of a variable",
	{"internal/record/redact/canary_test.go", "R17"}: "a number of a plan, not of the protocol",
	{"store/s3/s3.go", "R2"}:                         "a service",
}

// pageRule is one rule as the page has it.
type pageRule struct {
	name        string // "L1", "T1a"
	without     string // the history that breaks without it
	code, proof string // the lines that say where it is, and what proves it
}

var (
	ruleHeading = regexp.MustCompile(`(?m)^### ([A-Z][1-9][0-9]?[a-z]?)\*? `)
	citation    = regexp.MustCompile(`\b([DEIJKLMRTV][1-9][0-9]?)([a-c]?)\b`)
	ticked      = regexp.MustCompile("`([^`\n]+)`")
	goFile      = regexp.MustCompile(`^[\w./-]+/[\w.-]+\.go$`)
	identifier  = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$`)
	witness     = regexp.MustCompile(`(?:^|[ ,;])(check|mutants) ([A-Z][0-9]+[a-z]?)`)
)

// protocolRules reads the rules of the page, in its order.
func protocolRules(page string) (all []pageRule) {
	heads := ruleHeading.FindAllStringSubmatchIndex(page, -1)
	for i, at := range heads {
		end := len(page)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		r := pageRule{name: page[at[2]:at[3]]}
		for line := range strings.Lines(page[at[1]:end]) {
			for _, part := range []struct {
				begins string
				into   *string
			}{{"- Without it: ", &r.without}, {"- In code: ", &r.code}, {"- Proved by: ", &r.proof}} {
				if text, ok := strings.CutPrefix(line, part.begins); ok {
					*part.into = strings.TrimSpace(text)
				}
			}
		}
		all = append(all, r)
	}
	return all
}

// cited is a rule that a file cites.
type cited struct {
	rule string
	file *file
	line int
}

// citations finds the rules that the files cite, in comments, and in tests also at the
// beginning of a text: the name of a check or of a mutant.
func (h *house) citations() (all []cited) {
	known := map[string]bool{}
	for _, r := range protocolRules(h.protocol) {
		known[r.name] = true
	}
	for _, f := range h.files {
		if strings.HasPrefix(f.path, "internal/house/") {
			continue
		}
		add := func(text string, pos token.Pos, most int) {
			for i, m := range citation.FindAllStringSubmatch(text, -1) {
				name := m[1]
				if known[name+m[2]] {
					name += m[2]
				}
				if i < most {
					all = append(all, cited{name, f, f.set.Position(pos).Line})
				}
			}
		}
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				add(c.Text, c.Pos(), len(c.Text))
			}
		}
		if !f.isTest() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				if name, rest, _ := strings.Cut(text, ":"); ruleName(strings.TrimSuffix(name, "*")) && (rest == "" || rest[0] == ' ') {
					add(name, lit.Pos(), 1)
				}
			}
			return true
		})
	}
	return all
}

func ruleName(text string) bool { return citation.FindString(text) == text && text != "" }

// citedRulesAreExplained: a number in a comment leads to its rule.
func citedRulesAreExplained(h *house) (found []string) {
	known := map[string]bool{}
	for _, r := range protocolRules(h.protocol) {
		known[r.name] = true
	}
	used := map[[2]string]bool{}
	for _, c := range h.citations() {
		if key := [2]string{c.file.path, c.rule}; notRules[key] != "" {
			used[key] = true
			continue
		}
		if !known[c.rule] {
			found = append(found, fmt.Sprintf("%s:%d: cites rule %s, which %s does not have: write the rule there, or name the right one", c.file.path, c.line, c.rule, protocolPage))
		}
	}
	for key := range notRules {
		if !used[key] && slices.ContainsFunc(h.files, func(f *file) bool { return f.path == key[0] }) {
			found = append(found, fmt.Sprintf("the exception for %q in %s is used no more: take it off the list notRules", key[1], key[0]))
		}
	}
	return found
}

// rulesAreCited: what the page demands, code keeps, and a test holds it to that.
func rulesAreCited(h *house) (found []string) {
	inCode, inTests := map[string]bool{}, map[string]bool{}
	for _, c := range h.citations() {
		if notRules[[2]string{c.file.path, c.rule}] != "" {
			continue
		}
		if c.file.isTest() {
			inTests[c.rule] = true
		} else {
			inCode[c.rule] = true
		}
	}
	rules := protocolRules(h.protocol)
	for _, r := range rules {
		if !inCode[r.name] && notCited[r.name] == "" {
			found = append(found, fmt.Sprintf("%s: no code cites rule %s: name it in a comment where it is kept", protocolPage, r.name))
		}
		if inCode[r.name] && notCited[r.name] != "" {
			found = append(found, fmt.Sprintf("code cites rule %s: take it off the list notCited", r.name))
		}
		if !inTests[r.name] {
			found = append(found, fmt.Sprintf("%s: no test cites rule %s: name it in a test that fails without it", protocolPage, r.name))
		}
	}
	return found
}

// theProtocolNamesWhatIsThere: files, identifiers, tests, checks, mutants and findings
// that the page names are in the code.
func theProtocolNamesWhatIsThere(h *house) (found []string) {
	say := func(format string, args ...any) {
		found = append(found, fmt.Sprintf(protocolPage+": "+format, args...))
	}
	files := map[string]*file{}
	for _, f := range h.files {
		files[f.path] = f
	}
	for _, m := range ticked.FindAllStringSubmatch(h.protocol, -1) {
		if goFile.MatchString(m[1]) && files[m[1]] == nil {
			say("there is no file %s", m[1])
		}
	}
	w := h.witnesses()
	twice := map[string]bool{}
	for _, r := range protocolRules(h.protocol) {
		if twice[r.name] {
			say("rule %s is there twice", r.name)
		}
		twice[r.name] = true
		if r.without == "" || r.code == "" || r.proof == "" {
			say("rule %s needs a line each of \"Without it\", \"In code\" and \"Proved by\"", r.name)
		}
		code, findings, _ := strings.Cut(r.code, "finding")
		declared := map[string]bool{}
		for _, name := range tickedIn(code) {
			if f := files[name]; f != nil {
				maps.Copy(declared, declaredIn(f))
			}
		}
		for _, name := range tickedIn(code) {
			if last := name[strings.LastIndexByte(name, '.')+1:]; identifier.MatchString(name) && !declared[last] {
				say("rule %s names %s, which none of the files beside it declares", r.name, name)
			}
		}
		for _, name := range tickedIn(findings) {
			if identifier.MatchString(name) && !w.findings[name] {
				say("rule %s names the finding %s, which verify does not have", r.name, name)
			}
		}
		for _, name := range tickedIn(r.proof) {
			if strings.HasPrefix(name, "Test") && !w.tests[name] {
				say("rule %s names %s, which is no test", r.name, name)
			}
		}
		for _, m := range witness.FindAllStringSubmatch(r.proof, -1) {
			if !w.named[m[1]+" "+m[2]] {
				say("rule %s names %s %s, and there are none", r.name, m[1], m[2])
			}
		}
	}
	return found
}

func tickedIn(text string) (names []string) {
	for _, m := range ticked.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// declaredIn are the names of functions, methods, types, constants, variables and fields
// of a file.
func declaredIn(f *file) map[string]bool {
	names := map[string]bool{}
	add := func(all ...*ast.Ident) {
		for _, name := range all {
			names[name.Name] = true
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
			return false
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		}
		return true
	})
	return names
}

// witnesses are what the lines "Proved by" may name.
type witnesses struct {
	tests    map[string]bool
	named    map[string]bool // "check L1", "mutants L1"
	findings map[string]bool // of verify
}

func (h *house) witnesses() witnesses {
	w := witnesses{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, f := range h.files {
		mutants := strings.HasSuffix(f.path, "mutants_test.go")
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				w.tests[n.Name.Name] = w.tests[n.Name.Name] || f.isTest() && n.Recv == nil
			case *ast.BasicLit:
				text, _ := strconv.Unquote(n.Value)
				name, rest, colon := strings.Cut(text, ":")
				switch name = strings.TrimSuffix(name, "*"); {
				case f.path == "internal/verify/report.go":
					w.findings[text] = true
				case !f.isTest() || !ruleName(name):
				case colon && strings.HasPrefix(rest, " "):
					w.named["check "+name] = true
				case mutants && !colon:
					w.named["mutants "+name] = true
				}
			}
			return true
		})
	}
	return w
}

// records are the types of the packages of ledger that stand in the store by themselves; all
// other records are parts of these.
var records = []string{"TaskEntry", "JobEntry", "ChunkEntry", "StateEntry", "InputEntry", "OutputsEntry", "RoundsEntry", "SweepEntry", "Join", "Exit", "Heartbeat", "Call", "Answer", "Snapshot"}

// theProtocolNamesEveryField: each field of a record, as it stands in JSON, is in the
// page's part about entries.
func theProtocolNamesEveryField(h *house) (found []string) {
	_, page, _ := strings.Cut(h.protocol, "\n## Entries\n")
	page, _, _ = strings.Cut(page, "\n## Example")
	named := map[string]bool{}
	for _, name := range tickedIn(page) {
		named[name] = true
	}
	types := map[string]*ast.StructType{}
	for _, f := range h.files {
		if f.isTest() || !strings.HasPrefix(f.path, "internal/ledger/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	seen := map[string]bool{}
	for todo := slices.Clone(records); len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if s := types[name]; s != nil && !seen[name] {
			seen[name] = true
			for _, field := range s.Fields.List {
				ast.Inspect(field.Type, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						todo = append(todo, id.Name)
					}
					return true
				})
				if key := jsonName(field); key != "" && !named[key] {
					found = append(found, fmt.Sprintf("%s: %q of ledger.%s is in no table of its part \"Entries\"", protocolPage, key, name))
				}
			}
		}
	}
	return found
}

// jsonName is what a field is called in JSON; "" for one that is not there.
func jsonName(field *ast.Field) string {
	if field.Tag == nil {
		return ""
	}
	text, _ := strconv.Unquote(field.Tag.Value)
	name, _, _ := strings.Cut(reflect.StructTag(text).Get("json"), ",")
	return name
}
