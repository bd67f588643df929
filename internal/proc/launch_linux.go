package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/wire"
)

func canNamespace() bool { return os.Geteuid() == 0 }

// myself works even when the file has been replaced or removed since.
func myself() (string, error) { return "/proc/self/exe", nil }

// supervisorAttr starts a supervisor in a session of its own, where a terminal's
// Ctrl-C does not reach it. Should the agent die, a namespace may be killed
// outright. A tree by subreaper must live to do its work: it is only woken, in case its own
// tree has stopped it, and learns the news from the end of the socket.
func supervisorAttr(o wire.Order) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGCONT}
	if o.Namespace {
		attr.Pdeathsig = syscall.SIGKILL
		attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	if o.Layout == nil {
		return attr
	}
	attr.Cloneflags |= syscall.CLONE_NEWNS
	if o.Layout.Hostname != "" {
		attr.Cloneflags |= syscall.CLONE_NEWUTS
	}
	if o.User {
		// A plain user may map only its own id. What it has in the new namespace
		// an exec takes away, but for what is ambient.
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		if o.Layout.HasOverlays() {
			// The kernel makes a folder without any rights in the working folder of an overlay,
			// and looks into it with the rights of the process that mounts. No other user's files
			// are in this namespace, so it is a right over the user's own.
			attr.AmbientCaps = append(attr.AmbientCaps, unix.CAP_DAC_OVERRIDE)
		}
	}
	return attr
}
