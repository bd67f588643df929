// Package proc starts process trees that die whole.
//
// Whatever a started command ever forks is gone when Wait returns: daemons,
// sessions of their own, programs that ignore SIGTERM, fork bombs. It is also
// gone soon after the process that started it, the agent, dies by kill -9.
//
// Between the agent and the program stands a supervisor (minder in the code): this same
// binary, run again, which becomes the parent of everything the program leaves behind.
//
//	agent ==socket== minder -- program -- whatever it forks
//
// The socket carries orders down and reports up, and its end is how each side
// learns of the other's death. The containment of a tree (pen in the code) is one of:
//
//   - namespace (Linux, root, or a plain user's program with a view): the supervisor
//     is process 1 of a PID namespace, so the kernel itself kills the tree with
//     it, however it dies.
//   - subreaper (Linux, a plain user, or where the kernel refuses a PID namespace):
//     the minder is the subreaper, so orphans become its children; it stops
//     them one by one, looks again until none is new, then kills them.
//   - subreaper (macOS): best effort, as nothing there inherits orphans. The tree is
//     the descendants, the program's session and group, and whatever carries
//     the tree's mark in its environment.
//
// Every process of a tree carries DROVER_TREE in its environment, and Sweep
// kills by that mark when agent and supervisor are both gone. What still escapes a
// subreaper: a process that left its session and cleared its environment, of a tree
// with a program that killed its own supervisor with -9; and, reported in Exit.Left, a
// setuid program that we are not permitted to kill. What other services start
// at the program's request (systemd, cron, docker) was never in the tree.
//
// Either containment can also be a mount namespace, where the supervisor makes a View
// before the program starts: as root directly, as a plain user inside a user namespace
// that maps the user to the same user. The supervisor's rights to do so, CAP_SYS_ADMIN
// in that namespace, and for an Overlay CAP_DAC_OVERRIDE, do not reach the program. Where
// the kernel refuses the PID namespace or its /proc (in many containers it does), the
// view comes with a
// subreaper and the old /proc; where it refuses the rest, Start fails with ErrNoView, and
// where it refuses only an Overlay, with ErrNoOverlay.
//
// Limits are one more containment around these. Where there may be one, the program
// starts in a cgroup of its own, drover-<token>, with the supervisor outside; also what
// escaped a tree by subreaper is found there. The agent removes the cgroup at the end; a supervisor
// that outlived its agent does; and Sweep and SweepGroups do after both. Elsewhere the
// agent watches the tree.
//
// A Spawner is for very many small commands: one supervisor for all of them, which
// costs each some dozen microseconds, where Start costs milliseconds.
//
// It refuses to know what is run, and why. Its promises are proved by
// proc_test.go, death_linux_test.go, view_linux_test.go, overlay_linux_test.go, limits_linux_test.go,
// groups_linux_test.go and, for spawners, spawner_test.go and
// spawner_linux_test.go, with real processes; those of cgroup v2, which a machine
// has or has not, by a fake one in cgroup_linux_test.go.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/internal/proc/wire"
)

// Command says what to run. It runs in a session and process group of its own,
// with default signals and no open files beyond 0, 1 and 2.
type Command struct {
	Path string   // the program; a name without a slash is looked up in Env's PATH
	Args []string // Args[0] is the program's own name; empty: Path alone
	Dir  string   // the working folder; "": the caller's. A Path with a slash is relative to it
	Env  []string // KEY=value, the last of a key wins; nil: the caller's. The mark is added

	Stdin, Stdout, Stderr *os.File // nil: /dev/null. They stay the caller's to close

	// Token marks the tree: 1 to 64 of A-Z a-z 0-9 _ -. "" makes a random one.
	// Trees that share a token are swept together.
	Token string

	View *mount.View // nil: the machine as it is. Path and Dir are as the program sees them

	Limits resource.Limits // of the whole tree

	subreaper bool // tests: use the subreaper where a namespace could be had
}

// Process is a started tree. Its methods may be called from many goroutines.
type Process struct {
	token string
	name  string
	pid   int
	done  chan struct{} // closed when the tree is gone and exit is final
	exit  Exit

	mu         sync.Mutex // guards the writing side of wire
	wire       *wire.Conn
	supervisor *os.Process

	limiter *resource.Limiter // its limits; nil: none
	meter   *resource.Meter
}

// Start runs c and returns once the program itself is running. It fails before
// anything of the user's has run: a program or folder that is missing or cannot
// be executed is a fault of kind Invalid; its Code is a shell's 127 or 126; no
// room for another process is Full. ctx bounds the start alone: a started tree
// ends by itself, by Stop, by Kill or with the calling process.
func Start(ctx context.Context, c Command) (*Process, error) {
	if !mainCalled.Load() {
		// Without Main, the copy of this program that should become the minder
		// would do this program's work again, and start a copy in its turn.
		return nil, fault.New(fault.Bug, "Call proc.Main first in main, or in TestMain.", "start %s: proc.Main was not called", c.Path)
	}
	o, err := c.buildOrder()
	if err != nil {
		return nil, err
	}
	if c.View != nil && !mount.Supported {
		return nil, mount.RefuseView("this system does not have it")
	}
	h := c.Limits.NewLimiter(o.Token)
	o.Bounds = h.Bounds()
	p, err := c.startFirstWay(ctx, o, h)
	if err != nil {
		h.RemoveGroups()
	}
	return p, err
}

