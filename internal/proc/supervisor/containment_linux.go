package supervisor

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

// RSSUnit is the unit of ru_maxrss: KiB.
const RSSUnit = 1 << 10

func newContainment(o wire.Order) Containment {
	if o.Namespace {
		return namespace{o.Layout}
	}
	return subreaper{supervisor: os.Getpid(), layout: o.Layout}
}

// namespace is a PID namespace, with the supervisor as its process 1.
type namespace struct{ layout *mount.Layout }

var _ Containment = namespace{}

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

// KillFound needs no search: the kernel signals all of a namespace in one step.
func (s namespace) KillFound() (killed, refused int) {
	s.signalAll(syscall.SIGKILL)
	return 1, 0
}

// empty: what entered from outside and is not our child dies with us.
func (namespace) empty() bool { return true }

// subreaper is the tree of a subreaper: every orphan becomes the supervisor's child, so
// a supervisor without children has no descendants.
type subreaper struct {
	supervisor int
	layout     *mount.Layout
}

var _ Containment = subreaper{}

func (h subreaper) enclose() error {
	if h.layout != nil {
		if err := mount.Apply(h.layout, false); err != nil {
			return err
		}
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// start lets the program itself not survive a supervisor that it killed.
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

// KillFound stops and kills what hangs from the supervisor.
func (h subreaper) KillFound() (killed, refused int) {
	done, refused, _ := process.StopAndKill(h.listTree) // the next listing may see more
	return len(done), refused
}

func (subreaper) empty() bool { return true }

// nameSelf is for top and ps -o comm, which would say "exe".
func nameSelf() { _ = os.WriteFile("/proc/self/comm", []byte(Name), 0) }

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

// ClearMask empties this thread's signal mask, which a fork hands on.
func ClearMask() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil) }

// OOMStep is how much sooner than the agent the program dies when memory runs
// out, in thousandths of all memory: more than the agent's own 100 MB are of a
// machine of 0.5 GB.
const OOMStep = 200

// RaiseOOM raises our own score for the program to inherit, and gives the way
// back. Where it is refused everything stays as it is.
func RaiseOOM() (back func()) {
	const path = "/proc/self/oom_score_adj"
	was, err := os.ReadFile(path)
	if err != nil {
		return func() {}
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(was)))
	if err != nil || os.WriteFile(path, []byte(strconv.Itoa(min(n+OOMStep, 1000))), 0) != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(path, was, 0) }
}
