package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld says that another process has a lock.
var ErrHeld = errors.New("another drover is working on it")

// ErrNoLocks says that a file system has no locks.
var ErrNoLocks = errors.New("the file system has no locks")

// Flock takes a lock, or fails with ErrHeld or ErrNoLocks; it never waits for one.
func Flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return refusedLock(err)
		}
	}
}

// refusedLock says what the kernel's answer means.
func refusedLock(err error) error {
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrHeld
	case isAny(err, noLocks):
		return fmt.Errorf("%w: %w", ErrNoLocks, err)
	}
	return err
}

// Hold locks a placement. The lock is for the process that starts or removes its agents, and
// ends with that process. fs.ErrNotExist: its folder is gone. Only the process with the lock
// removes a folder, so until then the name stays with this folder.
//
// ErrHeld and ErrNoLocks are as in Flock. A driver that allows two such processes at once goes
// on without a lock where there are none; the others refuse such a file system.
func Hold(dir string) (lock *os.File, err error) {
	f, err := os.OpenFile(RequestFile(dir), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = Flock(f, unix.LOCK_EX); err == nil {
		err = isStill(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isStill returns fs.ErrNotExist when the name of an open file does not lead to it any more.
func isStill(f *os.File) error {
	was, err := f.Stat()
	if err != nil {
		return err
	}
	is, err := os.Stat(f.Name())
	if err == nil && !os.SameFile(was, is) {
		return fs.ErrNotExist
	}
	return err
}

// IsHeld says whether a process has locked a placement. It tries a shared lock, so that two
// checks at once do not disturb each other.
func IsHeld(dir string) bool {
	f, err := os.Open(RequestFile(dir))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(Flock(f, unix.LOCK_SH), ErrHeld)
}

// holdPause is how long a process that waits for a lock pauses.
const holdPause = 20 * time.Millisecond

// Patiently calls hold again until no other process has the lock that it needs. ctx ends that.
func Patiently(ctx context.Context, hold func() (*os.File, error)) (lock *os.File, err error) {
	for {
		lock, err := hold()
		if !errors.Is(err, ErrHeld) {
			return lock, err
		}
		if err := Pause(ctx, holdPause); err != nil {
			return nil, err
		}
	}
}

// Pause waits for d. The error is the cause of ctx, when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over.C:
		return nil
	}
}

// Claim makes a placement, or finds it, and locks it with hold. While another process has the
// lock it waits, as Patiently does; that process may fail, and remove its folder.
func Claim(ctx context.Context, dir string, hold func(dir string) (*os.File, error), publish func() error) (lock *os.File, err error) {
	for ctx.Err() == nil {
		if err := publish(); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		lock, err := Patiently(ctx, func() (*os.File, error) { return hold(dir) })
		if !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
	}
	return nil, context.Cause(ctx)
}

// Sweep removes a placement with takeAway, if it is to be removed, none of its agents lives
// according to alive, and hold can lock it. gone says that the placement does not exist any
// more, whatever process removed it. Sweep leaves a placement of the same name that was made
// meanwhile, as alive was not about that one.
func Sweep(dir string, hold func(dir string) (*os.File, error), alive func() (bool, error), takeAway func() error) (gone bool, err error) {
	if !Exists(RemoveFile(dir)) {
		return false, nil
	}
	defer func() {
		if err != nil && !Exists(dir) {
			gone, err = true, nil
		}
	}()
	was, err := os.Open(RequestFile(dir))
	if err != nil {
		return false, err
	}
	defer was.Close()
	if lives, err := alive(); lives || err != nil {
		return false, err
	}
	lock, err := hold(dir)
	if errors.Is(err, ErrHeld) || errors.Is(err, fs.ErrNotExist) {
		return !Exists(dir), nil // another process starts it or removes it
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	if isStill(was) != nil {
		return false, nil
	}
	err = takeAway()
	return err == nil, err
}
