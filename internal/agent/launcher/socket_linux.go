package launcher

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxPath is what fits a socket address, with its closing zero.
const maxPath = 107

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

// peerUID is the user at the other end.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	if err == nil {
		err = cerr
	}
	return uid, err
}
