package mount

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// overlay is an Overlay with open folders. They are named by their descriptors:
// so no name needs escaping, no list of names is too long, and it does not matter what
// is mounted over one of them by then. It needs /proc.
type overlay struct {
	lower       []int
	upper, work int
	inner       []innerMount
	open        []int
}

// innerMount is a file system that is mounted below one of the lower folders. An
// overlay shows only the folder that it is mounted on.
type innerMount struct {
	fd   int
	rest string // below the target
}

// mostInner bounds the file systems that are shown once more: each is a mount in every
// view.
const mostInner = 1000

// openOverlays opens the folders of the overlays of s, by their places in s.Entries.
// machine is where the machine's root is. What it returns is to be closed after an
// error, too.
func (s *Layout) openOverlays(machine string) (map[int]*overlay, error) {
	all := map[int]*overlay{}
	var mounts []string
	for i, b := range s.Entries {
		if b.Layers == nil || b.Same != "" {
			continue
		}
		if mounts == nil {
			var err error
			if mounts, err = mountPoints(); err != nil {
				return all, OverlayError{err}
			}
		}
		all[i] = &overlay{}
		if err := all[i].openFolders(machine, b.Layers, mounts); err != nil {
			return all, OverlayError{err}
		}
	}
	return all, nil
}

func (s *Layout) HasOverlays() bool {
	return slices.ContainsFunc(s.Entries, func(b entry) bool { return b.Layers != nil })
}

func (o *overlay) openFolders(machine string, l *layers, mounts []string) (err error) {
	path := func(r rawPath) string { return filepath.Join(machine, string(r)) }
	if o.upper, err = o.openFolder(path(l.Upper)); err != nil {
		return err
	}
	if o.work, err = o.openFolder(path(l.Work)); err != nil {
		return err
	}
	for _, lower := range l.Lower {
		fd, err := o.openFolder(path(lower))
		if err != nil {
			return err
		}
		o.lower = append(o.lower, fd)
		for _, rest := range outermostBelow(mounts, path(lower)) {
			if len(o.inner) == mostInner {
				return fmt.Errorf("more than %d file systems are mounted in %q", mostInner, lower)
			}
			fd, err := o.openFolder(filepath.Join(path(lower), rest))
			if err != nil {
				continue // not for this user, which does not see it on the machine either
			}
			o.inner = append(o.inner, innerMount{fd, rest})
		}
	}
	return nil
}

func (o *overlay) openFolder(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %q: %w", path, err)
	}
	o.open = append(o.open, fd)
	return fd, nil
}

func (o *overlay) closeFolders() {
	for _, fd := range o.open {
		_ = unix.Close(fd)
	}
}

// mountOverlay mounts the overlay at a folder.
func (o *overlay) mountOverlay(at string) error {
	var lower []string
	for _, fd := range o.lower {
		lower = append(lower, fdPath(fd))
	}
	folders := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + fdPath(o.upper) + ",workdir=" + fdPath(o.work)
	flags, err := o.mountFlags()
	if err != nil {
		return OverlayError{err}
	}
	// With userxattr a folder is never renamed by a reference to where it was, and no file
	// is without its content: what is in the upper folder is whole. It is refused where the
	// upper file system has no user attributes, as tmpfs before Linux 6.6; then the machine's
	// root asks for the same by name. The root of a container has no other attributes either,
	// and without any a folder that is removed could not be made again.
	err = unix.Mount("drover", at, "overlay", flags, folders+",userxattr")
	if err != nil && isMachineRoot() {
		err = unix.Mount("drover", at, "overlay", flags, folders+",redirect_dir=off,metacopy=off")
	}
	if err != nil {
		return OverlayError{fmt.Errorf("lay folders over %q: %w", at, err)}
	}
	for _, m := range o.inner {
		if err := m.mountReadOnly(filepath.Join(at, m.rest)); err != nil {
			return OverlayError{err}
		}
	}
	return nil
}

// mountFlags are those of the file system of the lowest folder: what cannot be executed there
// cannot be here.
func (o *overlay) mountFlags() (flags uintptr, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(fdPath(o.lower[len(o.lower)-1]), &st); err != nil {
		return 0, fmt.Errorf("look at a folder's file system: %w", err)
	}
	for said, flag := range map[int64]uintptr{unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV} {
		if int64(st.Flags)&said != 0 {
			flags |= flag
		}
	}
	return flags, nil
}

// mountReadOnly mounts m at its place in the overlay, read-only. Where an upper layer has another
// kind of file there, or nothing, it stays hidden.
func (m innerMount) mountReadOnly(at string) error {
	var there, here unix.Stat_t
	if unix.Lstat(at, &there) != nil || unix.Stat(fdPath(m.fd), &here) != nil || there.Mode&unix.S_IFMT != here.Mode&unix.S_IFMT {
		return nil
	}
	if err := unix.Mount(fdPath(m.fd), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show the file system at %q: %w", at, err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("protect the file system at %q: %w", at, err)
	}
	return nil
}

// isMachineRoot says whether this process is root, and in no user namespace.
func isMachineRoot() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return os.Geteuid() == 0 && err == nil && slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// mountPoints are the paths at which file systems are mounted, each once.
func mountPoints() (paths []string, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list what is mounted: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if fields := strings.Fields(line); len(fields) > 4 {
			paths = append(paths, Unescape(fields[4]))
		}
		if err != nil {
			break // its end
		}
	}
	slices.Sort(paths) // so that an outer one comes before those in it
	return slices.Compact(paths), nil
}

// outermostBelow are the outermost of mounts in dir, relative to it.
func outermostBelow(mounts []string, dir string) (rests []string) {
	for _, m := range mounts {
		rest, inside := strings.CutPrefix(m, strings.TrimSuffix(dir, "/")+"/")
		outer := func(other string) bool { return strings.HasPrefix(rest, other+"/") }
		if inside && rest != "" && !slices.ContainsFunc(rests, outer) {
			rests = append(rests, rest)
		}
	}
	return rests
}

// Unescape turns \040 and its like, as proc(5)'s mountinfo has them, back.
func Unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
