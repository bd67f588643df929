package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
)

// WorkFiles are the files that a program made or changed in its working folder,
// among those that were shipped: where they lie, which of what lies there they are,
// and where those of a generation are put back before the program starts.
type WorkFiles struct {
	Dir  string // the folder that is read, and that is restored into
	As   string // that folder as the program sees it
	Code string // the folder in which the shipped code was laid out; may be dir
	// Shipped says of a file or link of that folder that it is as it was shipped. Nil:
	// all are the program's own, but for what neverSaved leaves out.
	Shipped func(name string, is fs.FileInfo) bool
}

// WorkFiles are those of this agent's program.
func (w *Workspace) WorkFiles() WorkFiles {
	code := w.HostPaths().Code
	if w.Layered {
		return WorkFiles{Dir: w.upperFolder(), As: w.CodePathInView(), Code: code, Shipped: w.isInLowerLayer}
	}
	return WorkFiles{Dir: code, As: w.ProgramPaths().Code, Code: code, Shipped: w.Pristine.HoldsUnchanged}
}

// RestoreFiles puts files back over the code. Where the program had made a file of a
// folder, or a folder of a file or link, the code's gives way.
func (w WorkFiles) RestoreFiles(ctx context.Context, b tree.Blobs, t tree.Tree) error {
	if err := t.Check(); err != nil {
		return err
	}
	if err := w.removeConflicts(t); err != nil {
		return err
	}
	return tree.Restore(ctx, b, t, w.Dir)
}

// removeConflicts removes what stands where the tree has something else.
func (w WorkFiles) removeConflicts(t tree.Tree) error {
	root, err := os.OpenRoot(w.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return EachName(t, func(name string) error {
		in, _, err := InTheWay(root, name)
		if err != nil || in == "" {
			return err
		}
		return root.RemoveAll(in)
	})
}

// EachName calls do with each file and link of a tree.
func EachName(t tree.Tree, do func(name string) error) error {
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

// InTheWay is what stands where a file is to be: a folder of its name, or what is no
// folder where it is to be in one; "" is nothing. there says that a file or link has
// the very name.
func InTheWay(root *os.Root, name string) (in string, there bool, err error) {
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

// UnpackCode lays shipped code out in a folder; "" is none.
func (w *Workspace) UnpackCode(ctx context.Context, code store.Digest, dir string) error {
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

// SameEntry says whether two folders have the same file or link under a name. Other
// things are never the same.
func SameEntry(a, b *os.Root, name string) (bool, error) {
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

// Snapshot is what the code folder looked like before the program ran.
type Snapshot map[string]os.FileInfo

func TakeSnapshot(dir string) (Snapshot, error) {
	s := Snapshot{}
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

// HoldsUnchanged says of a file or link that it is as it was shipped.
func (s Snapshot) HoldsUnchanged(name string, is fs.FileInfo) bool {
	was, ok := s[name]
	return ok && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// NeverSaved says of a file or folder that interpreters keep it for themselves: it
// never comes back.
func NeverSaved(name string) bool {
	base := path.Base(name)
	return base == "__pycache__" || base == ".ipynb_checkpoints" || strings.HasSuffix(base, ".pyc")
}

// WrapRestore says what was being done when files could not be put back.
func WrapRestore(err error) error { return fmt.Errorf("restore files of the working folder: %w", err) }
