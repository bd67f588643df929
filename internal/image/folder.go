package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/drover-run/drover/fault"
)

// MaxContext is the most that is copied into one build.
const MaxContext = 2 << 30

// File is what lies at one path of a folder: a regular file, a folder or a link.
type File struct {
	Path string // relative, with slashes; never outside the folder
	Mode fs.FileMode
	Size int64
	Time time.Time // to the second, as in docker's archives
	Link string    // where a link leads, as it is written
}

// Folder is what a build may copy: the files below Dir but for those that its
// .dockerignore names, and sockets, pipes and devices, which no image needs.
type Folder struct {
	Dir   string
	Files []File // ordered by path
}

// Scan lists a folder. It follows no link, wherever one may lead.
func Scan(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "", "read folder to build from")
	}
	defer root.Close()
	ignore, err := ignored(root)
	if err != nil {
		return nil, err
	}
	f := &Folder{Dir: dir}
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		skip, err := ignore.MatchesOrParentMatches(filepath.FromSlash(p))
		if err != nil { // a pattern that is wrong in its ranges is found as it is used
			return badIgnore(err)
		}
		if skip {
			if d.IsDir() && !reaches(ignore, p) {
				return fs.SkipDir
			}
			return nil
		}
		return f.addFile(root, p, d)
	})
	if known := (*fault.Fault)(nil); errors.As(err, &known) {
		return nil, err
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Name what cannot be read in .dockerignore.", "read folder to build from")
	}
	sort.Slice(f.Files, func(i, j int) bool { return f.Files[i].Path < f.Files[j].Path })
	f.addParents()
	return f, nil
}

// ignored reads .dockerignore; docker's own rules, by docker's own code.
func ignored(root *os.Root) (*patternmatcher.PatternMatcher, error) {
	var patterns []string
	b, err := root.ReadFile(".dockerignore")
	if err == nil {
		patterns, err = ignorefile.ReadAll(bytes.NewReader(b))
	} else if os.IsNotExist(err) {
		err = nil
	}
	if err == nil {
		var m *patternmatcher.PatternMatcher
		if m, err = patternmatcher.New(patterns); err == nil {
			return m, nil
		}
	}
	return nil, badIgnore(err)
}

func badIgnore(err error) error {
	return fault.Wrap(err, fault.Invalid, "", "read .dockerignore")
}

// reaches says whether a "!" pattern may bring back what lies in an ignored folder.
func reaches(m *patternmatcher.PatternMatcher, dir string) bool {
	if !m.Exclusions() {
		return false
	}
	for _, p := range m.Patterns() {
		if p.Exclusion() && (strings.HasPrefix(p.String()+"/", dir+"/") || strings.ContainsAny(p.String(), "*?[")) {
			return true
		}
	}
	return false
}

func (f *Folder) addFile(root *os.Root, p string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	one := File{Path: p, Mode: info.Mode(), Time: info.ModTime().Truncate(time.Second)}
	switch {
	case info.Mode().IsRegular():
		one.Size = info.Size()
	case info.Mode()&fs.ModeSymlink != 0:
		if one.Link, err = root.Readlink(p); err != nil {
			return err
		}
	case !info.IsDir():
		return nil
	}
	f.Files = append(f.Files, one)
	return nil
}

// addParents adds the folders of files in an ignored folder, as a plain
// folder: docker makes them so.
func (f *Folder) addParents() {
	known := map[string]bool{}
	for _, one := range f.Files {
		known[one.Path] = true
	}
	for _, one := range slices.Clone(f.Files) {
		for up := path.Dir(one.Path); up != "." && !known[up]; up = path.Dir(up) {
			known[up] = true
			f.Files = append(f.Files, File{Path: up, Mode: fs.ModeDir | 0o755, Time: one.Time})
		}
	}
	sort.Slice(f.Files, func(i, j int) bool { return f.Files[i].Path < f.Files[j].Path })
}

// Find is the file at a path, which may be "." or begin with a slash.
func (f *Folder) Find(p string) (File, bool) {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	if p == "" {
		return File{Path: ".", Mode: fs.ModeDir | 0o755}, true
	}
	i := sort.Search(len(f.Files), func(i int) bool { return f.Files[i].Path >= p })
	if i < len(f.Files) && f.Files[i].Path == p {
		return f.Files[i], true
	}
	return File{}, false
}

// Below are the files below a folder, in their order.
func (f *Folder) Below(dir string) []File {
	if dir == "." {
		return f.Files
	}
	var list []File
	for _, one := range f.Files {
		if strings.HasPrefix(one.Path, dir+"/") {
			list = append(list, one)
		}
	}
	return list
}

