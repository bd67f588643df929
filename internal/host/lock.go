package host

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// lock opens a file, made when it is not there, and locks it or fails with
// EWOULDBLOCK. No child process inherits it.
func lock(path string) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := again(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return fd, nil
}

// unlock says so before it closes: a child that is being started this moment has
// a copy of the descriptor until it is another program.
func unlock(fd int) {
	again(func() error { return unix.Flock(fd, unix.LOCK_UN) })
	unix.Close(fd)
}

// again repeats what a signal has interrupted.
func again(do func() error) error {
	for {
		if err := do(); err != syscall.EINTR {
			return err
		}
	}
}

// locked says whether the file at path is locked by a living process. The lock that
// it tries is a shared one: two that try at once do not take each other for a
// holder. A file that is gone, or is none that could be locked, is not held.
func locked(path string) (bool, error) {
	var fd int
	err := again(func() (err error) {
		// Without O_NONBLOCK a fifo in the place of the file would be waited for.
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP):
		return false, nil
	case err != nil:
		return false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	err = again(func() error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	// Said before it is closed, as in unlock.
	again(func() error { return unix.Flock(fd, unix.LOCK_UN) })
	return false, nil
}
