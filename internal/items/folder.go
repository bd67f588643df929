package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/glob"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
)

// walker looks through folders, one name of a pattern a level. It is at several
// places of the pattern at once, as each ** may stand for any number of folders,
// and so it goes into each folder once.
type walker struct {
	source  Source
	names   *sorter
	parts   []string // of the pattern, in path.Match's spelling
	hidden  int      // what was left out
	links   int
	special int
	folders int
}

// places is a set of indexes into a pattern's parts: where the next name may be.
type places uint64

// maxParts is how many places there can be.
const maxParts = 64

// readNames is how many entries of a folder are read at once: it may have millions.
const readNames = 1024

// fromFolder takes the files of a folder and of those below it.
func fromFolder(ctx context.Context, s Source, folder, dir string) (*manifest.List, error) {
	return s.walkFolders(ctx, folder, []string{"**"}, dir)
}

// fromGlob takes the files that a shell's pattern matches: * and ? and [] within
// one name, ** any folders, none of them a name that begins with a dot unless the
// pattern does. A ** at the end matches all files below.
func fromGlob(ctx context.Context, s Source, dir string) (*manifest.List, error) {
	fixed, parts := glob.Cut(s.From)
	for _, p := range parts {
		if !glob.IsSound(p) {
			return nil, s.refuseSource("Write a bracket that is one as [[].", "it has an unmatched bracket or backslash")
		}
		if p == ".." {
			return nil, s.refuseSource("Write the folder before the star.", "it has .. after a star")
		}
	}
	if len(parts) > maxParts {
		return nil, s.refuseSource("Use **, or begin further down.", "it has more than %d names behind the first star", maxParts)
	}
	root, err := s.pathBelow(fixed)
	if err != nil {
		return nil, fmt.Errorf("read items from %q: %w", s.From, err)
	}
	return s.walkFolders(ctx, root, parts, dir)
}

func (s Source) walkFolders(ctx context.Context, root string, parts []string, dir string) (*manifest.List, error) {
	if s.Format != "" && s.Format != manifest.Lines {
		return nil, s.refuseSource("Leave the format out, or name one file.", "its items are files, which have no format %q", s.Format)
	}
	if goesUp(root) {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			return nil, s.noFileError()
		}
		root = real
	}
	w := &walker{source: s, names: newSorter(dir), parts: parts}
	defer w.names.removeFiles()
	err := w.walkFolder(ctx, root, open(parts, 1))
	switch {
	case context.Cause(ctx) != nil:
		return nil, fmt.Errorf("read items from %q: %w", s.From, context.Cause(ctx))
	case absent(err):
		return nil, s.noFileError()
	case err != nil:
		return nil, err
	case w.names.count == 0:
		return nil, w.noMatchError()
	}
	return manifest.Build(dir, manifest.Lines, func(p *manifest.Packer) error {
		p.Notes = w.walkNotes()
		return w.names.eachName(func(name []byte) error {
			if p.Count == manifest.MaxItems {
				return s.refuseSource("Split it into several maps.", "it has more than %d files", manifest.MaxItems)
			}
			return manifest.AddItem(p, name)
		})
	})
}

// open adds to places those behind each **, which may stand for nothing.
func open(parts []string, at places) places {
	for i, p := range parts[:len(parts)-1] {
		if p == "**" && at>>i&1 == 1 {
			at |= 1 << (i + 1)
		}
	}
	return at
}

// step says what a name is to a pattern: with it as a folder's, at which places names
// in that folder are, and whether it is the whole pattern's last one. No part but one
// that begins with a dot matches a name that does.
func step(parts []string, at places, name string) (below places, last bool) {
	for i, p := range parts {
		if at>>i&1 == 0 || name[0] == '.' && p[0] != '.' {
			continue
		}
		match, _ := path.Match(p, name)
		switch {
		case p == "**":
			below |= 1 << i
			last = last || i == len(parts)-1
		case match && i == len(parts)-1:
			last = true
		case match:
			below |= 1 << (i + 1)
		}
	}
	return below, last
}

// walkFolder looks at the names in it.
func (w *walker) walkFolder(ctx context.Context, folder string, at places) error {
	f, err := os.Open(folder)
	if err != nil {
		return w.folderError(err)
	}
	defer f.Close()
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		entries, err := f.ReadDir(readNames)
		for _, e := range entries {
			if err := w.visitEntry(ctx, folder, e, at); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return w.folderError(err)
		}
	}
}

// folderError refuses a folder that may not be read: it might hold items. One that has
// gone since held none.
func (w *walker) folderError(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return err
	}
	return fault.Wrap(err, fault.Denied, "Check its permissions, or use a glob that leaves it out.", "read items from %q", w.source.From)
}

// visitEntry takes a file, or goes into a folder, if the name is one of the pattern's.
func (w *walker) visitEntry(ctx context.Context, folder string, e os.DirEntry, at places) error {
	base := e.Name()
	below, last := step(w.parts, at, base)
	if base[0] == '.' && below == 0 && !last && slices.Contains(w.parts, "**") {
		w.hidden++
	}
	name := filepath.Join(folder, base)
	switch {
	case e.IsDir() && below != 0:
		err := w.walkFolder(ctx, name, open(w.parts, below))
		if errors.Is(err, os.ErrNotExist) {
			err = nil // it was here a moment ago
		}
		return err
	case !last:
		return nil
	}
	return w.addFile(name, e)
}

// addFile takes a name that the pattern matches, if it is a file or a link to one.
func (w *walker) addFile(name string, e os.DirEntry) error {
	mode := e.Type()
	if mode&os.ModeSymlink != 0 {
		fi, err := os.Stat(name)
		if err != nil || fi.IsDir() {
			w.links++
			return nil
		}
		mode = fi.Mode()
	}
	switch {
	case mode.IsDir():
		w.folders++
		return nil
	case !mode.IsRegular():
		w.special++
		return nil
	}
	return w.names.addName(name)
}

func (w *walker) walkNotes() (notes []string) {
	for _, left := range []struct {
		n         int
		one, many string
	}{
		{w.hidden, "1 hidden name was left out", "%d hidden names were left out"},
		{w.links, "1 link to a folder or to nothing was left out", "%d links to folders or to nothing were left out"},
		{w.special, "1 socket, pipe or device was left out", "%d sockets, pipes or devices were left out"},
		{w.folders, "1 folder matches and was left out; /** takes the files in it", "%d folders match and were left out; /** takes the files in them"},
	} {
		switch {
		case left.n == 1:
			notes = append(notes, left.one)
		case left.n > 1:
			notes = append(notes, fmt.Sprintf(left.many, left.n))
		}
	}
	return notes
}

func (w *walker) noMatchError() error {
	why := "no file matches"
	if !glob.IsPattern(w.source.From) {
		why = "the folder holds no files"
	}
	if notes := w.walkNotes(); len(notes) > 0 {
		why += "; " + strings.Join(notes, ", ")
	}
	before, _ := glob.Cut(w.source.From)
	return w.source.refuseSource(seeFolder(before), "%s", why)
}

func (s Source) noFileError() error {
	before, _ := glob.Cut(s.From)
	return s.refuseSource(seeFolder(before), "no file matches")
}

// seeFolder is the hint that lists a folder. The working folder is listed without its
// name: "ls ." at the end of a sentence reads as the folder above.
func seeFolder(folder string) string {
	if folder == "." {
		return "See what is there: ls -a."
	}
	return "See what is there: ls " + template.QuoteWord(folder) + "."
}

// goesUp says whether a path has an element "..".
func goesUp(path string) bool {
	return slices.Contains(strings.Split(path, string(filepath.Separator)), "..")
}
