package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/bundle/tree"
)

// What a program leaves of its folders may be anything: it can remove one, or put
// a file, a fifo or a link in its place. None of that may lose its exit, hold the
// agent up, or bring home what is not its own.

// LeftFolder finds the folder that the program left where dir was. It is "" with a
// sentence for people when there is none, and without one when it was removed.
// A link is followed as the program sees it, to folders of this agent alone.
func (w *Workspace) LeftFolder(dir string) (folder, why string) {
	ours := w.realFolders()
	if len(ours) == 0 {
		return "", ""
	}
	folder = dir
	for range 10 {
		parent, err := filepath.EvalSymlinks(filepath.Dir(folder))
		if errors.Is(err, fs.ErrNotExist) {
			return "", ""
		}
		folder = filepath.Join(parent, filepath.Base(folder))
		inside := func(dir string) bool { return strings.HasPrefix(folder, dir+"/") }
		if err != nil || !slices.ContainsFunc(ours, inside) && !slices.Contains(ours[1:], folder) { // a link to the agent's own folder leads elsewhere
			return "", "it is a link that leads elsewhere, and was not saved"
		}
		info, err := os.Lstat(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", ""
		case err != nil:
			return "", "it cannot be read: " + err.Error()
		case info.IsDir():
			return folder, ""
		case info.Mode()&fs.ModeSymlink == 0:
			return "", "it is no longer a folder, and was not saved"
		}
		target, err := os.Readlink(folder)
		if err != nil {
			return "", "it cannot be read: " + err.Error()
		}
		folder = w.resolveLink(filepath.Dir(folder), target)
	}
	return "", "it is a link to itself"
}

// realFolders are those in which this agent's program writes, without symbolic links: the
// agent's own first, and the machine's where they are the program's.
func (w *Workspace) realFolders() (dirs []string) {
	all := []string{w.Own}
	if w.Root != w.Own {
		for _, top := range node.Owned {
			dir := filepath.Join(w.Root, top)
			if info, err := os.Lstat(dir); err == nil && info.IsDir() { // a link that the program put there leads elsewhere
				all = append(all, dir)
			}
		}
	}
	for _, dir := range all {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// resolveLink is where a link in folder leads, as the program sees it.
func (w *Workspace) resolveLink(folder, target string) string {
	if !filepath.IsAbs(target) {
		return filepath.Join(folder, target)
	}
	for _, top := range node.Owned {
		if w.View && (target == top || strings.HasPrefix(target, top+"/")) {
			return filepath.Join(w.Root, target)
		}
	}
	return target
}

// Unlock lets us read what a plain user's program has locked its user out of: the user owns
// it. What stays locked shows when it is read. It ends early with ctx.
func Unlock(ctx context.Context, dir string) {
	// Walked from the top: each folder is told of before it is read.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case d == nil || err != nil:
		case d.IsDir():
			_ = os.Chmod(path, 0o700)
		case d.Type().IsRegular():
			if info, err := d.Info(); err == nil && info.Mode()&0o400 == 0 {
				_ = os.Chmod(path, info.Mode().Perm()|0o400)
			}
		}
		return nil
	})
}

// ClearFolder removes a folder of the contract with all that is in it; where the machine
// shows it as it is (Machine.Root), only what is in it, or the machine would go on
// showing the folder that was.
func (w *Workspace) ClearFolder(dir string) error {
	shown := false
	for _, top := range node.Owned {
		shown = shown || w.Machine.Root != "" && dir == filepath.Join(w.Root, top)
	}
	if !shown {
		return removeOrEmpty(dir)
	}
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() { // a link, say: what it leads to is not ours
		return errors.Join(os.Remove(dir), os.MkdirAll(dir, 0o755))
	}
	return emptyFolder(dir)
}

// removeOrEmpty removes a folder. Where a file system is mounted there, what is in it is removed alone.
func removeOrEmpty(dir string) error {
	err := tree.RemoveAll(dir)
	if errors.Is(err, syscall.EBUSY) {
		return emptyFolder(dir)
	}
	return err
}

// emptyFolder removes what is in a folder, as removeOrEmpty does.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		Unlock(context.Background(), dir)
		entries, err = os.ReadDir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := removeOrEmpty(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// EmptyMachine empties the folders of the contract where they are the machine's own, but for the folders keep: an
// agent before this one may have left files there.
func (w *Workspace) EmptyMachine(keep ...string) error {
	if w.Root == w.Own {
		return nil
	}
	clear := w.ClearFolder
	if len(keep) > 0 {
		clear = func(dir string) error { return emptyBut(dir, keep) }
	}
	for _, top := range node.Owned {
		if err := clear(filepath.Join(w.Root, top)); err != nil {
			return fault.Wrap(err, fault.Denied, "Run the agent as a user that may write there.", "empty folder %s", top)
		}
	}
	return nil
}

// emptyBut removes what is in a folder, but for the folders keep.
func emptyBut(dir string, keep []string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if slices.Contains(keep, path) {
			continue
		}
		remove := removeOrEmpty
		if e.IsDir() && slices.ContainsFunc(keep, func(k string) bool { return strings.HasPrefix(k, path+"/") }) {
			remove = func(path string) error { return emptyBut(path, keep) }
		}
		if err := remove(path); err != nil {
			return err
		}
	}
	return nil
}
