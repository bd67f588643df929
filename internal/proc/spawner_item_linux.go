package proc

import (
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/spawner/frame"
	"github.com/drover-run/drover/internal/proc/supervisor"
)

// item is a command that has begun.
type item struct {
	frame.CommandEnd
	slot, pid, pidfd int

	streams [2]stream
	watched bool // its pipes are among outputs

	stage    stage
	deadline time.Time // of the stage; zero: none
	over     bool      // its program has ended. It stays a zombie, and its number and session its own, until it is settled
	gone     bool      // nothing of its tree is left; its last output is to be read

	kin // what it left behind
}

// stream is our end of a pipe; fd is -1 once the pipe has ended.
type stream struct {
	fd        int
	forwarded int64
}

type stage uint8

const (
	free stage = iota
	asked
	slain
)

// startCommands begins commands while it may.
func (s *spawner) startCommands() {
	for len(s.queue) > 0 && s.mayStartCommand() {
		j := s.queue[0]
		errno := s.startCommand(j)
		switch {
		case errno == syscall.ETXTBSY && j.Tries < textBusyTries:
			j.Tries++
			s.rest = s.now.Add(textBusy)
			s.wakeBy(s.rest)
			return
		case errno != 0:
			s.appendReport(frame.AppendUnfit(s.out, j, errno, time.Now()))
		}
		s.queue[0] = nil
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil // so that what is queued next does not grow a used-up array
		}
	}
}

func (s *spawner) mayStartCommand() bool {
	switch {
	case s.closing, len(s.running) == s.Slots, s.purging, len(s.out) >= fullOut, bootTime() >= s.startDeadline:
		return false
	case s.now.Before(s.rest):
		s.wakeBy(s.rest)
		return false
	}
	return true
}

// startCommand starts j, and says what the kernel has against it.
func (s *spawner) startCommand(j *frame.Job) (errno syscall.Errno) {
	var out, err [2]int
	if e := unix.Pipe2(out[:], unix.O_CLOEXEC); e != nil {
		return noDescriptors(e)
	}
	defer unix.Close(out[1])
	if e := unix.Pipe2(err[:], unix.O_CLOEXEC); e != nil {
		unix.Close(out[0])
		return noDescriptors(e)
	}
	defer unix.Close(err[1])
	in := s.null
	if j.Stdin != nil {
		var e error
		if in, e = inMemory(j.Stdin); e != nil {
			unix.Close(out[0])
			unix.Close(err[0])
			return noDescriptors(e)
		}
		defer unix.Close(in)
	}
	mark := strconv.AppendUint([]byte(s.mark), j.ID, 10)
	pid, pidfd, e := s.execCommand(j, append(mark, 0), [3]int{in, out[1], err[1]})
	if e != nil {
		unix.Close(out[0])
		unix.Close(err[0])
		if errno, ok := e.(syscall.Errno); ok {
			return errno
		}
		return syscall.EINVAL
	}
	it := s.freeSlot()
	*it = item{CommandEnd: frame.CommandEnd{ID: j.ID, Began: time.Now()}, slot: it.slot, pid: pid, pidfd: pidfd}
	for i, fd := range [...]int{out[0], err[0]} {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK) // cannot fail for these arguments
		it.streams[i].fd = fd
	}
	if j.Timeout > 0 {
		it.deadline = it.Began.Add(j.Timeout)
		s.wakeBy(it.deadline)
	}
	s.wakeBy(it.Began.Add(young))
	s.running[pid], s.byID[it.ID] = it, it
	if s.Old || s.watchDescriptor(s.poll, pidfd, unix.EPOLLIN|unix.EPOLLONESHOT, onEnd, it.slot) != nil {
		s.blind = append(s.blind, it) // it is asked for its end at every turn
	}
	s.appendReport(frame.AppendBegan(s.out, it.ID, pid, it.Began))
	return 0
}

// noDescriptors is what a program that lacks its pipes is refused for: a limit, as
// on processes, that goes by when others end.
func noDescriptors(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok && errno != syscall.EMFILE && errno != syscall.ENFILE {
		return errno
	}
	return syscall.EAGAIN
}

