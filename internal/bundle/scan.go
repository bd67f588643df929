package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
)

// Source says what code to ship.
type Source struct {
	Dir    string   // the folder; empty is the current one
	Script string   // shipped whatever the ignore files say; relative to Dir, or absolute; may be empty
	Extra  []string // further files or folders, under their last name in Dir's folder At. What git ignores in one comes along
	At     string   // slash-separated, below Dir; "" is Dir
	Alone  bool     // ship Script and Extra without the rest of Dir
	// Partial ships of Dir Script, Extra and Parts alone: files and folders of Dir,
	// slash-separated, each at its own place.
	Partial bool
	Parts   []string
	Caps    Caps
	// Without says of a file, by its path, that it is not code; nil: all are.
	Without func(path string) bool
	// Judge says of a file other than Script why it is no code, for List.Left; "" means
	// that it is code. uncertain code may be left out later, should it change while it is
	// read. Nil: all is code, and certain.
	Judge func(f Found) (why string, uncertain bool)
}

// Found is a file that Judge is asked about.
type Found struct {
	Name    string      // slash-separated, in the bundle
	Path    string      // where it is read
	Info    os.FileInfo // of the file itself, not of a link to it
	Tracked bool        // git tracks it
	Chosen  bool        // Source.Extra names it, or a line with ! in .droverignore brings it back
}

// Left is a file that Judge left out.
type Left struct{ Name, Why string }

// Alone is List.How of what was named file by file.
const Alone = "script"

// Partly is List.How with Source.Partial.
const Partly = "part"

// List is what Scan found: names and sizes, no contents.
type List struct {
	Dir     string   // absolute, without symbolic links
	How     string   // what chose the files: "git", "walk", Alone, Partly
	Script  string   // Source.Script's name in the bundle, or empty
	Entries []Entry  // by name
	Bytes   int64    // of all Entries
	Left    []Left   // what Source.Judge left out, by name
	Notes   []string // what else was left out that the user may miss, a line each

	caps Caps
	at   string // Source.At
}

// Entry is one file of a List.
type Entry struct {
	Name string // slash-separated, in the bundle
	Size int64  // bytes, when it was scanned

	path            string // where it is read
	info            os.FileInfo
	tracked, chosen bool // as in Found
	uncertain       bool // as Source.Judge says
}

// Path returns where the file is read from: absolute, without symbolic links above it.
func (e Entry) Path() string { return e.path }

// hardStop ends a scan that went into something far too big: enough to name the
// culprits, and no more memory than a laptop has.
const hardStop = 1 << 20

// Scan finds the files of s: what git tracks or does not ignore where there is
// a repository, and otherwise a walk that honours .gitignore. In both,
// .droverignore takes away more. Symbolic links to files and folders inside the
// folder are followed and shipped as plain files; others are noted and left
// out, as are sockets, fifos, devices and empty folders.
//
// Errors: ErrHome and ErrTooBig, as fault.Invalid, so that a caller can go on
// with Alone; fault.Missing when a name is not there.
func Scan(ctx context.Context, s Source) (List, error) {
	root, err := realPath(s.Dir)
	if err != nil {
		return List{}, err
	}
	c := &collector{files: map[string]Entry{}, notes: tree.Notes{}}
	l := List{Dir: root, How: Alone, caps: s.Caps.withDefaults(), at: s.At}
	if !s.Alone {
		if isHome(root) {
			return List{}, fault.Wrap(ErrHome, fault.Invalid, "Choose the program's own folder with `-s DIR`.", "scan code: %s", root)
		}
		if l.How, err = c.addProject(ctx, root, s); err != nil {
			return List{}, fmt.Errorf("scan code: %w", err)
		}
	}
	if s.Script != "" {
		if l.Script, err = c.addScript(root, s); err != nil {
			return List{}, err
		}
	}
	for _, extra := range s.Extra {
		if err := c.addExtra(ctx, extra, s.At); err != nil {
			return List{}, err
		}
	}
	for _, e := range c.files {
		if s.Without != nil && e.Name != l.Script && s.Without(e.path) {
			continue
		}
		if s.Judge != nil && e.Name != l.Script {
			why, uncertain := s.Judge(Found{Name: e.Name, Path: e.path, Info: e.info, Tracked: e.tracked, Chosen: e.chosen})
			if why != "" {
				l.Left = append(l.Left, Left{e.Name, why})
				continue
			}
			e.uncertain = uncertain
		}
		l.Entries = append(l.Entries, e)
		l.Bytes += e.Size
	}
	slices.SortFunc(l.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Left, func(a, b Left) int { return strings.Compare(a.Name, b.Name) })
	l.Notes = c.notes.Lines()
	return l, l.checkCaps()
}

