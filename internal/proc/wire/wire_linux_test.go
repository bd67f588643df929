package wire

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The other end goes while something that was sent to it is unread: the kernel says that
// the connection was reset, and not that it has ended.
func TestAnEndThatGoesWithSomethingUnreadIsAnError(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(pair[0]), "ear")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	w := NewConn(&AgentEnd{UnixConn: conn.(*net.UnixConn)})
	defer w.Close()
	if err := w.Send("an order"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(pair[1]); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := w.Receive(&v); err == nil {
		t.Errorf("it reads %v", v)
	}
}
