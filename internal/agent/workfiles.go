package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/store"
)

// workFiles are the files that a program made or changed in its working folder,
// among those that were shipped: where they lie, which of what lies there they are,
// and where those of a generation are put back before the program starts.
type workFiles struct {
	dir  string // the folder that is read, and that is restored into
	as   string // that folder as the program sees it
	code string // the folder in which the shipped code was laid out; may be dir
	// shipped says of a file or link of that folder that it is as it was shipped. Nil:
	// all are the program's own, but for what neverSaved leaves out.
	shipped func(name string, is fs.FileInfo) bool
}

// workFiles are those of this agent's program.
func (w *workspace) workFiles() workFiles {
	code := w.hostPaths().Code
	if w.layered {
		return workFiles{dir: w.upperFolder(), as: w.codePathInView(), code: code, shipped: w.isInLowerLayer}
	}
	return workFiles{dir: code, as: w.programPaths().Code, code: code, shipped: w.pristine.holdsUnchanged}
}

// savedFolder is what the saver saves of them. Folders in which nothing is new are those
// of the code.
func (w workFiles) savedFolder() folder {
	return folder{path: w.dir, as: w.as, bare: true, skip: neverSaved, skipFile: w.shipped, last: map[string]tree.File{}}
}

// restoreFiles puts files back over the code. Where the program had made a file of a
// folder, or a folder of a file or link, the code's gives way.
func (w workFiles) restoreFiles(ctx context.Context, b tree.Blobs, t tree.Tree) error {
	if err := t.Check(); err != nil {
		return err
	}
	if err := w.removeConflicts(t); err != nil {
		return err
	}
	return tree.Restore(ctx, b, t, w.dir)
}

