package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// RemoveAll removes a folder that a program has left, with all that is in it, as
// os.RemoveAll does; also folders that the program has locked its own user out of,
// and more folders in each other than the process may have open: os.RemoveAll holds
// a descriptor for each. What others write into it meanwhile may stay.
func RemoveAll(dir string) error {
	for {
		err := os.RemoveAll(dir)
		if err == nil {
			return nil
		}
		hindered := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
		if !hindered || !loosen(dir) {
			return fmt.Errorf("remove folder: %w", err)
		}
	}
}

// removeDepth is how deep a folder is removed where it lies: far fewer levels than
// any process may have descriptors, and more than folders usually have.
const removeDepth = 64

// loosen opens the folders in dir to their owner, and moves those that lie
// removeDepth below it up into dir itself. It says whether anything has changed.
func loosen(dir string) (changed bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return os.Chmod(dir, 0o700) == nil && canOpen(dir)
	}
	defer root.Close()
	moved := 0
	// Walked from the top: each folder is told of before it is read.
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
			changed = root.Chmod(name, 0o700) == nil || changed
		}
		if strings.Count(name, "/")+1 < removeDepth {
			return nil
		}
		for err = fs.ErrExist; errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY); moved++ { // names that are taken are passed over
			err = root.Rename(name, fmt.Sprintf(".drover-removed-%d", moved))
		}
		changed = changed || err == nil
		return fs.SkipDir
	})
	return changed
}

func canOpen(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
