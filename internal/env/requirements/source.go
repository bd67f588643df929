package requirements

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/toml"
	"github.com/drover-run/drover/internal/env/tools"
)

// Manifest is what the code asks for: one file, with all that it includes.
type Manifest struct {
	Path    string // absolute, of the first file
	Source  string // one of the Source constants
	shown   string // Path below the code folder, for messages; "" for its last element
	Entries []Entry
	Python  Bound      // the Pythons that it allows
	Batches [][]string // lines to install from, each a requirements file of its own; nil: Path itself is one
	Single  bool       // the batches name every package: nothing else may come in
	OnlyUV  string     // why no other tool can build it; "" when pip can too
	Sync    []string   // arguments for "uv sync", where that builds it
	Conda   *CondaFile // for SourceConda
	also    string     // what decides the packages beside the entries, for the digest
}

// readers look for each way to say in a folder what the code needs, in the order
// in which they count: the more exact, the earlier. A script's own block counts
// before all of them, and the folders are looked at from the script's up to the code
// folder, so that the nearest counts. Each gives nil for "not here".
var readers = []func(Request) (*Manifest, error){readUVLock, readRequirements, readProject, readPipfile, readConda}

// want reads what the code asks for, nil when it needs no packages or must not
// be asked.
func Read(r Request) (*Manifest, error) {
	if r.NoEnv {
		return nil, nil
	}
	m, err := readScript(r)
	for _, dir := range r.SearchFolders() {
		near := r
		near.Dir = dir
		for _, read := range readers {
			if m != nil || err != nil {
				break
			}
			if m, err = read(near); m != nil {
				m.noteCodeFolder(r.Dir)
			}
		}
	}
	return m, err
}

// noteCodeFolder notes the code folder, for messages.
func (m *Manifest) noteCodeFolder(dir string) {
	if m == nil {
		return
	}
	if rel, err := filepath.Rel(dir, m.Path); err == nil && filepath.IsLocal(rel) {
		m.shown = rel
	}
}

func readRequirements(r Request) (*Manifest, error) {
	return readManifest(filepath.Join(r.Dir, SourceRequirements), r.Environ)
}

// beside reads a file of the code folder; nil when it is not there.
func beside(r Request, name string) (data []byte, path string, err error) {
	path = filepath.Join(r.Dir, name)
	data, err = ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, path, nil
	case err != nil:
		return nil, path, fault.Wrap(err, fault.Missing, "", "read requirements: %s", name)
	case data == nil:
		data = []byte{}
	}
	return data, path, nil
}

// mendHint is for a file that cannot be read as what it claims to be.
const mendHint = "Mend that line, or take your interpreter as it is with `--no-env`."

func badFile(where string, why any) error {
	return fault.New(fault.Invalid, mendHint, "read requirements: %s: %s", where, tools.Mask(fmt.Sprint(why)))
}

// addRequirement adds a requirement as PEP 508 writes it: a name, never a path or an
// option, whatever is in the text.
func (m *Manifest) addRequirement(text, file string, line int) error {
	e, ok := logical(text)
	e.File, e.Line, e.Folder = file, line, filepath.Dir(m.Path)
	if !ok || e.Option || e.Name == "" || strings.ContainsAny(text, "\n\r\x00") {
		return badFile(e.WhereItStands(), fmt.Sprintf("%q is not a requirement", text))
	}
	e.Path = place(e)
	m.Entries = append(m.Entries, e)
	return nil
}

// addRequirements adds a TOML list of requirements.
func (m *Manifest) addRequirements(list toml.Node, key, file string, offset int) error {
	if list.Value == nil {
		return nil
	}
	items, ok := list.Value.([]toml.Node)
	if !ok {
		return badFile(spot(file, list.Line+offset), key+" is not a list")
	}
	for _, n := range items {
		text, ok := n.Value.(string)
		if !ok {
			return badFile(spot(file, n.Line+offset), key+" holds something that is not text")
		}
		if err := m.addRequirement(text, file, n.Line+offset); err != nil {
			return err
		}
	}
	return nil
}

