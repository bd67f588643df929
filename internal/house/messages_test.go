package house_test

//go:generate go test . -count=1 -run ^TestTheMessagesPageIsThatOfTheCode$ -messages

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var writeMessages = flag.Bool("messages", false, "write docs/messages.md anew")

const messagesFile = "../../docs/messages.md"

// message is one sentence, or a part of one, that drover can print. A value that is
// known only at run time stands in it as "…".
type message struct {
	folder string // of its package, below the root
	kind   kind
	text   string
	hint   string // of a fault
	shown  string // the script or test that expects these words, "" for none
}

// kind says where a user meets a message.
type kind int

const (
	faults   kind = iota // an error that ends a command, with its next step
	sentence             // in plans, progress, notes, tables and answers, and parts of faults
	context              // what a package adds to an error on its way up
	kinds
)

var headings = [kinds]string{
	faults:   "\n| Error | Next step | Shown by |\n|---|---|---|\n",
	sentence: "\n| Says | Shown by |\n|---|---|\n",
	context:  "\n| Adds to an error | Shown by |\n|---|---|\n",
}

// quietFolders print nothing to a user of drover: suites, servers of tests, stand-ins
// and the programs beside the house.
var quietFolders = regexp.MustCompile(`^(bench|chaos|examples|fault|internal/house|store/(mem|flaky)|driver/mem)(/|$)|test(/|$)|/(slurmd|dockerd|server)$`)

// quietCalls are functions whose literals are compared, matched or run, and not printed;
// flags and commands are printed by the reference, docs/reference.md.
var quietCalls = regexp.MustCompile(`^(regexp\..*|strings\.(Contains|HasPrefix|HasSuffix|Cut|CutPrefix|CutSuffix|TrimPrefix|TrimSuffix|Index|LastIndex|TrimSpace|ReplaceAll|Split|SplitN|Fields|NewReplacer)|panic|has|says|lastIndex|hashOf|wordSet|compiled|quiet|fmt\.Appendf|io\.WriteString|.*\.(Is|Match|Flag|MarkHidden|GenBashCompletion)|.*Var|.*VarP|t\..*)$`)

// quietFields are fields of commands, which the reference prints.
var quietFields = regexp.MustCompile(`^(Use|Short|Long|Example|Run|Shell|Process|Data)$`)

var (
	twoWords = regexp.MustCompile(`[A-Za-z'’]{2,}[,:;]? [a-z"(]`)
	verb     = regexp.MustCompile(`%[-+# 0]*(\d+|\*)?(\.\d+)?[a-zA-Z]`)
)

// messages finds what the code can print, by package and in the order of the alphabet.
func messages(h *house) []message {
	var all []message
	for _, f := range h.files {
		folder := path.Dir(f.path)
		if strings.HasSuffix(f.path, "_test.go") || quietFolders.MatchString(folder) {
			continue
		}
		f := finder{folder: folder, file: f.syntax}
		ast.Inspect(f.file, f.visit)
		all = append(all, f.found...)
	}
	slices.SortFunc(all, func(a, b message) int {
		return cmp.Or(strings.Compare(a.folder, b.folder), strings.Compare(a.text, b.text), strings.Compare(a.hint, b.hint))
	})
	return slices.Compact(all)
}

// finder collects the messages of one file.
type finder struct {
	folder string
	file   *ast.File
	found  []message
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Field, *ast.ImportSpec, *ast.CaseClause:
		clause, ok := n.(*ast.CaseClause)
		if ok {
			for _, s := range clause.Body {
				ast.Inspect(s, f.visit)
			}
		}
		field, ok := n.(*ast.Field)
		if ok && field.Type != nil { // its tag is no message, a function's body may hold some
			ast.Inspect(field.Type, f.visit)
		}
		return false
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && quietFields.MatchString(key.Name) {
			return false
		}
	case *ast.CallExpr:
		name := calleeName(n.Fun)
		if at, ok := map[string]int{"fault.New": 1, "fault.Wrap": 2}[name]; ok && len(n.Args) > at+1 {
			f.addFault(render(n.Args[at+1]), render(n.Args[at]))
			for _, arg := range n.Args[at+2:] {
				ast.Inspect(arg, f.visit)
			}
			return false
		}
		if quietCalls.MatchString(name) {
			return false
		}
		if name == "fmt.Errorf" || name == "errors.New" {
			f.add(n.Args[0], context)
			return false
		}
	case *ast.BinaryExpr:
		if n.Op == token.ADD {
			return !f.add(n, sentence)
		}
		if n.Op == token.EQL || n.Op == token.NEQ {
			return false
		}
	case *ast.BasicLit:
		f.add(n, sentence)
	}
	return true
}

// addFault takes a fault that has words of its own: others are made of messages that
// stand elsewhere.
func (f *finder) addFault(text, hint string) {
	if twoWords.MatchString(text) || twoWords.MatchString(hint) {
		f.found = append(f.found, message{f.folder, faults, text, hint, ""})
	}
}

