package wire

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/resource"
)

// The supervisor reads its orders from here: 0, 1 and 2 are the program's own.
const FD = 3

// Order is the first message down. Bytes, not strings: paths and arguments
// need not be UTF-8, and JSON would change them.
type Order struct {
	Path, Dir []byte
	Args, Env [][]byte
	Token     string // the tree's own
	Mark      string // with those of the trees around it

	Namespace bool             // the pen is a PID namespace
	User      bool             // the supervisor is in a user namespace, where it may mount
	Layout    *mount.Layout    // nil: the machine as it is
	Bounds    *resource.Bounds // nil: no limits

	Spawner *SpawnerOrder // the supervisor is to be a spawner: Path and Args have no meaning, Env is for all
}

// What a word asks for.
const (
	DoSignal    = "signal"
	DoInterrupt = "interrupt"
	DoStop      = "stop"
	DoKill      = "kill"
)

// Request is any later message down.
type Request struct {
	Do     string
	Signal int           `json:",omitempty"`
	Grace  time.Duration `json:",omitempty"` // nanoseconds
}

// Report is any message up: exactly one field group is set.
type Report struct {
	Refused string `json:",omitempty"` // what the kernel refuses the pen; nothing was started
	Overlay bool   `json:",omitempty"` // with it: an overlay alone is refused

	Step  string `json:",omitempty"` // StepFolder or StepExec: why the program did not start
	Errno int    `json:",omitempty"`

	Started int               `json:",omitempty"` // the program's id, as the supervisor sees it
	Missed  map[string]string `json:",omitempty"` // with it: controllers with a group it is not in, and why

	Exited  bool `json:",omitempty"` // the program ended, with this wait status
	Status  int  `json:",omitempty"`
	Stopped bool `json:",omitempty"` // with it: it was told to, before

	Gone *Tally `json:",omitempty"` // nothing of the tree is left
}

const (
	StepFolder = "folder"
	StepExec   = "exec"
)

// Tally is what the tree used.
type Tally struct {
	User, System time.Duration
	MaxRSS       int64 // bytes
	Left         int
}

// Conn is one end of the socket. Reading and writing are independent; each is
// for one goroutine at a time.
type Conn struct {
	io.Closer
	enc *json.Encoder
	dec *json.Decoder
}

// NewConn speaks over rw.
func NewConn(rw io.ReadWriteCloser) *Conn {
	return &Conn{Closer: rw, enc: json.NewEncoder(rw), dec: json.NewDecoder(rw)}
}

// Send sends one message.
func (w *Conn) Send(v any) error { return w.enc.Encode(v) }

// Receive waits for one message.
func (w *Conn) Receive(v any) error { return w.dec.Decode(v) }

// SkipNewline takes from r, which the wire reads, the newline behind the last message, so
// that what comes next need not be JSON. The other end must still be silent: else
// some of it could have been read with the message, and would be lost.
func (w *Conn) SkipNewline(r io.Reader) error {
	if n, _ := w.dec.Buffered().Read(make([]byte, 1)); n > 0 {
		return nil
	}
	_, err := io.ReadFull(r, make([]byte, 1)) // the message just filled the buffer
	return err
}

// AgentEnd is the agent's end of the socket. It knows which end spoke first.
type AgentEnd struct {
	*net.UnixConn
	Speaker int // the process id named by the first message's credentials, in our namespace
}

// NewPair makes the two ends. With creds, each message up tells its sender.
func NewPair(creds bool) (*AgentEnd, *os.File, error) {
	syscall.ForkLock.RLock() // where the pair cannot be made close-on-exec at once
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "agent")
	defer ours.Close() // FileConn takes a copy
	if creds {
		if err := passCredentials(fds[0]); err != nil {
			theirs.Close()
			return nil, nil, err
		}
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return &AgentEnd{UnixConn: conn.(*net.UnixConn)}, theirs, nil
}

// SpawnerOrder is what a supervisor is told that is to be a spawner.
type SpawnerOrder struct {
	Slots     int
	Grace     time.Duration
	MaxOutput int64
	Old       bool `json:",omitempty"` // tests: as on a kernel without clone3, pidfds and lists of children
}

// IsSocket says whether fd is an open socket.
func IsSocket(fd int) bool {
	_, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil
}
