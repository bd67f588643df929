package bundle

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// EditableFolder is where packages from outside the code folder lie in a bundle: see
// List.AddPackage. What drover ignores by itself hides it from a listing of a folder.
const EditableFolder = ".drover/editable"

// importedFiles are what of a package git often ignores and Python needs all the same:
// modules that a build has written.
var importedFiles = []string{".py", ".so", ".pyd"}

// AddPackage adds a Python package or module at file, absolute, under its own name below
// EditableFolder: all of it, whatever git ignores, because Python reads it whole. What is
// in l's folder is added at its own place, and only what Python imports of what is not
// there yet: modules that a build has written and git ignores. A package above the limits
// is ErrTooBig, and l is as it was.
func (l *List) AddPackage(ctx context.Context, file string) error {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	prefix := path.Join(EditableFolder, filepath.Base(file))
	wanted := func(string) bool { return true }
	if rel, err := filepath.Rel(l.Dir, real); err == nil && filepath.IsLocal(rel) {
		prefix = filepath.ToSlash(rel)
		chosen := newIgnorer(l.Dir, nil, ".droverignore")
		left := map[string]bool{}
		for _, f := range l.Left {
			left[f.Name] = true
		}
		wanted = func(name string) bool {
			return slices.Contains(importedFiles, path.Ext(name)) && !left[name] && !chosen.leavesOut(name, false)
		}
	}
	there := make(map[string]bool, len(l.Entries))
	for _, e := range l.Entries {
		there[e.Name] = true
	}
	grown := *l
	grown.Entries = slices.Clone(l.Entries)
	ours := newIgnorer(real, parseIgnore([]byte(builtin)))
	ours.marks = marks
	err = filepath.WalkDir(real, func(file string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(real, file)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			return nil // gone meanwhile, or not for us: Python may not read it either
		case err != nil || rerr != nil:
			return errors.Join(err, rerr)
		case rel != "." && ours.leavesOut(filepath.ToSlash(rel), d.IsDir()):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		info, err := os.Stat(file)
		name := path.Join(prefix, filepath.ToSlash(rel))
		if err != nil || !info.Mode().IsRegular() || there[name] || !wanted(name) {
			return nil
		}
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return nil // gone meanwhile
		}
		grown.Entries = append(grown.Entries, Entry{Name: name, Size: info.Size(), path: file, info: info})
		grown.Bytes += info.Size()
		if grown.Bytes > l.caps.Bytes || len(grown.Entries) > l.caps.Files {
			return fault.Wrap(ErrTooBig, fault.Invalid, "", "scan code: %s", real)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(grown.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	*l = grown
	return nil
}
