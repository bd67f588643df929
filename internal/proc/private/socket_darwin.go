package private

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxPath is what fits a socket address, with its closing zero.
const maxPath = 103

// Listen makes a socket at path or, where that is too long, in a new folder
// that only this user may enter.
func Listen(path string) (l net.Listener, addr string, remove func(), err error) {
	if len(path) <= maxPath {
		l, err = bind(path)
		return l, path, func() { os.Remove(path) }, err
	}
	folder, err := os.MkdirTemp("/tmp", "drover-")
	if err != nil {
		return nil, "", nil, err
	}
	path = filepath.Join(folder, "s")
	if l, err = bind(path); err != nil {
		os.RemoveAll(folder)
	}
	return l, path, func() { os.RemoveAll(folder) }, err
}

// connect reaches what Listen gave.
func connect(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", addr)
}

// PeerUser is the user at the other end of a socket.
func PeerUser(conn net.Conn) (uid int, err error) {
	err = onSocket(conn, func(fd int) error {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}
