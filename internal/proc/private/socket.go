package private

// Sockets are how the processes of one user on one machine talk: an agent, which
// follows its output, and the programs in its tree.

import (
	"context"
	"net"
	"os"
	"syscall"

	"github.com/drover-run/drover/fault"
)

// bind listens at path, for this user alone. Between the two calls the file's
// mode is the process's umask's; PeerUser refuses any other user that comes in then.
func bind(path string) (net.Listener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // path may be good only while its folder is open
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		os.Remove(path)
		return nil, err
	}
	return l, nil
}

// Dial connects to a socket that this user serves. What another user serves
// is not ours, whatever it says: fault.Denied.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	uid, err := PeerUser(conn)
	if err == nil && uid != os.Geteuid() {
		err = fault.New(fault.Denied, "", "reach %s: it is served by user %d, not by %d", addr, uid, os.Geteuid())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// onSocket calls f with conn's descriptor.
func onSocket(conn net.Conn, f func(fd int) error) error {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return fault.New(fault.Bug, "", "ask who is at the other end: %T is not a socket", conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
