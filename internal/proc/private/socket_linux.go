package private

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxPath is what fits a socket address, with its closing zero.
const maxPath = 107

// Listen makes a socket for this user alone at path, which may be of any
// length. addr is what Dial takes; remove takes the file away, after the
// listener was closed. PeerUser returns the user that connects.
func Listen(path string) (l net.Listener, addr string, remove func(), err error) {
	err = shortly(path, func(short string) error {
		l, err = bind(short)
		return err
	})
	return l, path, func() { os.Remove(path) }, err
}

// connect reaches what Listen gave.
func connect(ctx context.Context, addr string) (conn net.Conn, err error) {
	err = shortly(addr, func(short string) error {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", short)
		return err
	})
	return conn, err
}

// shortly calls f with a name of path that fits a socket address: path itself,
// or one by way of its open folder.
func shortly(path string, f func(short string) error) error {
	if len(path) <= maxPath {
		return f(path)
	}
	folder, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(folder)
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", folder, filepath.Base(path)))
}

// PeerUser is the user at the other end of a socket.
func PeerUser(conn net.Conn) (uid int, err error) {
	err = onSocket(conn, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}