// Match are the paths that a word of COPY names: one path, or by *, ? and [a-z]
// those that are there.
func (f *Folder) Match(word string) (paths []string, err error) {
	if up := path.Clean(word); up == ".." || strings.HasPrefix(up, "../") {
		return nil, fault.New(fault.Invalid, "Copy it into the folder, or name a folder further up.", "copy %s: it lies outside the folder that is built from", word)
	}
	word = strings.TrimPrefix(path.Clean("/"+word), "/")
	if word == "" {
		return []string{"."}, nil
	}
	if !strings.ContainsAny(word, "*?[\\") {
		return []string{word}, nil
	}
	for _, one := range f.Files {
		ok, err := filepath.Match(word, one.Path)
		if err != nil {
			return nil, err
		}
		if ok {
			paths = append(paths, one.Path)
		}
	}
	return paths, nil
}

// keepNamed leaves only what words of COPY name. Where a link is on the way, more may
// be meant than is named: then all stays.
func (f *Folder) keepNamed(words []string) {
	wanted := map[string]bool{}
	for _, w := range words {
		paths, err := f.Match(w)
		if err != nil {
			return
		}
		for _, p := range paths {
			if p == "." {
				return
			}
			for up := p; up != "."; up = path.Dir(up) {
				if one, ok := f.Find(up); ok && one.Mode&fs.ModeSymlink != 0 {
					return
				}
			}
			wanted[p] = true
		}
	}
	// .dockerignore stays what it is: the builder reads it too.
	var kept []File
	for _, one := range f.Files {
		for up := one.Path; up != "."; up = path.Dir(up) {
			if wanted[up] {
				kept = append(kept, one)
				break
			}
		}
	}
	f.Files = kept
	f.addParents()
}

// checkSize refuses a folder too large to be meant.
func (f *Folder) checkSize() error {
	sum, largest := int64(0), File{}
	for _, one := range f.Files {
		if sum += one.Size; one.Size > largest.Size {
			largest = one
		}
	}
	if sum <= MaxContext {
		return nil
	}
	return fault.New(fault.Invalid, "Name what is not needed in "+filepath.Join(f.Dir, ".dockerignore")+", such as "+largest.Path+".",
		"read folder to build from: %s: %d MB, at most %d MB are shipped", f.Dir, sum>>20, MaxContext>>20)
}

// Open opens a file for reading; through no link, and never outside the folder.
func (f *Folder) Open(one File) (io.ReadCloser, error) {
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(one.Path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != one.Size {
		file.Close()
		return nil, fault.New(fault.Invalid, "Run the command again when nothing writes there.", "read %s: it changed while it was read", filepath.Join(f.Dir, one.Path))
	}
	return file, nil
}

// hashContents adds all that would be copied to a digest: names, modes, links and
// contents; no times, as docker's own cache.
func (f *Folder) hashContents(h io.Writer) error {
	for _, one := range f.Files {
		fmt.Fprintf(h, "%q %o %q ", one.Path, one.Mode, one.Link)
		if one.Mode.IsRegular() {
			own := sha256.New()
			if err := f.copyFile(own, one); err != nil {
				return err
			}
			fmt.Fprintf(h, "%x", own.Sum(nil))
		}
		fmt.Fprintln(h)
	}
	return nil
}

// copyFile writes exactly the bytes that were counted.
func (f *Folder) copyFile(w io.Writer, one File) error {
	r, err := f.Open(one)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.CopyN(w, r, one.Size); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(f.Dir, one.Path), err)
	}
	return nil
}

// Header is a file's header in an archive: everything belongs to root.
func (one File) Header() *tar.Header {
	h := &tar.Header{Name: one.Path, Mode: int64(one.Mode.Perm()), ModTime: one.Time, Format: tar.FormatPAX, Typeflag: tar.TypeReg, Size: one.Size}
	for bit, to := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if one.Mode&bit != 0 {
			h.Mode |= to
		}
	}
	switch {
	case one.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, one.Path+"/"
	case one.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, one.Link
	}
	return h
}

// Tar writes the folder as an archive, with extra files of ours in front of it,
// which replace those of the same name.
func (f *Folder) Tar(w io.Writer, extra map[string][]byte) error {
	t := tar.NewWriter(w)
	for _, name := range sortedKeys(extra) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(extra[name])), Format: tar.FormatPAX, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
		if one, ok := f.Find(name); ok {
			h.Mode, h.ModTime = one.Header().Mode, one.Time
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(extra[name]); err != nil {
			return err
		}
	}
	for _, one := range f.Files {
		if _, ours := extra[one.Path]; ours {
			continue
		}
		if err := t.WriteHeader(one.Header()); err != nil {
			return fmt.Errorf("write archive: %s: %w", one.Path, err)
		}
		if one.Mode.IsRegular() {
			if err := f.copyFile(t, one); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

// openRegular opens what a person named; a pipe would make us wait for ever.
func openRegular(p string) (*os.File, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fault.New(fault.Invalid, "", "read %s: no regular file", p)
	}
	return f, nil
}
