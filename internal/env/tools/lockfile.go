package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lock takes a lock of that kind (LOCK_EX, LOCK_SH), looking every lockPause
// for as long as again says yes; when it says no, the answer is EWOULDBLOCK.
func Lock(ctx context.Context, f *os.File, kind int, again func() bool) error {
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), kind|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock environment: %s: %w", f.Name(), err)
		case !again():
			return unix.EWOULDBLOCK
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for environment: %s: %w", Holder(f.Name()), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// lockPause is how often a waiter looks: often enough that the wait is not noticed,
// seldom enough that a hundred waiters cost nothing.
const lockPause = 50 * time.Millisecond

// Holder is what the owner of a lock wrote about itself; only for people.
func Holder(path string) string {
	data, _ := os.ReadFile(path)
	if s := strings.TrimSpace(string(data)); s != "" {
		return s
	}
	return "another process"
}