// removeConflicts removes what stands where the tree has something else.
func (w workFiles) removeConflicts(t tree.Tree) error {
	root, err := os.OpenRoot(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return eachName(t, func(name string) error {
		in, _, err := inTheWay(root, name)
		if err != nil || in == "" {
			return err
		}
		return root.RemoveAll(in)
	})
}

// eachName calls do with each file and link of a tree.
func eachName(t tree.Tree, do func(name string) error) error {
	for _, f := range t.Files {
		if err := do(f.Path); err != nil {
			return err
		}
	}
	for _, l := range t.Links {
		if err := do(l.Path); err != nil {
			return err
		}
	}
	return nil
}

// inTheWay is what stands where a file is to be: a folder of its name, or what is no
// folder where it is to be in one; "" is nothing. there says that a file or link has
// the very name.
func inTheWay(root *os.Root, name string) (in string, there bool, err error) {
	for at := 0; ; {
		next := strings.IndexByte(name[at:], '/')
		if next < 0 {
			break
		}
		at += next
		info, err := root.Lstat(name[:at])
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		if !info.IsDir() {
			return name[:at], false, nil
		}
		at++
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, err
	case info.IsDir():
		return name, false, nil
	}
	return "", true, nil
}

// layOutFiles restores the files that the program of an attempt before had made or
// changed beside itself.
func (s *rankState) layOutFiles(ctx context.Context, from protocol.Saved) error {
	if from.Files == "" {
		return nil
	}
	listing, err := tree.LoadTree(ctx, s.World.Store, from.Files)
	if err != nil {
		return fmt.Errorf("restore files of the working folder: %w", err)
	}
	w, digest := s.space.workFiles(), listing.Digest()
	stay, err := s.newInCode(ctx, w, listing, from)
	if err == nil {
		listing = treeWithout(listing, stay)
		err = w.restoreFiles(ctx, s.World.Store, listing)
	}
	if err != nil {
		return fmt.Errorf("restore files of the working folder: %w", err)
	}
	s.restored[restoredFiles] = kept{digest: digest, blob: from.Files, tree: listing}
	s.noteRestored("files of the working folder", listing, from)
	if n := len(stay); n > 0 {
		names := slices.Sorted(maps.Keys(stay))
		s.LogNote("%d %s of the new code %s as shipped, and what the program had made of %s is not restored: %s",
			n, plural(n, "file"), verb(n, "stays", "stay"), verb(n, "it", "them"), someOf(names))
	}
	return nil
}

// verb is one or many, as n is.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// someOf names the first few.
func someOf(names []string) string {
	const most = 3
	var quoted []string
	for _, name := range names[:min(most, len(names))] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// treeWithout is a tree less some of its names.
func treeWithout(t tree.Tree, names map[string]bool) tree.Tree {
	if len(names) == 0 {
		return t
	}
	t.Files = slices.DeleteFunc(slices.Clone(t.Files), func(f tree.File) bool { return names[f.Path] })
	t.Links = slices.DeleteFunc(slices.Clone(t.Links), func(l tree.Link) bool { return names[l.Path] })
	return t
}

// newInCode are the names of a tree that the code has now and had not, or otherwise,
// when the tree was saved: the user has changed them since.
func (s *rankState) newInCode(ctx context.Context, w workFiles, t tree.Tree, from protocol.Saved) (map[string]bool, error) {
	now := store.Digest(s.Job.Code.Blob)
	if now == from.Code || now == "" {
		return nil, nil
	}
	is, err := os.OpenRoot(w.code)
	if err != nil {
		return nil, err
	}
	defer is.Close()
	shared := map[string]bool{}
	err = eachName(t, func(name string) error {
		in, there, err := inTheWay(is, name)
		if in != "" || there {
			shared[name] = true
		}
		return err
	})
	if err != nil || len(shared) == 0 {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Own, "code-before-")
	if err != nil {
		return nil, err
	}
	defer tree.RemoveAll(dir)
	if err := s.space.unpackCode(ctx, from.Code, dir); err != nil && !errors.Is(err, store.ErrNotExist) { // gone: all are new
		return nil, err
	}
	was, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer was.Close()
	for name := range shared {
		same, err := sameEntry(is, was, name)
		if err != nil {
			return nil, err
		}
		if same {
			delete(shared, name)
		}
	}
	return shared, nil
}

// unpackCode lays shipped code out in a folder; "" is none.
func (w *workspace) unpackCode(ctx context.Context, code store.Digest, dir string) error {
	if code == "" {
		return nil
	}
	r, err := w.World.Store.OpenBlob(ctx, code)
	if err != nil {
		return err
	}
	defer r.Close()
	return bundle.Unpack(ctx, r, dir, bundle.Caps{})
}

// sameEntry says whether two folders have the same file or link under a name. Other
// things are never the same.
func sameEntry(a, b *os.Root, name string) (bool, error) {
	one, err := a.Lstat(name)
	if err != nil {
		return false, ignoreAbsent(err)
	}
	other, err := b.Lstat(name)
	if err != nil {
		return false, ignoreAbsent(err)
	}
	switch {
	case one.Mode().Type() != other.Mode().Type():
		return false, nil
	case one.Mode()&fs.ModeSymlink != 0:
		to, err := a.Readlink(name)
		if err != nil {
			return false, err
		}
		otherTo, err := b.Readlink(name)
		return to == otherTo, err
	case !one.Mode().IsRegular() || one.Size() != other.Size():
		return false, nil
	}
	return sameContent(a, b, name)
}

// ignoreAbsent is err, unless it says that there is no such name.
func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// sameContent compares two files of one size.
func sameContent(a, b *os.Root, name string) (bool, error) {
	one, err := a.Open(name)
	if err != nil {
		return false, err
	}
	defer one.Close()
	other, err := b.Open(name)
	if err != nil {
		return false, err
	}
	defer other.Close()
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(one, x)
		m, otherErr := io.ReadFull(other, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return true, nil
		case err != nil || otherErr != nil:
			return false, errors.Join(err, otherErr)
		}
	}
}

// snapshot is what the code folder looked like before the program ran.
type snapshot map[string]os.FileInfo

func takeSnapshot(dir string) (snapshot, error) {
	s := snapshot{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		s[filepath.ToSlash(rel)] = info
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at code folder: %w", err)
	}
	return s, nil
}

// holdsUnchanged says of a file or link that it is as it was shipped.
func (s snapshot) holdsUnchanged(name string, is fs.FileInfo) bool {
	was, ok := s[name]
	return ok && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// neverSaved says of a file or folder that interpreters keep it for themselves: it
// never comes back.
func neverSaved(name string) bool {
	base := path.Base(name)
	return base == "__pycache__" || base == ".ipynb_checkpoints" || strings.HasSuffix(base, ".pyc")
}
