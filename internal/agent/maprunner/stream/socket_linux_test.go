package stream

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// connectAs connects to a socket as another user. To the kernel the user of a connection
// is that of the thread that makes it.
func connectAs(path string, uid int) (fd int, err error) {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		failed <- func() error {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				return errno
			}
			if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		}()
	}()
	err = <-failed
	return fd, err
}

// Even where the folder and the socket let another user in, such as after a chmod by the
// program, it is given nothing.
func TestOnlyThisUsersProcessesAreGivenItems(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as another user")
	}
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // both are this test's
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := newSlot(&Runner{c: Config{Dir: dir}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.closeSocket()
	if err := os.Chmod(s.path, 0o777); err != nil {
		t.Fatal(err)
	}
	fd, err := connectAs(s.path, 54321)
	if err != nil {
		t.Fatal(err)
	}
	foreign := os.NewFile(uintptr(fd), "foreign")
	defer foreign.Close()
	own, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if _, err := own.Write([]byte("own")); err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Write([]byte("foe")); err != nil {
		t.Fatal(err)
	}
	conn, err := s.acceptOwn()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	said := make([]byte, 3)
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != "own" {
		t.Fatalf("the first connection that counts says %q, %v", said, err)
	}
	if n, err := foreign.Read(said); n != 0 || err == nil {
		t.Errorf("another user's connection is open: %d bytes, %v", n, err)
	}
}
