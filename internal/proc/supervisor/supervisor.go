// Package supervisor is the process between an agent and a program: it starts the program,
// becomes the parent of everything that the program leaves behind, and ends it all.
//
// What keeps the tree together is its Containment: a PID namespace or a subreaper on Linux,
// descendants and marks on macOS. It refuses to know what is run, and why. It is proved by
// proc_test.go and death_linux_test.go of package proc, with programs that fork and hide.
package supervisor

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/wire"
)

// Name is how a supervisor knows itself, and what ps shows.
const Name = "drover-supervisor"

// Containment keeps a tree together. It belongs to the supervisor's only goroutine.
type Containment interface {
	// enclose is called once, before the program starts: from then on nothing
	// gets out. An error means that this containment cannot be had here.
	enclose() error
	// start runs the program inside; step says which part failed.
	start(o wire.Order) (pid int, step string, err error)
	// signalAll sends sig to every process of the tree.
	signalAll(sig syscall.Signal)
	// KillFound kills what it can find and says how many that were, and how many it
	// was not permitted to kill. It is repeated until empty.
	KillFound() (killed, refused int)
	// empty says, for a supervisor without children, that the tree is gone.
	empty() bool
}

// supervisor is the small loop between an agent and a program.
type supervisor struct {
	wire        *wire.Conn
	containment Containment
	program     int  // 0 once it has exited
	stopped     bool // it was told to end while the program ran
	dying       bool // the tree is to be killed
	orphan      bool // the agent is gone
	left        int  // processes given up on
}

// Started says whether this process was started as a supervisor.
func Started() bool {
	return len(os.Args) == 1 && os.Args[0] == Name && wire.IsSocket(wire.FD)
}

// Run is the life of a supervisor. spawn runs instead of a program where the order is
// for a spawner, once what keeps the tree is closed.
func Run(agent *os.File, spawn func(agent *os.File, conn *wire.Conn, c Containment, o wire.Order)) {
	closeOnExec()
	nameSelf()
	// Deaf: a supervisor must outlive a SIGTERM from its own tree. And a caught
	// signal, unlike one that our parent ignored, is the default for a child.
	// These are the ones that Go would die of or leave ignored; catching all
	// sixty cost half of the start, as each is agreed between two threads.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT)
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)

	m := &supervisor{wire: wire.NewConn(agent)}
	var o wire.Order
	if m.wire.Receive(&o) != nil {
		return // the agent died before it said what to do
	}
	o.Bounds.OpenGroups()
	m.containment = newContainment(o)
	if err := m.containment.enclose(); err != nil {
		var overlay mount.OverlayError
		_ = m.wire.Send(wire.Report{Refused: err.Error(), Overlay: errors.As(err, &overlay)})
		return
	}
	if o.Spawner != nil {
		spawn(agent, m.wire, m.containment, o)
		return
	}
	pid, step, err := m.containment.start(o)
	if err != nil {
		errno, ok := err.(syscall.Errno)
		if !ok {
			errno = syscall.EINVAL
		}
		_ = m.wire.Send(wire.Report{Step: step, Errno: int(errno)})
		return
	}
	m.program = pid
	releaseFiles()
	_ = wire.SendStarted(agent, wire.Report{Started: pid, Missed: o.Bounds.MissedLimits()}) // an agent that is gone shows as the end of requests
	words := make(chan wire.Request)
	go func() { // ends with the agent, which runUntilEmpty waits for; or with this process
		defer close(words)
		for {
			var w wire.Request
			if m.wire.Receive(&w) != nil {
				return
			}
			words <- w
		}
	}()
	m.runUntilEmpty(words, deaths)
	if m.orphan {
		o.Bounds.RemoveGroups()
	}
	m.sendTally()
}

