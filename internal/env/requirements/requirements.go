package requirements

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/tools"
)

// Entry is one logical line of a requirements file.
type Entry struct {
	File       string // as a person knows it: relative to the first file's folder where it lies below it
	Line       int    // from 1, of its first physical line
	Text       string // without comment, continuation and per-requirement options
	Name       string // normalised name of the package; "" for options and for what has only a place
	Path       string // absolute, of a local file or folder it asks for; "" for none
	Option     bool   // an option for the installer (--index-url and the like)
	Constraint bool   // bounds a version, needs no packages
	Place      bool   // comes from a place, though it has a name: no version can tell whether it is there
	Folder     string // of the file it stands in
}

// maxManifest bounds one requirements file, in bytes: a lock with hashes of a
// thousand packages has under 2 MiB.
const maxManifest = 16 << 20

// readManifest reads path and what it includes; nil when path does not exist.
func readManifest(path string, environ []string) (*Manifest, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &Manifest{Path: path, Source: SourceRequirements}
	seen := map[string]bool{}
	if err := m.readFile(path, path, false, seen); err != nil {
		return nil, err
	}
	return m, m.constraints(environ, seen)
}

// constraints reads the constraint files that the caller's environment names,
// because they decide what is installed.
func (m *Manifest) constraints(environ []string, seen map[string]bool) error {
	for _, name := range []string{"PIP_CONSTRAINT", "UV_CONSTRAINT"} {
		for _, file := range strings.Fields(tools.Variable(environ, name)) {
			if remote(file) {
				m.Entries = append(m.Entries, Entry{File: name, Text: file, Option: true})
				continue
			}
			if err := m.readFile(under(filepath.Dir(m.Path), file), name, true, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// readFile adds one file and follows its includes. A file is read once for each
// role, so a circle ends.
func (m *Manifest) readFile(path, from string, constraint bool, seen map[string]bool) error {
	key := fmt.Sprint(constraint, filepath.Clean(path))
	if seen[key] {
		return nil
	}
	seen[key] = true
	data, err := ReadFile(path)
	if err != nil {
		return fault.Wrap(err, fault.Missing, "", "read requirements: %s", from)
	}
	return m.addLines(data, Entry{File: m.shortPath(path), Folder: filepath.Dir(path), Constraint: constraint}, seen)
}

// addLines reads the lines of a requirements file; in says what they have in common.
func (m *Manifest) addLines(data []byte, in Entry, seen map[string]bool) error {
	for _, e := range Parse(data) {
		e.File, e.Folder, e.Constraint = in.File, in.Folder, in.Constraint
		if flag, arg := option(e.Text); flag == "-r" || flag == "-c" {
			if remote(arg) {
				e.Option, e.Text = false, arg // it is not known here what it asks for
				m.Entries = append(m.Entries, e)
				continue
			}
			if err := m.readFile(under(e.Folder, arg), e.WhereItStands(), in.Constraint || flag == "-c", seen); err != nil {
				return err
			}
			continue
		}
		e.Path = place(e)
		m.Entries = append(m.Entries, e)
	}
	return nil
}

func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		return nil, fmt.Errorf("larger than %d bytes", maxManifest)
	}
	return data, err
}

// Parse splits a file into its logical lines as pip does: a backslash joins, a
// comment begins at "#" after space, and a comment line ends a continuation.
func Parse(data []byte) []Entry {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")
	var out []Entry
	joined, first := "", 0
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if first == 0 {
			first = i + 1
		}
		comment := strings.HasPrefix(strings.TrimLeft(l, " \t"), "#")
		if comment {
			l = " " + l
		}
		if cut, more := strings.CutSuffix(l, "\\"); more && !comment && i+1 < len(lines) {
			joined += cut
			continue
		}
		if e, ok := logical(joined + l); ok {
			e.Line = first
			out = append(out, e)
		}
		joined, first = "", 0
	}
	return out
}

var (
	commentAt  = tools.Compiled(`(^|\s)#.*`)
	perOption  = tools.Compiled(`\s--?[a-z][a-z-]*.*`)
	nameAt     = tools.Compiled(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:[\[(<>=!~;@,\s]|$)`)
	separators = tools.Compiled(`[-_.]+`)
	schemeAt   = tools.Compiled(`^[A-Za-z][A-Za-z0-9+.-]+:`)
)

// logical reads one joined line; false for an empty one.
func logical(l string) (Entry, bool) {
	l = strings.TrimSpace(commentAt().ReplaceAllString(l, ""))
	if l == "" {
		return Entry{}, false
	}
	if strings.HasPrefix(l, "-") {
		flag, arg := option(l)
		if flag == "-e" {
			return Entry{Text: "-e " + arg}, true
		}
		return Entry{Text: l, Option: true}, true
	}
	e := Entry{Text: strings.TrimSpace(perOption().ReplaceAllString(l, ""))}
	if m := nameAt().FindStringSubmatch(e.Text); m != nil && !local(e.Text) {
		e.Name = Normal(m[1])
	}
	return e, true
}

// option splits an option line; the long spellings of the ones that matter
// here become their short ones. The flag is "" for a requirement.
func option(l string) (flag, arg string) {
	if !strings.HasPrefix(l, "-") {
		return "", ""
	}
	if i := strings.IndexAny(l, "= \t"); i >= 0 && (strings.HasPrefix(l, "--") || l[i] != '=') {
		flag, arg = l[:i], strings.TrimLeft(l[i:], "= \t")
	} else if flag = l; !strings.HasPrefix(l, "--") && len(l) > 2 {
		flag, arg = l[:2], l[2:]
	}
	long := map[string]string{"--requirement": "-r", "--constraint": "-c", "--editable": "-e", "--find-links": "-f"}
	if short := long[flag]; short != "" {
		flag = short
	}
	return flag, strings.Trim(strings.TrimSpace(arg), `"'`)
}

// local tells a path from a name: "./pkg", "../pkg", "/pkg", "~", "pkg/", an archive.
func local(text string) bool {
	first, _, _ := strings.Cut(text, ";")
	first = strings.TrimSpace(first)
	if strings.Contains(first, "@") || schemeAt().MatchString(first) {
		return false
	}
	for _, end := range []string{".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz"} {
		if strings.HasSuffix(first, end) {
			return true
		}
	}
	path, _, _ := strings.Cut(first, "[")
	return path == "." || path == ".." || strings.Contains(path, "/")
}

// place is the local file or folder an entry asks for, "" for none. It only
// serves the digest: installers differ in what relative means in an included file.
func place(e Entry) string {
	text := e.Text
	if flag, arg := option(text); flag == "-e" || flag == "-f" {
		text = arg
	} else if flag != "" {
		return ""
	} else if _, url, ok := strings.Cut(text, "@"); ok {
		text = strings.TrimSpace(url)
	}
	text, _, _ = strings.Cut(text, ";")
	text, _, _ = strings.Cut(strings.TrimSpace(text), "[")
	if path, ok := strings.CutPrefix(text, "file://"); ok {
		return under(e.Folder, path)
	}
	if schemeAt().MatchString(text) || !local(text) && !strings.HasPrefix(e.Text, "-") {
		return ""
	}
	return under(e.Folder, text)
}

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func remote(s string) bool {
	return strings.Contains(s, "://") && !strings.HasPrefix(s, "file://")
}

// Normal is a package's name as the index compares it (PEP 503).
func Normal(name string) string {
	return strings.ToLower(separators().ReplaceAllString(name, "-"))
}

// shortPath is path as a person knows it.
func (m *Manifest) shortPath(path string) string {
	if rel, err := filepath.Rel(filepath.Dir(m.Path), path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

func (m *Manifest) ShownName() string { return cmp.Or(m.shown, filepath.Base(m.Path)) }

// wantedEntries are the entries that ask for something.
func (m *Manifest) wantedEntries() []Entry {
	return slices.DeleteFunc(slices.Clone(m.Entries), func(e Entry) bool { return e.Option || e.Constraint })
}

// CountInWords says how much is asked for, to stand after "has".
func (m *Manifest) CountInWords() string {
	switch n := len(m.wantedEntries()); n {
	case 0:
		return "all it needs: " + m.TitleIfUnclear() + " needs no packages"
	case 1:
		return "the one requirement of " + m.TitleIfUnclear()
	default:
		return fmt.Sprintf("all %d requirements of %s", n, m.TitleIfUnclear())
	}
}

// WhereItStands is where an entry stands, for messages: its text may hold a secret.
func (e Entry) WhereItStands() string {
	if e.Line == 0 {
		return e.File
	}
	return fmt.Sprintf("%s line %d", e.File, e.Line)
}

// FindPackage is where a package is asked for: "requirements.txt line 3", and the
// text there; both "" when it came in as a package's dependency.
func (m *Manifest) FindPackage(name string) (where, text string) {
	name = Normal(name)
	for _, e := range m.Entries {
		if e.Name == name && !e.Constraint {
			return e.WhereItStands(), tools.Mask(e.Text)
		}
	}
	return "", ""
}

// maxTree and maxContent bound the look at a local package, in files and in
// bytes: beyond the first nothing is seen, beyond the second only when a file
// was changed.
const (
	maxTree    = 10_000
	maxContent = 64 << 20
)

// stampTree writes names and content of a local package, so that a change there
// builds anew, and the same package in another job's folder does not. An
// editable one is a link into its folder: that counts, and of what is in it
// only what can change its dependencies.
func stampTree(w io.Writer, root, home string, editable bool) {
	if editable {
		fmt.Fprintf(w, "%q\n", root)
		for _, name := range []string{"pyproject.toml", "setup.py", "setup.cfg"} {
			fmt.Fprintf(w, "%s %s\n", name, Stamp(filepath.Join(root, name)))
		}
		return
	}
	files, content := maxTree, int64(maxContent)
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // unreadable here is the installer's to report
		}
		if n := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(n, ".") || n == "__pycache__" || n == "build" || strings.HasSuffix(n, ".egg-info")) {
			return fs.SkipDir
		}
		if files--; files < 0 {
			return fs.SkipAll
		}
		if d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(home, path)
		if err != nil {
			rel = path
		}
		fmt.Fprintf(w, "%q ", rel)
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && info.Size() <= content {
			content -= info.Size()
			if f, err := os.Open(path); err == nil {
				sum := sha256.New()
				io.Copy(sum, f)
				f.Close()
				fmt.Fprintf(w, "%x\n", sum.Sum(nil))
				return nil
			}
		}
		fmt.Fprintf(w, "%s\n", Stamp(path))
		return nil
	})
}
