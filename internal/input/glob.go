package input

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/glob"
	"github.com/drover-run/drover/job"
)

// findMatches finds what a pattern matches, a relative one below folder.
func findMatches(in job.Input, folder string) (Source, error) {
	fixed, parts := glob.Cut(in.Path)
	none := func(why string) error {
		hint := "See what is there: ls " + fixed + "."
		if fixed == "." {
			hint = "See what is there: ls -a." // "ls ." at the end of a sentence reads as the folder above
		}
		if strings.ContainsRune(in.Path, ':') {
			hint = "A glob has no subfolder: write it before the star."
		}
		return fault.New(fault.Invalid, hint, "read input %s: %q: %s", in.Name, in.Path, why)
	}
	if in.Subdir != "" {
		return Source{}, fault.New(fault.Invalid, "Write the folder before the star.", "read input %s: %q is a glob, and a glob has no subfolder", in.Name, in.Path)
	}
	for _, p := range parts {
		if !glob.IsSound(p) {
			return Source{}, none("it has an unmatched bracket or backslash")
		}
		if p == ".." {
			return Source{}, none("it has .. after a star")
		}
	}
	real, err := filepath.EvalSymlinks(below(folder, fixed))
	if absent(err) {
		return Source{}, none("no file matches")
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return Source{}, fault.Wrap(err, fault.Invalid, "Check the path and its permissions.", "read input %s", in.Name)
	}
	m := &matcher{root: real, seen: map[state]bool{}, chosen: map[string]bool{}, above: map[string]bool{}}
	if err := m.matchParts(".", parts); err != nil {
		return Source{}, fault.Wrap(err, fault.Invalid, "Check the path and its permissions.", "read input %s", in.Name)
	}
	if len(m.chosen) == 0 {
		return Source{}, none("no file matches")
	}
	return Source{Root: real, Skip: m.isSkipped, Key: key(real, "glob", strings.Join(parts, "/"))}, nil
}

// matcher looks through folders for what a pattern matches.
type matcher struct {
	root   string
	seen   map[state]bool
	chosen map[string]bool // files, and folders with all in them
	above  map[string]bool // folders on the way to them
}

// state is a folder and how many names of the pattern are left: with several **
// one is come to on many ways.
type state struct {
	folder string
	left   int
}

// matchParts finds parts below folder. A folder that may not be read is an error: it
// might hold matches.
func (m *matcher) matchParts(folder string, parts []string) error {
	at := state{folder, len(parts)}
	if m.seen[at] {
		return nil
	}
	m.seen[at] = true
	if parts[0] == "**" && len(parts) > 1 {
		if err := m.matchParts(folder, parts[1:]); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(filepath.Join(m.root, folder))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if err := m.matchEntry(name, e, parts); err != nil {
			return err
		}
	}
	return nil
}

// matchEntry looks at one name of a folder. Links to folders are not gone into.
func (m *matcher) matchEntry(name string, e os.DirEntry, parts []string) error {
	base := e.Name()
	if strings.HasPrefix(base, ".") && !strings.HasPrefix(parts[0], ".") {
		return nil
	}
	deep := parts[0] == "**"
	if ok, _ := path.Match(parts[0], base); !ok && !deep {
		return nil
	}
	switch {
	case len(parts) > 1 && e.IsDir() && deep:
		return m.matchParts(name, parts)
	case len(parts) > 1 && e.IsDir():
		return m.matchParts(name, parts[1:])
	case len(parts) == 1:
		m.chooseName(name)
	}
	return nil
}

func (m *matcher) chooseName(name string) {
	m.chosen[name] = true
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		m.above[dir] = true
	}
}

func (m *matcher) isSkipped(name string) bool {
	if m.above[name] {
		return false
	}
	for ; name != "."; name = path.Dir(name) {
		if m.chosen[name] {
			return false
		}
	}
	return true
}
