package house_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	thinkLines = 600 // above this a file is named in the log of the test
	splitLines = 800 // above this the build fails
	maxMethods = 6   // of an interface
)

// targets are the names a person types after --on. To ask "is it slurm?" is the
// business of driver/, host/ and cmd/ alone; all others ask the Offer.
var targets = []string{"local", "docker", "slurm", "kube", "batch", "sagemaker", "ec2", "gcp"}

// sameWord allows, by file and word, a comparison with a word that happens to be
// spelled like a target, and why. Unused ones are findings.
var sameWord = map[[2]string]string{}

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// at is where a node stands, for a sentence.
func (f *file) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, f.set.Position(n.Pos()).Line)
}

// imports gives the file's names for what it imports: name -> import path.
func (f *file) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range f.syntax.Imports {
		imported := literal(spec.Path)
		if spec.Name != nil {
			names[spec.Name.Name] = imported
		} else {
			names[path.Base(imported)] = imported
		}
	}
	return names
}

// called gives "fmt.Errorf" for a call of that function of an imported package,
// by the last element of its import path, whatever the file calls it; else "".
func called(names map[string]string, call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if from, ok := selector.X.(*ast.Ident); ok && names[from.Name] != "" {
		return path.Base(names[from.Name]) + "." + selector.Sel.Name
	}
	return ""
}

// literal is the value of a string literal, the leftmost one of a sum; else "".
func literal(e ast.Expr) string {
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			break
		}
		e = sum.X
	}
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	return ""
}

func filesStayShort(h *house) (found []string) {
	for _, f := range h.files {
		if f.lines > splitLines {
			found = append(found, fmt.Sprintf("%s has %d lines: above %d a file is split", f.path, f.lines, splitLines))
		}
	}
	return found
}

// nothingHappensAtInit is stricter than "no init that registers": every init costs
// each start of the program, and hides an order.
func nothingHappensAtInit(h *house) (found []string) {
	for _, f := range h.files {
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !f.isTest() {
				found = append(found, fmt.Sprintf("%s: an init function: give main a plain function to call, or a table to read", f.at(fn)))
			}
		}
	}
	return found
}

func interfacesStaySmall(h *house) (found []string) {
	for _, f := range h.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok && i.Methods.NumFields() > maxMethods {
				found = append(found, fmt.Sprintf("%s: an interface of %d methods: %d are the most that two implementations bear", f.at(i), i.Methods.NumFields(), maxMethods))
			}
			return true
		})
	}
	return found
}

func contextsCarryNoValues(h *house) (found []string) {
	for _, f := range h.files {
		names := f.imports()
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && called(names, call) == "context.WithValue" {
				found = append(found, fmt.Sprintf("%s: a value put into a context: pass it as an argument", f.at(call)))
			}
			return true
		})
	}
	return found
}

// openers are the calls that can open a port, with the argument that names the network; -1: always one.
var openers = map[string]int{
	"net.Listen": 0, "net.ListenPacket": 0, "net.ListenTCP": -1, "net.ListenUDP": -1,
	"http.ListenAndServe": -1, "http.ListenAndServeTLS": -1,
}

// nobodyOpensAPort holds THREATMODEL.md's first line. web is where the dashboard
// that a person asks for will be.
func nobodyOpensAPort(h *house) (found []string) {
	for _, f := range h.files {
		if f.isTest() || strings.HasPrefix(f.path, "internal/web/") {
			continue
		}
		names := f.imports()
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			i, opens := openers[called(names, call)]
			if opens && (i < 0 || i < len(call.Args) && !strings.HasPrefix(literal(call.Args[i]), "unix")) {
				found = append(found, fmt.Sprintf("%s: opens a port: agents dial out, and talk on this machine over a unix socket", f.at(call)))
			}
			return true
		})
	}
	return found
}

// mayKnowTargets says whether a file may ask for a target by name.
func mayKnowTargets(f *file) bool {
	room, _, _ := strings.Cut(strings.TrimPrefix(f.path, "internal/"), "/")
	return f.isTest() || room == "driver" || room == "host" || room == "cmd"
}

// targetConstants finds the constants that stand for a target: "folder.Name" -> the word.
func (h *house) targetConstants() map[string]string {
	constants := map[string]string{}
	for _, f := range h.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, value := range spec.Values {
				if word := literal(value); i < len(spec.Names) && slices.Contains(targets, word) {
					constants[path.Dir(f.path)+"."+spec.Names[i].Name] = word
				}
			}
			return true
		})
	}
	return constants
}

