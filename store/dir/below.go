package dir

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Another writer of a store may replace a folder in it by a symbolic link to any other
// folder of this user's. Names below the root are therefore resolved from an open folder,
// and a link in any part of them is syscall.ELOOP. The root itself and what is above it
// are the user's own words, and may be links.
//
// The root is opened anew for each operation: one that is held would go on being used
// after it was mounted over, moved away or made again. A link inside that leads to
// another folder inside is refused too, as two keys would be one object, and gc would
// delete what the other names; this is why os.Root, which follows such links, is not used.

// relativeName returns name as seen from the root, if it is below it.
func (s osFS) relativeName(name string) (rel string, below bool) {
	if s.root == "" {
		return "", false
	}
	rel, below = strings.CutPrefix(name, strings.TrimSuffix(s.root, "/")+"/")
	return filepath.ToSlash(rel), below && rel != ""
}

// withRootFD calls f with the open root.
func (s osFS) withRootFD(f func(root int) error) error {
	var root int
	err := uninterrupted(func() (err error) {
		root, err = unix.Open(s.root, searchOnly|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return uninterrupted(func() error { return f(root) })
}

// inParent calls f with the open folder that rel is in, and its name there.
func inParent(root int, rel string, f func(folder int, base string) error) error {
	dir, base := path.Split(rel)
	if dir == "" {
		return f(root, base)
	}
	folder, err := openBelow(root, path.Clean(dir), searchOnly|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	return f(folder, base)
}

// changeName does f to a name.
func (s osFS) changeName(op, name string, f func(folder int, base string) error) error {
	rel, below := s.relativeName(name)
	var err error
	if below {
		err = s.withRootFD(func(root int) error { return inParent(root, rel, f) })
	} else {
		err = uninterrupted(func() error { return f(unix.AT_FDCWD, name) })
	}
	if err != nil {
		return &os.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// changeTwo does f to two names, which are both below the root or both not.
func (s osFS) changeTwo(op, old, new string, f func(from int, a string, to int, b string) error) error {
	a, below := s.relativeName(old)
	b, both := s.relativeName(new)
	var err error
	switch {
	case below != both:
		err = syscall.EXDEV
	case below:
		err = s.withRootFD(func(root int) error {
			return inParent(root, a, func(from int, a string) error {
				return inParent(root, b, func(to int, b string) error { return f(from, a, to, b) })
			})
		})
	default:
		err = uninterrupted(func() error { return f(unix.AT_FDCWD, old, unix.AT_FDCWD, new) })
	}
	if err != nil {
		return &os.LinkError{Op: op, Old: old, New: new, Err: err}
	}
	return nil
}

// uninterrupted does f until no signal comes between.
func uninterrupted(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// walkBelow opens rel below root, one folder after the other.
func walkBelow(root int, rel string, flag int) (fd int, err error) {
	at := root
	leave := func() {
		if at != root {
			unix.Close(at)
		}
	}
	for {
		name, rest, more := strings.Cut(rel, "/")
		if !more {
			fd, err = openOne(at, name, flag)
			leave()
			return fd, err
		}
		next, err := openOne(at, name, searchOnly|unix.O_DIRECTORY|unix.O_CLOEXEC)
		leave()
		if err != nil {
			return -1, err
		}
		at, rel = next, rest
	}
}

// openOne opens a name in a folder; a link is syscall.ELOOP.
func openOne(folder int, name string, flag int) (fd int, err error) {
	fd, err = unix.Openat(folder, name, flag|unix.O_NOFOLLOW, 0o600)
	if err == syscall.ENOTDIR { // Linux says so of a link where a folder is asked for
		var st unix.Stat_t
		if e := unix.Fstatat(folder, name, &st, unix.AT_SYMLINK_NOFOLLOW); e == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = syscall.ELOOP
		}
	}
	return fd, err
}