// add takes an expression that is a sentence. It returns whether it was one.
func (f *finder) add(e ast.Expr, of kind) bool {
	text := render(e)
	if !twoWords.MatchString(text) || strings.HasPrefix(text, "json:") || strings.Count(text, "\n") > 3 {
		return false
	}
	f.found = append(f.found, message{f.folder, of, text, "", ""})
	return true
}

func calleeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
		return "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// render writes an expression as the words it has, with "…" for each value.
func render(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return strings.TrimSpace(verb.ReplaceAllString(strings.ReplaceAll(text, "%%", "%"), "…"))
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return spaced(e.X) + spaced(e.Y)
		}
	case *ast.ParenExpr:
		return render(e.X)
	case *ast.CallExpr:
		if name := calleeName(e.Fun); (name == "fmt.Sprintf" || name == "fmt.Sprint") && len(e.Args) > 0 {
			return render(e.Args[0])
		}
	}
	return "…"
}

// spaced renders one side of a + as it stands, with its outer spaces.
func spaced(e ast.Expr) string {
	text := render(e)
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return text
	}
	whole, err := strconv.Unquote(lit.Value)
	if err != nil {
		return text
	}
	if strings.HasPrefix(whole, " ") {
		text = " " + text
	}
	if strings.HasSuffix(whole, " ") && strings.TrimSpace(whole) != "" {
		text += " "
	}
	return text
}

// showers are the texts that expect words of drover's: scripts first, then tests.
type shower struct{ name, text string }

func showers(root string) (list []shower, err error) {
	scripts, err := filepath.Glob(filepath.Join(root, "cmd/drover/testdata/script/*.txt"))
	if err != nil {
		return nil, err
	}
	more := []string{}
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && name != root && strings.HasPrefix(d.Name(), ".") {
			return cmp.Or(err, error(filepath.SkipDir))
		}
		if strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "house") || strings.Contains(name, "testdata") && strings.HasSuffix(name, ".golden") {
			more = append(more, name)
		}
		return nil
	})
	for _, name := range append(scripts, more...) {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		short := strings.TrimSuffix(filepath.Base(name), ".txt")
		if strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".golden") {
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			short = filepath.ToSlash(relative)
		}
		list = append(list, shower{short, strings.ReplaceAll(string(b), `\`, "")})
	}
	return list, err
}

// shownBy finds the first script, or else test, that expects the longest run of a
// message's own words.
func shownBy(list []shower, text string) string {
	longest := ""
	text = strings.ReplaceAll(text, `\`, "") // as in the texts of showers
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '…' || r == '"' || r == '\n' }) {
		if part = strings.TrimSpace(part); len(part) > len(longest) {
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

func renderMessages(t *testing.T) string {
	t.Helper()
	h, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	expected, err := showers("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := messages(h)
	if len(all) == 0 {
		t.Fatal("there are no messages")
	}
	var b strings.Builder
	var count, seen [kinds]int
	for i := range all {
		m := &all[i]
		m.shown = cmp.Or(shownBy(expected, m.text), shownBy(expected, m.hint))
		count[m.kind]++
		if m.shown != "" {
			seen[m.kind]++
		}
	}
	for _, folder := range folders(all) {
		fmt.Fprintf(&b, "\n## %s\n", folder)
		for of := range kinds {
			heading := headings[of]
			for _, m := range all {
				if m.folder != folder || m.kind != of {
					continue
				}
				b.WriteString(heading)
				heading = ""
				b.WriteString(m.row())
			}
		}
	}
	return fmt.Sprintf(messagesHead, count[faults], seen[faults], count[sentence], seen[sentence], count[context], seen[context]) + b.String()
}

func (m message) row() string {
	if m.kind == faults {
		return fmt.Sprintf("| %s | %s | %s |\n", cell(m.text), cell(m.hint), m.shown)
	}
	return fmt.Sprintf("| %s | %s |\n", cell(m.text), m.shown)
}

const messagesHead = `# Every message

Made from the code by ` + "`go generate ./...`" + `; a test fails when it is stale. It lists each sentence, or part of one, that drover can print beside the help
texts of [the reference](reference.md), so that they can be read and judged together. A value that is known only at run time stands as "…". An
error is printed as ` + "`drover: ERROR`" + `, and its next step on a line of its own. "Shown by" names a script of ` + "`cmd/drover/testdata/script`" + `, or a test, that
expects these words.

%d errors, %d of them shown by a script or a test; %d sentences, %d shown; %d additions to errors, %d shown.
`

func folders(all []message) (list []string) {
	for _, m := range all {
		list = append(list, m.folder)
	}
	return slices.Compact(list) // sorted by folder
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ⏎ ", "<", "&lt;").Replace(strings.TrimSpace(text))
}

func TestTheMessagesPageIsThatOfTheCode(t *testing.T) {
	want := renderMessages(t)
	if *writeMessages {
		if err := os.WriteFile(messagesFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(messagesFile)
	if err != nil {
		t.Fatal(err)
	}
	if want != string(got) {
		t.Error("docs/messages.md is stale; run: go generate ./internal/house")
	}
}
