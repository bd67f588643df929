package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
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
	conn, err := DialSocket(t.Context(), path)
	if err == nil {
		conn.Close()
	}
	reads(t, err, fault.Denied, fmt.Sprintf("reach %s: it is served by user 65534, not by 0", path), "")
}

func TestASweepCountsWhatItMayNotKill(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become a user who may not kill this")
	}
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	swept := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its other user
		if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); no != 0 {
			swept <- no
			return
		}
		_, _, err := sweep("sweep-of-another-user", other.Process.Pid, nil)
		swept <- err
	}()
	reads(t, <-swept, fault.Denied, "sweep tree sweep-of-another-user: 1 process is left that another user owns", "")
}

func TestAStatThatCannotBeReadIsQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"7 sleep S":     `read stat: "7 sleep S": no name`,
		"7 (sleep) S 1": `read stat: "7 (sleep) S 1": too short`,
		"x (sleep) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1": `read stat: strconv.Atoi: parsing "x": invalid syntax`,
	} {
		if _, _, err := parseStat([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
