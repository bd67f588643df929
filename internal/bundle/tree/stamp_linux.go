package tree

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quiet is more than the longest tick by which Linux tells times of files
// apart (10 ms at HZ=100).
const quiet = 20 * time.Millisecond

func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

// beingWritten asks the kernel for a read lease, which it refuses while any
// process holds the file open, or mapped, for writing; the lease is given back
// at once. Any other refusal (not our file, a file system without leases) says
// nothing. In between, a process that opens the file for writing waits for
// microseconds, and one that will not wait (O_NONBLOCK) is told to try again.
func beingWritten(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return errors.Is(err, unix.EAGAIN)
}
