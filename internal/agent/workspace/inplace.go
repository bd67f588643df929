package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/proc/mount"
)

// A program may run where its code stands (job.Code.InPlace). It then finds three layers
// at the folder that was shipped: the machine's own, over it what was shipped, and over
// that what it writes itself, which is the agent's. Where that is not possible it runs
// in the folder that the code was laid out in, with copies of small files that were not
// shipped, and links to the others. Items of a map always do: they have no view of the
// machine.

// PlaceExists says whether this machine has the place where the code stands.
func (w *Workspace) PlaceExists() bool {
	code := w.Job.Code
	if !code.InPlace || code.Root == "" || w.Machine.Root != "" || w.Job.Host != w.Machine.Name {
		return false
	}
	info, err := os.Stat(code.Root)
	return err == nil && info.IsDir()
}

// WantLayers decides whether the program gets layers, before they are tried.
func (w *Workspace) WantLayers() {
	w.Layered = false
	switch why := w.WhyNoLayers(); {
	case !w.Job.Code.InPlace:
	case !w.PlaceExists():
		w.LogNote("%s is not on this machine: the program runs in a copy of what was shipped", w.Job.Code.Root)
	case why != "":
		w.NoteLinks(why)
	default:
		w.Layered = true
	}
}

// WhyNoLayers says why there can be none; "" is that they may be tried.
func (w *Workspace) WhyNoLayers() string {
	root := w.Job.Code.Root
	if !w.View {
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
func (w *Workspace) ownFolders() (dirs []string) {
	for _, dir := range []string{w.Own, w.Machine.Work, w.World.Store.String()} {
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

// NoteLinks tells why the program runs in a copy.
func (w *Workspace) NoteLinks(why string) {
	w.LogNote("the program runs in a copy of %s (%s), with links to files that were not shipped and are above %d MB: to write to such a file changes your own", w.Job.Code.Root, why, MostCopied>>20)
}

// upperFolder and work are the folders of the program's own layer.
func (w *Workspace) upperFolder() string       { return filepath.Join(w.Own, "layer", "upper") }
func (w *Workspace) overlayWorkFolder() string { return filepath.Join(w.Own, "layer", "work") }

// LayOutPlace makes ready, for one attempt, what the program finds beside its code.
func (w *Workspace) LayOutPlace() error {
	switch {
	case w.Layered:
		return w.makeLayer()
	case w.PlaceExists():
		return w.LinkUnshipped()
	}
	return nil
}

// makeLayer makes the program's own layer anew. The folder that it sees has the rights
// and the owner of this one.
func (w *Workspace) makeLayer() error {
	const hint = "Free some space and run it again."
	info, err := os.Stat(w.Job.Code.Root)
	if err != nil {
		return fault.Wrap(err, fault.Missing, "Put the folder back, or run it from another one.", "look at code folder")
	}
	if err := tree.RemoveAll(filepath.Dir(w.upperFolder())); err != nil {
		return fault.Wrap(err, fault.Full, hint, "clear layer")
	}
	for _, dir := range []string{w.upperFolder(), w.overlayWorkFolder()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.Wrap(err, fault.Full, hint, "make layer")
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = os.Chown(w.upperFolder(), int(st.Uid), int(st.Gid)) // as far as this user may
	}
	return os.Chmod(w.upperFolder(), info.Mode().Perm()|0o700)
}

// layeredPlace are the program's place as its view shows it.
func (w *Workspace) layeredPlace() mount.Overlay {
	root := w.Job.Code.Root
	return mount.Overlay{Target: root, Lower: []string{w.HostPaths().Code, root}, Upper: w.upperFolder(), Work: w.overlayWorkFolder(), Also: []string{w.ProgramPaths().Code}}
}

// CodePathInView is where the program sees the folder that was shipped.
func (w *Workspace) CodePathInView() string {
	if w.Layered {
		return w.Job.Code.Root
	}
	return w.ProgramPaths().Code
}

// isInLowerLayer says of a file in the program's own layer that the layers below have it, too:
// it was opened for writing and not changed. What was removed is nothing to save, and a
// repository's own files are the user's.
func (w *Workspace) isInLowerLayer(name string, is fs.FileInfo) bool {
	if is.Mode()&fs.ModeCharDevice != 0 {
		return true
	}
	if at := strings.Index("/"+name+"/", "/.git/"); at >= 0 {
		if _, err := os.Lstat(filepath.Join(w.Job.Code.Root, name[:at], ".git")); err == nil {
			return true
		}
	}
	for _, lower := range w.layeredPlace().Lower {
		was, err := os.Lstat(filepath.Join(lower, filepath.FromSlash(name)))
		if err == nil {
			return was.Mode().Type() == is.Mode().Type() && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
		}
	}
	return false
}

// RefusedLayers says why the machine gave no layers, if that is what err is about.
func RefusedLayers(err error) (why string, refused bool) {
	if !errors.Is(err, mount.ErrNoOverlay) {
		return "", false
	}
	return strings.TrimPrefix(err.Error(), mount.ErrNoOverlay.Error()+": "), true
}

// WithoutLayers goes on in the folder that the code was laid out in. What was restored
// into the layer is there then.
func (w *Workspace) WithoutLayers(why string) error {
	if !w.Layered {
		return nil
	}
	from := w.upperFolder()
	w.Layered = false
	w.NoteLinks(why)
	if err := w.LinkUnshipped(); err != nil {
		return err
	}
	files := w.WorkFiles()
	root, err := os.OpenRoot(files.Dir)
	if err != nil {
		return WrapRestore(err)
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
		in, _, err := InTheWay(root, filepath.ToSlash(rel))
		if err == nil && in != "" {
			err = root.RemoveAll(in)
		}
		if err == nil {
			err = root.MkdirAll(filepath.Dir(rel), 0o755)
		}
		if err != nil {
			return WrapRestore(err)
		}
		return os.Rename(file, filepath.Join(files.Dir, rel))
	})
}

const (
	// mostLinked bounds the links and copies. A folder with more is one link, as is one
	// of packages.
	mostLinked = 10_000
	// A file of up to mostCopied bytes is copied, until the copies of an agent come to
	// allCopied: then a program that writes to it does not change the user's own. The
	// copies of all take half a second.
	MostCopied = 16 << 20
	allCopied  = 128 << 20
)

// LinkUnshipped puts all that was not shipped into the folder that the code was laid out
// in, as copies or links, and remembers what the folder looks like then. Folders are
// made: so what the program makes in a folder is its own.
func (w *Workspace) LinkUnshipped() (err error) {
	l := Linker{From: w.Job.Code.Root, To: w.HostPaths().Code, Left: mostLinked, Bytes: allCopied, Skip: w.ownFolders(), Linked: Snapshot{}}
	if err := l.LinkMissing("."); err != nil {
		return fault.Wrap(err, fault.Full, "Free some space and run it again.", "link what was not shipped")
	}
	w.linked = l.Linked
	w.Pristine, err = TakeSnapshot(l.To)
	return err
}

// ChangedThroughLinks counts the user's own files that have changed since they were
// linked; first is one of them. The program has changed them, or the user.
func (w *Workspace) ChangedThroughLinks() (n int, first string) {
	for name, was := range w.linked {
		is, err := os.Stat(name)
		if err == nil && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime()) {
			continue
		}
		if n++; n == 1 || name < first {
			first = name
		}
	}
	return n, first
}

// ChangedNote says which of the user's own files a program has changed; "" when none.
func ChangedNote(n int, first string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("files of yours changed: %d %s that the program had as links, such as %s", n, Plural(n, "file"), first)
}

type Linker struct {
	From, To string
	Left     int      // links and copies
	Bytes    int64    // of copies
	Skip     []string // folders
	Linked   Snapshot // the files that are links, by their paths
}

// LinkMissing links to what a folder has and the copy has not.
func (l *Linker) LinkMissing(dir string) error {
	entries, err := os.ReadDir(filepath.Join(l.From, dir))
	if err != nil {
		return nil // nor can the program read it
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		from, to := filepath.Join(l.From, name), filepath.Join(l.To, name)
		if slices.Contains(l.Skip, from) || NeverSaved(filepath.ToSlash(name)) {
			continue
		}
		there, err := os.Lstat(to)
		switch {
		case err == nil && there.IsDir() && e.IsDir():
			err = l.LinkMissing(name)
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist):
		case e.IsDir() && !l.isSingleLink(from):
			if err = os.Mkdir(to, 0o755); err == nil {
				err = l.LinkMissing(name)
			}
		default:
			l.Left--
			err = l.placeFile(from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// placeFile copies a small file, and links to anything else.
func (l *Linker) placeFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil || !info.Mode().IsRegular() {
		return os.Symlink(from, to)
	}
	if n := info.Size(); n <= MostCopied && n <= l.Bytes && copyWhole(from, to, info) == nil {
		l.Bytes -= n
		return nil
	}
	// It is large, or the program cannot read it, or the disk is full.
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.Linked[from] = info
	return os.Symlink(from, to)
}

// copyWhole copies a file, with its rights and its time.
func copyWhole(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(to, info.Mode().Perm())
	}
	if err == nil {
		err = os.Chtimes(to, time.Time{}, info.ModTime())
	}
	return err
}

// isSingleLink says of a folder that it becomes one link.
func (l *Linker) isSingleLink(dir string) bool {
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
	names, _ := f.Readdirnames(max(1, l.Left+1)) // what cannot be read is linked
	return len(names) > l.Left
}
