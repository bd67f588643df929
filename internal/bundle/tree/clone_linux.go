package tree

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// clone makes out share the contents of the file src (FICLONE): btrfs, XFS and
// others can, within one file system.
func clone(out *os.File, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	for _, no := range []error{unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, no) {
			return fmt.Errorf("%w: %w", errNoClone, err)
		}
	}
	return err
}
