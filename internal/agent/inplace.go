package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/proc"
)

// A program may run where its code stands (job.Code.InPlace). It then finds three layers
// at the folder that was shipped: the machine's own, over it what was shipped, and over
// that what it writes itself, which is the agent's. Where that is not possible it runs
// in the folder that the code was laid out in, with links to what was not shipped. Items
// of a map always do: they have no view of the machine.

// stands says whether this machine has the place where the code stands.
func (w *workspace) stands() bool {
	code := w.job.Code
	if !code.InPlace || code.Root == "" || w.Machine.Root != "" || w.job.Host != w.Machine.Name {
		return false
	}
	info, err := os.Stat(code.Root)
	return err == nil && info.IsDir()
}

// wantLayers decides whether the program gets layers, before they are tried.
func (w *workspace) wantLayers() {
	w.layered = false
	switch why := w.noLayers(); {
	case !w.job.Code.InPlace:
	case !w.stands():
		w.note("%s is not on this machine: the program runs in a copy of what was shipped", w.job.Code.Root)
	case why != "":
		w.noteLinks(why)
	default:
		w.layered = true
	}
}

// noLayers says why there can be none; "" is that they may be tried.
func (w *workspace) noLayers() string {
	root := w.job.Code.Root
	if !w.view {
		return "the program has no view of its own"
	}
	if top := hidden(root); top != "" {
		return root + " is in " + top
	}
	for _, own := range w.ownFolders() {
		if own == root || strings.HasPrefix(own, root+"/") {
			return own + " is in it"
		}
	}
	return ""
}

