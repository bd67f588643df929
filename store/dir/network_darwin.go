package dir

import (
	"os"
	"syscall"
)

// mntLocal is MNT_LOCAL of sys/mount.h: the file system is kept on this machine.
const mntLocal = 0x00001000

func network(name string) (bool, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(name, &st); err != nil {
		return false, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	return st.Flags&mntLocal == 0, nil
}
