package engine

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// itemsFolder is where a command keeps a map's items while it lives. The command may be
// killed: then the folder's lock is free, and the next map's command removes the folder.
type itemsFolder struct {
	dir  string
	lock *os.File
}

const (
	itemsFolders = "drover-items-"
	itemsLock    = "lock"
	// a folder without a lock is one that is being made, which takes milliseconds, or
	// that was made by a command which was killed just then
	unlockedFor = time.Hour
)

func newItemsFolder() (f itemsFolder, err error) {
	sweepItemsFolders(os.TempDir())
	f.dir, err = os.MkdirTemp("", itemsFolders)
	if err == nil {
		err = f.lockFolder()
	}
	if err != nil {
		return f, fault.Wrap(errors.Join(err, f.Close()), fault.Full, "Free some space, or set TMPDIR to a folder with room.", "read items")
	}
	return f, nil
}

// lockFolder makes the lock. It gets its name when it is held: one that is named and free
// is a dead command's.
func (f *itemsFolder) lockFolder() (err error) {
	name := filepath.Join(f.dir, itemsLock)
	if f.lock, err = os.Create(name + ".new"); err != nil {
		return err
	}
	if err := unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Close removes the folder. It may be called twice.
func (f *itemsFolder) Close() error {
	if f.dir == "" {
		return nil
	}
	err := os.RemoveAll(f.dir)
	if f.lock != nil {
		f.lock.Close() // nothing was written to it
	}
	f.dir, f.lock = "", nil
	return err
}

// sweepItemsFolders removes what commands of this user have left that were killed.
// Whatever goes wrong is met again by the next one.
func sweepItemsFolders(temp string) {
	found, _ := filepath.Glob(filepath.Join(temp, itemsFolders+"*")) // a bad pattern: nothing is found
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		lock, err := os.Open(filepath.Join(dir, itemsLock))
		if errors.Is(err, os.ErrNotExist) && time.Since(info.ModTime()) > unlockedFor {
			_ = os.RemoveAll(dir)
		}
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}
