package supervisor

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/wire"
)

// RSSUnit is the unit of ru_maxrss: bytes.
const RSSUnit = 1

func newContainment(o wire.Order) Containment {
	return &markedTree{supervisor: os.Getpid(), token: o.Token}
}

// markedTree is what can be recognised as the tree: nothing here inherits orphans.
type markedTree struct {
	supervisor int
	token      string
	session    int // the program's; its number is not given again while one member lives
}

var _ Containment = (*markedTree)(nil)

func (*markedTree) enclose() error { return nil }

func (h *markedTree) start(o wire.Order) (pid int, step string, err error) {
	pid, step, err = startProgram(o, &syscall.SysProcAttr{Setsid: true})
	h.session = pid
	return pid, step, err
}

func (h *markedTree) listTree() ([]process.Entry, error) {
	all, err := process.List()
	return process.Descendants(all, func(p process.Entry) bool {
		return p.PID != h.supervisor && (p.Parent == h.supervisor || p.Session == h.session || process.Carries(p.PID, h.token))
	}), err
}

func (h *markedTree) signalAll(sig syscall.Signal) {
	tree, _ := h.listTree()
	for _, p := range tree {
		_ = syscall.Kill(p.PID, sig)
	}
}

// KillFound kills what is found.
func (h *markedTree) KillFound() (killed, refused int) {
	done, refused, _ := process.StopAndKill(h.listTree) // the next listing may see more
	return len(done), refused
}

func (h *markedTree) empty() bool {
	tree, err := h.listTree()
	return err == nil && len(tree) == 0
}

func nameSelf() {}

func dupOver(from, to int) error { return unix.Dup2(from, to) }

func closeOnExec() {
	fds, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range fds {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// ClearMask: a mask cannot be set without cgo here. The runtime already starts
// children with the mask that this process was started with.
func ClearMask() {}

// RaiseOOM changes nothing: there are no scores here.
func RaiseOOM() (back func()) { return func() {} }