// startProgram starts the program, as its own session, within its limits, with a higher
// OOM score than ours.
func startProgram(o wire.Order, attr *syscall.SysProcAttr) (pid int, step string, err error) {
	if len(o.Dir) > 0 {
		if err := syscall.Chdir(string(o.Dir)); err != nil {
			return 0, wire.StepFolder, err
		}
	}
	// The thread's empty mask becomes the program's. The program of a subreaper also gets
	// a signal when this thread ends; but Go ends only threads with a goroutine that
	// ended locked to them, which is nowhere in a supervisor. Staying locked for
	// good made every wake-up two switches and the start a quarter slower.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ClearMask()
	if o.User {
		if err := mount.DropMountRights(); err != nil {
			return 0, wire.StepExec, err
		}
	}
	back := RaiseOOM()
	defer back()
	pid, err = o.Bounds.StartLimited(attr, func(attr *syscall.SysProcAttr) (int, error) {
		// A program written a moment ago may still be open for writing in some
		// other thread's forked child, until that child's exec: wait for it.
		for try := 0; ; try++ {
			pid, err := syscall.ForkExec(string(o.Path), texts(o.Args), &syscall.ProcAttr{
				Env: texts(o.Env), Files: []uintptr{0, 1, 2}, Sys: attr,
			})
			if err != syscall.ETXTBSY || try == 20 {
				return pid, err
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return pid, wire.StepExec, err
}

func texts(bs [][]byte) []string {
	out := make([]string, len(bs))
	for i, b := range bs {
		out[i] = string(b)
	}
	return out
}

// runUntilEmpty returns when nothing of the tree is left that could be killed.
func (m *supervisor) runUntilEmpty(words <-chan wire.Request, deaths <-chan os.Signal) {
	var deadline, again <-chan time.Time
	var until time.Time
	pause, refusals := process.FirstPause, 0
	for {
		select {
		case <-deaths:
		case <-again:
			again = nil
		case <-deadline:
			m.dying = true
		case w, ok := <-words:
			if !ok {
				words, m.orphan, m.dying = nil, true, true
				break
			}
			if d, stop := m.executeWord(w); stop && (until.IsZero() || d.Before(until)) {
				until, deadline = d, time.After(time.Until(d))
			}
		}
		if m.reapChildren() && m.containment.empty() {
			return
		}
		if !m.dying || again != nil {
			continue
		}
		killed, refused := m.containment.KillFound()
		if killed == 0 && refused > 0 {
			// Twice, as it may just be exiting. Only processes that another
			// user owns by now are left: waiting longer cannot help.
			if refusals++; refusals == 2 {
				m.left = refused
				return
			}
		}
		again = time.After(pause)
		pause = min(2*pause, process.LastPause)
	}
}

// executeWord does what a request asks for. A stop gives the time when grace is over.
func (m *supervisor) executeWord(w wire.Request) (deadline time.Time, stop bool) {
	if w.Do != wire.DoSignal {
		m.reapChildren() // it may have ended before
		m.stopped = m.stopped || m.program != 0
	}
	switch w.Do {
	case wire.DoKill:
		m.dying = true
	case wire.DoSignal:
		if m.program != 0 {
			_ = syscall.Kill(-m.program, syscall.Signal(w.Signal)) // it may have just exited
		}
	case wire.DoInterrupt:
		if m.program != 0 {
			_ = syscall.Kill(-m.program, syscall.Signal(w.Signal))
			_ = syscall.Kill(-m.program, syscall.SIGCONT) // a stopped process cannot hear the other
		}
	case wire.DoStop:
		m.containment.signalAll(syscall.SIGTERM)
		m.containment.signalAll(syscall.SIGCONT) // a stopped process cannot hear the other
		return time.Now().Add(w.Grace), true
	}
	return time.Time{}, false
}

// reapChildren collects the dead and reports the program's end. It says whether there
// is no child left, dead or alive.
func (m *supervisor) reapChildren() (childless bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == m.program:
			m.program, m.dying = 0, true
			_ = m.wire.Send(wire.Report{Exited: true, Status: int(ws), Stopped: m.stopped})
		}
	}
}

// sendTally sends the tally: what was used by every process that was waited for.
func (m *supervisor) sendTally() {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru) // cannot fail for these arguments
	_ = m.wire.Send(wire.Report{Gone: &wire.Tally{
		User:   time.Duration(ru.Utime.Nano()),
		System: time.Duration(ru.Stime.Nano()),
		MaxRSS: int64(ru.Maxrss) * RSSUnit,
		Left:   m.left,
	}})
}

// releaseFiles exchanges the program's 0, 1 and 2 for /dev/null, so that the other end
// of a pipe sees the program close it.
func releaseFiles() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // then the pipes close with us, a moment later
	}
	defer null.Close()
	for fd := range 3 {
		_ = dupOver(int(null.Fd()), fd)
	}
}
