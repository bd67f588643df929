package proc

import (
	"bytes"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/spawner/frame"
	"github.com/drover-run/drover/internal/proc/supervisor"
	"github.com/drover-run/drover/internal/proc/wire"
)

// spawner is the process that runs commands: one thread, one loop, no goroutine
// for any of them. Its turns are: wait, read the agent's frames and the commands'
// output, see which ones' time is over, settle those that ended, begin others, post what
// there is to report.
type spawner struct {
	wire.SpawnerOrder
	wire        *wire.Conn
	containment supervisor.Containment
	inSubreaper bool
	mark        string // what the value of a command's mark begins with
	env         *surroundings
	envBuf      [][]byte // reused
	fast        *fast    // nil: programs are started as package syscall does
	null        int      // what commands without input read

	agent   int // the socket
	wants   bool
	poll    int // epoll of the agent, the programs' ends and, below, their output
	outputs int // epoll of the pipes, so that all of them can be left alone at once
	paused  bool
	events  []unix.EpollEvent
	in      []byte // from the agent, not understood yet
	out     []byte // to the agent, not sent yet
	unsent  time.Time

	queue   []*frame.Job
	items   []*item       // by slot
	free    []int         // slots
	running map[int]*item // by process id; also those that ended and are not settled
	byID    map[uint64]*item
	ended   []*item // not settled yet

	startDeadline time.Duration // commands may begin until then, by bootTime
	rest          time.Time     // nothing begins before
	closing       bool
	deaf          bool // the agent is gone

	family
	now  time.Time // of this turn
	wake time.Time // when the next is due at the latest
}

const (
	// A pipe is watched only once its program is that old: most end sooner, and
	// what they wrote is read then. It fits the pipe or waits that long.
	young = 2 * time.Millisecond
	// Reports wait that long for company while there is work to do without them.
	postAfter = 2 * time.Millisecond
	postSize  = 64 << 10
	// fullOut is when output is no longer read, until the agent has taken some.
	// It is larger than postSize and than what one program's last output adds.
	fullOut = 256 << 10
	// dueAnyway is how long a turn takes at most while programs run: orphans that
	// died are buried then.
	dueAnyway = 500 * time.Millisecond
	// briefly is how many milliseconds wait waits in its first way. It is less than
	// the 10 after which the runtime would interrupt us.
	briefly = 5
	// textBusy is what Linux gives a program time for that is still being written,
	// or held by a fork elsewhere. 20 times, as for a supervisor.
	textBusy      = 5 * time.Millisecond
	textBusyTries = 20
)

// runSpawner is a supervisor's life as a spawner.
func runSpawner(agent *os.File, conn *wire.Conn, c supervisor.Containment, o wire.Order) {
	// On the main thread, if it may be, since orphans become that thread's children.
	runtime.LockOSThread()
	s := &spawner{
		SpawnerOrder: *o.Spawner, wire: conn, containment: c, inSubreaper: !o.Namespace, agent: int(agent.Fd()),
		mark: process.Mark + "=" + o.Mark + ":" + o.Token + ".", env: newSurroundings(o.Env),
		running: map[int]*item{}, byID: map[uint64]*item{}, events: make([]unix.EpollEvent, 64),
	}
	if step, err := s.openSpawner(o, agent); err != nil {
		errno, ok := err.(syscall.Errno)
		if !ok {
			errno = syscall.EINVAL
		}
		_ = conn.Send(wire.Report{Step: step, Errno: int(errno)})
		return
	}
	if conn.Send(wire.Report{Started: os.Getpid()}) == nil {
		s.runUntilClosed()
	}
}

func (s *spawner) openSpawner(o wire.Order, agent *os.File) (step string, err error) {
	if err := s.wire.SkipNewline(agent); err != nil {
		return wire.StepExec, err
	}
	if err := syscall.Chdir(string(o.Dir)); err != nil {
		return wire.StepFolder, err
	}
	quiet()
	supervisor.ClearMask()
	if o.User {
		if err := mount.DropMountRights(); err != nil {
			return wire.StepExec, err
		}
	}
	supervisor.RaiseOOM() // for good: what is small among the commands is not larger than us
	if s.null, err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return wire.StepExec, err
	}
	if s.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return wire.StepExec, err
	}
	if s.outputs, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return wire.StepExec, err
	}
	if err = unix.SetNonblock(s.agent, true); err != nil {
		return wire.StepExec, err
	}
	if err := s.watchDescriptor(s.poll, s.agent, unix.EPOLLIN, onAgent, 0); err != nil {
		return wire.StepExec, err
	}
	if err := s.watchDescriptor(s.poll, s.outputs, unix.EPOLLIN, onOutputs, 0); err != nil {
		return wire.StepExec, err
	}
	if !s.Old {
		s.fast = newFast(s.inSubreaper)
	}
	s.family.openLists(o)
	return "", nil
}

// quiet takes signals that a supervisor need
// not mind, as nothing sends them to it. A child's death is seen by its pidfd;
// for each to interrupt us as well would cost more than all the reports.
func quiet() {
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV,
		syscall.SIGSTKFLT, syscall.SIGSYS)
	defaultSignal(syscall.SIGCHLD)
}

