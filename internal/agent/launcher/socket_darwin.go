package launcher

import (
	"net"

	"golang.org/x/sys/unix"
)

// shortly has no other way to name a socket here: one with a long path is refused
// by the system.
func shortly(path string, f func(short string) error) error { return f(path) }

// peerUID is the user at the other end.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	if err == nil {
		err = cerr
	}
	return uid, err
}
