package input

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The lock of a command that has ended may be held for a moment by a process that was forked
// meanwhile; that of a command that works is not waited for.
func TestALockThatIsGivenBackSoonIsWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "part")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	held, wanted := open(), open()
	if !lockFile(held) {
		t.Fatal("a file that no command has is not locked")
	}
	if lockFile(wanted) {
		t.Fatal("a file is locked twice")
	}
	back := make(chan error, 1)
	time.AfterFunc(20*time.Millisecond, func() { back <- syscall.Flock(int(held.Fd()), syscall.LOCK_UN) })
	defer func() { <-back }()
	if !lockFile(wanted) {
		t.Error("a lock that is given back after 20 ms is not waited for")
	}
}
