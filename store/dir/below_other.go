//go:build !linux

package dir

import "golang.org/x/sys/unix"

// searchOnly opens a folder for the names in it.
const searchOnly = unix.O_RDONLY

const largeFile = 0

// openBelow opens rel, a clean path without "..", below the folder root. A symbolic link
// in any part of it is syscall.ELOOP.
func openBelow(root int, rel string, flag int) (fd int, err error) {
	return walkBelow(root, rel, flag)
}
