package proc

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/wire"
)

const rssUnit = 1 << 10 // ru_maxrss is in KiB

func canNamespace() bool { return os.Geteuid() == 0 }

// myself works even when the file has been replaced or removed since.
func myself() (string, error) { return "/proc/self/exe", nil }

// supervisorAttr starts a minder in a session of its own, where a terminal's
// Ctrl-C does not reach it. Should the agent die, a namespace may be killed
// outright. A herd must live to do its work: it is only woken, in case its own
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

func newContainment(o wire.Order) containment {
	if o.Namespace {
		return namespace{o.Layout}
	}
	return subreaper{supervisor: os.Getpid(), layout: o.Layout}
}

// namespace is a PID namespace, with the minder as its process 1.
type namespace struct{ layout *mount.Layout }

var _ containment = namespace{}

func (s namespace) enclose() error {
	if os.Getpid() != 1 {
		return errors.New("not process 1 of a namespace")
	}
	return mount.Apply(s.layout, true)
}

func (namespace) start(o wire.Order) (pid int, step string, err error) {
	return startProgram(o, &syscall.SysProcAttr{Setsid: true})
}

func (namespace) signalAll(sig syscall.Signal) {
	if os.Getpid() == 1 { // anywhere else, -1 would be the whole machine
		_ = syscall.Kill(-1, sig)
	}
}

// killFound needs no search: the kernel signals all of a namespace in one step.
func (s namespace) killFound() (killed, refused int) {
	s.signalAll(syscall.SIGKILL)
	return 1, 0
}

// empty: what entered from outside and is not our child dies with us.
func (namespace) empty() bool { return true }

// subreaper is the tree of a subreaper: every orphan becomes the minder's child, so
// a minder without children has no descendants.
type subreaper struct {
	supervisor int
	layout     *mount.Layout
}

var _ containment = subreaper{}

func (h subreaper) enclose() error {
	if h.layout != nil {
		if err := mount.Apply(h.layout, false); err != nil {
			return err
		}
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// start lets the program itself not survive a minder that it killed.
func (subreaper) start(o wire.Order) (pid int, step string, err error) {
	return startProgram(o, &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL})
}

func (h subreaper) listTree() ([]process.Entry, error) {
	all, err := process.List()
	return process.Descendants(all, func(p process.Entry) bool { return p.Parent == h.supervisor }), err
}

func (h subreaper) signalAll(sig syscall.Signal) {
	tree, _ := h.listTree() // what cannot be seen cannot be asked; cull tries again
	for _, p := range tree {
		_ = syscall.Kill(p.PID, sig)
	}
}

func (h subreaper) killFound() (killed, refused int) {
	done, refused, _ := process.StopAndKill(h.listTree) // the next look may see more
	return len(done), refused
}

func (subreaper) empty() bool { return true }

// nameSelf is for top and ps -o comm, which would say "exe".
func nameSelf() { _ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0) }

func dupOver(from, to int) error { return unix.Dup3(from, to, 0) }

// closeOnExec keeps from the program whatever the agent's own parent leaked.
func closeOnExec() {
	if unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	fds, err := os.ReadDir("/proc/self/fd") // a kernel before 5.11
	if err != nil {
		return
	}
	for _, e := range fds {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// clearMask empties this thread's signal mask, which a fork hands on.
func clearMask() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil) }

// oomStep is how much sooner than the agent the program dies when memory runs
// out, in thousandths of all memory: more than the agent's own 100 MB are of a
// machine of 0.5 GB.
const oomStep = 200

// raiseOOM raises our own score for the program to inherit, and gives the way
// back. Where it is refused everything stays as it is.
func raiseOOM() (back func()) {
	const path = "/proc/self/oom_score_adj"
	was, err := os.ReadFile(path)
	if err != nil {
		return func() {}
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(was)))
	if err != nil || os.WriteFile(path, []byte(strconv.Itoa(min(n+oomStep, 1000))), 0) != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(path, was, 0) }
}
