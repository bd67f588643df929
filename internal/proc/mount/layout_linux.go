package mount

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/reason"
)

const Supported = true

// OldRoot is where the machine's root is while a new one is filled.
const OldRoot = "/.drover-machine"

// Apply makes this mount namespace what s asks for; nil: as it is. fresh
// mounts a /proc of this PID namespace.
func Apply(s *Layout, fresh bool) error {
	// Slave, not private: what is mounted outside later (an automounter's
	// folders) appears inside, nothing of the inside appears outside.
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	if s == nil {
		return mountProc(fresh)
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return fmt.Errorf("set the hostname: %w", err)
		}
	}
	anew := s.foldersToBuild()
	if len(anew) == 0 { // the least: nothing but mounts on what is there
		if err := mountProc(fresh); err != nil {
			return err
		}
		return s.mountEntries("/")
	}
	defer syscall.Umask(syscall.Umask(0o022))
	if err := newRoot(); err != nil {
		return err
	}
	for _, f := range anew {
		if err := f.fillFolder(fresh); err != nil {
			return err
		}
	}
	if err := mountProc(fresh); err != nil {
		return err
	}
	if err := s.mountEntries(OldRoot); err != nil {
		return err
	}
	if err := dropOldRoot(); err != nil {
		return err
	}
	for _, f := range anew {
		f.copyAttributes()
	}
	return nil
}

func mountProc(fresh bool) error {
	if !fresh {
		return nil
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// newRoot puts an empty folder in memory in the place of /, with the machine's
// root in it. It is first mounted on /proc, a folder that every machine has.
func newRoot() error {
	if err := unix.Mount("drover", "/proc", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a new root: %w", err)
	}
	if err := os.Mkdir("/proc"+OldRoot, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot("/proc", "/proc"+OldRoot); err != nil {
		return fmt.Errorf("change roots: %w", err)
	}
	return os.Chdir("/")
}

func dropOldRoot() error {
	if err := unix.Unmount(OldRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return os.Remove(OldRoot)
}

// rebuiltFolder is one that is built anew, as it lacks a target.
type rebuiltFolder struct {
	path  string
	taken map[string]bool // the names that an entry gives it

	mode     fs.FileMode
	uid, gid int
}

// foldersToBuild lists the folders to build, outer before inner. With any, / is one: then
// the machine's own root is at hand, which an entry with a source below
// another's target needs, too.
func (s *Layout) foldersToBuild() []*rebuiltFolder {
	found := map[string]*rebuiltFolder{}
	add := func(path string) *rebuiltFolder {
		if found[path] == nil {
			found[path] = &rebuiltFolder{path: path, taken: map[string]bool{}}
		}
		return found[path]
	}
	for _, b := range s.Entries {
		if b.Layers == nil && s.sourceOf(string(b.Source)) != string(b.Source) {
			add("/")
		}
		if b.In == "" {
			continue
		}
		add("/")
		rest := strings.TrimPrefix(strings.TrimPrefix(string(b.Target), string(b.In)), "/")
		name, _, _ := strings.Cut(rest, "/")
		add(string(b.In)).taken[name] = true
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *rebuiltFolder) int { return strings.Compare(a.path, b.path) })
}

// fillFolder gives the folder what the machine's has, but for what an entry gives it,
// and for /proc where a fresh one is to come.
func (f *rebuiltFolder) fillFolder(fresh bool) error {
	machine := filepath.Join(OldRoot, f.path)
	st, err := os.Stat(machine)
	if err != nil {
		return fmt.Errorf("look at %s: %s", f.path, reason.Of(err))
	}
	f.mode = st.Mode()
	if unix.Access(machine, unix.W_OK) != nil {
		f.mode &^= 0o222 // a plain user owns the new one, and could write where it could not before
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		f.uid, f.gid = int(sys.Uid), int(sys.Gid)
	}
	if f.path != "/" {
		if err := unix.Mount("drover", f.path, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("build %s anew: %w", f.path, err)
		}
	}
	list, err := os.ReadDir(machine)
	if err != nil {
		return fmt.Errorf("list %s: %s", f.path, reason.Of(err))
	}
	for _, e := range list {
		at := filepath.Join(f.path, e.Name())
		switch {
		case f.taken[e.Name()]: // a link to nowhere
		case at == "/proc" && fresh:
			err = os.Mkdir(at, 0o755)
		case at == OldRoot: // the outer view's, if it did not end well
		default:
			err = mirrorEntry(filepath.Join(machine, e.Name()), at, e.Type())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mirrorEntry shows one entry of a folder. One that has just vanished is left out.
func mirrorEntry(machine, at string, kind fs.FileMode) error {
	if kind&fs.ModeSymlink != 0 {
		to, err := os.Readlink(machine)
		if err != nil {
			return nil
		}
		return os.Symlink(to, at)
	}
	if err := createMountTarget(at, kind.IsDir()); err != nil {
		return err
	}
	err := unix.Mount(machine, at, "", unix.MS_BIND|unix.MS_REC, "")
	if err == unix.ENOENT {
		return os.Remove(at)
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", at, err)
	}
	return nil
}

// createMountTarget makes what something can be mounted on.
func createMountTarget(at string, folder bool) error {
	if folder {
		return os.Mkdir(at, 0o755)
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// copyAttributes makes the folder look as the machine's. A plain user cannot give it
// away: it stays that user's.
func (f *rebuiltFolder) copyAttributes() {
	_ = os.Chown(f.path, f.uid, f.gid)
	_ = os.Chmod(f.path, f.mode)
}

// mountEntries mounts what s shows; machine is where the machine's root is.
func (s *Layout) mountEntries(machine string) error {
	overlays, err := s.openOverlays(machine) // before an entry hides one of their folders
	defer func() {
		for _, o := range overlays {
			o.closeFolders()
		}
	}()
	if err != nil {
		return err
	}
	for i, b := range s.Entries {
		at := string(b.Target)
		if b.Layers != nil && b.Same == "" {
			if err := overlays[i].mountOverlay(at); err != nil {
				return err
			}
			continue
		}
		if b.In != "" {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			if err := createMountTarget(at, b.Folder); err != nil {
				return err
			}
		}
		if b.Same != "" {
			continue // its overlay need not be there yet
		}
		if err := unix.Mount(filepath.Join(machine, string(b.Source)), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("show %q at %q: %w", b.Source, at, err)
		}
	}
	for _, b := range s.Entries {
		if b.Same == "" {
			continue
		}
		if err := unix.Mount(string(b.Same), string(b.Target), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return OverlayError{fmt.Errorf("show %q at %q: %w", b.Same, b.Target, err)}
		}
	}
	return nil
}

// DropMountRights takes from this thread what its children would inherit of the right to
// mount: their exec then leaves them none. The supervisor keeps it, over nothing but
// its own namespaces, for sayStarted; and what has more rights than the program
// the program cannot trace.
func DropMountRights() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return err
	}
	caps[0].Inheritable, caps[1].Inheritable = 0, 0 // what is ambient is always inheritable, so it goes too
	return unix.Capset(&head, &caps[0])
}
