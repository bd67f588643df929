// Package relay hands on what is typed in a terminal to a job's program, in the modes that
// the program sets. It does not know what the program is.
// Proved by the scripts of standard input in cmd/drover/testdata/script.
package relay

import (
	"os"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/stdin"
)

// Relay hands what is typed at this command's terminal to a program that runs in a session
// of its own: the program reads a second terminal, to which the relay copies line by line.
// The terminal itself stays this command's, so that Ctrl-C reaches it, and the program can
// neither be stopped for reading in the background nor take what is meant for the shell.
//
// The relay reads from the terminal only while this command is in its foreground, while the
// terminal is in the mode that the program wants (a pager behind a pipe sets its own), and
// once the program has read the line before: at most one line is taken that the program
// never reads.
type Relay struct {
	Real *os.File

	once   sync.Once
	master *os.File // nil: there is no second terminal
	slave  *os.File // what the program reads
	wake   *os.File // its closing ends run
	rest   sync.WaitGroup
	shown  chan struct{} // the second terminal has shown something

	base unix.Termios // of real before the relay
	mode uint64       // of real by now: base's, or what the program has set at slave
}

// modeBits are what a program may change of the terminal: whether what is typed is shown,
// and whether it comes in lines.
const modeBits = unix.ECHO | unix.ICANON

// Open is the program's terminal, nil where none can be had. The relay begins with it.
func (r *Relay) Open() *os.File {
	if r == nil {
		return nil
	}
	r.once.Do(func() {
		base, err := unix.IoctlGetTermios(int(r.Real.Fd()), getTermios)
		if err != nil {
			return
		}
		r.base, r.mode = *base, uint64(base.Lflag)&modeBits
		master, slave, err := pty.Open()
		if err != nil {
			return
		}
		set := *base
		set.Iflag, set.Oflag = 0, 0 // what comes was edited already
		set.Lflag &^= unix.ISIG
		for _, key := range []int{unix.VERASE, unix.VKILL, unix.VWERASE, unix.VREPRINT, unix.VLNEXT, unix.VINTR, unix.VQUIT, unix.VSUSP, unix.VSTART, unix.VSTOP, unix.VEOL, unix.VEOL2} {
			set.Cc[key] = noKey
		}
		wakeR, wakeW, err := os.Pipe()
		if err == nil {
			if err = unix.IoctlSetTermios(int(slave.Fd()), setTermios, &set); err != nil {
				wakeR.Close()
				wakeW.Close()
			}
		}
		if err != nil {
			master.Close()
			slave.Close()
			return
		}
		_ = pty.InheritSize(r.Real, slave) // for programs that ask their standard input
		r.master, r.slave, r.wake = master, slave, wakeW
		r.shown = make(chan struct{}, 1)
		go func() { // what it shows of what comes was shown; it ends when end closes master
			shown := make([]byte, 4096)
			for {
				if _, err := master.Read(shown); err != nil {
					return
				}
				r.hasShown()
			}
		}()
		r.rest.Go(func() {
			defer wakeR.Close()
			r.relayLines(wakeR)
		})
	})
	return r.slave
}

// End ends the relay and gives the terminal back as it was. unread is how many bytes were
// typed that the program has not read.
func (r *Relay) End() (unread int) {
	if r == nil || r.wake == nil {
		return 0
	}
	unread = stdin.Readable(r.slave)
	r.wake.Close()
	r.wake = nil
	r.rest.Wait()
	r.setTerminalMode(uint64(r.base.Lflag) & modeBits)
	r.master.Close()
	r.slave.Close()
	return unread
}

// relayPause is how soon a relay sees that it may read on, and what the program has set:
// shorter than it takes to type the first letter of a password.
const relayPause = 50 * time.Millisecond

func (r *Relay) relayLines(wake *os.File) {
	buf := make([]byte, 4096) // no line that a terminal gives is longer
	for {
		wanted := r.programReads()
		typed, woken := waitReadable(r.Real, wake, wanted)
		switch {
		case woken:
			return
		case !typed || !r.programReads():
			continue
		}
		n, err := unix.Read(int(r.Real.Fd()), buf)
		if err != nil {
			n = 0
			if err != unix.EINTR && err != unix.EAGAIN {
				return
			}
			continue
		}
		line := buf[:n]
		if r.mode&unix.ICANON != 0 && (n == 0 || line[n-1] != '\n') { // ended by Ctrl-D
			if _, err := unix.IoctlGetTermios(int(r.Real.Fd()), getTermios); err != nil {
				return // it has gone
			}
			line = append(line, r.base.Cc[unix.VEOF])
		}
		select {
		case <-r.shown: // of an earlier line
		default:
		}
		if _, err := r.master.Write(line); err != nil {
			return
		}
		// What was written comes to the other side a little later. Only then is it known
		// whether the program has read it.
		select {
		case <-r.shown:
		case <-time.After(relayPause): // it shows nothing
		}
	}
}

func (r *Relay) hasShown() {
	select {
	case r.shown <- struct{}{}:
	default:
	}
}

// programReads reports whether the next line is the program's, after it has given the terminal
// the mode that the program has set.
func (r *Relay) programReads() bool {
	front, err := unix.IoctlGetInt(int(r.Real.Fd()), unix.TIOCGPGRP)
	if err == nil && front != unix.Getpgrp() {
		return false
	}
	is, err := unix.IoctlGetTermios(int(r.Real.Fd()), getTermios)
	if err != nil || uint64(is.Lflag)&modeBits != r.mode {
		return false
	}
	want, err := unix.IoctlGetTermios(int(r.slave.Fd()), getTermios)
	if err != nil {
		return false
	}
	r.setTerminalMode(uint64(want.Lflag) & modeBits)
	return stdin.Readable(r.slave) == 0
}

// setTerminalMode sets the mode of the terminal, where it is another one and the relay has set that.
func (r *Relay) setTerminalMode(mode uint64) {
	if mode == r.mode {
		return
	}
	front, err := unix.IoctlGetInt(int(r.Real.Fd()), unix.TIOCGPGRP)
	if err == nil && front != unix.Getpgrp() {
		return // the shell has it, and its own mode
	}
	is, err := unix.IoctlGetTermios(int(r.Real.Fd()), getTermios)
	if err != nil {
		return
	}
	is.Lflag &^= modeBits
	if mode&unix.ECHO != 0 {
		is.Lflag |= unix.ECHO
	}
	if mode&unix.ICANON != 0 {
		is.Lflag |= unix.ICANON
	}
	if unix.IoctlSetTermios(int(r.Real.Fd()), setTermios, is) == nil {
		r.mode = mode
	}
}

// waitReadable waits until something can be read from f, where that is wanted, or from
// wake, or for a moment.
func waitReadable(f, wake *os.File, wanted bool) (readable, woken bool) {
	var set unix.FdSet
	one, other := int(f.Fd()), int(wake.Fd())
	set.Set(other)
	if wanted {
		set.Set(one)
	}
	pause := unix.NsecToTimeval(int64(relayPause))
	n, err := unix.Select(max(one, other)+1, &set, nil, nil, &pause) // macOS' poll knows no terminals
	if err != nil || n <= 0 {
		return false, false
	}
	return wanted && set.IsSet(one), set.IsSet(other)
}