// keepRequiresPython keeps a TOML requires-python.
func (m *Manifest) keepRequiresPython(n toml.Node, file string, offset int) (err error) {
	if n.Value == nil {
		return nil
	}
	at := spot(file, n.Line+offset)
	spec, ok := n.Value.(string)
	if !ok {
		return badFile(at, "requires-python is not text")
	}
	if m.Python, err = NewBound(spec, at); err != nil {
		return badFile(at, err)
	}
	return nil
}

// spot is where something stands, for messages.
func spot(file string, line int) string { return Entry{File: file, Line: line}.WhereItStands() }

// fillLines makes the lines to install from, out of the entries.
func (m *Manifest) fillLines() *Manifest {
	lines := []string{}
	for _, e := range m.Entries {
		if !e.Option && !e.Constraint {
			lines = append(lines, e.Text)
		}
	}
	m.Batches = [][]string{lines}
	return m
}

// uvSettings are what [tool.uv] may say about where packages come from and
// which are taken; only uv follows them.
var uvSettings = []string{"sources", "index", "index-url", "extra-index-url", "find-links", "no-index", "index-strategy",
	"exclude-newer", "constraint-dependencies", "override-dependencies", "prerelease", "resolution", "no-binary-package", "no-build-isolation-package"}

// readToolUV reads [tool.uv]. What names a place instead of a version cannot be
// judged by what an interpreter has.
func (m *Manifest) readToolUV(doc *toml.Table, file string, offset int) {
	settings := doc.Lookup("tool", "uv").Table()
	for _, key := range uvSettings {
		n := settings.Lookup(key)
		if settings == nil || n.Value == nil {
			continue
		}
		var b strings.Builder
		n.WriteDigest(&b)
		m.also += key + "=" + b.String() + "\n"
		m.OnlyUV = fmt.Sprintf("%s has [tool.uv] %s, which only uv follows", spot(file, n.Line+offset), key)
	}
	sources := settings.Lookup("sources").Table()
	for i, e := range m.Entries {
		for key := range sources.Keys() {
			if Normal(key) == e.Name && namesPlace(sources.Lookup(key)) {
				m.Entries[i].Place = true
				if path := sources.Lookup(key, "path").Text(); path != "" {
					m.Entries[i].Path = under(filepath.Dir(m.Path), path)
				}
			}
		}
	}
}

// namesPlace tells [tool.uv.sources] that name a place from an index.
func namesPlace(n toml.Node) bool {
	for _, one := range append(n.List(), n) {
		for _, key := range []string{"git", "url", "path", "workspace"} {
			if one.Table() != nil && one.Key(key).Value != nil {
				return true
			}
		}
	}
	return false
}

// TitleIfUnclear names a manifest where its file's name alone would mislead.
func (m *Manifest) TitleIfUnclear() string {
	if m.Source == SourceScript {
		return "the PEP 723 block of " + m.ShownName()
	}
	return m.ShownName()
}

// WriteDigest writes what decides which packages are installed. Comments, file names
// and line numbers do not, nor do passwords; the state of local packages does.
func (m *Manifest) WriteDigest(w io.Writer) {
	if m.Source != SourceRequirements {
		// What asks for the same is built alike, except by a lock.
		fmt.Fprintf(w, "%t %q\n", m.Single, m.also)
	}
	for _, e := range m.Entries {
		fmt.Fprintf(w, "%q %t\n", tools.Mask(e.Text), e.Constraint)
		if e.Path != "" {
			stampTree(w, e.Path, filepath.Dir(m.Path), strings.HasPrefix(e.Text, "-e "))
		}
	}
	for _, lines := range m.Batches {
		for _, l := range lines {
			// The same code lies in another folder in each job.
			fmt.Fprintf(w, "%q\n", tools.Mask(strings.ReplaceAll(l, filepath.Dir(m.Path), ".")))
		}
	}
}

// Unread says what the code folder has that looks like a list of packages and
// is none, for a person that wonders; "" for nothing.
func Unread(r Request) string {
	if data, _, err := beside(r, SourceProject); err != nil || data == nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "poetry.lock")); err == nil {
		return ", and poetry's are not read (poetry export makes a requirements.txt)"
	}
	return "; its pyproject.toml has no [project] with dependencies of its own"
}