func nobodyAsksForATargetByName(h *house) (found []string) {
	constants := h.targetConstants()
	used := map[[2]string]bool{}
	for _, f := range h.files {
		if mayKnowTargets(f) {
			continue
		}
		names := f.imports()
		ask := func(e ast.Expr) {
			word := literal(e)
			switch e := e.(type) {
			case *ast.Ident:
				word = constants[path.Dir(f.path)+"."+e.Name]
			case *ast.SelectorExpr:
				if from, ok := e.X.(*ast.Ident); ok {
					word = constants[h.folder(names[from.Name])+"."+e.Sel.Name]
				}
			}
			if !slices.Contains(targets, word) {
				return
			}
			if key := [2]string{f.path, word}; sameWord[key] != "" {
				used[key] = true
				return
			}
			found = append(found, fmt.Sprintf("%s: asks whether something is %q: only driver/, host/ and cmd/ know targets by name; ask the target's Properties", f.at(e), word))
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					ask(n.X)
					ask(n.Y)
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					ask(e)
				}
			}
			return true
		})
	}
	for key := range sameWord {
		if !used[key] {
			found = append(found, fmt.Sprintf("the exception for %q in %s is used no more: take it off the list sameWord", key[1], key[0]))
		}
	}
	return found
}

// texts says which argument of a call is the text of an error.
var texts = map[string]int{"errors.New": 0, "fmt.Errorf": 0, "fault.New": 2, "fault.Wrap": 3}

var weakStart = regexp.MustCompile(`(?i)^(failed|failure|unable|cannot|can't|could not|couldn't|error)\b`)

func errorsBeginWithTheVerb(h *house) (found []string) {
	for _, f := range h.files {
		if f.isTest() {
			continue
		}
		names := f.imports()
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			text := ""
			switch n := n.(type) {
			case *ast.CallExpr:
				if i, ok := texts[called(names, n)]; ok && i < len(n.Args) {
					text = literal(n.Args[i])
				}
			case *ast.KeyValueExpr: // fault.Fault{Text: "..."}
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Text" {
					text = literal(n.Value)
				}
			}
			if weakStart.MatchString(text) {
				found = append(found, fmt.Sprintf("%s: an error that begins %q: write \"doing: where: why\", beginning with the verb", f.at(n), weakStart.FindString(text)))
			}
			return true
		})
	}
	return found
}

// nobodySleepsInTests leaves alone files that run in testing/synctest's bubbles,
// where a sleep costs no time, and drivertest, with real processes.
func nobodySleepsInTests(h *house) (found []string) {
	for _, f := range h.files {
		names := f.imports()
		suite := strings.HasSuffix(path.Dir(f.path), "test")
		if !f.isTest() && !suite || strings.HasPrefix(f.path, "driver/drivertest/") || names["synctest"] == "testing/synctest" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && called(names, call) == "time.Sleep" {
				found = append(found, fmt.Sprintf("%s: a test that sleeps: wait for the event, or use testing/synctest", f.at(call)))
			}
			return true
		})
	}
	return found
}

// publicRooms are the packages with exported names that are a promise to other modules.
var publicRooms = []string{"drover", "cloud", "driver", "fault", "job", "report", "store"}

// publicPackagesNameNoInternalType finds exported declarations of public packages that name a
// type of an internal package: another module could not write that type's name.
func publicPackagesNameNoInternalType(h *house) (found []string) {
	for _, f := range h.files {
		if room, _, _ := strings.Cut(f.path, "/"); !slices.Contains(publicRooms, room) || f.isTest() || strings.Contains(f.path, "/internal/") {
			continue
		}
		imports := f.imports()
		check := func(name string, n ast.Node) {
			ast.Inspect(n, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && strings.Contains(imports[x.Name], "/internal/") {
					found = append(found, fmt.Sprintf("%s: %s names %s.%s, which other modules cannot: give the package a type of its own", f.at(s), name, x.Name, s.Sel.Name))
				}
				return true
			})
		}
		for _, d := range f.syntax.Decls {
			checkPublic(d, check)
		}
	}
	return found
}

// checkPublic gives check the types in the exported part of a declaration.
func checkPublic(d ast.Decl, check func(name string, n ast.Node)) {
	fields := func(name string, l *ast.FieldList) {
		for _, f := range l.List {
			if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
				check(name, f.Type)
			}
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv.List[0].Type)) {
			check(d.Name.Name, d.Type)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				switch t := s.Type.(type) {
				case *ast.StructType:
					fields(s.Name.Name, t.Fields)
				case *ast.InterfaceType:
					fields(s.Name.Name, t.Methods)
				default:
					check(s.Name.Name, t)
				}
			case *ast.ValueSpec:
				if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
					check(s.Names[0].Name, s.Type)
				}
			}
		}
	}
}

func exportedReceiver(t ast.Expr) bool {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name, ok := t.(*ast.Ident)
	return ok && name.IsExported()
}
