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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
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
var quietFolders = regexp.MustCompile(`^(bench|chaos|docs/pictures|examples|fault|internal/house|store/(mem|flaky)|driver/mem)(/|$)|test(/|$)|/(slurmd|dockerd|server)$`)

// quietCalls are functions with literals that are compared, matched or run, and not printed,
// or go to an agent's log, which its developers read.
var quietCalls = regexp.MustCompile(`^(regexp\..*|strings\.(Contains|HasPrefix|HasSuffix|Cut|CutPrefix|CutSuffix|TrimPrefix|TrimSuffix|Index|LastIndex|TrimSpace|ReplaceAll|Split|SplitN|Fields|NewReplacer)|slices\.(Contains|ContainsFunc)|bytes\.Fields|(slog|.*[lL]og|)\.(Debug|Info|Warn|Error)|panic|has|says|lastIndex|hashOf|wordSet|compiled|quiet|tools\.(Answer|Compiled|FindAll)|fmt\.Appendf|io\.WriteString|.*\.(Is|Match|Flag|MarkHidden|GenBashCompletion)|.*Var|.*VarP|t\..*)$`)

// quietFields are fields of commands, which the reference prints, and words that are
// looked for in what other programs say.
var quietFields = regexp.MustCompile(`^(Use|Usage|ItemsUsage|Short|Long|Example|Run|Shell|Process|Data|words|code)$`)

// quietNames are lists of such words.
var quietNames = regexp.MustCompile(`^(launchTroubles)$`)

// quietTexts are lines of programs and of files.
var quietTexts = regexp.MustCompile(`^(json:|import [a-z]+[.,]|umask |command -v |multipart/|#|drover [a-z ]+ 1$)|\n#|\t|^drover [a-z]+ 1\n`)

// manuals are pages that other tests hold to the code: what stands there is not
// repeated on this one.
var manuals = []string{"../../docs/reference.md", "../../docs/coming-from-ssm.md"}

var (
	twoWords = regexp.MustCompile(`[A-Za-z'’]{2,}[,:;]? [a-z"(]`)
	verb     = regexp.MustCompile(`%%|%[-+# 0]*(\d+|\*)?(\.\d+)?(\[\d\])?[a-zA-Z]`)
)

// messages finds what the code can print, by package and in the order of the alphabet.
func messages(h *house) []message {
	var all []message
	told := manual()
	fields := fieldsOf(h)
	for _, f := range h.files {
		folder := path.Dir(f.path)
		if strings.HasSuffix(f.path, "_test.go") || quietFolders.MatchString(folder) {
			continue
		}
		f := finder{folder: folder, file: f.syntax, fields: fields[folder]}
		ast.Inspect(f.file, f.visit)
		for _, m := range f.found {
			if m.kind != sentence || !strings.HasPrefix(folder, "internal/cli") || !told(m.text) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b message) int {
		return cmp.Or(strings.Compare(a.folder, b.folder), strings.Compare(a.text, b.text), strings.Compare(a.hint, b.hint))
	})
	return slices.Compact(all)
}

// manual returns a function that says whether a text stands in one of the manuals.
func manual() func(text string) bool {
	var pages string
	for _, name := range manuals {
		b, err := os.ReadFile(name)
		if err != nil {
			panic(err)
		}
		pages += " " + strings.Join(strings.Fields(string(b)), " ")
	}
	return func(text string) bool { return strings.Contains(pages, strings.Join(strings.Fields(text), " ")) }
}

// fieldsOf are the fields of the structs of each folder, in order, by the name of the type.
func fieldsOf(h *house) map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for _, f := range h.files {
		folder := path.Dir(f.path)
		if all[folder] == nil {
			all[folder] = map[string][]string{}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if of, ok := spec.Type.(*ast.StructType); ok {
					all[folder][spec.Name.Name] = fieldNames(of)
				}
			}
			return true
		})
	}
	return all
}