// realPath is dir, absolute and without symbolic links; it must be a folder.
func realPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	var fi os.FileInfo
	if err == nil {
		fi, err = os.Stat(abs)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.Missing, "", "scan code: %q: no such folder", dir)
	case err != nil:
		return "", fmt.Errorf("scan code: %w", err)
	case !fi.IsDir():
		return "", fault.New(fault.Invalid, "", "scan code: %q: not a folder", dir)
	}
	return abs, nil
}

func isHome(dir string) bool {
	if dir == "/" {
		return true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	return dir == filepath.Clean(home)
}

// collector gathers files from the folder and from what is put beside it.
type collector struct {
	files map[string]Entry
	notes tree.Notes
}

// addProject adds the files of a source's folder, or its parts.
func (c *collector) addProject(ctx context.Context, root string, s Source) (how string, err error) {
	if !s.Partial {
		if how, err = c.addFolder(ctx, root, s.At, "", find); err != nil {
			return "", err
		}
		return how, c.ignoredFolders(ctx, root, s)
	}
	for _, part := range s.Parts {
		full := filepath.Join(root, filepath.FromSlash(part))
		info, err := os.Stat(full)
		switch {
		case err != nil:
			return "", err
		case info.IsDir():
			_, err = c.addFolder(ctx, full, "", part+"/", find)
		default:
			err = c.addEntry(Entry{Name: part, Size: info.Size(), path: full, info: info})
		}
		if err != nil {
			return "", err
		}
	}
	return Partly, nil
}

// addFolder adds the files below root, as list has them, under prefix ("" or "name/").
func (c *collector) addFolder(ctx context.Context, root, at, prefix string, list lister) (how string, err error) {
	all, how, err := list(ctx, root, at, c.notes)
	if err != nil {
		return "", err
	}
	f := &links{root: root, notes: c.notes, files: map[string]Entry{}}
	for _, one := range all {
		name := one.name
		full := filepath.Join(root, name)
		fi, err := os.Lstat(full)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // tracked by git and deleted, or gone since
		case err != nil:
			c.notes.Add("unreadable", name)
		case fi.Mode().IsRegular():
			f.files[name] = Entry{Name: name, Size: fi.Size(), path: full, info: fi, tracked: one.tracked, chosen: one.chosen}
		case fi.Mode()&fs.ModeSymlink != 0:
			f.links = append(f.links, one)
		default:
			c.notes.Add("a socket, fifo or device", name)
		}
	}
	f.followLinks()
	for name, e := range f.files {
		e.Name = prefix + name
		if err := c.addEntry(e); err != nil {
			return "", err
		}
	}
	return how, nil
}

// ignoredFolders adds the folders that the user stands in and that the script lies in,
// where the ignore files leave out all that is there: they were named.
func (c *collector) ignoredFolders(ctx context.Context, root string, s Source) error {
	folders := []string{path.Clean(s.At)}
	if s.Script != "" && filepath.IsLocal(s.Script) {
		folders = append(folders, path.Dir(filepath.ToSlash(filepath.Clean(s.Script))))
	}
	for _, dir := range folders {
		in := func(name string) bool { return dir == "." || strings.HasPrefix(name, dir+"/") }
		if info, err := os.Stat(filepath.Join(root, dir)); err != nil || !info.IsDir() || slices.ContainsFunc(slices.Collect(maps.Keys(c.files)), in) {
			continue
		}
		if _, err := c.addFolder(ctx, filepath.Join(root, dir), "", dir+"/", find); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) addEntry(e Entry) error {
	if before, taken := c.files[e.Name]; taken && before.path != e.path {
		return fault.New(fault.Invalid, "Rename one of them.", "scan code: %q: both %s and %s would get this name", e.Name, before.path, e.path)
	}
	e.chosen = e.chosen || c.files[e.Name].chosen
	c.files[e.Name] = e
	return nil
}

func (c *collector) addScript(root string, s Source) (string, error) {
	full := s.Script
	if !filepath.IsAbs(full) {
		full = filepath.Join(root, full)
	}
	fi, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.Missing, "", "scan code: %q: no such file in %s", s.Script, root)
	case err != nil:
		return "", fmt.Errorf("scan code: %w", err)
	case !fi.Mode().IsRegular():
		return "", fault.New(fault.Invalid, "", "scan code: %q: not a file", s.Script)
	}
	// The folder's name may have gone through links that the script's name
	// kept, and the script itself may be one.
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		return "", fmt.Errorf("scan code: %w", err)
	}
	name, err := filepath.Rel(root, filepath.Join(dir, filepath.Base(full)))
	switch {
	case err == nil && filepath.IsLocal(name):
	case s.Alone:
		name = filepath.Base(full)
	default:
		return "", fault.New(fault.Invalid, "Choose a folder that holds the script with `-s DIR`.", "scan code: %q: the script is outside %s", s.Script, root)
	}
	name = filepath.ToSlash(name)
	if _, found := c.files[name]; found {
		return name, nil
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		return "", fmt.Errorf("scan code: %w", err)
	}
	return name, c.addEntry(Entry{Name: name, Size: fi.Size(), path: real, info: fi})
}

