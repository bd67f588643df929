// Package private opens files, folders and sockets that only this user can have made.
//
// Other users of a machine may make files of any name in its temporary folder, before
// this user does. What drover opens there is believed only if this user owns it and
// no other user may write it; a socket only if this user serves it. What is refused is
// fault.Denied.
//
// It refuses to know what the files hold. It is proved by private_test.go and
// socket_linux_test.go, with files, links and a listener of other users.
package private

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// othersWrite are the permissions by which other users change a file or a folder. An
// access list shows in the bits of the group, too.
const othersWrite = 0o022

// MakeFolder makes the folder dir with mode 0700, or checks that the one that is there
// is a folder of this user with that mode, and no symbolic link: fault.Denied if not.
func MakeFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := checkOwner(dir, info); err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		return notPrivate(dir, "use folder %s: it is %s, and not a folder with mode 0700", dir, info.Mode())
	}
	return nil
}

// CheckOwned returns fault.Denied unless path belongs to this user and no other user
// may write it. A symbolic link is not followed: it is refused.
func CheckOwned(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return checkMode(path, info)
}

// ReadOwned reads the file below base that the slash-separated name leads to, of at
// most limit bytes. base, every folder of name and the file must belong to this user,
// no other user may write them, and none may be a symbolic link: else fault.Denied.
// Each is opened in the one before it and checked once open, so that another user
// cannot exchange one between the check and the use. What leads to base is not checked.
func ReadOwned(base, name string, limit int64) ([]byte, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC // a FIFO must not block
	path, at := base, unix.AT_FDCWD
	steps := append([]string{base}, strings.Split(name, "/")...)
	for i, step := range steps {
		more := unix.O_DIRECTORY
		if i == len(steps)-1 {
			more = 0
		}
		if i > 0 {
			path = filepath.Join(path, step)
		}
		fd, err := openAgain(at, step, flags|more)
		if at != unix.AT_FDCWD {
			unix.Close(at)
		}
		switch {
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR): // a link, too, is no folder
			return nil, notPrivate(path, "read %s: it is a symbolic link, or not a folder", path)
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		at = fd
		if more != 0 {
			if err := checkOpen(fd, path); err != nil {
				unix.Close(fd)
				return nil, err
			}
		}
	}
	return readOpen(at, path, limit)
}

// openAgain is openat, past signals.
func openAgain(at int, name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Openat(at, name, flags, 0); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// checkOpen checks the folder that is open.
func checkOpen(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if int(st.Uid) != os.Geteuid() {
		return notOwned(path, st.Uid)
	}
	if st.Mode&othersWrite != 0 {
		return notPrivate(path, "use %s: other users may write to it (mode %#o)", path, st.Mode&0o7777)
	}
	return nil
}

// readOpen reads and closes the file that is open.
func readOpen(fd int, path string, limit int64) ([]byte, error) {
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkMode(path, info); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, notPrivate(path, "read %s: it is %s of %d bytes, and not a file of at most %d", path, info.Mode(), info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

func checkMode(path string, info os.FileInfo) error {
	if err := checkOwner(path, info); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return notPrivate(path, "use %s: it is a symbolic link", path)
	}
	if info.Mode()&othersWrite != 0 {
		return notPrivate(path, "use %s: other users may write to it (mode %#o)", path, info.Mode().Perm())
	}
	return nil
}

func checkOwner(path string, info os.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Geteuid() {
		uid := uint32(0)
		if ok {
			uid = owner.Uid
		}
		return notOwned(path, uid)
	}
	return nil
}

func notOwned(path string, uid uint32) error {
	return notPrivate(path, "use %s: it belongs to user %d, not to %d", path, uid, os.Geteuid())
}

func notPrivate(path, format string, args ...any) error {
	return fault.New(fault.Denied, "See whose it is: `ls -ld "+path+"`.", format, args...)
}