func fieldNames(of *ast.StructType) (names []string) {
	for _, field := range of.Fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// finder collects the messages of one file.
type finder struct {
	folder string
	file   *ast.File
	fields map[string][]string // of this folder's structs
	found  []message
}

// rowFields are the fields of the rows of a list of structs, nil of anything else.
func (f *finder) rowFields(list ast.Expr) []string {
	if array, ok := list.(*ast.ArrayType); ok {
		list = array.Elt
	}
	switch of := list.(type) {
	case *ast.StructType:
		return fieldNames(of)
	case *ast.Ident:
		return f.fields[of.Name]
	}
	return nil
}

// visitRows reads a list of structs that are written without the names of their fields,
// and leaves quiet fields out.
func (f *finder) visitRows(list *ast.CompositeLit) (read bool) {
	names := f.rowFields(list.Type)
	rows := list.Elts
	if _, ok := list.Type.(*ast.ArrayType); !ok {
		rows = []ast.Expr{list}
	}
	for _, e := range rows {
		row, ok := e.(*ast.CompositeLit)
		if !ok || len(row.Elts) != len(names) || len(names) == 0 {
			return false
		}
		if _, named := row.Elts[0].(*ast.KeyValueExpr); named {
			return false
		}
	}
	for _, e := range rows {
		for i, value := range e.(*ast.CompositeLit).Elts {
			if !quietFields.MatchString(names[i]) {
				ast.Inspect(value, f.visit)
			}
		}
	}
	return true
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
	case *ast.ValueSpec:
		return !quietNames.MatchString(n.Names[0].Name)
	case *ast.CompositeLit:
		return !f.visitRows(n)
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
	if !twoWords.MatchString(text) || quietTexts.MatchString(text) || strings.Count(text, "\n") > 3 {
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
			text = verb.ReplaceAllStringFunc(text, func(v string) string {
				if v == "%%" {
					return "%"
				}
				return "…"
			})
			return strings.TrimSpace(strings.ReplaceAll(text, "%d ", "… ")) // a format that makes another
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

// mostUnshown is how many messages of each kind no script and no test expects. They may
// only become fewer: lower the number when they are.
var mostUnshown = [kinds]int{faults: 24, sentence: 270, context: 206}

func renderMessages(t *testing.T) (page string, unshown [kinds]int) {
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
		m.shown = cmp.Or(shownBy(expected, unmarked(m.text)), shownBy(expected, unmarked(m.hint)))
	}
	partlyShown(all, expectedRuns(expected))
	for _, m := range all {
		count[m.kind]++
		if m.shown != "" {
			seen[m.kind]++
		} else {
			unshown[m.kind]++
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
	return fmt.Sprintf(messagesHead, count[faults], seen[faults], count[sentence], seen[sentence], count[context], seen[context]) + b.String(), unshown
}

func (m message) row() string {
	if m.kind == faults {
		return fmt.Sprintf("| %s | %s | %s |\n", cell(m.text), hintCell(m.hint), m.shown)
	}
	return fmt.Sprintf("| %s | %s |\n", cell(m.text), m.shown)
}

const messagesHead = `# Every message

Made from the code by ` + "`go generate ./...`" + `; a test fails when it is stale. It lists each sentence, or part of one, that drover can print beside the help
texts of [the reference](reference.md), so that they can be read and judged together. A value that is known only at run time stands as "…". An
error is printed as ` + "`drover: ERROR`" + `, and its next step on a line of its own. "Shown by" names a script below ` + "`cmd/drover/testdata`" + `, or a test, that
expects these words.

%d errors, %d of them shown by a script or a test; %d sentences, %d shown; %d additions to errors, %d shown.
`

func folders(all []message) (list []string) {
	for _, m := range all {
		list = append(list, m.folder)
	}
	return slices.Compact(list) // sorted by folder
}

// escapes are for the words of a cell of a table.
var escapes = strings.NewReplacer("|", `\|`, "\n", " ⏎ ", "<", "&lt;")

func cell(text string) string { return escapes.Replace(strings.TrimSpace(text)) }

// unmarked is a sentence as a test expects it: hints are read without their marks.
func unmarked(text string) string { return strings.ReplaceAll(text, "`", "") }

// hintCell is a hint, in which backquotes mark what can be typed, as they do on a page.
func hintCell(hint string) string {
	parts := strings.Split(strings.TrimSpace(hint), "`")
	for i, text := range parts {
		if i%2 == 0 {
			parts[i] = escapes.Replace(text)
		} else {
			parts[i] = strings.ReplaceAll(text, "|", `\|`)
		}
	}
	return strings.Join(parts, "`")
}

var typedWord = regexp.MustCompile(`\bdrover ([a-z]+)|(?:^|[\s(])(--?[a-zA-Z][\w-]*)`)

// TestHintsMarkWhatCanBeTyped: a front end that is no command line finds commands and
// options by their backquotes, and so a bold word on a terminal does.
func TestHintsMarkWhatCanBeTyped(t *testing.T) {
	h, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	reference, err := os.ReadFile(manuals[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages(h) {
		if m.kind != faults {
			continue
		}
		var read strings.Builder // what is no part of a mark
		for _, p := range fault.Parts(m.hint) {
			if p.Kind == fault.Words {
				read.WriteString(p.Text)
			}
		}
		if strings.Contains(read.String(), "`") {
			t.Errorf("%s: a backquote that marks nothing in %q", m.folder, m.hint)
		}
		for _, found := range typedWord.FindAllStringSubmatch(read.String(), -1) {
			if found[2] != "" || strings.Contains(string(reference), "\n## drover "+found[1]+"\n") {
				t.Errorf("%s: %q stands without backquotes in the hint %q", m.folder, strings.TrimSpace(found[0]), m.hint)
			}
		}
	}
}

func TestTheMessagesPageIsThatOfTheCode(t *testing.T) {
	want, _ := renderMessages(t)
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

func TestNoMoreMessagesAreWithoutATest(t *testing.T) {
	_, unshown := renderMessages(t)
	for of, most := range mostUnshown {
		what := [kinds]string{faults: "errors", sentence: "sentences", context: "additions to errors"}[of]
		switch n := unshown[of]; {
		case n > most:
			t.Errorf("%d %s are expected by no script and no test, and there were %d: add a script, or a test, for those that are new in docs/messages.md with an empty \"Shown by\"", n, what, most)
		case n < most:
			t.Logf("%d %s are expected by no script and no test: lower mostUnshown, which is %d", n, what, most)
		}
	}
}
