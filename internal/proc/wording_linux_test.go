package proc

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

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
