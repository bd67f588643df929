package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/reason"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/internal/proc/supervisor"
	"github.com/drover-run/drover/internal/proc/wire"
)

// namespaces is false once the kernel has refused a PID namespace, and
// userNamespaces once it has refused one to a plain user's view: asking again
// for every tree would cost a fork each.
var namespaces, userNamespaces atomic.Bool

// way is one manner of starting a tree: an order, and what remembers that the
// kernel refuses it.
type way struct {
	wire.Order
	tried *atomic.Bool
}

// waysToStart is what Start tries in turn. A plain user gets no namespace unless a view
// needs one: the user's environment must look the same.
func (c Command) waysToStart(o wire.Order) []way {
	tried := &namespaces
	if o.User = c.View != nil && !canNamespace(); o.User {
		tried = &userNamespaces
	}
	subreaper := way{Order: o}
	if c.subreaper || !tried.Load() {
		return []way{subreaper}
	}
	o.Namespace = true
	return []way{{o, tried}, subreaper}
}

// begin starts a minder, gives it the order and waits for its first report.
func begin(ctx context.Context, c Command, o wire.Order, h *resource.Limiter) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, context.Cause(ctx))
	}
	ours, theirs, err := wire.NewPair(o.Namespace)
	if err != nil {
		return nil, fmt.Errorf("start %s: connect its supervisor: %w", c.Path, err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	files := []*os.File{c.Stdin, c.Stdout, c.Stderr, theirs}
	for i, f := range files {
		if f == nil {
			files[i] = null
		}
	}
	p := &Process{token: o.Token, name: c.Path, wire: wire.NewConn(ours), done: make(chan struct{}), limiter: h}
	started := make(chan error, 1)
	go func() { // ends with the tree; Wait, and every failing path below, waits for it
		defer close(p.done)
		err := p.launchSupervisor(o, files)
		theirs.Close()
		null.Close()
		if err == nil {
			p.meter = resource.NewMeter(p.supervisor.Pid, h)
			err = p.sendOrder(o, ours)
		}
		started <- err
		p.readReports(err == nil)
	}()
	select {
	case err = <-started:
	case <-ctx.Done():
		ours.Close() // the minder sees its agent gone, and ends
		err = fmt.Errorf("start %s: %w", c.Path, context.Cause(ctx))
	}
	if err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// launchSupervisor makes the minder. The thread that does is kept for it until the
// minder's end, since the parent-death signal follows the thread.
func (p *Process) launchSupervisor(o wire.Order, files []*os.File) error {
	runtime.LockOSThread()
	self, err := myself()
	if err != nil {
		return fmt.Errorf("start %s: find this program: %w", p.name, err)
	}
	p.supervisor, err = os.StartProcess(self, []string{supervisor.Name}, &os.ProcAttr{
		// One processor is plenty, and starts faster on a large machine. The
		// mark lets Sweep find a minder, and so all that hangs from it.
		Env:   []string{"GOMAXPROCS=1", process.Mark + "=" + o.Mark},
		Files: files,
		Sys:   supervisorAttr(o),
	})
	switch {
	case err == nil:
		return nil
	case (o.Namespace || o.Layout != nil) && refusal(err):
		why := reason.Of(err)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) {
			why = "the limit on their number is reached"
		}
		return refused("make its namespaces: " + why)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return noRoom(p.name, err)
	}
	return fmt.Errorf("start %s: start its supervisor: %w", p.name, err)
}

// refusal says whether an error of clone means that there are no namespaces for
// us: not permitted, not built in, or nested or numbered too high.
func refusal(err error) bool {
	for _, e := range []error{syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS, syscall.ENOSPC, syscall.EUSERS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sendOrder hands over the order and reads whether the program started.
func (p *Process) sendOrder(o wire.Order, conn *wire.AgentEnd) error {
	var r wire.Report
	err := p.wire.Send(o)
	if err == nil {
		err = p.wire.Receive(&r)
	}
	switch {
	case err != nil:
		return fault.Wrap(err, fault.Lost, "", "start %s: its supervisor ended", p.name)
	case r.Overlay:
		return mount.RefuseOverlay(r.Refused)
	case r.Refused != "":
		return refused(r.Refused)
	case r.Step != "":
		return explain(o, r.Step, syscall.Errno(r.Errno))
	}
	p.limiter.NoteRefused(r.Missed)
	p.pid = r.Started
	if o.Namespace {
		p.pid = conn.Speaker // the same process, by the number it has out here
	}
	return nil
}

// readReports reads reports until the minder is gone, and settles the exit.
func (p *Process) readReports(running bool) {
	defer runtime.UnlockOSThread()
	p.exit = Exit{Code: -1, Lost: true}
	gone := false
	ended := make(chan struct{})
	var watch sync.WaitGroup
	if running && p.limiter.NeedsWatching() {
		watch.Go(func() { p.meter.Enforce(ended, p.Kill) }) // ends with the tree; waited for below
	}
	for {
		var r wire.Report
		if p.wire.Receive(&r) != nil {
			break
		}
		if r.Exited {
			p.exit.setWaitStatus(syscall.WaitStatus(r.Status))
			p.exit.Stopped = r.Stopped
		}
		if r.Gone != nil {
			gone = true
			p.exit.User, p.exit.System = r.Gone.User, r.Gone.System
			p.exit.MaxRSS, p.exit.Left = r.Gone.MaxRSS, r.Gone.Left
		}
	}
	p.wire.Close()
	if p.supervisor != nil {
		_, _ = p.supervisor.Wait() // its own end says nothing that its reports did not
	}
	if running && !gone {
		// Another process killed the minder. A namespace went with it; a tree by subreaper may
		// still have strays, found by mark and by the program's session.
		_, p.exit.Left, _ = sweep(p.token, p.pid, p.limiter.GroupFolders())
	}
	close(ended)
	watch.Wait()
	if running {
		t := p.meter.Close()
		p.exit.PeakMemory, p.exit.OOM, p.exit.Crowd, p.exit.Throttled = t.PeakMemory, t.OOM, t.Crowd, t.Throttled
	}
}

func (e *Exit) setWaitStatus(ws syscall.WaitStatus) {
	e.Lost = false
	e.Core = ws.CoreDump()
	if ws.Signaled() {
		e.Code, e.Signal = -1, ws.Signal()
		return
	}
	e.Code = ws.ExitStatus()
}

// environ is the program's environment: the last of each key, and the mark. A
// tree inside a tree carries both tokens, so that it dies with the outer one.
func environ(env []string, mark string) [][]byte {
	last := make(map[string]int, len(env))
	for i, kv := range env {
		k, _, _ := strings.Cut(kv, "=")
		last[k] = i
	}
	out := make([][]byte, 0, len(env)+1)
	for i, kv := range env {
		k, _, _ := strings.Cut(kv, "=")
		if k != process.Mark && last[k] == i {
			out = append(out, []byte(kv))
		}
	}
	return append(out, []byte(process.Mark+"="+mark))
}

// errRefused: the kernel does not give us a namespace, so do with less.
var errRefused = errors.New("namespace refused")

// refused is errRefused with the reason.
func refused(why string) error { return fmt.Errorf("%w: %s", errRefused, why) }