// What an event of epoll is about; the other half is a slot.
const (
	onAgent = iota
	onOutputs
	onEnd
	onStream // and the one after it
)

// watchDescriptor has epoll tell of fd. What we close it tells of on, for as long as a child
// that we forked is on its way into its exec and has it, too: so the end of a
// program is told once, and a pipe is taken out before it is closed.
func (s *spawner) watchDescriptor(poll, fd int, events uint32, about, slot int) error {
	e := unix.EpollEvent{Events: events, Fd: int32(about), Pad: int32(slot)}
	return unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &e)
}

// runUntilClosed ends when the agent has closed, or died, and nothing is left.
func (s *spawner) runUntilClosed() {
	for !s.nothingLeft() {
		s.handleEvents(s.events[:s.waitForEvents()])
	}
	s.sendFarewell()
}

func (s *spawner) nothingLeft() bool {
	return s.closing && len(s.running) == 0 && !s.hasKillableOrphans()
}

func (s *spawner) handleEvents(events []unix.EpollEvent) {
	s.now = time.Now()
	s.wake = time.Time{}
	if len(s.running) > 0 {
		s.wakeBy(s.now.Add(dueAnyway))
	}
	for i := range events {
		switch e := &events[i]; e.Fd {
		case onAgent:
			if e.Events&unix.EPOLLOUT != 0 {
				s.flushReports()
			}
			if e.Events&^unix.EPOLLOUT != 0 && !s.closing {
				s.readAgent()
			}
		case onOutputs:
			s.readOutputs()
		case onEnd:
			s.noteExited(s.items[e.Pad])
		}
	}
	s.applyTimeouts()
	s.settleEnded()
	s.startCommands()
	s.postReports()
}

// wakeBy has the next turn begin at t or sooner.
func (s *spawner) wakeBy(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}

// waitForEvents waits for events. The first few milliseconds it does so without telling the
// scheduler: to be told costs it two more switches of threads for each command, and
// there is nothing else that it could run.
func (s *spawner) waitForEvents() int {
	timeout := -1
	if !s.wake.IsZero() {
		timeout = int(max(0, (time.Until(s.wake)+time.Millisecond-1)/time.Millisecond))
	}
	brief := timeout
	if timeout < 0 || timeout > briefly {
		brief = briefly
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.poll), uintptr(unsafe.Pointer(&s.events[0])), uintptr(len(s.events)), uintptr(brief), 0, 0)
	if errno != 0 { // a signal, as nothing else can be wrong with it
		return 0
	}
	if n > 0 || brief == timeout {
		return int(n)
	}
	if timeout > 0 {
		timeout -= brief
	}
	long, err := unix.EpollWait(s.poll, s.events, timeout)
	if err != nil {
		return 0
	}
	return long
}

// readAgent takes what the agent has sent.
func (s *spawner) readAgent() {
	for {
		if cap(s.in)-len(s.in) < 16<<10 {
			s.in = append(make([]byte, 0, 2*len(s.in)+64<<10), s.in...)
		}
		n, err := unix.Read(s.agent, s.in[len(s.in):cap(s.in)])
		if err == unix.EAGAIN || err == unix.EINTR {
			break
		}
		if n <= 0 || err != nil {
			_ = unix.EpollCtl(s.poll, unix.EPOLL_CTL_DEL, s.agent, nil)
			s.wants = false
			s.executeFrames()
			s.beginClose()
			return
		}
		s.in = s.in[:len(s.in)+n]
		if len(s.in) < cap(s.in) {
			break // there was no more, or epoll tells again
		}
	}
	s.executeFrames()
}

// executeFrames does what whole frames ask for. A command keeps its own, so what was read
// is not written to again.
func (s *spawner) executeFrames() {
	for {
		kind, c, rest, ok := frame.NextFrame(s.in)
		if !ok {
			break
		}
		s.in = rest
		switch kind {
		case frame.FrameStart:
			if j, ok := frame.NewJob(c); ok {
				s.queue = append(s.queue, j)
			}
		case frame.FrameUntil:
			s.startDeadline = time.Duration(c.U64())
		case frame.FrameDrop:
			s.dropQueued()
		case frame.FrameKill:
			for sig := syscall.Signal(c.U32()); !c.Bad && len(c.B) > 0; {
				s.killByID(sig, c.U64())
			}
		}
	}
}

func (s *spawner) dropQueued() {
	for _, j := range s.queue {
		s.appendReport(frame.AppendID(s.out, frame.FrameUnstarted, j.ID))
	}
	s.queue = nil
}

func (s *spawner) killByID(sig syscall.Signal, id uint64) {
	if it := s.byID[id]; it != nil {
		it.Stopped = it.Stopped || !it.over && !dead(it.pid)
		if sig == syscall.SIGTERM {
			s.terminate(it)
		} else if !it.over {
			_ = syscall.Kill(-it.pid, sig)
			_ = syscall.Kill(-it.pid, syscall.SIGCONT) // a stopped process cannot hear the other
		}
		return
	}
	for i, j := range s.queue {
		if j.ID == id {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
			s.appendReport(frame.AppendID(s.out, frame.FrameUnstarted, id))
			return
		}
	}
}

