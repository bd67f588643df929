package proc

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/wire"
)

const rssUnit = 1 // ru_maxrss is in bytes

func canNamespace() bool { return false }

func myself() (string, error) { return os.Executable() }

func minderAttr(wire.Order) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func newPen(o wire.Order) pen { return &herd{minder: os.Getpid(), token: o.Token} }

// herd is what can be recognised as the tree: nothing here inherits orphans.
type herd struct {
	minder  int
	token   string
	session int // the program's; its number is not given again while one member lives
}

var _ pen = (*herd)(nil)

func (*herd) close() error { return nil }

func (h *herd) start(o wire.Order) (pid int, step string, err error) {
	pid, step, err = run(o, &syscall.SysProcAttr{Setsid: true})
	h.session = pid
	return pid, step, err
}

func (h *herd) find() ([]process.Entry, error) {
	all, err := process.List()
	return process.Descendants(all, func(p process.Entry) bool {
		return p.PID != h.minder && (p.Parent == h.minder || p.Session == h.session || process.Carries(p.PID, h.token))
	}), err
}

func (h *herd) signal(sig syscall.Signal) {
	tree, _ := h.find()
	for _, p := range tree {
		_ = syscall.Kill(p.PID, sig)
	}
}

func (h *herd) cull() (killed, refused int) {
	done, refused, _ := process.StopAndKill(h.find) // the next look may see more
	return len(done), refused
}

func (h *herd) empty() bool {
	tree, err := h.find()
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

// clearMask: a mask cannot be set without cgo here. The runtime already starts
// children with the mask that this process was started with.
func clearMask() {}

func raiseOOM() (back func()) { return func() {} }