// inMemory makes a file of what a command is to read.
func inMemory(b []byte) (fd int, err error) {
	if fd, err = unix.MemfdCreate("stdin", unix.MFD_CLOEXEC); err != nil {
		return -1, err
	}
	for at := 0; at < len(b); {
		n, err := unix.Pwrite(fd, b[at:], int64(at))
		if err != nil && err != unix.EINTR {
			unix.Close(fd)
			return -1, err
		}
		at += max(n, 0)
	}
	return fd, nil
}

// freeSlot gives a free slot.
func (s *spawner) freeSlot() *item {
	if n := len(s.free); n > 0 {
		it := s.items[s.free[n-1]]
		s.free = s.free[:n-1]
		return it
	}
	it := &item{slot: len(s.items)}
	s.items = append(s.items, it)
	return it
}

// noteExited notes that a program has ended.
func (s *spawner) noteExited(it *item) {
	if it.over || it.pid == 0 {
		return
	}
	it.over, it.Ended = true, s.now
	s.ended = append(s.ended, it)
}

// applyTimeouts sees to what time alone brings about.
func (s *spawner) applyTimeouts() {
	for _, it := range s.items {
		if it.pid == 0 || it.over {
			continue
		}
		if !it.watched {
			if at := it.Began.Add(young); s.now.Before(at) {
				s.wakeBy(at)
			} else {
				s.watchOutputs(it)
			}
		}
		if it.deadline.IsZero() {
			continue
		}
		if s.now.Before(it.deadline) {
			s.wakeBy(it.deadline)
			continue
		}
		if it.stage == free {
			it.TimedOut = true
			s.terminate(it)
		} else {
			s.killCommand(it)
		}
	}
}

func (s *spawner) watchOutputs(it *item) {
	it.watched = true
	for i := range it.streams {
		if fd := it.streams[i].fd; fd >= 0 {
			_ = s.watchDescriptor(s.outputs, fd, unix.EPOLLIN, onStream+i, it.slot) // else it is read at the end
		}
	}
}

// terminate asks a command to end, and sets the time until it must.
func (s *spawner) terminate(it *item) {
	if it.stage != free || it.over {
		return
	}
	it.stage, it.deadline = asked, s.now.Add(s.Grace)
	s.wakeBy(it.deadline)
	s.signalCommand(it, syscall.SIGTERM)
	s.signalCommand(it, syscall.SIGCONT) // a stopped process cannot hear the other
}

// killCommand kills a command's program and group; what else it has becomes ours then.
func (s *spawner) killCommand(it *item) {
	if it.stage == slain || it.over {
		return
	}
	it.stage, it.deadline = slain, time.Time{}
	s.signalCommand(it, syscall.SIGKILL)
}