// dead says whether a child has ended, though that has not been reported yet.
func dead(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// beginClose is for the end of the agent, or of its wish for commands.
func (s *spawner) beginClose() {
	s.closing = true
	s.dropQueued()
	for _, it := range s.running {
		s.killCommand(it)
	}
}

// appendReport takes out with one report more at its end.
func (s *spawner) appendReport(out []byte) {
	if len(s.out) == 0 {
		s.unsent = s.now
	}
	if s.out = out; s.deaf {
		s.out = s.out[:0]
	}
}

// postReports posts what is worth it: when the agent waits, when it is much, or late.
func (s *spawner) postReports() {
	if len(s.out) == 0 || s.wants {
		return
	}
	busy := len(s.queue) > 0 && len(s.running) == s.Slots
	if late := s.unsent.Add(postAfter); busy && !s.closing && len(s.out) < postSize && s.now.Before(late) {
		s.wakeBy(late)
		return
	}
	s.flushReports()
}

// flushReports sends what the socket takes, and has epoll tell when it takes more.
func (s *spawner) flushReports() {
	sent := 0
	var err error
	for sent < len(s.out) && err == nil {
		var n int
		n, err = unix.SendmsgN(s.agent, s.out[sent:], nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		sent += max(n, 0)
	}
	if err != nil && err != unix.EAGAIN && err != unix.EINTR {
		s.deaf, sent = true, len(s.out)
	}
	s.out = s.out[:copy(s.out, s.out[sent:])]
	s.unsent = s.now
	s.watchAgent(unix.EPOLLOUT, len(s.out) > 0)
	s.pausePipes(len(s.out) >= fullOut)
}

// watchAgent has epoll tell of more than the agent's frames, or no longer. After a close
// the agent is watched for nothing else.
func (s *spawner) watchAgent(events uint32, wants bool) {
	if wants == s.wants {
		return
	}
	s.wants = wants
	if s.closing {
		_ = unix.EpollCtl(s.poll, unix.EPOLL_CTL_DEL, s.agent, nil)
		if wants {
			_ = s.watchDescriptor(s.poll, s.agent, events, onAgent, 0)
		}
		return
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: onAgent}
	if wants {
		e.Events |= events
	}
	_ = unix.EpollCtl(s.poll, unix.EPOLL_CTL_MOD, s.agent, &e)
}

// pausePipes leaves the pipes alone, or no longer.
func (s *spawner) pausePipes(on bool) {
	if on == s.paused {
		return
	}
	s.paused = on
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: onOutputs}
	if on {
		e.Events = 0
	}
	_ = unix.EpollCtl(s.poll, unix.EPOLL_CTL_MOD, s.outputs, &e)
}

// sendFarewell says the last that there is to say.
func (s *spawner) sendFarewell() {
	s.out = frame.AppendID(s.out, frame.FrameGone, 0)
	if s.deaf {
		return
	}
	_ = unix.SetNonblock(s.agent, false)
	for len(s.out) > 0 {
		n, err := unix.SendmsgN(s.agent, s.out, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && err != unix.EINTR {
			return
		}
		s.out = s.out[max(n, 0):]
	}
}

// surroundings is the environment of all commands, laid out so that one's own costs
// no more than what differs.
type surroundings struct {
	base  [][]byte // ends in zero bytes, without the mark
	place map[string]int
}

func newSurroundings(env [][]byte) *surroundings {
	e := &surroundings{place: make(map[string]int, len(env))}
	for _, kv := range env {
		if key, _, _ := strings.Cut(string(kv), "="); key != process.Mark {
			e.place[key] = len(e.base)
			e.base = append(e.base, append(bytes.Clone(kv), 0))
		}
	}
	return e
}

// environWith gives the environment with more in it, the last of a key winning, and mark.
func (e *surroundings) environWith(into, more [][]byte, mark []byte) [][]byte {
	into = append(into[:0], e.base...)
	for _, kv := range more {
		key, _, _ := bytes.Cut(kv[:len(kv)-1], []byte("="))
		if string(key) == process.Mark {
			continue
		}
		at, known := e.place[string(key)]
		if !known {
			at, known = e.indexOfPrefix(into, kv[:len(key)+1])
		}
		if known {
			into[at] = kv
		} else {
			into = append(into, kv)
		}
	}
	return append(into, mark)
}

// indexOfPrefix is the place of what begins with prefix among what was added.
func (e *surroundings) indexOfPrefix(in [][]byte, prefix []byte) (int, bool) {
	for i := len(e.base); i < len(in); i++ {
		if bytes.HasPrefix(in[i], prefix) {
			return i, true
		}
	}
	return 0, false
}

// defaultSignal undoes Go's own catching of a signal that may then be missed.
func defaultSignal(sig syscall.Signal) {
	var action [4]uint64 // SIG_DFL, with no flags and an empty mask
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}
