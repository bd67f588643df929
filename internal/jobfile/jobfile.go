// Package jobfile reads a job written as YAML: everything that flags can say,
// in one file.
//
// Parse is strict. A field there is not, a field said twice, a list where a
// number belongs are refused, each at its line and column, with the line shown
// and the next step named. What YAML offers beyond plain data (anchors, aliases,
// merges, tags, directives, several documents) is refused too: a job needs none
// of it, and a glob that was not quoted is an alias to YAML.
//
// It reads shapes, not meanings: whether a name, a number of nodes or an input
// makes sense is job.Spec.Normal's to say. It opens no file, looks up no program
// and knows no home folder.
//
// The tests prove it on a table of refusals, by fuzzing within bounds of time
// and depth, and by keeping the published schema equal to job.Spec's tags.
package jobfile

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"

	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/job"
)

// MaxSize is the largest job file in bytes. A job of thousands of arguments has
// a tenth of it.
const MaxSize = 1 << 20

// Parse reads the job in b. name is the file's path as the person typed it: it
// stands in refusals, and relative paths inside the file are relative to its
// folder, so the same file means the same from everywhere. They come back joined
// to it: what name is relative to, they are relative to.
//
// Paths are source, deps, the path of an input, output, from unless it is "-" or a
// range of numbers, and python and program when they could be nothing else: a name
// with a slash, or a script (*.py). A bare word stays a command to be looked up, as
// in a shell; "./word" is the file. A shell's command line is left alone, and so is
// what holds "://".
//
// The spec is not in normal form: project, task and much else may be missing. A
// task that is there counts as named. Any refusal is one fault.Invalid.
func Parse(name string, b []byte) (job.Spec, error) {
	p := page{name: name}
	if len(b) > MaxSize {
		return job.Spec{}, p.faultAt(nil, "Keep what the job reads in files of its own.", "%d bytes, at most %d", len(b), MaxSize)
	}
	text := strings.TrimPrefix(string(b), "\ufeff") // some editors begin with a byte order mark
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return job.Spec{}, p.faultAt(nil, "Save it as UTF-8.", "is not text")
	}
	p.text = text

	body, err := p.parseTree()
	if err != nil {
		return job.Spec{}, err
	}
	var s job.Spec
	if err := p.readFields(body, reflect.ValueOf(&s).Elem(), ""); err != nil {
		return job.Spec{}, err
	}
	s.Named = s.Task != ""
	return s, p.resolvePaths(&s)
}

// parseTree parses the text into the one document it holds.
func (p page) parseTree() (ast.Node, error) {
	tokens := lexer.Tokenize(p.text)
	if err := p.inspectTokens(tokens); err != nil {
		return nil, err
	}
	// Duplicates are found here, with both lines at hand.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, p.syntaxFault(err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body == nil:
			body = doc.Body
		default:
			return nil, p.faultAt(doc.Body.GetToken(), "Give each job a file of its own.", "a second document")
		}
	}
	if body == nil {
		return nil, p.faultAt(nil, "Begin with program: train.py.", "describes no job")
	}
	return body, nil
}

// isRange is how a range of numbers is written, as package items reads it.
var isRange = regexp.MustCompile(`^[0-9]+-[0-9]+(:[0-9]+)?$`)

// resolvePaths makes relative paths relative to the file.
func (p page) resolvePaths(s *job.Spec) error {
	type path struct {
		field string
		at    *string
	}
	paths := []path{{"source", &s.Source}, {"output", &s.Output}}
	for i := range s.Deps {
		paths = append(paths, path{"deps", &s.Deps[i]})
	}
	for i := range s.Inputs {
		paths = append(paths, path{"inputs", &s.Inputs[i].Path})
	}
	if s.From != "-" && !isRange.MatchString(s.From) {
		paths = append(paths, path{"from", &s.From})
	}
	if s.Verb != job.Shell && !s.ByShell && (strings.Contains(s.Program, "/") || filepath.Ext(s.Program) == ".py") {
		paths = append(paths, path{"program", &s.Program})
	}
	if strings.Contains(s.Python, "/") {
		paths = append(paths, path{"python", &s.Python})
	}
	if !image.IsText(s.Dockerfile) {
		paths = append(paths, path{"dockerfile", &s.Dockerfile})
	}
	for i := range s.Mounts {
		paths = append(paths, path{"mounts", &s.Mounts[i]}) // its source comes first
	}
	folder := filepath.Dir(p.name)
	for _, one := range paths {
		switch said := *one.at; {
		case said == "~" || strings.HasPrefix(said, "~/"):
			return p.faultAt(nil, "Write the whole path, or one relative to the job file.", "%q holds %q: only a shell knows ~", one.field, clip(said))
		case said == "" || folder == "." || filepath.IsAbs(said) || strings.Contains(said, "://") || strings.HasPrefix(said, "task:"):
		default:
			*one.at = join(folder, said)
		}
	}
	s.Image = beside(folder, s.Image)
	return nil
}

// beside is an image that is a file, seen from where the job file is; any other as
// it is.
func beside(folder, said string) string {
	kind, path, ok := image.Local(said)
	if !ok || filepath.IsAbs(path) {
		return said
	}
	path = filepath.Join(folder, path)
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, "../") {
		path = "./" + path
	}
	return kind + ":" + path
}

// join keeps a slash in the result, for a path without one is looked up like a
// command.
func join(folder, said string) string {
	whole := filepath.Join(folder, said)
	if !strings.Contains(whole, "/") {
		return "./" + whole
	}
	return whole
}