// ownFolders are those in which drover itself works, without symbolic links.
func (w *workspace) ownFolders() (dirs []string) {
	for _, dir := range []string{w.root, w.Machine.Work, w.World.Store.String()} {
		if !filepath.IsAbs(dir) {
			continue // a store that is no folder
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// noteLinks tells why the program runs in a copy.
func (w *workspace) noteLinks(why string) {
	w.note("the program runs in a copy of %s (%s), with links to what was not shipped: to write to such a file changes your own", w.job.Code.Root, why)
}

// upper and work are the folders of the program's own layer.
func (w *workspace) upper() string { return filepath.Join(w.root, "layer", "upper") }
func (w *workspace) work() string  { return filepath.Join(w.root, "layer", "work") }

// layOutPlace makes ready, for one attempt, what the program finds beside its code.
func (w *workspace) layOutPlace() error {
	switch {
	case w.layered:
		return w.makeLayer()
	case w.stands():
		return w.linkUnshipped()
	}
	return nil
}

// makeLayer makes the program's own layer anew. The folder that it sees has the rights
// and the owner of this one.
func (w *workspace) makeLayer() error {
	const hint = "Free some space and run it again."
	info, err := os.Stat(w.job.Code.Root)
	if err != nil {
		return fault.Wrap(err, fault.Missing, "Put the folder back, or run it from another one.", "look at code folder")
	}
	if err := bundle.RemoveAll(filepath.Dir(w.upper())); err != nil {
		return fault.Wrap(err, fault.Full, hint, "clear layer")
	}
	for _, dir := range []string{w.upper(), w.work()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.Wrap(err, fault.Full, hint, "make layer")
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = os.Chown(w.upper(), int(st.Uid), int(st.Gid)) // as far as this user may
	}
	return os.Chmod(w.upper(), info.Mode().Perm()|0o700)
}

// layers are the program's place as its view shows it.
func (w *workspace) layers() proc.Overlay {
	root := w.job.Code.Root
	return proc.Overlay{Target: root, Lower: []string{w.paths().Code, root}, Upper: w.upper(), Work: w.work(), Also: []string{w.seen().Code}}
}

// codeSeen is where the program sees the folder that was shipped.
func (w *workspace) codeSeen() string {
	if w.layered {
		return w.job.Code.Root
	}
	return w.seen().Code
}

// isBelow says of a file in the program's own layer that the layers below have it, too:
// it was opened for writing and not changed. What was removed is nothing to save, and a
// repository's own files are the user's.
func (w *workspace) isBelow(name string, is fs.FileInfo) bool {
	if is.Mode()&fs.ModeCharDevice != 0 {
		return true
	}
	if at := strings.Index("/"+name+"/", "/.git/"); at >= 0 {
		if _, err := os.Lstat(filepath.Join(w.job.Code.Root, name[:at], ".git")); err == nil {
			return true
		}
	}
	for _, lower := range w.layers().Lower {
		was, err := os.Lstat(filepath.Join(lower, filepath.FromSlash(name)))
		if err == nil {
			return was.Mode().Type() == is.Mode().Type() && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
		}
	}
	return false
}

// refusedLayers says why the machine gave no layers, if that is what err is about.
func refusedLayers(err error) (why string, refused bool) {
	if !errors.Is(err, proc.ErrNoOverlay) {
		return "", false
	}
	return strings.TrimPrefix(err.Error(), proc.ErrNoOverlay.Error()+": "), true
}

// withoutLayers goes on in the folder that the code was laid out in. What was restored
// into the layer is there then.
func (w *workspace) withoutLayers(why string) error {
	if !w.layered {
		return nil
	}
	from := w.upper()
	w.layered = false
	w.noteLinks(why)
	if err := w.linkUnshipped(); err != nil {
		return err
	}
	files := w.workFiles()
	root, err := os.OpenRoot(files.dir)
	if err != nil {
		return fmt.Errorf("restore files of the working folder: %w", err)
	}
	defer root.Close()
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		in, _, err := inTheWay(root, filepath.ToSlash(rel))
		if err == nil && in != "" {
			err = root.RemoveAll(in)
		}
		if err == nil {
			err = root.MkdirAll(filepath.Dir(rel), 0o755)
		}
		if err != nil {
			return fmt.Errorf("restore files of the working folder: %w", err)
		}
		return os.Rename(file, filepath.Join(files.dir, rel))
	})
}

// mostLinked bounds the links of a copy. A folder with more is one link, as is one of
// packages.
const mostLinked = 10_000

// linkUnshipped links, in the folder that the code was laid out in, to all that was not
// shipped, and remembers what the folder looks like then. Folders are made, and files
// linked: so what the program makes in a folder is its own.
func (w *workspace) linkUnshipped() (err error) {
	l := linker{from: w.job.Code.Root, to: w.paths().Code, left: mostLinked, skip: w.ownFolders()}
	if err := l.link("."); err != nil {
		return fault.Wrap(err, fault.Full, "Free some space and run it again.", "link what was not shipped")
	}
	w.pristine, err = takeSnapshot(l.to)
	return err
}

type linker struct {
	from, to string
	left     int
	skip     []string // folders
}

// link links to what a folder has and the copy has not.
func (l *linker) link(dir string) error {
	entries, err := os.ReadDir(filepath.Join(l.from, dir))
	if err != nil {
		return nil // nor can the program read it
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		from, to := filepath.Join(l.from, name), filepath.Join(l.to, name)
		if slices.Contains(l.skip, from) || neverSaved(filepath.ToSlash(name)) {
			continue
		}
		there, err := os.Lstat(to)
		switch {
		case err == nil && there.IsDir() && e.IsDir():
			err = l.link(name)
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist):
		case e.IsDir() && !l.isOne(from):
			if err = os.Mkdir(to, 0o755); err == nil {
				err = l.link(name)
			}
		default:
			l.left--
			err = os.Symlink(from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isOne says of a folder that it becomes one link.
func (l *linker) isOne(dir string) bool {
	if filepath.Base(dir) == "node_modules" {
		return true
	}
	if _, err := os.Lstat(filepath.Join(dir, "pyvenv.cfg")); err == nil {
		return true
	}
	f, err := os.Open(dir)
	if err != nil {
		return true
	}
	defer f.Close()
	names, _ := f.Readdirnames(max(1, l.left+1)) // what cannot be read is linked
	return len(names) > l.left
}
