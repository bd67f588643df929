package dir

import (
	"sync"

	"golang.org/x/sys/unix"
)

// searchOnly opens a folder for the names in it, whether or not it may be listed.
const searchOnly = unix.O_PATH

// largeFile is for 32-bit systems.
const largeFile = unix.O_LARGEFILE

// resolves says whether the kernel resolves names without links: Linux 5.6 does, and old
// seccomp profiles of containers refuse it.
var resolves = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
})

// openBelow opens rel, a clean path without "..", below the folder root. A symbolic link
// in any part of it is syscall.ELOOP.
func openBelow(root int, rel string, flag int) (fd int, err error) {
	if !resolves() {
		return walkBelow(root, rel, flag)
	}
	how := unix.OpenHow{Flags: uint64(flag), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
	if flag&unix.O_CREAT != 0 {
		how.Mode = 0o600
	}
	return unix.Openat2(root, rel, &how)
}
