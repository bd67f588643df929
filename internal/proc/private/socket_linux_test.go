package private

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

func TestASocketOfAnotherUserIsNotReached(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can listen as another user")
	}
	path := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	listening := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its other user
		if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); no != 0 {
			listening <- no
			return
		}
		listening <- unix.Listen(fd, 1) // the kernel keeps the user of this moment
	}()
	if err := <-listening; err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(t.Context(), path)
	if err == nil {
		conn.Close()
	}
	reads(t, err, fault.Denied, fmt.Sprintf("reach %s: it is served by user 65534, not by 0", path), "")
}