func (c *collector) addExtra(ctx context.Context, extra, at string) error {
	abs, err := filepath.Abs(extra)
	var fi os.FileInfo
	if err == nil {
		fi, err = os.Stat(abs)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Missing, "Check the path after `-d`.", "scan code: %q: no such file or folder", extra)
	case err != nil:
		return fmt.Errorf("scan code: %w", err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return fmt.Errorf("scan code: %w", err)
	}
	switch {
	case fi.Mode().IsRegular():
		return c.addEntry(Entry{Name: path.Join(at, filepath.Base(abs)), Size: fi.Size(), path: real, info: fi, chosen: true})
	case !fi.IsDir():
		return fault.New(fault.Invalid, "", "scan code: %q: neither a file nor a folder", extra)
	case isHome(real):
		return fault.Wrap(ErrHome, fault.Invalid, "Name the folder that is needed with `-d DIR`.", "scan code: %q", extra)
	}
	if _, err = c.addFolder(ctx, real, "", path.Join(at, filepath.Base(abs))+"/", findNamed); err != nil {
		return fmt.Errorf("scan code: %w", err)
	}
	return nil
}

// links follows the symbolic links of one folder, inside that folder only.
type links struct {
	root  string
	files map[string]Entry // grows by what the links show
	links []listed
	notes tree.Notes
}

func (f *links) followLinks() {
	plain := make([]string, 0, len(f.files))
	for name := range f.files {
		plain = append(plain, name)
	}
	slices.Sort(plain)
	folders := map[string]string{} // link to a folder -> that folder
	for _, link := range f.links {
		name := link.name
		target, fi := f.resolveTarget(name)
		switch {
		case fi == nil:
		case fi.IsDir():
			folders[name] = target
		case fi.Mode().IsRegular():
			e := Entry{Name: name, Size: fi.Size(), path: filepath.Join(f.root, target), info: fi, tracked: link.tracked, chosen: link.chosen}
			if to, found := f.files[target]; found {
				e.tracked, e.chosen = e.tracked && to.tracked, e.chosen || to.chosen
			}
			f.files[name] = e
			plain = append(plain, name)
		default:
			f.notes.Add("a socket, fifo or device", name)
		}
	}
	slices.Sort(plain)
	w := &walker{links: f, plain: plain, folders: folders}
	for _, link := range f.links {
		if target, is := folders[link.name]; is {
			w.noteHiddenLink(link.name, target, nil)
		}
	}
}

// resolveTarget resolves a link to a name below root, or notes why not.
func (f *links) resolveTarget(name string) (string, os.FileInfo) {
	real, err := filepath.EvalSymlinks(filepath.Join(f.root, name))
	if err != nil {
		f.notes.Add("a link to nothing", name)
		return "", nil
	}
	rel, err := filepath.Rel(f.root, real)
	if err != nil || !filepath.IsLocal(rel) {
		f.notes.Add("a link out of this folder (-d NAME ships what it points to)", name)
		return "", nil
	}
	rel = filepath.ToSlash(rel)
	if slices.Contains(strings.Split(rel, "/"), ".git") {
		f.notes.Add("a link into .git", name)
		return "", nil
	}
	fi, err := os.Stat(real)
	if err != nil {
		f.notes.Add("a link to nothing", name)
		return "", nil
	}
	return rel, fi
}

// walker shows folders again under the names of links to them. It goes over
// the list of files, not the disk: what is ignored there is ignored here.
type walker struct {
	*links
	plain   []string // sorted: files, and links to files
	folders map[string]string
	shown   int
}

// mostShown bounds what links to folders of links to folders can multiply to.
const mostShown = 1 << 12

func (w *walker) noteHiddenLink(name, target string, above []string) {
	if w.shown++; w.shown > mostShown {
		w.notes.Add("too many links to folders", name)
		return
	}
	inside := target == "." || strings.HasPrefix(name, target+"/")
	if inside || slices.Contains(above, target) {
		w.notes.Add("a link to a folder around it", name)
		return
	}
	above = append(above, target)
	from, _ := slices.BinarySearch(w.plain, target+"/")
	for _, p := range w.plain[from:] {
		rel, in := strings.CutPrefix(p, target+"/")
		if !in || len(w.files) > hardStop {
			break
		}
		e := w.files[p]
		e.Name = path.Join(name, rel)
		w.files[e.Name] = e
	}
	for _, l := range w.links.links {
		link := l.name
		if rel, in := strings.CutPrefix(link, target+"/"); in && w.folders[link] != "" {
			w.noteHiddenLink(path.Join(name, rel), w.folders[link], above)
		}
	}
}

// openPlain opens a regular file for reading, and neither follows a link put
// there meanwhile nor waits on a fifo.
func openPlain(name string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%q: no longer a file: %w", name, tree.ErrChanging)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}
