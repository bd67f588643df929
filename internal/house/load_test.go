package house_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// house is a source tree as the rules see it.
type house struct {
	module   string
	floors   map[string]int  // room -> floor, from the picture
	packages map[string]*pkg // by import path: ours, and all they link
	files    []*file         // our Go files, sorted by path
	requires []require
	goLine   string   // of go.mod: the least release that may build us, "go1.26.5"
	running  string   // the release that builds this test
	tools    []string // packages named by go.mod's tool lines
	deps     string   // the text of docs/deps.md
	protocol string   // the text of docs/protocol.md
}

// pkg is what `go list` says of one package, the systems we build for taken together.
type pkg struct {
	ImportPath, Name, Doc, Dir, ForTest string
	Standard                            bool
	GoFiles                             []string
	Imports, TestImports, XTestImports  []string
	Module                              *struct {
		Path string
		Main bool
	}
	Error *struct{ Err string }
}

// require is one line of go.mod.
type require struct {
	Path     string
	Indirect bool
}

// file is one Go file of ours.
type file struct {
	path   string // relative to the root, with slashes
	lines  int
	set    *token.FileSet
	syntax *ast.File
}

// load reads the tree at root: the picture, the packages as each system in goos
// builds them, the syntax of the files, the page of the protocol, and what it depends on.
func load(root string, goos ...string) (*house, error) {
	h := &house{packages: map[string]*pkg{}}
	drawing, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		return nil, err
	}
	if h.floors, err = parsePicture(string(drawing)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "deps.md"))
	if err != nil {
		return nil, err
	}
	h.deps = string(text)
	if text, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(protocolPage))); err != nil {
		return nil, err
	}
	h.protocol = string(text)
	if err := h.readMod(root); err != nil {
		return nil, err
	}
	for _, system := range goos {
		if err := h.list(root, system); err != nil {
			return nil, err
		}
	}
	return h, h.walk(root)
}

var roomName = regexp.MustCompile(`^[a-z0-9]+(/[a-z0-9]+)?$`)

// parsePicture reads the ```house drawing: a line that begins with a number opens
// that floor, an indented line of names goes on with it, a line of arrows is air.
// Names stand alone between gaps of two spaces; the first text with a space inside
// is the line's description, and nothing after it is a room.
func parsePicture(doc string) (map[string]int, error) {
	_, rest, found := strings.Cut(doc, "```house\n")
	drawing, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		return nil, fmt.Errorf("read the picture: ARCHITECTURE.md: no block that begins with ```house")
	}
	floors := map[string]int{}
	floor := -1
	for _, line := range strings.Split(drawing, "\n") {
		if strings.Trim(line, " |") == "" {
			continue
		}
		if number, names, ok := strings.Cut(line, " "); ok && number != "" {
			n, err := strconv.Atoi(number)
			if err != nil {
				return nil, fmt.Errorf("read the picture: %q: a floor begins with its number", line)
			}
			floor, line = n, names
		}
		if floor < 0 {
			return nil, fmt.Errorf("read the picture: %q: a room above the first floor's number", line)
		}
		for _, field := range regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1) {
			if !roomName.MatchString(field) {
				break
			}
			if _, twice := floors[field]; twice {
				return nil, fmt.Errorf("read the picture: room %q is drawn twice", field)
			}
			floors[field] = floor
		}
	}
	return floors, nil
}

// readMod reads go.mod with the go command's own eyes.
func (h *house) readMod(root string) error {
	var mod struct {
		Module  struct{ Path string }
		Go      string
		Require []require
		Tool    []struct{ Path string }
	}
	out, err := run(root, nil, "go", "mod", "edit", "-json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return err
	}
	h.module, h.requires = mod.Module.Path, mod.Require
	h.goLine, h.running = "go"+mod.Go, runtime.Version()
	for _, tool := range mod.Tool {
		h.tools = append(h.tools, tool.Path)
	}
	return nil
}

// list adds the packages as one system builds them, with the tags of the Makefile.
// -e, so that one broken package is one sentence and not the end of the test.
func (h *house) list(root, goos string) error {
	env := []string{"GOOS=" + goos, "GOARCH=arm64", "CGO_ENABLED=0", "GOWORK=off"}
	out, err := run(root, env, "go", "list", "-e", "-deps", "-test", "-tags=grpcnotrace",
		"-json=ImportPath,Name,Doc,Dir,ForTest,Standard,GoFiles,Imports,TestImports,XTestImports,Module,Error", "./...")
	if err != nil {
		return err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // the same package once more, as its tests see it
		}
		known := h.packages[p.ImportPath]
		if known == nil {
			h.packages[p.ImportPath] = &p
			continue
		}
		known.GoFiles = union(known.GoFiles, p.GoFiles)
		known.Imports = union(known.Imports, p.Imports)
		known.TestImports = union(known.TestImports, p.TestImports)
		known.XTestImports = union(known.XTestImports, p.XTestImports)
		if known.Doc == "" {
			known.Doc = p.Doc
		}
		if known.Error == nil {
			known.Error = p.Error
		}
	}
}

// walk parses our own Go files, whatever system they are for. It passes by what
// the go command passes by: hidden folders, testdata and other modules.
func (h *house) walk(root string) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipFolder(root, name)
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f := &file{path: filepath.ToSlash(relative), lines: bytes.Count(text, []byte("\n")), set: token.NewFileSet()}
		f.syntax, err = parser.ParseFile(f.set, f.path, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse %w", err)
		}
		h.files = append(h.files, f)
		return nil
	})
}

func skipFolder(root, name string) error {
	base := filepath.Base(name)
	if name == root {
		return nil
	}
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// ours gives our own packages that hold production code, sorted by path.
func (h *house) ours() []*pkg {
	var list []*pkg
	for _, p := range h.packages {
		if h.own(p.ImportPath) && len(p.GoFiles) > 0 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pkg) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return list
}

func (h *house) own(importPath string) bool {
	return importPath == h.module || strings.HasPrefix(importPath, h.module+"/")
}

// folder is an import path of ours as a path below the root.
func (h *house) folder(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, h.module), "/")
}

// room is the room a package of ours belongs to, by its folder.
func (h *house) room(importPath string) string {
	parts := strings.Split(strings.TrimPrefix(h.folder(importPath), "internal/"), "/")
	if parts[0] == "cmd" && len(parts) > 1 {
		return path.Join(parts[:2]...)
	}
	return parts[0]
}

// isTool says whether p is of a program beside the house: a main that imports no room, or a
// package in the folder of one, which no room imports and which imports none.
func (h *house) isTool(p *pkg) bool {
	room := h.room(p.ImportPath)
	outside := func(importPath string) bool { return h.own(importPath) && h.room(importPath) != room }
	if room == "cmd/drover" || slices.ContainsFunc(p.Imports, outside) {
		return false
	}
	if p.Name == "main" {
		return true
	}
	main := h.packages[path.Join(h.module, room)]
	return main != nil && main.Name == "main" && !slices.ContainsFunc(h.ours(), func(q *pkg) bool {
		return h.room(q.ImportPath) != room && slices.Contains(q.Imports, p.ImportPath)
	})
}

// links gives every package that from links, itself included.
func (h *house) links(from string) map[string]*pkg {
	seen := map[string]*pkg{}
	for next := []string{from}; len(next) > 0; {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		if p := h.packages[name]; p != nil && seen[name] == nil {
			seen[name] = p
			next = append(next, p.Imports...)
		}
	}
	return seen
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func run(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: %s", strings.Join(cmd.Args, " "), err, problems.Bytes())
	}
	return out, nil
}
