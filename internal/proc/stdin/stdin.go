// Package stdin says what a standard input is, what it holds, and whether another program
// can read it once more.
//
// It refuses to know which program reads it. It is proved by stdin_test.go, with files,
// pipes, devices and a terminal.
package stdin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/drover-run/drover/fault"
)

// Kind says what a standard input is.
type Kind int

// The kinds of standard input.
const (
	None     Kind = iota // closed, /dev/null, a folder: there is never anything to read
	Terminal             // a terminal
	File                 // a regular file: it can be read again
	Pipe                 // a pipe or a socket: what was read is gone
	Device               // another device, such as /dev/zero
)

// Input is an open file that programs read as their standard input, and what it was when
// it was looked at first, before any of them.
type Input struct {
	File *os.File
	Kind Kind

	start  int64       // of a file: the offset at which programs begin to read
	size   int64       // of a file: its size
	bytes  int         // of a pipe: how much it held
	closed bool        // of a pipe: nothing can write into it any more
	came   atomic.Bool // of a pipe: Watch has seen something in it since
	id     string      // of a pipe: what ID returns
}

// Inspect says what f is. It reads nothing from it. Nil is None.
func Inspect(f *os.File) *Input {
	s := &Input{File: f}
	if f == nil {
		return s
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return s
	}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		offset, err := unix.Seek(int(f.Fd()), 0, io.SeekCurrent)
		if err != nil {
			return s
		}
		s.Kind, s.start, s.size = File, offset, st.Size
	case unix.S_IFIFO, unix.S_IFSOCK:
		s.Kind = Pipe
		s.bytes, s.closed = s.pipeState()
	case unix.S_IFCHR:
		var null unix.Stat_t
		switch {
		case term.IsTerminal(int(f.Fd())):
			s.Kind = Terminal
		case unix.Stat(os.DevNull, &null) != nil || null.Rdev != st.Rdev:
			s.Kind = Device
		}
	case unix.S_IFBLK:
		s.Kind = Device
	}
	return s
}

// pipeState returns how many bytes can be read from a pipe now, and whether none can come.
func (s *Input) pipeState() (bytes int, closed bool) {
	bytes = Readable(s.File)
	polled := []unix.PollFd{{Fd: int32(s.File.Fd()), Events: unix.POLLIN}}
	if _, err := unix.Poll(polled, 0); err != nil {
		return bytes, false
	}
	r := polled[0].Revents
	return bytes, r&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 || r&unix.POLLIN != 0 && bytes == 0
}

// Readable is how many bytes can be read from a pipe, a socket or a terminal without
// waiting; 0 where that is not known.
func Readable(f *os.File) int {
	n, err := unix.IoctlGetInt(int(f.Fd()), fionread)
	if err != nil {
		return 0
	}
	return n
}

// Holds reports whether there is something to read now: the rest of a file, or bytes that
// are in a pipe. A pipe that is open and empty, as build servers, cron and ssh without a
// terminal give to all their commands, holds nothing.
func (s *Input) Holds() bool {
	switch s.Kind {
	case File:
		offset, err := unix.Seek(int(s.File.Fd()), 0, io.SeekCurrent)
		return err == nil && offset < s.size
	case Pipe:
		bytes, _ := s.pipeState()
		return bytes > 0
	}
	return false
}

// Held is Holds at the time of Inspect.
func (s *Input) Held() bool {
	return s.Kind == File && s.start < s.size || s.Kind == Pipe && s.bytes > 0
}

// Words say for people what a standard input is that holds something.
func (s *Input) Words() string {
	if s.Kind == File {
		return "the file on standard input"
	}
	return "the pipe on standard input"
}

// largestDigest is the size up to which a file is known by its contents: reading it takes
// a tenth of a second.
const largestDigest = 64 << 20

// ID names what there was to read at the time of Inspect; "" is nothing. A file that
// holds the same has the same name, wherever it lies; one of more than 64 MiB is known by
// its place on the disk, its size and its time. A pipe has a name of its own each time.
func (s *Input) ID() (string, error) {
	switch {
	case !s.Held() || s.id != "":
		return s.id, nil
	case s.Kind == Pipe:
		var b [8]byte
		rand.Read(b[:]) // never fails
		s.id = "pipe:" + hex.EncodeToString(b[:])
		return s.id, nil
	}
	h := sha256.New()
	if s.size-s.start > largestDigest {
		info, err := s.File.Stat()
		if err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(s.File.Fd()), &st); err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
		fmt.Fprintln(h, st.Dev, st.Ino, info.Size(), info.ModTime().UnixNano(), s.start)
	} else if _, err := io.Copy(h, io.NewSectionReader(s.File, s.start, s.size-s.start)); err != nil {
		return "", fault.Wrap(err, fault.Invalid, "Give the program none with < /dev/null, if it needs none.", "read standard input")
	}
	s.id = "file:" + hex.EncodeToString(h.Sum(nil)[:16])
	return s.id, nil
}

// Watch waits until a pipe that held nothing holds something, or nothing can come any more,
// so that Again knows of it. Of anything else it returns at once.
func (s *Input) Watch() {
	if s.Kind != Pipe || s.bytes > 0 || s.closed {
		return
	}
	polled := []unix.PollFd{{Fd: int32(s.File.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(polled, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		default:
			if Readable(s.File) > 0 {
				s.came.Store(true)
			}
			return
		}
	}
}

// Again makes ready for another program that is to read what the one before was given, or
// says why it cannot have that. A file is read from where the first program began. Of a
// pipe it is known that nothing was read where nothing could be written into it either, and
// it holds as much as at first; one in which nothing was ever seen may be given again.
func (s *Input) Again() error {
	switch s.Kind {
	case File:
		if _, err := unix.Seek(int(s.File.Fd()), s.start, io.SeekStart); err != nil {
			return fault.Wrap(err, fault.Invalid, "Type the command again.", "read standard input once more")
		}
	case Pipe:
		bytes, closed := s.pipeState()
		untouched := s.closed && closed && bytes == s.bytes
		silent := s.bytes == 0 && bytes == 0 && !s.came.Load()
		if !untouched && !silent {
			return fault.New(fault.Invalid, "Type the command again, with the pipe; or give it a file, with <, which can be read again.",
				"read standard input once more: it is a pipe, and the attempt before may have read what it held")
		}
	}
	return nil
}