// signalCommand reaches the group of a command (its number is its own while it is not
// settled) and the orphans that it has made by now.
func (s *spawner) signalCommand(it *item, sig syscall.Signal) {
	_ = syscall.Kill(-it.pid, sig)
	for pid, o := range s.orphans {
		if o.of == it {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// readOutputs reads what commands have written, a piece of each, so that none starves the
// others, until the agent has enough to take.
func (s *spawner) readOutputs() {
	var events [32]unix.EpollEvent
	n, _ := unix.EpollWait(s.outputs, events[:], 0)
	for _, e := range events[:max(n, 0)] {
		if len(s.out) >= fullOut {
			break
		}
		s.readOutput(s.items[e.Pad], int(e.Fd)-onStream)
	}
	s.pausePipes(len(s.out) >= fullOut)
}

// readOutput moves a piece of output into the report and says how much. What is over
// the limit is counted only. At the end of the pipe it closes it.
func (s *spawner) readOutput(it *item, i int) (n int) {
	st := &it.streams[i]
	if st.fd < 0 {
		return 0
	}
	at := len(s.out)
	if cap(s.out)-at < frame.OutputHead+piece {
		s.out = append(make([]byte, 0, 2*at+2*(frame.OutputHead+piece)), s.out...)
	}
	into := s.out[:at+frame.OutputHead+piece]
	n, err := unix.Read(st.fd, into[at+frame.OutputHead:])
	if err == unix.EAGAIN || err == unix.EINTR {
		return 0
	}
	if n <= 0 || err != nil {
		s.closeStream(it, st)
		return 0
	}
	it.Output[i] += int64(n)
	pass := min(int64(n), s.MaxOutput-st.forwarded)
	if pass <= 0 {
		return n
	}
	st.forwarded += pass
	b, _ := frame.OpenFrame(into[:at], frame.FrameOutput)
	b = append(frame.Little.AppendUint64(b, it.ID), byte(i+1))
	s.appendReport(frame.CloseFrame(into[:len(b)+int(pass)], at))
	return n
}

// lastOutput reads what is left in the pipes of a command with a tree that is gone.
// It says whether that was all; not, when the agent has to take some first.
func (s *spawner) lastOutput(it *item) (all bool) {
	for i := range it.streams {
		st := &it.streams[i]
		for st.fd >= 0 {
			if len(s.out) >= fullOut {
				return false
			}
			// No process is left to write, so a piece that is not full was the last. A
			// stranger that was handed the pipe, and fills it, does not keep us.
			if n := s.readOutput(it, i); n < piece || it.drained > longestPipe {
				break
			}
			it.drained += piece
		}
		s.closeStream(it, st)
	}
	return true
}

func (s *spawner) closeStream(it *item, st *stream) {
	if st.fd < 0 {
		return
	}
	if it.watched {
		_ = unix.EpollCtl(s.outputs, unix.EPOLL_CTL_DEL, st.fd, nil)
	}
	unix.Close(st.fd)
	st.fd = -1
}

// longestPipe is above what a command can make of its pipe's capacity, but for root.
const longestPipe = 2 << 20

// reportEnd reports the end of a command of which nothing is left.
func (s *spawner) reportEnd(it *item) (done bool) {
	if !s.lastOutput(it) {
		return false
	}
	var ru syscall.Rusage
	_, err := syscall.Wait4(it.pid, &it.Status, 0, &ru)
	for err == syscall.EINTR {
		_, err = syscall.Wait4(it.pid, &it.Status, 0, &ru)
	}
	if err != nil { // another waiter has waited for it: at least it did not succeed
		it.Status = syscall.WaitStatus(syscall.SIGKILL)
	}
	it.addUsage(&ru)
	if it.pidfd >= 0 {
		unix.Close(it.pidfd)
	}
	s.blind = slices.DeleteFunc(s.blind, func(b *item) bool { return b == it })
	delete(s.running, it.pid)
	delete(s.byID, it.ID)
	s.appendReport(it.AppendTo(s.out))
	it.pid = 0
	s.free = append(s.free, it.slot)
	return true
}

// addUsage adds what a process of the tree has used.
func (it *item) addUsage(ru *syscall.Rusage) {
	it.User += time.Duration(ru.Utime.Nano())
	it.System += time.Duration(ru.Stime.Nano())
	it.MaxRSS = max(it.MaxRSS, int64(ru.Maxrss)*supervisor.RSSUnit)
}

// execCommand runs j's program with those files, as a session of its own.
func (s *spawner) execCommand(j *frame.Job, mark []byte, files [3]int) (pid, pidfd int, err error) {
	s.envBuf = s.env.environWith(s.envBuf, j.Env, mark)
	if s.fast != nil {
		pid, pidfd, err, works := s.fast.exec(j, s.envBuf, files)
		if works {
			return pid, pidfd, err
		}
		s.fast = nil
	}
	attr := &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if s.inSubreaper {
		attr.Pdeathsig = syscall.SIGKILL // what kills us with -9 leaves no program behind
	}
	pid, err = syscall.ForkExec(cString(j.Path), cStrings(j.Args), &syscall.ProcAttr{
		Env: cStrings(s.envBuf), Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])}, Sys: attr,
	})
	return pid, pidfd, err
}

func cString(b []byte) string { return string(b[:len(b)-1]) }

func cStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = cString(b)
	}
	return out
}