// startFirstWay starts the tree in the first way that the kernel does not refuse.
func (c Command) startFirstWay(ctx context.Context, o wire.Order, h *resource.Limiter) (p *Process, err error) {
	err = c.tryEachWay(o, c.Path, func(o wire.Order) (err error) {
		p, err = begin(ctx, c, o, h)
		return err
	})
	return p, err
}

// tryEachWay calls begin, for the program of that name, in one way after the other
// until the kernel does not refuse.
func (c Command) tryEachWay(o wire.Order, name string, begin func(wire.Order) error) (err error) {
	var refuser *atomic.Bool
	for _, w := range c.waysToStart(o) {
		err = begin(w.Order)
		if !errors.Is(err, errRefused) {
			if err == nil && refuser != nil {
				refuser.Store(false) // the other way works, so it was not the view
			}
			return err
		}
		refuser = w.tried
	}
	if c.View == nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return mount.RefuseView(strings.TrimPrefix(err.Error(), errRefused.Error()+": "))
}

// Pid is the program's process id as the caller sees it.
func (p *Process) Pid() int { return p.pid }

// Token is the tree's mark, for Sweep.
func (p *Process) Token() string { return p.token }

// Usage measures the tree. It reads a few files per process of the machine: for
// every few seconds, not for more. After the end it is os.ErrProcessDone; where
// the system does not tell, errors.ErrUnsupported.
func (p *Process) Usage() (resource.Usage, error) {
	select {
	case <-p.done:
		return resource.Usage{}, os.ErrProcessDone
	default:
	}
	u, err := p.meter.ReadUsage()
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("measure %s: %w", p.name, err)
	}
	return u, err
}

// Limits says what holds the tree's limits.
func (p *Process) Limits() resource.Support { return p.limiter.Support() }

// Done is closed when the whole tree is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until the whole tree is gone: until the program has exited and
// what it left behind has been killed. It may be called many times.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Signal sends sig to the program's process group. After the program's end it
// is os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %s: not a signal of this system: %v", p.name, sig)
	}
	return p.sendWord(wire.Request{Do: wire.DoSignal, Signal: int(s)})
}

// Interrupt sends sig to the program's process group, as a terminal does to what runs in
// its foreground, and wakes what was stopped there. Nothing follows: Stop ends a tree
// that does not end by that. What the program makes of it is Stopped in Exit.
func (p *Process) Interrupt(sig syscall.Signal) {
	_ = p.sendWord(wire.Request{Do: wire.DoInterrupt, Signal: int(sig)}) // not told: it is gone already
	p.continueSupervisor()
}

// Stop sends SIGTERM to every process of the tree and kills the tree once the
// program has exited or grace is over. It returns at once; Wait tells the end.
// Called again it can shorten the grace, never lengthen it. Stopping a tree
// that is gone does nothing.
func (p *Process) Stop(grace time.Duration) {
	_ = p.sendWord(wire.Request{Do: wire.DoStop, Grace: grace}) // not told: it is gone already
	p.continueSupervisor()
}

// Kill kills the tree. It returns at once; Wait tells the end.
func (p *Process) Kill() {
	_ = p.sendWord(wire.Request{Do: wire.DoKill}) // not told: it is gone already
	p.continueSupervisor()
}

func (p *Process) sendWord(w wire.Request) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.wire.Send(w); err != nil {
		return os.ErrProcessDone
	}
	return nil
}

// continueSupervisor continues a minder that its own tree has stopped: a tree by subreaper is of the same
// user, so it can. Nothing is lost when there is nothing to wake.
func (p *Process) continueSupervisor() { _ = p.supervisor.Signal(syscall.SIGCONT) }

// Exit says how a tree ended.
type Exit struct {
	Code   int            // the program's exit code; -1 when a signal ended it, or when Lost
	Signal syscall.Signal // the signal that ended it, or 0
	Core   bool           // it left a core file

	// Stopped is true when Interrupt, Stop or Kill reached the tree before the program
	// had ended: how it did says nothing of it.
	Stopped bool

	// TimedOut is true when a Spawner ended the command, as its Timeout was over.
	TimedOut bool

	// Lost is true when the minder vanished before the program's end was known:
	// a process killed it, or the kernel did for want of memory.
	Lost bool
	// OOM is true when the tree was ended because it wanted more memory than
	// Limits has for it, by the kernel or by us.
	OOM bool
	// Crowd is true when it was ended because it had more processes than Limits
	// allows, where that is watched: the kernel refuses the next one instead.
	Crowd bool
	// Left counts processes that we were not permitted to kill, such as setuid
	// programs: the one exception to "gone when Wait returns".
	Left int

	// User and System are processor time over the whole tree, except processes
	// that were not waited for. MaxRSS is the largest single process, in bytes,
	// and never less than the minder's own few MB (the kernel counts the fork).
	// All three are 0 when Lost.
	User, System time.Duration
	MaxRSS       int64
	// PeakMemory is the most that the whole tree used at once, in bytes. Where
	// the kernel limits it, it is the kernel's own figure, file cache included;
	// else the most that Usage or the watching of a limit has seen; 0: unknown.
	PeakMemory int64
	// Throttled is how long the tree stood still because it had used up its time;
	// 0 where the kernel does not hold CPUs.
	Throttled time.Duration
}

// Status is what a shell would say: the code, or 128 + the signal. A tree that
// wanted more than its limits was killed, 137, whatever its program made of that.
// A lost tree is drover's own failure, 125.
func (e Exit) Status() int {
	switch {
	case e.OOM || e.Crowd:
		return 128 + int(syscall.SIGKILL)
	case e.Lost:
		return fault.ExitDrover
	case e.Signal != 0:
		return 128 + int(e.Signal)
	}
	return e.Code
}
